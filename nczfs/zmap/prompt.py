"""A store that gathers nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nczfs.zmap.wrappers import Change, Wrapper


class Prompt(Wrapper):
    """Another store, flushed by each change: what it took survives this process.

    Where the flush fails, the change is there, and is tried again with the next. Closing it closes
    the other.
    """

    @contextmanager
    def _changing(self, change: Change, key: str) -> Iterator[None]:
        yield
        self._zmap.flush()
