"""A snapshot of a dirty chunk into the store: newest version, overlay, conditional write."""

from __future__ import annotations

import numpy as np

from nczfs.engine.chunkio import ChunkIO
from nczfs.engine.conflicts import until_stored
from nczfs.engine.dirty import Snapshot
from nczfs.engine.loaded import Values
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import Version


def store_snapshot(
    io: ChunkIO, index: ChunkIndex, snapshot: Snapshot
) -> tuple[Values, Version | None]:
    """Store a snapshot: the values that the store has then, and their version.

    Raises
    ------
    StructureChanged : the store has another array by now. CodecError, StoreError.
    """
    io.confirm()
    if snapshot.is_whole:
        return snapshot.values, io.store(index, snapshot.values, None)

    def store(attempt: int) -> tuple[Values, Version | None]:
        known = snapshot.version if snapshot.complete and not attempt else None
        if known is not None:
            values = snapshot.values
        else:
            base, known = io.newest(index)
            values = np.array(base)
            snapshot.written.copy_onto(values, snapshot.values)
        return values, io.store(index, values, known)

    return until_stored(store, io.key(index))
