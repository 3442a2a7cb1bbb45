"""The chunks of an array's elements in C order. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from nczfs.model.boxes import index_of
from nczfs.model.grid import ChunkIndex, RegularGrid
from nczfs.model.hierarchy import ArrayDescription
from nczfs.plaindata import frozen


@frozen
class ChunkRuns:
    """The chunks of an array each of which is a run of consecutive elements.

    Attributes
    ----------
    row_bytes : from one step of the leading dimensions to the next.
    chunk_bytes : of a chunk that no edge cuts.
    leading : lengths of the dimensions in which a chunk has length 1.
    trailing : zeros for those in which a chunk has the full length.
    """

    row_bytes: int
    chunk_bytes: int
    leading: tuple[int, ...]
    trailing: tuple[int, ...]

    def pieces(self, start: int, stop: int) -> Iterator[tuple[ChunkIndex, int, int, float]]:
        """Yield the chunks that contain bytes [start, stop) of all elements, in order.

        Yields
        ------
        the index of a chunk, the first byte in it, the number of bytes, and their share of the part
        of the chunk within the array.
        """
        row_bytes, chunk_bytes = self.row_bytes, self.chunk_bytes
        while start < stop:
            row, in_row = divmod(start, row_bytes)
            number, in_chunk = divmod(in_row, chunk_bytes)
            index = (*index_of(row, self.leading), number, *self.trailing)
            size = min(stop - start, row_bytes - in_row, chunk_bytes - in_chunk)
            inside = min(chunk_bytes, row_bytes - number * chunk_bytes)
            yield index, in_chunk, size, size / inside
            start += size


def runs_of(array: ArrayDescription) -> ChunkRuns | None:
    """Return the chunks of an array as runs; None if they are not runs, or have no plain bytes.

    They are runs when they have length 1 in the leading dimensions, any length in one, and the full
    length in all that follow.
    """
    shape, chunks = array.shape, array.chunk_shape
    is_regular = isinstance(array.grid, RegularGrid)
    if array.dtype.vlen is not None or not shape or array.size == 0 or not is_regular:
        return None
    d = _first_long(array)
    if chunks[d + 1 :] != shape[d + 1 :]:
        return None
    item = array.dtype.item_size
    step = prod(shape[d + 1 :]) * item
    if step == 0:
        return None
    return ChunkRuns(shape[d] * step, chunks[d] * step, shape[:d], (0,) * (len(shape) - d - 1))


def row_elements(array: ArrayDescription) -> int:
    """Return the elements of a row of chunks, which reading in order needs at a time."""
    if not array.shape:
        return 1
    d = _first_long(array)
    return prod(array.shape[d + 1 :]) * array.chunk_shape[d]


def _first_long(array: ArrayDescription) -> int:
    """Return the first dimension in which a chunk is longer than 1, otherwise the last."""
    d = 0
    while d < len(array.shape) - 1 and array.chunk_shape[d] == 1:
        d += 1
    return d
