"""A dataset of Zarr v3 with arrays of every kind, which other programs write."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tensorstore
import zarr
from zarr.codecs import BytesCodec, ShardingCodec, TransposeCodec, ZstdCodec

from tests.interop.netcdf_programs.field import field_dataset, shard_field
from tests.support.sample import Values

KINDS = "kinds"
"""The group of the arrays of `ARRAYS`."""


def _waves(*shape: int) -> Values:
    return np.sin(np.arange(np.prod(shape))).reshape(shape).astype("f4")


def _with_hole() -> Values:
    values = _waves(7, 10)
    values[2:4, 5:] = values[4:] = np.nan
    return values


NUMBERS = np.arange(-35, 35).reshape(7, 10)
EDGES = (1, 2, 4)
"""The lengths of the chunks of "uneven" along its first dimension."""

ARRAYS: Mapping[str, Values] = {
    "plain": _waves(7, 10),
    "sharded": _with_hole(),
    "nested": _waves(8, 12),
    "turned": _waves(4, 6, 8),
    "big": NUMBERS.astype("i2"),
    "scalar": np.array(2.5),
    "mask": NUMBERS > 0,
    "words": np.array([f"{chr(0xF8) * (n % 4)} {n}" for n in range(10)], object),
    "cells": np.array(["ab", "\u00f8\u65e5", "", "xyz"], "U3"),
    "bfloat16": _waves(7, 10).astype(ml_dtypes.bfloat16),
    "float8": (NUMBERS / 4).astype(ml_dtypes.float8_e4m3fn),
    "int4": (NUMBERS % 16 - 8).astype(ml_dtypes.int4),
    "uneven": NUMBERS.astype("i4"),
}

OF_TENSORSTORE = ("bfloat16", "float8", "int4")
NOT_OF_ZARR_PYTHON = (*OF_TENSORSTORE, "uneven")


def write_zarr3_sample(directory: Path) -> None:
    """Write a field in shards, with an unlimited dimension, and the arrays in a group.

    xarray writes the field, tensorstore the numbers of `ml_dtypes`, zarr-python all other arrays
    but "uneven", which neither of them can write.
    """
    dataset = field_dataset()
    shard_field(dataset)
    dataset.to_zarr(directory, zarr_format=3, consolidated=False)
    group = zarr.open_group(directory, mode="a").create_group(KINDS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the specification does not have its strings
        _write_with_zarr_python(group)
    for name in OF_TENSORSTORE:
        _write_with_tensorstore(directory / KINDS / name, ARRAYS[name])
    _write_uneven(directory / KINDS / "uneven", ARRAYS["uneven"])
    _consolidate(directory)


def _consolidate(directory: Path) -> None:
    """Do what zarr-python does, which refuses to where it does not know the type of an array."""
    root, *others = sorted(directory.rglob("zarr.json"), key=lambda path: len(path.parts))
    documents = {
        path.parent.relative_to(directory).as_posix(): json.loads(path.read_text())
        for path in others
    }
    consolidated = {"kind": "inline", "must_understand": False, "metadata": documents}
    document = json.loads(root.read_text()) | {"consolidated_metadata": consolidated}
    root.write_text(json.dumps(document))


def _write_with_zarr_python(group: zarr.Group) -> None:
    inner = ShardingCodec(chunk_shape=(2, 3), codecs=[BytesCodec(), ZstdCodec()])
    forms: dict[str, dict[str, Any]] = {
        "plain": {"chunks": (2, 5)},
        "sharded": {"chunks": (2, 5), "shards": (4, 10), "fill_value": np.nan},
        "nested": {
            "chunks": (4, 12),
            "serializer": ShardingCodec(chunk_shape=(4, 6), codecs=[inner]),
            "compressors": None,
        },
        "turned": {
            "chunks": (2, 3, 4),
            "shards": (4, 6, 4),
            "filters": [TransposeCodec(order=(2, 0, 1))],
        },
        "big": {"chunks": (3, 4), "serializer": BytesCodec(endian="big")},
        "scalar": {},
        "mask": {"chunks": (4, 4)},
        "words": {"chunks": (2,), "shards": (4,), "dtype": str},
        "cells": {"chunks": (3,)},
    }
    for name, form in forms.items():
        values = ARRAYS[name]
        made = group.create_array(
            name,
            shape=values.shape,
            dimension_names=[f"{name}{axis}" for axis in range(values.ndim)],
            **{"dtype": values.dtype} | form,
        )
        if name == "sharded":
            made[:2], made[2:4, :5] = values[:2], values[2:4, :5]
        else:
            made[...] = values


def _write_with_tensorstore(path: Path, values: Values) -> None:
    bytes_codec = {"name": "bytes", "configuration": {"endian": "little"}}
    inner = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2, 5]}}
    inner["configuration"] |= {  # type: ignore[operator]
        "codecs": [bytes_codec, {"name": "zstd", "configuration": {"level": 1}}],
        "index_codecs": [bytes_codec, {"name": "crc32c"}],
        "index_location": "start",
    }
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 10]}}
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(path)},
        "metadata": {"data_type": values.dtype.name, "chunk_grid": grid, "codecs": [inner]},
    }
    made = tensorstore.open(spec, shape=values.shape, create=True).result()
    made[...] = values


def _write_uneven(path: Path, values: Values) -> None:
    shapes = [list(EDGES), 5]
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": values.shape,
        "data_type": "int32",
        "chunk_grid": {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": shapes},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
        "attributes": {},
    }
    path.mkdir()
    (path / "zarr.json").write_text(json.dumps(document))
    for row, rows in enumerate(np.split(values, np.cumsum(EDGES)[:-1])):
        for column, chunk in enumerate(np.split(rows, 2, axis=1)):
            place = path / f"c/{row}/{column}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(chunk.tobytes())
