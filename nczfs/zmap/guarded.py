"""A store of which nothing is changed but in a context."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from nczfs.zmap.base import ZMap
from nczfs.zmap.wrappers import Change, Wrapper


class Guarded(Wrapper):
    """A store whose changes have a context round them. Closing it closes the other.

    Parameters
    ----------
    guard : makes the context; what it raises is raised, and nothing was changed.
    """

    def __init__(self, zmap: ZMap, guard: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(zmap)
        self._guard = guard

    def _changing(self, change: Change, key: str) -> AbstractContextManager[None]:
        return self._guard()
