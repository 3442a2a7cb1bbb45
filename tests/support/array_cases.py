"""Arrays of every kind: types, fill values, codecs, shapes and orders."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from tests.support.arrays import RECORD, Array

TYPES: dict[str, list[Any]] = {
    "|b1": [None, True],
    "|i1": [None, -3],
    "|u1": [0, 255],
    ">i2": [None, -300],
    "<u4": [0, 2**32 - 1],
    "<i8": [None, -(2**63)],
    ">u8": [2**64 - 1],
    "<f2": ["NaN", 0.5],
    "<f4": [None, "NaN", "-Infinity", 0.1, 9.96921e36],
    ">f8": [0, 0.1, -0.0],
    "<c8": [None, ["NaN", 0.5]],
    ">c16": [[1.5, "Infinity"]],
    "|S1": [None, "eA=="],
    "|S5": [None, "AAAAAAA=", "6XgAAAA="],
    "<U3": [None, "", "zé"],
    ">U1": ["é"],
    "<M8[ns]": [None, "NaT", 981173106000000000],
    ">m8[D]": ["NaT", -7],
    "|V6": [None, "YWJj/wAA"],
}
OBJECTS: dict[str, list[Any]] = {
    "vlen-utf8": [None, 0, "", "ü"],
    "vlen-bytes": [None, 0, "", "/w=="],
    "vlen-array": [None, 0, "", []],
    "json2": [None, 0, False, "", "x", {"a": 1}],
}
CODECS: dict[str, tuple[list[dict[str, Any]] | None, dict[str, Any] | None]] = {
    "none": (None, None),
    "zlib": (None, {"id": "zlib", "level": 9}),
    "blosc": (
        None,
        {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2, "blocksize": 4096},
    ),
    "shuffle and zstd": ([{"id": "shuffle", "elementsize": 4}], {"id": "zstd", "level": 1}),
    "delta": ([{"id": "delta", "dtype": "<f4", "astype": "<f4"}], {"id": "bz2", "level": 1}),
    "packed": (
        [{"id": "fixedscaleoffset", "scale": 10, "offset": 1, "dtype": "<f4", "astype": "<i2"}],
        None,
    ),
    "a checksum": ([{"id": "crc32"}], None),
    "a compressor among the filters": (
        [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 1}],
        None,
    ),
    "a checksum behind": ([{"id": "zlib", "level": 1}, {"id": "adler32"}], None),
    "lzma": (
        None,
        {
            "id": "lzma",
            "format": 1,
            "check": -1,
            "preset": None,
            "filters": [{"id": 33, "preset": 1}],
        },
    ),
}
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "a scalar": ((), ()),
    "no elements": ((0,), (4,)),
    "an empty row": ((3, 0, 2), (2, 1, 2)),
    "one chunk": ((3, 2), (3, 2)),
    "chunks beyond the edge": ((3, 2), (5, 4)),
    "edges": ((5, 7, 3), (2, 3, 2)),
    "chunks of one": ((3,), (1,)),
}


def cases() -> Iterator[tuple[str, Array]]:
    """Every dtype with every fill value; every codec and shape in both orders."""
    for dtype, fills in TYPES.items():
        for fill in fills:
            yield f"{dtype} {fill}", Array(dtype, fill)
        yield f"{dtype} F", Array(dtype, fills[0], order="F")
    record = Array(RECORD, None)
    item = np.ones((), record.numpy_dtype)
    yield "record", record
    yield "record with a fill value", replace(record, fill_value=base64_of(item.tobytes()))
    yield "record F", replace(record, order="F", separator="/")
    for codec, fills in OBJECTS.items():
        filters = [{"id": codec} | ({"dtype": "<i2"} if codec == "vlen-array" else {})]
        for fill in fills:
            yield f"{codec} {fill!r}", Array("|O", fill, filters=filters)
        yield f"{codec} F", Array("|O", fills[0], filters=filters, order="F", separator="/")
    for name, (filters_, compressor) in CODECS.items():
        for order, separator in (("C", "/"), ("F", "."), ("F", "/")):
            array = Array(filters=filters_, compressor=compressor, order=order, separator=separator)
            yield f"{name} {order} {separator}", array
    for name, (shape, chunks) in SHAPES.items():
        for order, separator in itertools.product("CF", "./"):
            array = Array("<i4", -1, shape, chunks, order, separator)
            yield f"{name} {order} {separator}", array
    yield "attributes", Array(attributes={"units": "K", "_FillValue": 0, "odd": [1, {"a": None}]})


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


CASES = dict(cases())
"""By their names."""
