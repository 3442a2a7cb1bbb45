"""docs/zom.md: its commands print what it shows, and its Python runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nczfs.cli.demo import SAMPLE
from nczfs.zom import parse, read_convention
from tests.support.pages import blocks, check_session

PAGE = Path(__file__).resolve().parents[2] / "docs/zom.md"


def test_its_commands_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "ostia.zarr")
    monkeypatch.chdir(tmp_path)
    (session,) = blocks(PAGE, "console")
    check_session(session, capsys, monkeypatch)


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(PAGE, "python")
    exec(compile(code, str(PAGE), "exec"), {})


def test_its_pattern_is_one() -> None:
    (pattern,) = blocks(PAGE, "json")
    assert read_convention(parse(pattern), "p").rules
