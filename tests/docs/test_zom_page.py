"""docs/zom.md: its commands print what it shows, and its Python runs."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from nczfs.cli.demo import SAMPLE
from nczfs.cli.main import main
from nczfs.zom import parse, read_convention

PAGE = Path(__file__).resolve().parents[2] / "docs/zom.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


def run(command: str, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> str:
    """Return what a line of a shell prints, of which this knows pipes, files, and ``&& echo``."""
    command, _, word = command.partition(" && echo ")
    command, _, target = command.partition(" > ")
    printed = errors = ""
    for part in command.split(" | "):
        program, *words = shlex.split(part)
        assert program == "nczfs"
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
        status = main(words)
        printed, complaints = capsys.readouterr()
        errors += complaints
    if target:
        Path(target).write_text(printed)
        printed = ""
    return f"{errors}{printed}" + (f"{word}\n" if word and not status else "")


def test_its_commands_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(SAMPLE, tmp_path / "ostia.zarr")
    monkeypatch.chdir(tmp_path)
    (session,) = blocks("console")
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.M):
        assert (command, run(command, capsys, monkeypatch)) == (command, shown)


def test_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, str(PAGE), "exec"), {})


def test_its_pattern_is_one() -> None:
    (pattern,) = blocks("json")
    assert read_convention(parse(pattern), "p").rules
