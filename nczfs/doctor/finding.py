"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nczfs.model.printing import printable


class Grade(Enum):
    """How good it is."""

    WELL = "well"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
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


def well(text: str) -> Finding:
    """Return a finding that needs nothing."""
    return Finding(Grade.WELL, printable(text))


def doubtful(text: str, remedy: str = "") -> Finding:
    """Return a finding that costs time or may go wrong."""
    return Finding(Grade.DOUBTFUL, printable(text), printable(remedy))


def wrong(text: str, remedy: str = "") -> Finding:
    """Return a finding that must be mended."""
    return Finding(Grade.WRONG, printable(text), printable(remedy))


def wrong_by(error: Exception) -> Finding:
    """Return the finding that an error is. Messages of errors put the remedy after a semicolon."""
    text, _, remedy = str(error).partition("; ")
    return wrong(text, remedy)
