"""Arrays without codecs as a store has them, read without the code under test."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np

from nczfs.errors import NoSuchObject
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key


def raw_array(zmap: ZMap, path: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The elements of an array of Zarr version 2 that has neither filters nor a compressor."""
    described = json.loads(bytes(zmap.read(Key(f"{path}/.zarray")).data))
    assert not described["filters"]
    assert described["compressor"] is None
    assert described["order"] == "C"
    shape, chunks, dtype = described["shape"], described["chunks"], np.dtype(described["dtype"])
    separator = described.get("dimension_separator", ".")
    grid = [-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]
    whole = np.full(np.multiply(grid, chunks), described["fill_value"], dtype)
    for index in itertools.product(*map(range, grid)):
        key = Key(f"{path}/{separator.join(map(str, index))}")
        try:
            data = zmap.read(key).data
        except NoSuchObject:
            continue
        box = tuple(slice(i * n, i * n + n) for i, n in zip(index, chunks, strict=True))
        whole[box] = np.frombuffer(data, dtype).reshape(chunks)
    return whole[tuple(slice(length) for length in shape)]
