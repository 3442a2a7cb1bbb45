"""Chunks of a new array, stored one by one without the map of dirty chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nczfs.engine.chunks.base import UnitIndex
from nczfs.engine.chunks.fill import fill_element, is_fill
from nczfs.engine.chunks.loaded import Values
from nczfs.engine.dataset import Dataset
from nczfs.engine.retrying import until_stored
from nczfs.engine.values.quantize import rounding_of
from nczfs.errors import BadValue
from nczfs.library.variable import storable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkPart
from nczfs.model.hierarchy import Variable
from nczfs.tools.sparse import Selection, box_of
from nczfs.tools.transfer.copying import Writes


class ChunkTarget:
    """A new variable, unused by others, that is filled with boxes of whole chunks.

    Each chunk is written once, whole, with fill beyond the edge of the array, together with the
    others of its unit: writing them again changes nothing.

    Parameters
    ----------
    is_new : whether the store has none of its chunks; otherwise it is asked before a chunk of fill
        is left out.
    wanted_parts : yields the pieces of a box in the chunks that are stored at all; None: all.
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

    def start(self, selection: Selection, values: Values, writes: Writes, credit: float) -> None:
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
        for unit, parts in units.items():
            size = sum(piece.size for _, piece in parts)
            nbytes = sum(piece.nbytes for _, piece in parts)
            writes.add(partial(self._submit, unit, parts), nbytes, size * credit)

    @property
    def unit_shape(self) -> tuple[int, ...]:
        """The shape of what is stored as one object: boxes should be whole ones of these."""
        return self._writer.unit_shape

    def _submit(self, unit: UnitIndex, parts: list[tuple[ChunkPart, Values]]) -> Future[None]:
        return self._pool.submit(self._store, unit, parts)

    def _store(self, unit: UnitIndex, parts: list[tuple[ChunkPart, Values]]) -> None:
        if self._is_new and all(is_fill(self._array, values) for _, values in parts):
            return
        chunks = {part.chunk: self._whole(part, values) for part, values in parts}
        if all(chunk in chunks for chunk in self._writer.members(unit)):
            self._writer.store(unit, chunks, None)
            return
        key = self._writer.key(unit)
        until_stored(lambda _: self._writer.store(unit, chunks, self._writer.version(unit)), key)

    def _whole(self, part: ChunkPart, values: Values) -> Values:
        """Return the values of a chunk, with fill beyond the edge of the array."""
        if part.source.size == prod(self._array.chunk_shape):
            return values
        whole = np.full(self._array.chunk_shape, fill_element(self._array))
        whole[part.source.slices()] = values
        return whole
