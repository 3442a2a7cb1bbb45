"""Small Zarr v2 datasets, written key by key, for tests of readers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key


def put_json(zmap: ZMap, key: str, document: object) -> None:
    """Write a document."""
    zmap.write(parse_key(key), json.dumps(document).encode())


def put_group(zmap: ZMap, path: str, attributes: Mapping[str, object] | None = None) -> None:
    """Write a group."""
    base = f"{path}/" if path else ""
    put_json(zmap, f"{base}.zgroup", {"zarr_format": 2})
    if attributes is not None:
        put_json(zmap, f"{base}.zattrs", attributes)


def put_array(
    zmap: ZMap,
    path: str,
    values: np.ndarray[Any, np.dtype[Any]],
    chunks: tuple[int, ...],
    *,
    dimensions: tuple[str, ...] | None = None,
    attributes: Mapping[str, object] | None = None,
    fill_value: object = 0,
    separator: str = ".",
    skip: frozenset[tuple[int, ...]] = frozenset(),
) -> None:
    """Write an array without compression, each chunk one object.

    Parameters
    ----------
    skip : indices of chunks that are not written.
    """
    base = f"{path}/" if path else ""
    put_json(
        zmap,
        f"{base}.zarray",
        {
            "zarr_format": 2,
            "shape": list(values.shape),
            "chunks": list(chunks),
            "dtype": values.dtype.str,
            "compressor": None,
            "filters": None,
            "fill_value": fill_value,
            "order": "C",
            "dimension_separator": separator,
        },
    )
    named = {} if dimensions is None else {"_ARRAY_DIMENSIONS": list(dimensions)}
    if named or attributes:
        put_json(zmap, f"{base}.zattrs", {**(attributes or {}), **named})
    counts = [-(-n // c) for n, c in zip(values.shape, chunks, strict=True)]
    for index in product(*map(range, counts)):
        if index in skip:
            continue
        chunk = np.zeros(chunks, values.dtype)
        if fill_value:
            chunk[...] = fill_value
        box = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
        piece = values[box]
        chunk[tuple(slice(n) for n in piece.shape)] = piece
        name = separator.join(map(str, index)) or "0"
        zmap.write(parse_key(f"{base}{name}"), chunk.tobytes())
