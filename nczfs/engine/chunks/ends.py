"""The ends of an array that was made shorter, beyond which nothing is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from nczfs.errors import StructureChanged

Shape: TypeAlias = "tuple[int, ...]"


class Ends:
    """The ends within which an array is written to, once it was made shorter here.

    A writer may know a longer array. What it wrote beyond the end would come back as values when
    the array grows. So each write is judged under the lock under which it enters the map of dirty
    chunks, and who makes an array shorter lowers its ends before looking at what is in there.

    The array grows without notice, here or elsewhere: the first write beyond the ends asks for its
    present shape. `_lock` guards the ends.
    """

    __slots__ = ("_ends", "_is_being_lowered", "_lock", "_lowered")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: Shape | None = None  # it was never made shorter
        self._is_being_lowered = False
        self._lowered = 0

    @contextmanager
    def lowered(self, shape: Shape) -> Iterator[None]:
        """Let nothing be written beyond a shape that the array gets during the block."""
        with self._lock:
            self._ends, self._is_being_lowered = shape, True
            self._lowered += 1
        try:
            yield
        finally:
            self._is_being_lowered = False

    @property
    def are_known(self) -> bool:
        """Whether any write may be beyond them. Takes no lock."""
        return self._ends is not None

    def admit(self, stop: Sequence[int]) -> bool:
        """Return whether elements up to some index are within the ends. Takes no lock."""
        ends = self._ends
        return ends is None or _is_within(stop, ends)

    def follow(self, stop: Sequence[int], shape: Callable[[], Shape]) -> None:
        """Move the ends to where the array ends now, after a write that they did not admit.

        Parameters
        ----------
        shape : returns the present one.

        Raises
        ------
        StructureChanged : the write is beyond that.
        """
        with self._lock:
            lowered, is_certain = self._lowered, not self._is_being_lowered
        if is_certain and _is_within(stop, present := shape()):
            with self._lock:
                if self._lowered == lowered:
                    self._ends = present
            return
        raise StructureChanged("was made shorter, and ends before what is written")


def _is_within(stop: Sequence[int], ends: Shape) -> bool:
    return all(one <= end for one, end in zip(stop, ends, strict=True))
