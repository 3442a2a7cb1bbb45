"""How far into an array written elements reach, compared with its ends."""

from __future__ import annotations

from collections.abc import Callable

from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.writing.written import Region
from nczfs.errors import StructureChanged
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex


def are_inside(array: StoredArray, io: ChunkStore, chunk: ChunkIndex, region: Region) -> bool:
    """Return whether elements of a chunk lie within the ends of its array. Takes no lock."""
    return not array.ends.are_known or array.ends.admit(_stop(io, chunk, region))


def check_inside(
    array: StoredArray,
    io: ChunkStore,
    chunk: ChunkIndex,
    region: Region,
    shape: Callable[[], tuple[int, ...]],
) -> None:
    """Raise StructureChanged if elements of a chunk lie beyond the ends of its array.

    Parameters
    ----------
    shape : returns the present one.
    """
    if not are_inside(array, io, chunk, region):
        try:
            array.ends.follow(_stop(io, chunk, region), shape)
        except StructureChanged as error:
            raise StructureChanged(f"{array.prefix}: {error}") from error


def _stop(io: ChunkStore, chunk: ChunkIndex, region: Region) -> list[int]:
    """Return an index in the array of which each part is behind those of all elements."""
    if isinstance(region, Box):
        inside = [*region.stop]
    else:
        inside = [e.stop if isinstance(e, slice) else int(e.max(initial=-1)) + 1 for e in region]
    return [first + end for first, end in zip(io.array.grid.origin(chunk), inside, strict=True)]
