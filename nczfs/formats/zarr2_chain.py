"""The codecs of a new Zarr v2 array: which one is the compressor, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import CodecChain, CodecSpec, Json

_COMPRESSORS = frozenset({"zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4"})

# The members of a filter that tell the type of what comes in.
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
    """The codec chain of a new array.

    Parameters
    ----------
    codecs : in encoding order, as somebody asked for them; the object codec of a variable-length
        type (`StoredType.filters`) among them, in front.
    dtype : of the array. It completes the codecs that have to know it: the element size of shuffle,
        the type that delta and its kin start from.
    last_is_compressor : netcdf-c takes the last codec for the compressor, whatever it is
        (`MetadataFormat.last_is_compressor`). Else only what compresses is one.
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
    """The type of the elements behind a filter; a wrong one is refused by the codecs."""
    if name not in _INPUT_TYPES:
        return stored
    text = next((known[member] for member in _OUTPUT_TYPES if member in known), None)
    try:
        return np.dtype(text) if isinstance(text, str) else stored
    except TypeError:
        return stored
