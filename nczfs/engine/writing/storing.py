"""Storing what was written to the chunks of one unit: newest version, overlay, write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore, Sending, UnitIndex
from nczfs.engine.chunks.fill import fill_chunk, is_fill
from nczfs.engine.retrying import until_stored
from nczfs.engine.writing.snapshot import Snapshot
from nczfs.errors import CodecError
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import ABSENT, Version

Stored: TypeAlias = "tuple[Mapping[ChunkIndex, Values], Version | None]"
"""The values that the store has of some chunks, and the version of their unit."""


def store_snapshots(
    io: ChunkStore,
    unit: UnitIndex,
    snapshots: Mapping[ChunkIndex, Snapshot],
    sending: Sending | None = None,
    newest: Callable[[], Version | None] = lambda: None,
    *,
    is_in_doubt: bool = False,
) -> Stored:
    """Store the snapshots of dirty chunks of a unit, at once, and keep its other elements.

    A whole unit replaces whatever the store has. It is sent with a condition all the same: a
    request that passes its deadline, and arrives when a later one was answered, must not undo that.
    Of any other unit the version that it replaces is read first, unless there seems to be none.

    Parameters
    ----------
    sending : as in `ChunkStore.store`.
    newest : returns the version that the store has as far as is known; None: that is unknown.
    is_in_doubt : an earlier request with other values may still arrive.

    Returns
    -------
    the values of these chunks that the store has afterwards, and the version.

    Raises
    ------
    StructureChanged : the store has another array now. CodecError, StoreError.
    """
    io.confirm()
    values: dict[ChunkIndex, Values] = {}
    partial: list[ChunkIndex] = []
    for chunk, snapshot in snapshots.items():
        values[chunk] = snapshot.values
        if not snapshot.is_whole:
            partial.append(chunk)
    if not partial and _has_all(io, unit, snapshots):
        first = newest()
        is_hole = first == ABSENT and not is_in_doubt and _is_hole(io, values)
        if first is None or not io.is_conditional or is_hole:
            return values, io.store(unit, values, None, sending, explicitly=is_in_doubt)

        def replace(attempt: int) -> Stored:
            known = first if not attempt else io.version(unit)
            return values, io.store(unit, values, known, sending, explicitly=is_in_doubt)

        return until_stored(replace, io.key(unit))

    def store(attempt: int) -> Stored:
        base: Mapping[ChunkIndex, Values] = {}
        known = None if attempt else _known(snapshots, partial)
        if attempt:
            io.confirm()  # before chunks of another array are decoded
        elif known is None and io.is_conditional and newest() == ABSENT:
            base, known = _fill(io, partial), ABSENT
        if known is None and partial:
            base, known = _base(io, unit, snapshots, partial)
        elif known is None:
            known = io.version(unit)
        merged = values | {chunk: _over(base[chunk], snapshots[chunk]) for chunk in base}
        return merged, io.store(unit, merged, known, sending, explicitly=is_in_doubt)

    return until_stored(store, io.key(unit))


def fills(io: ChunkStore, unit: UnitIndex, snapshots: Mapping[ChunkIndex, Snapshot]) -> bool:
    """Return whether snapshots have all elements of a unit that lie in the array.

    Others may have made the array longer, and stored more of the unit.
    """
    inside = io.array.grid.inside
    return all(
        chunk in snapshots and snapshots[chunk].written.covers(inside(chunk))
        for chunk in io.array.chunks_of(unit).indexes()
    )


def _base(
    io: ChunkStore,
    unit: UnitIndex,
    snapshots: Mapping[ChunkIndex, Snapshot],
    partial: list[ChunkIndex],
) -> tuple[Mapping[ChunkIndex, Values], Version]:
    """Return what the store has of chunks that are not whole, and its version.

    If that cannot be decoded, it is fill where the snapshots have all elements that lie in the
    array: so a damaged chunk is replaced, of which nobody can read the rest.
    """
    try:
        return io.newest(unit, partial)
    except CodecError:
        if not fills(io, unit, snapshots):
            raise
    known = io.version(unit)
    try:
        return io.newest(unit, partial)
    except CodecError:  # of this version, or one that is newer, which is not replaced then
        return _fill(io, partial), known


def _fill(io: ChunkStore, chunks: Collection[ChunkIndex]) -> Mapping[ChunkIndex, Values]:
    return {chunk: fill_chunk(io.array, chunk) for chunk in chunks}


def _has_all(io: ChunkStore, unit: UnitIndex, chunks: Collection[ChunkIndex]) -> bool:
    return all(member in chunks for member in io.members(unit))


def _is_hole(io: ChunkStore, values: Mapping[ChunkIndex, Values]) -> bool:
    return all(is_fill(io.array, each) for each in values.values())


def _known(snapshots: Mapping[ChunkIndex, Snapshot], partial: list[ChunkIndex]) -> Version | None:
    """Return the version that has all unwritten elements of the snapshots, if there is one.

    Parameters
    ----------
    partial : the chunks that are not whole.
    """
    if not all(snapshots[chunk].complete for chunk in partial):
        return None
    versions = {snapshots[chunk].version for chunk in partial}
    return versions.pop() if len(versions) == 1 else None


def _over(base: Values, snapshot: Snapshot) -> Values:
    """Return the values of a chunk with the written ones over others."""
    values = np.array(base)
    snapshot.written.copy_onto(values, snapshot.values)
    return values
