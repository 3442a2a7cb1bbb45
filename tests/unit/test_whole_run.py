"""``scripts/test``: bytecode is written beside the check, and no test runs before either's end."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.waiting import until

SCRIPT = Path(__file__).parents[2] / "scripts/test"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory in which all that the script calls only says that it was called."""
    for name in ("scripts/setup", "scripts/check", ".venv/bin/python"):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\necho {program.name} "$@" >>"{tmp_path}/called"\n')
        program.chmod(0o755)
    shutil.copy(SCRIPT, tmp_path / "scripts/test")
    return tmp_path


def add(program: Path, line: str) -> None:
    with program.open("a") as file:
        file.write(f"{line}\n")


def run(clone: Path, *words: str) -> int:
    return subprocess.run([clone / "scripts/test", *words], check=False, timeout=120).returncode


def called(clone: Path) -> list[str]:
    return (clone / "called").read_text().splitlines()


def test_the_tests_run_when_the_check_and_the_collection_are_over(clone: Path) -> None:
    """The check waits for the collection to be at work, and the collection for the check's end."""
    add(clone / "scripts/check", "until [ -e collecting ]; do sleep 0.01; done; touch checked")
    add(
        clone / ".venv/bin/python",
        'case "$*" in *--collect-only) touch collecting; until [ -e checked ]; do sleep 0.01; done;'
        " echo over >>called; exit 1 ;; esac",
    )
    assert run(clone, "tests/unit", "-x") == 0
    first, *beside, over, last = called(clone)
    assert first == "setup"
    assert sorted(beside) == ["check", "python -m pytest --collect-only"]
    assert over == "over"
    assert last == "python -X faulthandler -m pytest -n 4 --dist worksteal tests/unit -x"


def test_no_test_runs_when_the_check_fails(clone: Path) -> None:
    add(clone / "scripts/check", "until [ -s collecting ]; do sleep 0.01; done; exit 3")
    add(clone / ".venv/bin/python", "echo $$ >collecting; exec sleep 100")
    assert run(clone) == 3
    assert len(called(clone)) == 3
    until(lambda: not Path("/proc", (clone / "collecting").read_text().strip()).exists())
