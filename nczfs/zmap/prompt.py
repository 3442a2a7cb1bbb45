"""A store that gathers nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nczfs.zmap.wrappers import Change, Wrapper


class Prompt(Wrapper):
    """A wrapper that flushes a store after each change, which then survives this process.

    If the flush fails, the change is kept, and the next change tries again. Closing it closes the
    other.
    """

    @contextmanager
    def _changing(self, change: Change, key: str) -> Iterator[None]:
        yield
        self._zmap.flush()
