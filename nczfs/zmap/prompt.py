"""A store that gathers nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from nczfs.zmap.base import Features
from nczfs.zmap.wrappers import Change, Wrapper


class Prompt(Wrapper):
    """A wrapper that flushes a store after each change, which then survives this process.

    If the flush fails, the change is kept, and the next change tries again. Closing it closes the
    other.
    """

    @property
    def features(self) -> Features:
        features = self._zmap.features
        return replace(features, gathers_writes=False) if features.gathers_writes else features

    def prepare_writing(self) -> Features:
        self._zmap.prepare_writing()
        return self.features

    @contextmanager
    def _changing(self, change: Change, key: str) -> Iterator[None]:
        yield
        self._zmap.flush()
