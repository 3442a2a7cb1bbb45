"""Pairs of arrays, a source and a target, and the chunks to copy between them.

Each chunk of the target depends only on the source, is stored whole, and gets the same bytes when
it is stored again. So the parts of the work are independent: any process may do them, in any order,
even twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from nczfs.engine.chunks.fill import fill_element
from nczfs.model.boxes import Box, common, whole
from nczfs.model.grid import ChunkIndex, ChunkPart, RegularGrid
from nczfs.model.hierarchy import ArrayDescription, Variable
from nczfs.tools.chunkset import ChunkSet, chunks_of
from nczfs.tools.sparse import Blocks, Selection, box_of, few_within, sparse_reader
from nczfs.tools.transfer.source import Content


@dataclass(slots=True)
class ChunkPair:
    """A variable that is being copied.

    Attributes
    ----------
    path : in the source, with the user's choices applied.
    content : the values of the source.
    stored : the chunks that the source has; None: unknown.
    done : the chunks that the target has from an earlier run.
    keeps_bytes : whether chunks are copied as they are stored.
    keeps_holes : whether chunks that were never written stay missing.
    """

    path: str
    source: Variable
    target: Variable
    content: Content
    stored: ChunkSet | None = None
    done: ChunkSet | None = None
    keeps_bytes: bool = field(init=False)
    keeps_holes: bool = field(init=False)

    def __post_init__(self) -> None:
        one, other = self.source.array, self.target.array
        self.keeps_holes = one.dtype.native == other.dtype.native and _have_same_fill(one, other)
        self.keeps_bytes = self.keeps_holes and have_same_chunks(one, other)

    @property
    def sparse_content(self) -> Content:
        """The values of the source, read from stored chunks only where these are few."""
        if self.stored is None:
            return self.content
        read = sparse_reader(self.content.read, self.source.array.grid, self.stored)
        return replace(self.content, read=read)

    def blocks(self, grid: RegularGrid) -> Blocks:
        """Return the blocks of a grid in which any chunk of the target may have to be written."""
        if self.stored is None or not self.keeps_holes:
            return Blocks(grid)
        return Blocks.with_any(grid, [(self.source.array.grid, self.stored)])

    def wanted_parts(self, box: Box) -> Iterator[ChunkPart]:
        """Yield the pieces of a box in the chunks of the target that may have to be written."""
        grid = self.target.array.grid
        for chunk in self._chunks_near(box):
            if self.is_wanted_chunk(chunk):
                yield grid.part(chunk, box)

    def is_wanted(self, selection: Selection) -> bool:
        """Return whether any chunk of the target in a box may have to be written."""
        box = box_of(selection)
        chunks = chunks_of(box, self.target.array.chunk_shape)
        if self.done is not None and self.done.has_all(chunks):
            return False
        return self._is_stored(box)

    def is_wanted_chunk(self, chunk: ChunkIndex) -> bool:
        """Return whether one chunk of the target may have to be written."""
        if self.done is not None and chunk in self.done:
            return False
        return self._is_stored(self.target.array.grid.box(chunk))

    def all_chunks(self) -> Iterator[ChunkIndex]:
        """Yield all chunks of the grid, in C order."""
        return whole(self.source.array.grid.counts).indexes()

    def nbytes_of(self, chunk: ChunkIndex) -> int:
        """Return the bytes that a chunk of the target counts for in progress."""
        return self.target.array.grid.box(chunk).size * self.content.item_bytes

    def _chunks_near(self, box: Box) -> Iterable[ChunkIndex]:
        """Return the chunks of the target in a box, or fewer, if few of the source are stored."""
        goal = self.target.array.grid
        chunks = chunks_of(box, goal.chunk_shape)
        if self.stored is not None and self.keeps_holes:
            own = self.source.array.grid
            found = few_within(self.stored, chunks_of(box, own.chunk_shape), chunks.size // 4)
            if found is not None:
                boxes = (chunks_of(common(own.box(c), box), goal.chunk_shape) for c in found)
                near = {chunk for each in boxes for chunk in each.indexes()}
                return sorted(near)
        return chunks.indexes()

    def _is_stored(self, box: Box) -> bool:
        """Return whether anything may have been written in a box of the source."""
        if self.stored is None or not self.keeps_holes:
            return True
        return self.stored.has_any(chunks_of(box, self.source.array.chunk_shape))


def _have_same_fill(one: ArrayDescription, other: ArrayDescription) -> bool:
    """Return whether a missing chunk means the same in two arrays of one type."""
    if one.dtype.vlen is not None or None in (one.fill_value, other.fill_value):
        return one.fill_value == other.fill_value
    return fill_element(one).tobytes() == fill_element(other).tobytes()


def have_same_chunks(one: ArrayDescription, other: ArrayDescription) -> bool:
    """Return whether two arrays store equal chunks as equal bytes, apart from their keys."""
    return (
        one.chunk_shape == other.chunk_shape
        # For single bytes the byte order has no meaning, and is spelled in several ways.
        and one.dtype.stored == other.dtype.stored
        and (one.dtype.vlen, one.dtype.base) == (other.dtype.vlen, other.dtype.base)
        and _codecs(one) == _codecs(other)
    )


def _codecs(array: ArrayDescription) -> object:
    """Return the chain of codecs, no matter which of them is called the compressor."""
    chain = array.codecs
    codecs = [(codec.name, dict(codec.configuration)) for codec in chain.codecs]
    return chain.zarr_format, chain.order, codecs
