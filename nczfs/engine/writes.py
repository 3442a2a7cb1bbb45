"""When an array was last written to: what tells a reader that he holds old values."""

from __future__ import annotations

import time
from itertools import count

from nczfs.errors import StructureChanged

_revisions = count(1)


class Writes:
    """When an array was last written to, through any of its incarnations.

    Attributes
    ----------
    revision : another one after each write; a reader that saw the same twice kept no old values.
    at_ns : the time of the last write; 0: there was none.
    """

    __slots__ = ("_over", "at_ns", "revision")

    def __init__(self) -> None:
        self.revision = 0
        self.at_ns = 0
        self._over: str | None = None

    def end(self, why: str) -> None:
        """The array is no more: it is neither read nor written from now on."""
        self._over = why
        self.note()

    def check(self) -> None:
        """Raise StructureChanged when the array is no more."""
        if self._over is not None:
            raise StructureChanged(self._over)

    def note(self) -> None:
        """Something was written, or may have been."""
        self.at_ns = time.time_ns()
        self.revision = next(_revisions)
