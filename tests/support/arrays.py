"""Arrays of Zarr v2 of every kind that another program may write, document by document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numcodecs
import numpy as np

from nczfs.testing.datasets import put_json
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key
from tests.support.sample import Values

RECORD = [["a", "<i4"], ["b", ">f8", [2]], ["c", [["d", "|S3"], ["e", "<M8[s]"]]]]
"""A structured type, as Zarr v2 spells it."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array and its document.

    Attributes
    ----------
    dtype, fill_value, filters, compressor : as they stand in the ``.zarray``.
    """

    dtype: Any = "<f4"
    fill_value: Any = 0
    shape: tuple[int, ...] = (5, 7)
    chunks: tuple[int, ...] = (2, 3)
    order: str = "C"
    separator: str = "."
    filters: list[dict[str, Any]] | None = None
    compressor: dict[str, Any] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(_fields(self.dtype) if isinstance(self.dtype, list) else self.dtype)

    @property
    def document(self) -> dict[str, Any]:
        """The ``.zarray``."""
        separator = {} if self.separator == "." else {"dimension_separator": self.separator}
        return {
            "zarr_format": 2,
            "shape": list(self.shape),
            "chunks": list(self.chunks),
            "dtype": self.dtype,
            "compressor": self.compressor,
            "filters": self.filters,
            "fill_value": self.fill_value,
            "order": self.order,
        } | separator

    def values(self) -> Values:
        """Some values; those of the last chunks differ from the first ones."""
        dtype = self.numpy_dtype
        count = int(np.prod(self.shape))
        if dtype.hasobject:
            return _objects(self.filters or [], count).reshape(self.shape)
        data = np.random.default_rng(7).bytes(count * dtype.itemsize)
        if dtype.kind in "SU":
            found = np.array([f"é{i}" if dtype.kind == "U" else f"{i}" for i in range(count)])
        elif dtype.kind == "b":
            found = np.frombuffer(data, "u1") % 2 == 0
        elif dtype.kind in "fc":
            found = np.arange(count)
        else:
            found = np.frombuffer(data, dtype)
        return found.astype(dtype).reshape(self.shape)

    def put(self, zmap: ZMap, path: str) -> None:
        """Write it; the last chunk is never written."""
        put_json(zmap, f"{path}/.zarray", self.document)
        if self.attributes:
            put_json(zmap, f"{path}/.zattrs", self.attributes)
        chunks = list(self._chunks())
        for index, chunk in chunks[:-1] or chunks:
            name = self.separator.join(map(str, index)) or "0"
            zmap.write(parse_key(f"{path}/{name}"), self._encoded(chunk))

    def _chunks(self) -> Iterator[tuple[tuple[int, ...], Values]]:
        values = self.values()
        counts = [-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True)]
        for index in product(*map(range, counts)):
            box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, self.chunks, strict=True))
            piece = values[box]
            chunk = np.zeros(self.chunks, values.dtype)
            if values.dtype.hasobject:
                for place in np.ndindex(chunk.shape):
                    chunk[place] = values.flat[0]
            chunk[tuple(slice(n) for n in piece.shape)] = piece
            yield index, chunk

    def _encoded(self, chunk: Values) -> bytes:
        data: Any = np.asarray(chunk, order=self.order)  # type: ignore[call-overload]
        for codec in (*(self.filters or ()), *([self.compressor] if self.compressor else ())):
            data = numcodecs.get_codec(dict(codec)).encode(data)
        return data.tobytes(order="A") if isinstance(data, np.ndarray) else bytes(data)


def _fields(fields: list[Any]) -> list[tuple[Any, ...]]:
    return [
        (name, _fields(kind) if isinstance(kind, list) else kind, *map(tuple, shape))
        for name, kind, *shape in fields
    ]


def _objects(filters: list[dict[str, Any]], count: int) -> Values:
    found = np.empty(count, object)
    for i in range(count):
        found[i] = {
            "vlen-utf8": f"ü{i}",
            "vlen-bytes": b"\xff" * i,
            "vlen-array": np.arange(i, dtype="<i2"),
            "json2": {"i": i},
        }[filters[0]["id"]]
    return found
