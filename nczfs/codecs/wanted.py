"""Codecs for a new array, which are checked more strictly than stored ones.

Stored arrays are read leniently. New ones must suit other programs, too: zarr-python fails on a
setting that numcodecs does not know, and netcdf-c on a level out of range.
"""

from __future__ import annotations

from dataclasses import replace

import numcodecs  # noqa: F401 - before its modules; see registry.py
import numpy as np
from numcodecs.registry import get_codec

from nczfs.codecs.base import MEMORY_BYTES
from nczfs.codecs.fillelement import fill_element
from nczfs.codecs.registry import is_of_numcodecs, pipeline_of
from nczfs.errors import CodecError, UnknownCodec
from nczfs.messages import reason, shown
from nczfs.model.hierarchy import ArrayDescription, CodecSpec

_PREFIX = "numcodecs."  # of its codecs in Zarr v3
_OF_A_SHAPE = frozenset({"reshape", "sharding_indexed"})  # codecs that not every shape suits

# They encode any bytes, so a few bytes show whether the settings are in their ranges.
_COMPRESSORS = frozenset({"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"})
# Where that shows nothing: numcodecs clamps the level of zstd, and Blosc prints what it refuses.
_RANGES = {
    "blosc": ("clevel", range(10)),
    "gzip": ("level", range(10)),
    "shuffle": ("elementsize", range(1, 1 << 31)),
    "zstd": ("level", range(-(1 << 17), 23)),  # ZSTD_minCLevel to ZSTD_maxCLevel
}


def check_codecs(array: ArrayDescription) -> None:
    """Refuse codecs with which the elements of an array could not be stored and read again.

    They are tried with zero, and with the fill value if zero is no number that they store.

    Raises
    ------
    UnknownCodec : a codec is not installed, or its settings are invalid. The message names it.
    CodecError : the codecs cannot encode or cannot decode such elements.
    """
    shape = _trial_shape(array)
    pipeline = pipeline_of(replace(array, shape=shape, chunk_shape=shape, shards=()), MEMORY_BYTES)
    for spec in array.codecs.codecs:
        name = spec.name
        if array.codecs.zarr_format == 3:
            _check_range(spec)
            name = name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""
        if is_of_numcodecs(name):
            _check_settings(replace(spec, name=name))
    zero, fill = fill_element(replace(array, fill_value=None)), fill_element(array)
    try:
        pipeline.decode(pipeline.encode(np.broadcast_to(zero, shape)))
    except CodecError:
        if array.fill_value is None:
            raise
        pipeline.decode(pipeline.encode(np.broadcast_to(fill, shape)))


def _trial_shape(array: ArrayDescription) -> tuple[int, ...]:
    """Return the smallest shape of a chunk that the codecs can be tried with."""
    if array.codecs.zarr_format == 2:
        return ()
    if any(spec.name in _OF_A_SHAPE for spec in array.codecs.codecs):
        return array.chunk_shape
    return (1,) * len(array.chunk_shape)


def _check_range(spec: CodecSpec) -> None:
    name, possible = _RANGES.get(spec.name, ("", range(0)))
    value = spec.configuration.get(name)
    if value is not None and value not in possible:
        raise UnknownCodec(
            f"codec {spec.name!r}: {name} is {shown(value)}, not {possible[0]} to {possible[-1]}"
        )


def _check_settings(spec: CodecSpec) -> None:
    _check_range(spec)
    try:
        codec = get_codec({**spec.configuration, "id": spec.name})
        if spec.name in _COMPRESSORS:
            codec.encode(np.zeros(64, np.uint8))
    except MemoryError:
        raise
    except Exception as error:
        raise UnknownCodec(
            f"codec {shown(spec.name)}: its settings are refused: {reason(error)}"
        ) from error
