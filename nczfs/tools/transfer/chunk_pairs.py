"""Pairs of arrays, a source and a target, and the chunks to copy between them.

A unit is what is stored as one object: a chunk, or a shard of several. Each unit of the target
depends only on the source, is stored whole, and gets the same bytes when it is stored again. So the
parts of the work are independent: any process may do them, in any order, even twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from nczfs.codecs.fillelement import fill_element
from nczfs.model.boxes import Box, common, whole
from nczfs.model.grid import ChunkGrid, ChunkIndex, ChunkPart, Slices
from nczfs.model.hierarchy import ArrayDescription, Variable
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.sparse import Blocks, box_of, few_within, sparse_reader
from nczfs.tools.transfer.source import Content


@dataclass(slots=True)
class ChunkPair:
    """A variable that is being copied.

    Attributes
    ----------
    path : in the source, with the user's choices applied.
    content : the values of the source.
    stored : the units that the source has; None: unknown.
    newest_ns : the time of the newest of them; 0: unknown.
    done : the units that the target has from an earlier run.
    keeps_bytes : whether units are copied as they are stored.
    keeps_holes : whether chunks that were never written stay missing.
    """

    path: str
    source: Variable
    target: Variable
    content: Content
    stored: ChunkSet | None = None
    newest_ns: int = 0
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
        read = sparse_reader(self.content.read, self.stored)
        return replace(self.content, read=read)

    def blocks(self, grid: ChunkGrid) -> Blocks:
        """Return the blocks of a grid in which any unit of the target may have to be written."""
        if self.stored is None or not self.keeps_holes:
            return Blocks(grid)
        return Blocks.with_any(grid, self.stored)

    def wanted_parts(self, box: Box) -> Iterator[ChunkPart]:
        """Yield the pieces of a box in the chunks of the target that may have to be written.

        All chunks of a unit are among them, or none: what an earlier run left of it is replaced.
        """
        array = self.target.array
        chunks = array.grid.touched(box)
        for unit in self._units_near(box):
            if self.is_wanted_unit(unit):
                for chunk in common(array.chunks_of(unit), chunks).indexes():
                    yield array.grid.part(chunk, box)

    def is_wanted(self, selection: Slices) -> bool:
        """Return whether any unit of the target in a box may have to be written."""
        box = box_of(selection)
        units = self.target.array.units.touched(box)
        if self.done is not None and self.done.has_all(units):
            return False
        return self._is_stored(box)

    def is_wanted_unit(self, unit: ChunkIndex) -> bool:
        """Return whether one unit of the target may have to be written."""
        if self.done is not None and unit in self.done:
            return False
        return self._is_stored(self.target.array.units.box(unit))

    def all_units(self) -> Iterator[ChunkIndex]:
        """Yield all units of the source, in C order."""
        return whole(self.source.array.units.counts).indexes()

    def nbytes_of(self, unit: ChunkIndex) -> int:
        """Return the bytes that a unit of the target counts for in progress."""
        return self.target.array.units.box(unit).size * self.content.item_bytes

    def _units_near(self, box: Box) -> Iterable[ChunkIndex]:
        """Return the units of the target in a box, or fewer, if few of the source are stored."""
        goal = self.target.array.units
        units = goal.touched(box)
        if self.stored is not None and self.keeps_holes:
            own = self.stored.grid
            found = few_within(self.stored, own.touched(box), units.size // 4)
            if found is not None:
                boxes = (goal.touched(common(own.box(each), box)) for each in found)
                near = {unit for each in boxes for unit in each.indexes()}
                return sorted(near)
        return units.indexes()

    def _is_stored(self, box: Box) -> bool:
        """Return whether anything may have been written in a box of the source."""
        if self.stored is None or not self.keeps_holes:
            return True
        return self.stored.has_any(self.stored.grid.touched(box))


def _have_same_fill(one: ArrayDescription, other: ArrayDescription) -> bool:
    """Return whether a missing chunk means the same in two arrays of one type."""
    if one.dtype.vlen is not None or None in (one.fill_value, other.fill_value):
        return one.fill_value == other.fill_value
    return fill_element(one).tobytes() == fill_element(other).tobytes()


def have_same_chunks(one: ArrayDescription, other: ArrayDescription) -> bool:
    """Return whether two arrays store equal chunks as equal bytes, apart from their keys."""
    return (
        (one.chunk_shape, one.shards, one.cuts) == (other.chunk_shape, other.shards, other.cuts)
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
