"""Values of a variable that are read when xarray needs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core import indexing

from nczfs.engine.arrays.selection import select
from nczfs.errors import StructureChanged
from nczfs.library.api import OpenDataset
from nczfs.library.variable import Variable
from nczfs.library.xarray.points import is_scattered, read_points
from nczfs.library.xarray.source import ReopeningSource


class LazyArray(BackendArray):
    """A variable as xarray indexes it. Thread-safe, and can be pickled.

    Parameters
    ----------
    path : from the root of the dataset.
    shape : that it had when it was opened. What others append later is not seen.
    """

    __slots__ = ("_held", "_path", "_source", "dtype", "shape")

    def __init__(
        self, source: ReopeningSource, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._source = source
        self._path = path
        self._held: tuple[OpenDataset, Variable] | None = None
        self.shape = shape
        self.dtype = dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        if isinstance(key, indexing.VectorizedIndexer) and is_scattered(key.tuple, self.shape):
            return self._read_points(key.tuple)
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        selection = select(key, self.shape)
        return selection.result_array(self._variable().read(selection))

    def _read_points(self, key: tuple[Any, ...]) -> Any:
        variable = self._variable()
        is_near = self._source.dataset.engine_dataset.zmap.features.near
        chunks = variable.description.array.chunk_shape
        return read_points(key, self.shape, chunks, self.dtype, self._read, is_near=is_near)

    def _variable(self) -> Variable:
        """Return the variable in the dataset that is open now.

        Raises
        ------
        StructureChanged : it is another one than when the array was made.
        """
        dataset, held = self._source.dataset, self._held
        if held is not None and held[0] is dataset:
            return held[1]
        variable = dataset[self._path]
        is_same = isinstance(variable, Variable) and _fits(variable, self.shape, self.dtype)
        if not is_same:
            raise StructureChanged(f"{dataset}: {self._path} has changed; open the dataset again")
        assert isinstance(variable, Variable)
        self._held = dataset, variable
        return variable

    def __getstate__(self) -> tuple[Any, ...]:
        return self._source, self._path, self.shape, self.dtype

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._source, self._path, self.shape, self.dtype = state
        self._held = None


def _fits(variable: Variable, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bool:
    longer = zip(variable.shape, shape, strict=False)
    is_same = variable.dtype == dtype and variable.ndim == len(shape)
    return is_same and all(now >= then for now, then in longer)
