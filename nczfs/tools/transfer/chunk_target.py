"""Chunks of a new array, stored unit by unit without the map of dirty chunks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.fillelement import fill_element
from nczfs.engine.chunks.base import Draft, UnitIndex
from nczfs.engine.chunks.fill import is_fill
from nczfs.engine.dataset import Dataset
from nczfs.engine.retrying import until_stored
from nczfs.engine.values.quantize import rounding_of
from nczfs.errors import BadValue
from nczfs.library.variable import storable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkPart, Slices
from nczfs.model.hierarchy import Variable
from nczfs.tools.sparse import box_of
from nczfs.tools.transfer.blocks import Shapes
from nczfs.tools.transfer.copying import Writes, memory_of
from nczfs.zmap.base import ABSENT


class ChunkTarget:
    """A new variable, unused by others, that is filled with boxes of whole chunks.

    Each chunk is encoded once, whole, with fill beyond the edge of the array. A unit is stored once
    all its chunks are encoded; storing it again changes nothing.

    Parameters
    ----------
    is_new : whether the store has none of its chunks; otherwise it is asked before a chunk of fill
        is left out.
    wanted_parts : yields the pieces of a box in the chunks that are stored at all, which are all
        chunks of a unit or none of them; None: all.
    """

    def __init__(
        self,
        dataset: Dataset,
        variable: Variable,
        *,
        is_new: bool,
        wanted_parts: Callable[[Box], Iterator[ChunkPart]] | None = None,
    ) -> None:
        self._variable = variable
        self._array = variable.array
        self._writer = dataset.array(variable).writer()
        self._pool = dataset.engine.pools.write
        self._rounding = rounding_of(variable)
        self._is_new = is_new
        self._wanted_parts = wanted_parts or self._array.grid.parts
        self._begun: dict[UnitIndex, _Unit] = {}
        self._is_dropping = False

    @property
    def shapes(self) -> Shapes:
        """The shapes of chunks and units: boxes are whole chunks, if possible whole units."""
        return Shapes(self._array.chunk_shape, self._writer.units.chunk_shape)

    def start(self, selection: Slices, values: Values, writes: Writes, credit: float) -> None:
        """Start storing the chunks of a box; see `copying.Start`.

        Raises
        ------
        BadValue : a value does not fit the type; nothing of the box was stored.
        """
        given = values.shape
        values = storable(values, self._variable, f"/{self._variable.path}")
        if values.shape != given:  # it would be rows of single characters
            raise BadValue(
                f"/{self._variable.path}: a string has more bytes than an element, which has 1; "
                "make the elements longer (--string-bytes)"
            )
        if self._rounding is not None:
            values = self._rounding(values)
        box = box_of(selection)
        units: dict[UnitIndex, list[tuple[ChunkPart, Values]]] = {}
        left = box.size
        for part in self._wanted_parts(box):
            index: tuple[Any, ...] = (*part.target.slices(), ...)  # a scalar stays an array
            piece = values[index]
            units.setdefault(self._writer.unit(part.chunk), []).append((part, piece))
            left -= piece.size
        writes.progress(left * credit)
        for index_of_unit, parts in units.items():
            size = sum(piece.size for _, piece in parts)
            nbytes = sum(memory_of(piece) for _, piece in parts)
            unit = self._unit(index_of_unit, size, writes)
            begin = partial(self._pool.submit, self._store, unit, parts, size)
            writes.add(begin, nbytes, size * credit)

    def _unit(self, index: UnitIndex, size: int, writes: Writes) -> _Unit:
        """Return a unit of which so many elements come now."""
        unit = self._begun.get(index)
        if unit is None:
            unit = _Unit(index, self._writer.draft(index), self._writer.units.box(index).size)
            if size < unit.to_come:
                self._begun[index] = unit
                if not self._is_dropping:
                    self._is_dropping = True
                    writes.at_end(self._drop)
        return unit

    def _store(self, unit: _Unit, parts: list[tuple[ChunkPart, Values]], size: int) -> None:
        is_over = True
        try:
            for part, values in parts:
                unit.draft.put(part.chunk, self._whole(part, values))
            is_fill_alone = all(is_fill(self._array, values) for _, values in parts)
            is_over = unit.took(size, is_fill_alone=is_fill_alone)
            if is_over:
                self._finish(unit)
        finally:
            if is_over:
                unit.draft.drop()
                self._begun.pop(unit.index, None)

    def _finish(self, unit: _Unit) -> None:
        draft, writer = unit.draft, self._writer
        if self._is_new and unit.is_fill:
            return
        if draft.is_whole:
            draft.store(None)
        else:
            until_stored(partial(self._put, unit), writer.key(unit.index))

    def _put(self, unit: _Unit, attempt: int) -> None:
        """Store a unit over what there is."""
        is_first = self._is_new and not attempt
        unit.draft.store(ABSENT if is_first else self._writer.version(unit.index))

    def _drop(self) -> None:
        """Let go of units that will never be whole, because something failed."""
        for unit in self._begun.values():
            unit.draft.drop()

    def _whole(self, part: ChunkPart, values: Values) -> Values:
        """Return the values of a chunk, with fill beyond the edge of the array."""
        if part.source.size == prod(self._array.chunk_shape):
            return values
        whole = np.full(self._array.chunk_shape, fill_element(self._array))
        whole[part.source.slices()] = values
        return whole


class _Unit:
    """A unit whose chunks are being encoded, by several threads. `_lock` guards all numbers.

    Attributes
    ----------
    to_come : the number of its elements that are not in the draft yet.
    is_fill : whether all that were put are fill.
    """

    def __init__(self, index: UnitIndex, draft: Draft, size: int) -> None:
        self.index = index
        self.draft = draft
        self.to_come = size
        self.is_fill = True
        self._lock = threading.Lock()

    def took(self, size: int, *, is_fill_alone: bool) -> bool:
        """Note elements that are in the draft now. Returns whether they are the last ones."""
        with self._lock:
            self.to_come -= size
            self.is_fill = self.is_fill and is_fill_alone
            return not self.to_come
