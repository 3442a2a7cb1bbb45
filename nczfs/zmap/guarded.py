"""A store that is changed only within a context manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from nczfs.buffers import Buffer
from nczfs.zmap.base import Version, ZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.wrappers import Change, Wrapper


class Guarded(Wrapper):
    """A wrapper that encloses each change of a store in a context. Closing it closes the other.

    Parameters
    ----------
    guard : makes the context; if it raises, nothing is changed.
    """

    def __init__(self, zmap: ZMap, guard: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(zmap)
        self._guard = guard

    def read_ranges(
        self, key: Key, ranges: Sequence[tuple[int, int]], *, version: Version
    ) -> Sequence[Buffer]:
        return self._zmap.read_ranges(key, ranges, version=version)

    def _changing(self, change: Change, key: str) -> AbstractContextManager[None]:
        return self._guard()
