"""Descriptions of arrays of one chunk, for the tests of codecs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from nczfs.codecs.base import Pipeline
from nczfs.codecs.pipelines import pipeline_of
from nczfs.model.dtypes import DataType, VlenKind
from nczfs.model.hierarchy import ArrayDescription, CodecChain, CodecSpec, Json

CodecObject = dict[str, Json]


def described(
    dtype: Any,
    shape: tuple[int, ...],
    *codecs: CodecObject,
    order: Literal["C", "F"] = "C",
    vlen: VlenKind | None = None,
) -> ArrayDescription:
    """An array of one chunk with these codecs, given as Zarr v2 writes them."""
    stored = np.dtype(dtype)
    specs = tuple(
        CodecSpec(str(codec["id"]), {key: value for key, value in codec.items() if key != "id"})
        for codec in codecs
    )
    return ArrayDescription(
        shape=shape,
        chunk_shape=shape,
        dtype=DataType(stored.str, stored, vlen),
        fill_value=None,
        codecs=CodecChain(2, specs, order),
    )


def pipeline(
    dtype: Any,
    shape: tuple[int, ...],
    *codecs: CodecObject,
    order: Literal["C", "F"] = "C",
    vlen: VlenKind | None = None,
    memory_bytes: int = 64 << 20,
) -> Pipeline:
    """The pipeline of such an array."""
    return pipeline_of(described(dtype, shape, *codecs, order=order, vlen=vlen), memory_bytes)
