"""Descriptions of Zarr v3 arrays of one chunk, for the tests of codecs."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.base import Pipeline
from nczfs.codecs.pipelines import pipeline_of
from nczfs.model.dtypes import DataType, VlenKind
from nczfs.model.hierarchy import ArrayDescription, CodecChain, CodecSpec, Json
from nczfs.model.smallnumbers import SMALL_NUMBERS, number_kind

Word = str | dict[str, Json]
"""A codec as Zarr v3 writes it."""

LITTLE: Word = {"name": "bytes", "configuration": {"endian": "little"}}
BIG: Word = {"name": "bytes", "configuration": {"endian": "big"}}


def codec(name: str, **configuration: Any) -> Word:
    """A codec with its settings."""
    return {"name": name, "configuration": configuration}


def dtype_of(name: Any) -> np.dtype[Any]:
    """The dtype of a name of numpy, or of Zarr v3 for small numbers."""
    return SMALL_NUMBERS[name] if name in [*SMALL_NUMBERS] else np.dtype(name)


def described3(
    dtype: Any,
    shape: tuple[int, ...],
    *codecs: Word,
    fill: object = 0,
    vlen: VlenKind | None = None,
) -> ArrayDescription:
    """An array of one chunk with these codecs."""
    stored = dtype_of(dtype)
    specs = [
        CodecSpec(each)
        if isinstance(each, str)
        else CodecSpec(
            str(each["name"]),
            each.get("configuration", {}),  # type: ignore[arg-type]  # whatever a test gives
            bool(each.get("must_understand", True)),
        )
        for each in codecs
    ]
    return ArrayDescription(
        shape=shape,
        chunk_shape=shape,
        dtype=DataType(stored.str, stored, vlen),
        fill_value=fill if number_kind(stored) in "biufc" else None,
        codecs=CodecChain(3, tuple(specs)),
    )


def pipeline3(
    dtype: Any,
    shape: tuple[int, ...],
    *codecs: Word,
    fill: object = 0,
    vlen: VlenKind | None = None,
    memory_bytes: int = 64 << 20,
) -> Pipeline:
    """The pipeline of such an array."""
    return pipeline_of(described3(dtype, shape, *codecs, fill=fill, vlen=vlen), memory_bytes)


def same_bits(a: Values, b: Values) -> bool:
    """Whether arrays have the same shape, type and bits."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
