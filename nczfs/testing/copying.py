"""A store that copies objects itself, as S3 does, to test the code that requests copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nczfs.buffers import Buffer
from nczfs.zmap.base import Blob, Features, Version, ZMap
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.wrappers import Prefixed


class Copying(Prefixed):
    """A wrapper of a store that copies within the store; closing it closes the other.

    A range of a version that is gone is refused.

    Attributes
    ----------
    reads : how many objects, or parts of them, were read from it.
    """

    def __init__(self, zmap: ZMap) -> None:
        super().__init__(zmap, ROOT)
        self.reads = 0

    @property
    def features(self) -> Features:
        return replace(super().features, server_copies=True)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self.reads += 1
        return super().read(key, start, stop, version=version)

    def read_ranges(
        self, key: Key, ranges: Sequence[tuple[int, int]], *, version: Version
    ) -> Sequence[Buffer]:
        return ZMap.read_ranges(self, key, ranges, version=version)  # by reads, which count
