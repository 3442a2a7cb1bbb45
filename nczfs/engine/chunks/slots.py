"""The records of the disk tier: where its chunks are, and which it did not take."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.chunks.loaded import ChunkId, LoadedChunk
from nczfs.engine.chunks.spillfile import SpillPlace
from nczfs.model.boxes import Box

SLOTS_MAX = 1 << 16  # each costs half a KiB of memory that no budget counts
GHOSTS_MAX = 1 << 16


class Slot:
    """A chunk in the tier: first in memory, waiting to be written, then in the file.

    Attributes
    ----------
    number : of the chunks that the tier has taken, which also make room in this order.
    """

    __slots__ = (
        "checked_at",
        "chunk_id",
        "dtype",
        "loaded",
        "nbytes",
        "number",
        "place",
        "read_bytes",
        "shape",
        "version",
    )

    def __init__(self, chunk_id: ChunkId, loaded: LoadedChunk, checked_at: float) -> None:
        self.chunk_id = chunk_id
        self.checked_at = checked_at
        self.version = loaded.version
        self.shape = loaded.values.shape
        self.dtype = loaded.values.dtype
        # A chunk that was never written is one element, which stays in memory.
        self.nbytes = loaded.values.nbytes if loaded.nbytes else 0
        self.number = 0
        self.loaded: LoadedChunk | None = loaded
        self.place: SpillPlace | None = None
        self.read_bytes = 0  # bytes of parts; see `is_worth_memory`

    @property
    def is_gone(self) -> bool:
        """Whether other chunks have overwritten it on the disk."""
        return self.place is not None and self.place.segment.is_gone

    def is_worth_memory(self, part: Box | None) -> bool:
        """Return whether to read the chunk back whole, to keep it in memory again.

        This is so once the parts that were read add up to its size: reading it whole at first would
        have cost the same.
        """
        if part is not None:
            self.read_bytes += part.size * self.dtype.itemsize
            if self.read_bytes < self.nbytes:
                return False
        self.read_bytes = 0
        return True

    def loaded_from(self, values: Values) -> LoadedChunk:
        """Return the chunk as it was loaded, from the values that were read back."""
        return LoadedChunk(values, self.nbytes, self.version)

    def covered(self, part: Box | None) -> tuple[int, int]:
        """Return the run of bytes that contains all elements of a part."""
        if part is None or not self.shape:
            return 0, self.nbytes
        if not part.size:
            return 0, 0
        first = int(np.ravel_multi_index(part.start, self.shape))
        last = int(np.ravel_multi_index(tuple(stop - 1 for stop in part.stop), self.shape))
        return first * self.dtype.itemsize, (last + 1) * self.dtype.itemsize


class Ghosts:
    """Chunks that were evicted without a place in the tier, in the order of eviction.

    A chunk that is evicted again while it is remembered here was loaded twice within a span that
    the tier could have bridged.
    """

    def __init__(self) -> None:
        self._nbytes: OrderedDict[ChunkId, int] = OrderedDict()
        self._sum = 0

    def remember(self, chunk_id: ChunkId, nbytes: int, span_bytes: int) -> None:
        """Add an evicted chunk; forget those that were evicted more than `span_bytes` ago."""
        self._nbytes[chunk_id] = nbytes
        self._sum += nbytes
        while self._sum > span_bytes or len(self._nbytes) > GHOSTS_MAX:
            self._sum -= self._nbytes.popitem(last=False)[1]

    def forget(self, chunk_id: ChunkId) -> bool:
        """Remove a chunk. Returns whether it was remembered."""
        nbytes = self._nbytes.pop(chunk_id, None)
        self._sum -= nbytes or 0
        return nbytes is not None
