"""What ``nczfs doctor`` finds, by the subject of each check."""

from __future__ import annotations

import io
import json
import subprocess
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nczfs.cli.main import main


@dataclass(frozen=True, slots=True)
class Examined:
    """The exit status, and the findings by subject."""

    status: int
    findings: dict[str, dict[str, Any]]
    text: str

    def grade(self, subject: str) -> str:
        return str(self.findings[subject]["grade"])

    def line(self, subject: str) -> str:
        """Grade, text and remedy."""
        found = self.findings[subject]
        return f"{found['grade']}: {found['text']}; {found['remedy']}"

    def not_well(self) -> set[str]:
        return {subject for subject in self.findings if self.grade(subject) != "well"}


def examined(*words: str | Path) -> Examined:
    """Run the doctor in this process."""
    output = io.StringIO()
    with redirect_stdout(output):
        status = main(["doctor", *map(str, words), "--json"])
    return _examined(status, output.getvalue())


def examined_by(done: subprocess.CompletedProcess[str]) -> Examined:
    """What ``nczfs doctor --json`` found in a process of its own."""
    assert done.stdout, done.stderr
    return _examined(done.returncode, done.stdout)


def _examined(status: int, text: str) -> Examined:
    return Examined(status, {found["check"]: found for found in json.loads(text)}, text)
