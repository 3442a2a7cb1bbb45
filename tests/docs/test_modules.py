"""The check of the modules finds what it is to find."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "modules"


def checked(place: Path, **files: str) -> str:
    package = place / "toy"
    package.mkdir()
    for name in ("__init__", *files):
        (package / f"{name}.py").write_text(files.get(name, ""))
    done = subprocess.run(
        [sys.executable, SCRIPT, "toy"],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == bool(done.stderr)
    return done.stderr


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        ("class Place: ...", "class Place: ...", "Place stands in toy/one.py:1 and toy/other.py:1"),
        ("Row = dict[str, int]", "Row = dict[str, int]", "Row stands in"),
        ("Row: TypeAlias = 'int'", "Row: TypeAlias = 'int'", "Row stands in"),
        ("import toy.other", "import toy.one", "a circle of imports"),
        ("NAME = '.zgroup'", "", ".zgroup is a word of a format"),
        ("\n" * 501, "", "501 lines, more than 500"),
    ],
)
def test_it_names_what_is_wrong(one: str, other: str, problem: str, tmp_path: Path) -> None:
    assert problem in checked(tmp_path, one=one, other=other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("class Place: ...", "class Places: ..."),
        ("class _Place: ...", "class _Place: ..."),
        ("class Group: ...", "class Group: ..."),
        ("Row = dict[str, int]", "Row = dict[str, str]"),
        ("import toy.other", ""),
    ],
)
def test_it_is_silent_about_the_rest(one: str, other: str, tmp_path: Path) -> None:
    assert checked(tmp_path, one=one, other=other) == ""
