"""The results of a comparison."""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

from nczfs.model.hierarchy import Json
from nczfs.model.printing import printable
from nczfs.plaindata import frozen


class DifferenceKind(Enum):
    """A kind of difference (docs/copying.md has a row for each)."""

    GROUP = "group"
    VARIABLE = "variable"
    DIMENSION = "dimension"
    ATTRIBUTE = "attribute"
    TYPE = "type"
    DIMENSIONS = "dimensions"
    FILL = "fill value"
    STORAGE = "storage"
    VALUES = "values"


class Absent(Enum):
    """A marker in place of a value that one side does not have."""

    ABSENT = "absent"


Shown: TypeAlias = "str | Absent"
"""The value on one side, as text."""


@frozen
class DatasetDifference:
    """One difference between the two sides.

    Attributes
    ----------
    path : of the group or variable, with a leading slash.
    name : of a dimension, an attribute or a part of the storage; otherwise "".
    a, b : the values on both sides.
    values : of `DifferenceKind.VALUES` alone.
    """

    path: str
    kind: DifferenceKind
    name: str = ""
    a: Shown = ""
    b: Shown = ""
    values: ValueDifferences | None = None

    @property
    def line(self) -> str:
        """The difference on one line, with unprintable characters escaped."""
        what = f"{self.kind.value} {self.name}".rstrip()
        if self.values is not None:
            text = self.values.text
        elif self.b is Absent.ABSENT:
            text = f"{self.a} only in A".lstrip()
        elif self.a is Absent.ABSENT:
            text = f"{self.b} only in B".lstrip()
        else:
            text = f"{self.a} and {self.b}"
        return printable(f"{self.path}: {what}: {text}")

    @property
    def members(self) -> dict[str, Json]:
        """The difference as a JSON object."""
        found: dict[str, Json] = {"path": self.path, "kind": self.kind.value}
        if self.name:
            found["name"] = self.name
        if self.values is not None:
            return found | self.values.members
        for side, value in (("a", self.a), ("b", self.b)):
            found[side] = None if value is Absent.ABSENT else value
        return found


@frozen
class ValueDifferences:
    """A summary of how the values of a variable differ.

    Attributes
    ----------
    count : of the elements that differ; `total`: of those that were compared.
    first : index of the first one in C order; () of a scalar.
    a, b : the values on both sides at that index.
    largest : difference of two numbers; None: there are no finite numbers.
    reason : why they were not compared; "" if they were.
    """

    count: int
    total: int
    first: tuple[int, ...] = ()
    a: str = ""
    b: str = ""
    largest: int | float | None = None
    reason: str = ""

    @property
    def text(self) -> str:
        if self.reason:
            return f"not compared: {self.reason}"
        of = f"{self.count} of {self.total} {'differs' if self.count == 1 else 'differ'}"
        place = f", the first at {list(self.first)}" if self.first else ""
        largest = "" if self.largest is None else f"; largest difference {self.largest:g}"
        if isinstance(self.largest, int):
            largest = f"; largest difference {self.largest}"
        return f"{of}{place}: {self.a} and {self.b}{largest}"

    @property
    def members(self) -> dict[str, Json]:
        if self.reason:
            return {"reason": self.reason}
        return {
            "count": self.count,
            "total": self.total,
            "first": list(self.first),
            "a": self.a,
            "b": self.b,
            "largest": self.largest,
        }
