"""Pages of documentation: their code, and the output of their commands."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from nczfs.cli.main import main


def blocks(page: Path, language: str) -> list[str]:
    """Return the blocks of code of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def check_session(
    session: str, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> None:
    """Run the commands of a session, each of which must print what the session shows."""
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.M):
        assert (command, _run(command, capsys, patch)) == (command, shown)


def _run(command: str, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> str:
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
