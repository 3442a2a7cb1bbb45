"""The findings and counts of a verification."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from nczfs.model.printing import printable
from nczfs.plaindata import frozen


class Severity(Enum):
    """The severity of a finding: something cannot be read as declared, or is merely superfluous."""

    ERROR = "error"
    NOTE = "note"


class FindingKind(Enum):
    """The kind of a finding (docs/verify.md has a row for each)."""

    UNREADABLE = "unreadable"
    DOCUMENT = "document"
    MISSING = "missing"
    DIMENSION = "dimension"
    FILL = "fill"
    CONSOLIDATED = "consolidated"
    CODEC = "codec"
    CHUNK = "chunk"
    BEYOND = "beyond"
    STRAY = "stray"
    UNLISTED = "unlisted"
    TWICE = "twice"
    RENAME = "rename"
    WRECK = "wreck"
    EMPTY = "empty"
    OVERLAP = "overlap"
    COLLISION = "collision"
    HIDDEN = "hidden"

    @property
    def severity(self) -> Severity:
        return Severity.NOTE if self in _NOTES else Severity.ERROR


_NOTES = frozenset(
    {
        FindingKind.FILL,
        FindingKind.BEYOND,
        FindingKind.STRAY,
        FindingKind.UNLISTED,
        FindingKind.TWICE,
        FindingKind.EMPTY,
        FindingKind.OVERLAP,
        FindingKind.COLLISION,
        FindingKind.HIDDEN,
    }
)


@frozen
class Finding:
    """Something that is not as it should be.

    Attributes
    ----------
    path : of the group or variable, with a leading slash.
    key : of the object, below the dataset; "" if the finding is about no single object.
    message : what was wrong.
    """

    kind: FindingKind
    path: str
    key: str
    message: str

    @property
    def severity(self) -> Severity:
        return self.kind.severity

    @property
    def line(self) -> str:
        """The finding on one line, with unprintable characters of names escaped."""
        where = f" {self.key}" if self.key else ""
        return printable(f"{self.severity.value} {self.path}{where}: {self.message}")


@dataclass(slots=True)
class Counts:
    """The progress of a verification.

    Attributes
    ----------
    chunks : verified by this run; `chunks_before`: in objects that an earlier one has verified, and
        that are unchanged since.
    stored_bytes : of the chunks of this run, as they are stored.
    """

    groups: int = 0
    variables: int = 0
    chunks: int = 0
    chunks_before: int = 0
    stored_bytes: int = 0
    errors: int = 0
    notes: int = 0

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        if finding.severity is Severity.ERROR:
            self.errors += 1
        else:
            self.notes += 1
