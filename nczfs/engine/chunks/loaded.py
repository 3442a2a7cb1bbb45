"""Loaded chunks, which the chunk cache and its disk tier exchange."""

from __future__ import annotations

import math
from typing import TypeAlias

from nczfs.buffers import Values
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.model.grid import ChunkIndex
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version

ChunkId: TypeAlias = "tuple[StoredArray, ChunkIndex]"
"""An array of a store, and the index of a chunk in its grid."""


@frozen
class LoadedChunk:
    """The result of a load: the values, their bytes in memory, the version they came from.

    `version` is None if the store has no object: the values are fill.

    Attributes
    ----------
    as_of : the time of the answer, on the monotonic clock, if it is older than the load.
    """

    values: Values
    nbytes: int
    version: Version | None
    as_of: float = math.inf


@frozen
class Footprint:
    """What the cache has of some chunks.

    Attributes
    ----------
    memory_bytes, disk_bytes : that they take in memory, and on the disk.
    """

    chunks: int = 0
    memory_bytes: int = 0
    disk_bytes: int = 0

    def __add__(self, other: Footprint) -> Footprint:
        return Footprint(
            self.chunks + other.chunks,
            self.memory_bytes + other.memory_bytes,
            self.disk_bytes + other.disk_bytes,
        )
