"""The codecs of a new Zarr v2 array: the choice of the compressor, and omitted settings."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import CodecChain, CodecSpec, Json

_COMPRESSORS = frozenset({"zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4"})

# The members of a filter that give the type of its input.
_INPUT_TYPES = {
    "delta": "dtype",
    "fixedscaleoffset": "dtype",
    "quantize": "dtype",
    "astype": "decode_dtype",
}
_OUTPUT_TYPES = ("astype", "encode_dtype")


def chain_of(
    codecs: Sequence[CodecSpec],
    dtype: DataType,
    *,
    order: str = "C",
    last_is_compressor: bool = False,
) -> CodecChain:
    """Return the codec chain of a new array.

    Parameters
    ----------
    codecs : the requested codecs in encoding order, beginning with the object codec of a
        variable-length type (`StoredType.filters`).
    dtype : of the array. It completes the codecs that need it: the element size of shuffle, the
        input type of delta and similar filters.
    last_is_compressor : whether the last codec counts as the compressor, as in netcdf-c.
        Otherwise only a compressor does.
    """
    completed: list[CodecSpec] = []
    stored = dtype.stored
    item_size = dtype.item_size
    for codec in codecs:
        known: dict[str, Json] = dict(codec.configuration)
        if (member := _INPUT_TYPES.get(codec.name)) is not None:
            known.setdefault(member, stored.str)
        if codec.name == "shuffle" and known.get("elementsize") in (None, 0):
            known["elementsize"] = max(1, item_size)
        stored = _output_of(codec.name, known, stored)
        item_size = stored.itemsize if dtype.vlen is None else 0
        completed.append(CodecSpec(codec.name, MappingProxyType(known)))
    compressed = bool(codecs) and (last_is_compressor or codecs[-1].name in _COMPRESSORS)
    return CodecChain(2, tuple(completed), order, compressed)


def _output_of(name: str, known: dict[str, Json], stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the output type of a filter; the codecs refuse a wrong one."""
    if name not in _INPUT_TYPES:
        return stored
    text = next((known[member] for member in _OUTPUT_TYPES if member in known), None)
    try:
        return np.dtype(text) if isinstance(text, str) else stored
    except TypeError:
        return stored
