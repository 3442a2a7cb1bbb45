"""The written elements of a chunk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.model.boxes import Box, common, joined

BOXES_MAX = 32

Region: TypeAlias = "Box | tuple[slice | np.ndarray[Any, np.dtype[np.int64]], ...]"
"""Elements of a chunk: a box of them, or those that a numpy index selects."""


class WrittenMask:
    """The written elements of a chunk: a few boxes, or otherwise a flag for each element.

    A sequential writer leaves one growing box; only scattered writes need the flags, which take a
    byte an element, unless they are `parked`.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._boxes: list[Box] = []
        self._flags: Values | None = None
        self._parked: Callable[[], Values] | None = None

    @property
    def is_empty(self) -> bool:
        return not self._boxes and self._flags is None and self._parked is None

    @property
    def nbytes(self) -> int:
        return 0 if self._flags is None else self._flags.nbytes

    def park(self, flags: Callable[[], Values]) -> None:
        """Release the flags; the next access loads them again."""
        if self._flags is not None:
            self._flags, self._parked = None, flags

    def load(self) -> None:
        """Load the flags into memory, if there are any. Raises what loading them raises."""
        if self._parked is not None:
            self._flags, self._parked = self._parked(), None

    def add(self, region: Region) -> None:
        """Note that the elements of a region were written."""
        self.load()
        if not isinstance(region, Box):
            self._as_flags()[region] = True
            return
        if region.size == 0:
            return
        if self._flags is not None:
            self._flags[region.slices()] = True
            return
        self._boxes.append(region)
        while len(self._boxes) > 1 and (both := joined(self._boxes[-2], self._boxes[-1])):
            self._boxes[-2:] = [both]
        if len(self._boxes) > BOXES_MAX:
            self._as_flags()

    def update(self, other: WrittenMask) -> None:
        """Add the written elements of `other`."""
        other.load()
        for box in other._boxes:
            self.add(box)
        if other._flags is not None:
            self._as_flags()[other._flags] = True

    def covers(self, box: Box) -> bool:
        """Return whether every element of a box was written."""
        self.load()
        if self._flags is None:
            if box.size == 0 or any(known.contains(box) for known in self._boxes):
                return True
            if sum(known.size for known in self._boxes) < box.size:
                return False
        return bool(self._as_flags()[box.slices()].all())

    def meets(self, box: Box) -> bool:
        """Return whether any element of a box was written."""
        self.load()
        if self._flags is not None:
            return bool(self._flags[box.slices()].any())
        return any(common(known, box).size for known in self._boxes)

    def flags(self) -> Values:
        """Return a new array that says for each element whether it was written."""
        self.load()
        flags = np.zeros(self._shape, bool) if self._flags is None else self._flags.copy()
        for box in self._boxes:
            flags[box.slices()] = True
        return flags

    def copy_onto(self, target: Values, values: Values) -> None:
        """Copy the written elements of `values` into `target`, both of the chunk's shape."""
        flags = self._flags if self._parked is None else self._parked()
        if flags is not None:
            np.copyto(target, values, where=flags)
        for box in self._boxes:
            target[box.slices()] = values[box.slices()]

    def _as_flags(self) -> Values:
        self.load()
        if self._flags is None:
            self._flags, self._boxes = self.flags(), []
        return self._flags
