"""The registry of codecs: from the names in metadata to the pipeline of an array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib.metadata import EntryPoint, entry_points
from math import prod
from typing import Any, cast

# Of two threads that import the package and a module of it at the same time, one would get a module
# that is not complete (CPython, "concurrent circular import"). So the package comes first.
import numcodecs  # noqa: F401
import numpy as np
from numcodecs.errors import UnknownCodecError
from numcodecs.registry import get_codec

from nczfs.codecs import objects
from nczfs.codecs.arrayfilters import NumcodecsCodec
from nczfs.codecs.base import Pipeline
from nczfs.codecs.codec import Codec, CodecSettings, Flat, Order, Size, from_buffer
from nczfs.codecs.flatcodecs import FLAT_CODECS
from nczfs.codecs.pcodecs import REMEDIES, FlatPCodec
from nczfs.codecs.v2 import V2Pipeline
from nczfs.codecs.v3 import V3Pipeline
from nczfs.codecs.v3chain import is_known
from nczfs.errors import UnknownCodec
from nczfs.messages import reason, shown
from nczfs.model.hierarchy import ArrayDescription, CodecSpec, Json

ENTRY_POINT_GROUP = "nczfs.codec"

CodecFactory = Callable[[Mapping[str, Json], ArrayDescription], Codec]
"""A function that an entry point names: from configuration and array to codec."""

_VLEN: dict[str, Callable[[CodecSettings, int], Codec]] = {
    "vlen-array": objects.VLenNativeArray,
    "vlen-bytes": objects.vlen_bytes,
    "vlen-utf8": objects.vlen_utf8,
}
_LISTED: dict[str, Callable[[CodecSettings, Order, int], Codec]] = {
    "json2": objects.Json2,
    "msgpack2": objects.MsgPack2,
}
_REFUSED = {"pickle": "unpickling runs whatever code the data contain"}

_OBJECT_CODECS = _VLEN.keys() | _LISTED.keys()


def pipeline_of(array: ArrayDescription, memory_bytes: int) -> Pipeline:
    """Return the pipeline of an array; see `nczfs.codecs.pipelines.pipeline_of`."""
    chain = array.codecs
    if chain.zarr_format not in (2, 3):
        raise UnknownCodec(f"codec chains of Zarr v{chain.zarr_format} are not supported")
    if array.dtype.stored.itemsize == 0:
        raise UnknownCodec(f"elements of type {shown(array.dtype.typestr)} have no bytes to encode")
    if chain.zarr_format == 3:
        if array.dtype.vlen is not None:
            objects.check_count(prod(array.chunk_shape), array.dtype.vlen, memory_bytes)
        installed = {name: partial(_of_package, array=array) for name in _installed()}
        return V3Pipeline(array, memory_bytes, installed)
    _check_objects(array, memory_bytes)
    codecs = [(spec.name, _codec(spec, array, memory_bytes)) for spec in chain.codecs]
    return V2Pipeline(array, codecs)


def why_unknown(names: Iterable[str]) -> str | None:
    """Return why nothing can be written, if one of some codecs of Zarr v3 is not known."""
    for name in names:
        if not is_known(name, _installed()):
            return f"codec {shown(name)} is not known, and without it nothing can be written"
    return None


def is_of_numcodecs(name: str) -> bool:
    """Return whether nczfs implements a codec of numcodecs itself."""
    return name in FLAT_CODECS or name in _OBJECT_CODECS


def _check_objects(array: ArrayDescription, memory_bytes: int) -> None:
    names = [spec.name for spec in array.codecs.codecs]
    if array.dtype.vlen is None:
        misplaced = _OBJECT_CODECS.intersection(names)
    else:
        objects.check_count(prod(array.chunk_shape), array.dtype.vlen, memory_bytes)
        misplaced = _OBJECT_CODECS.intersection(names[1:])
        byte_codecs = FLAT_CODECS.keys() - {"categorize"}
        if not names or names[0] in byte_codecs:
            raise UnknownCodec("elements of variable length need an object codec as first filter")
    if misplaced:
        raise UnknownCodec(
            f"codec {min(misplaced)!r}: it can only be the first filter of elements of variable "
            "length"
        )


def _codec(spec: CodecSpec, array: ArrayDescription, memory_bytes: int) -> Codec:
    if spec.name in _REFUSED:
        raise UnknownCodec(f"codec {shown(spec.name)} is not allowed: {_REFUSED[spec.name]}")
    settings = CodecSettings(spec.name, spec.configuration)
    if spec.name in FLAT_CODECS:
        return FLAT_CODECS[spec.name](settings)
    if spec.name in _VLEN:
        return _VLEN[spec.name](settings, memory_bytes)
    if spec.name in _LISTED:
        order: Order = "F" if array.codecs.order == "F" else "C"
        return _LISTED[spec.name](settings, order, memory_bytes)
    try:
        if spec.name in _installed():
            return _of_package(spec, array)
        if spec.name == "pcodec":
            return FlatPCodec(settings)
        return Foreign(get_codec({**spec.configuration, "id": spec.name}))
    except UnknownCodecError as error:
        remedy = f": {REMEDIES[spec.name]}" if spec.name in REMEDIES else ""
        raise UnknownCodec(f"codec {shown(spec.name)} is not installed{remedy}") from error
    except UnknownCodec:
        raise
    except Exception as error:
        raise settings.refused(f"it cannot be created: {reason(error)}") from error


def _of_package(spec: CodecSpec, array: ArrayDescription) -> Codec:
    return cast(CodecFactory, _installed()[spec.name].load())(spec.configuration, array)


@cache
def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


class Foreign(Codec):
    """A codec that only numcodecs knows (zfpy, those of other packages).

    It may allocate any memory; its output is checked afterwards.
    """

    def __init__(self, inner: NumcodecsCodec) -> None:
        self._inner = inner

    def encoded_size(self, size: Size) -> Size:
        return size.compressed()

    def decode(self, data: Flat, size: Size) -> Flat:
        return _flat(self._inner.decode(data))

    def encode(self, data: Flat) -> Flat:
        return _flat(self._inner.encode(data))


def _flat(result: Any) -> Flat:
    if isinstance(result, np.ndarray):
        return np.ascontiguousarray(result).reshape(-1)
    return from_buffer(result)
