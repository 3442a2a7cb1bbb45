"""Which chunks of two arrays, a source and a target, are to be copied, and how.

Each chunk of the target depends on the source alone, is stored whole, and is stored again with the
same result. So any part of the work can be done by itself, in any order, by any process, and twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

from nczfs.engine.chunkio import fill_element
from nczfs.engine.chunkset import ChunkSet, chunks_of
from nczfs.engine.transfer.source import Content, Selection
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription, Variable


@dataclass(slots=True)
class ChunkPair:
    """A variable that is copied.

    Attributes
    ----------
    path : in the source, as it is copied.
    content : its values.
    stored : the chunks that the source has; None: not known.
    done : the chunks that the target has from an earlier run.
    keeps_bytes : chunks are copied as they are stored.
    keeps_holes : chunks that were never written stay so.
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

    def is_wanted(self, selection: Selection) -> bool:
        """Whether any chunk of the target in a box may have to be written."""
        box = Box(tuple(s.start for s in selection), tuple(s.stop for s in selection))
        chunks = chunks_of(box, self.target.array.chunk_shape)
        if self.done is not None and self.done.has_all(chunks):
            return False
        return self._is_stored(box)

    def is_wanted_chunk(self, chunk: ChunkIndex) -> bool:
        """The same, for one chunk."""
        if self.done is not None and chunk in self.done:
            return False
        return self._is_stored(self.target.array.grid.box(chunk))

    def all_chunks(self) -> Iterator[ChunkIndex]:
        """All chunks of the grid, in C order."""
        yield from product(*map(range, self.source.array.grid.counts))

    def nbytes_of(self, chunk: ChunkIndex) -> int:
        """What a chunk of the target counts for in progress."""
        return self.target.array.grid.box(chunk).size * self.content.item_bytes

    def _is_stored(self, box: Box) -> bool:
        """Whether anything may have been written in a box of the source."""
        if self.stored is None or not self.keeps_holes:
            return True
        return self.stored.has_any(chunks_of(box, self.source.array.chunk_shape))


def _have_same_fill(one: ArrayDescription, other: ArrayDescription) -> bool:
    """Whether a chunk that was never written means the same in two arrays of one type."""
    if one.dtype.vlen is not None or None in (one.fill_value, other.fill_value):
        return one.fill_value == other.fill_value
    return fill_element(one).tobytes() == fill_element(other).tobytes()


def have_same_chunks(one: ArrayDescription, other: ArrayDescription) -> bool:
    """Whether the stored bytes of a chunk of the one are those of the other, whatever its key."""
    return (
        one.chunk_shape == other.chunk_shape
        # Of bytes the order has no meaning, and is spelled in more ways than one.
        and one.dtype.stored == other.dtype.stored
        and (one.dtype.vlen, one.dtype.base) == (other.dtype.vlen, other.dtype.base)
        and _codecs(one) == _codecs(other)
    )


def _codecs(array: ArrayDescription) -> object:
    """How the bytes of a chunk come about; it does not matter which codec is the compressor."""
    chain = array.codecs
    codecs = [(codec.name, dict(codec.configuration)) for codec in chain.codecs]
    return chain.zarr_format, chain.order, codecs
