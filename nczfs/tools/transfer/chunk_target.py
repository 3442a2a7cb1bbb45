"""Chunks of a new array, stored one by one without the map of dirty chunks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from math import prod
from typing import Any

import numpy as np

from nczfs.engine.chunks.chunkio import fill_element
from nczfs.engine.chunks.loaded import Values
from nczfs.engine.dataset import Dataset
from nczfs.engine.values.quantize import rounding_of
from nczfs.library.variable import storable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex, Part
from nczfs.model.hierarchy import Variable
from nczfs.tools.transfer.copying import Writes
from nczfs.tools.transfer.source import Selection


class ChunkTarget:
    """A new variable, unused by others, that is filled with boxes of whole chunks.

    Each chunk is written once, whole, with fill beyond the edge of the array, and independently of
    all others: writing it again changes nothing.

    Parameters
    ----------
    is_new : whether the store has none of its chunks; otherwise it is asked before a chunk of fill
        is left out.
    is_wanted : returns whether a chunk is stored at all.
    """

    def __init__(
        self,
        dataset: Dataset,
        variable: Variable,
        *,
        is_new: bool,
        is_wanted: Callable[[ChunkIndex], bool] = lambda _: True,
    ) -> None:
        self._variable = variable
        self._array = variable.array
        self._io = dataset.array(variable).chunkio
        self._pool = dataset.engine.pools.write
        self._rounding = rounding_of(variable)
        self._is_new = is_new
        self._is_wanted = is_wanted

    def start(self, selection: Selection, values: Values, writes: Writes, credit: float) -> None:
        """Start storing the chunks of a box; see `copying.Start`.

        Raises
        ------
        BadValue : a value does not fit the type; nothing of the box was stored.
        """
        values = storable(values, self._variable, f"/{self._variable.path}")
        if self._rounding is not None:
            values = self._rounding(values)
        box = Box(tuple(p.start for p in selection), tuple(p.stop for p in selection))
        for part in self._array.grid.parts(box):
            index: tuple[Any, ...] = (*part.target.slices(), ...)  # a scalar stays an array
            piece = values[index]
            if self._is_wanted(part.chunk):
                begin = partial(self._submit, part, piece)
                writes.add(begin, piece.nbytes, piece.size * credit)
            else:
                writes.progress(piece.size * credit)

    def _submit(self, part: Part, values: Values) -> Future[None]:
        return self._pool.submit(self._store, part, values)

    def _store(self, part: Part, values: Values) -> None:
        if self._is_new and self._io.is_fill(values):
            return
        if part.source.size != prod(self._array.chunk_shape):
            whole = np.full(self._array.chunk_shape, fill_element(self._array))
            whole[part.source.slices()] = values
            values = whole
        self._io.store(part.chunk, values, None)
