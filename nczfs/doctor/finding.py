"""What a check found."""

from __future__ import annotations

from enum import Enum

from nczfs.model.printing import printable
from nczfs.plaindata import frozen


class Grade(Enum):
    """How good it is."""

    WELL = "well"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"


@frozen
class CheckResult:
    """What a check found.

    Attributes
    ----------
    text : one line, without secrets.
    remedy : what to do about it; "": nothing, or the text says so.
    """

    grade: Grade
    text: str
    remedy: str = ""

    @property
    def line(self) -> str:
        """Text and remedy."""
        return f"{self.text}; {self.remedy}" if self.remedy else self.text


def well(text: str) -> CheckResult:
    """Return a finding that needs nothing."""
    return CheckResult(Grade.WELL, printable(text))


def doubtful(text: str, remedy: str = "") -> CheckResult:
    """Return a finding that costs time or may go wrong."""
    return CheckResult(Grade.DOUBTFUL, printable(text), printable(remedy))


def wrong(text: str, remedy: str = "") -> CheckResult:
    """Return a finding that must be mended."""
    return CheckResult(Grade.WRONG, printable(text), printable(remedy))


def wrong_by(error: Exception) -> CheckResult:
    """Return the finding that an error is. Messages of errors put the remedy after a semicolon."""
    text, _, remedy = str(error).partition("; ")
    return wrong(text, remedy)
