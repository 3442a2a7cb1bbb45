"""Codecs for a new array, which are checked more strictly than stored ones.

Stored arrays are read leniently. New ones must suit other programs, too: zarr-python fails on a
setting that numcodecs does not know, and netcdf-c on a level out of range.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numcodecs.registry import get_codec

from nczfs.codecs.base import Values
from nczfs.codecs.registry import is_of_numcodecs, pipeline_of
from nczfs.errors import UnknownCodec
from nczfs.messages import reason, shown
from nczfs.model.hierarchy import ArrayDescription, CodecSpec

# They encode any bytes, so a few bytes show whether the settings are in their ranges.
_COMPRESSORS = frozenset({"blosc", "bz2", "gzip", "lz4", "lzma", "zlib", "zstd"})
# Where that shows nothing: numcodecs clamps the level of zstd, and Blosc prints what it refuses.
_RANGES = {
    "blosc": ("clevel", range(10)),
    "shuffle": ("elementsize", range(1, 1 << 31)),
    "zstd": ("level", range(-(1 << 17), 23)),  # ZSTD_minCLevel to ZSTD_maxCLevel
}


def check_codecs(array: ArrayDescription, element: Values) -> None:
    """Refuse codecs with which the elements of an array could not be stored and read again.

    Parameters
    ----------
    element : any element, of rank 0.

    Raises
    ------
    UnknownCodec : a codec is not installed, or its settings are invalid. The message names it.
    CodecError : the codecs cannot encode or cannot decode such elements.
    """
    pipeline = pipeline_of(replace(array, shape=(), chunk_shape=()))
    for spec in array.codecs.codecs:
        if is_of_numcodecs(spec.name):
            _check_settings(spec)
    pipeline.decode(pipeline.encode(element))


def _check_settings(spec: CodecSpec) -> None:
    name, possible = _RANGES.get(spec.name, ("", range(0)))
    value = spec.configuration.get(name)
    if value is not None and value not in possible:
        raise UnknownCodec(
            f"codec {spec.name!r}: {name} is {shown(value)}, not {possible[0]} to {possible[-1]}"
        )
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
