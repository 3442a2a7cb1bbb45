"""Nodes of Zarr v2 in the words of Zarr v3: the same chunks at the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from nczfs.errors import Unsupported
from nczfs.formats.attributes import UNLIMITED, is_hidden
from nczfs.formats.base import Node
from nczfs.formats.jsonwrite import strict
from nczfs.formats.zarr2.nodes import ARRAY_DIMENSIONS
from nczfs.formats.zarr3.attributes import FILL_VALUE, attribute_members
from nczfs.formats.zarr3.nodes import ATTRIBUTES
from nczfs.formats.zarr3.stored import (
    ARRAY_TO_ARRAY,
    ARRAY_TO_BYTES,
    BYTES_TO_BYTES,
    bytes_codec,
    codec_of_v2,
)
from nczfs.formats.zarr3.types import data_type_json
from nczfs.formats.zarr3.write import array_members
from nczfs.messages import shown
from nczfs.model.dtypes import VlenKind
from nczfs.model.hierarchy import ArrayDescription, CodecChain, CodecSpec, Json, Variable

_OBJECT_CODECS = {VlenKind.TEXT: "vlen-utf8", VlenKind.BYTES: "vlen-bytes"}
_LEVELS = {"gzip": range(10), "zstd": range(-131072, 23)}


def array_of_v2(array: ArrayDescription, where: str) -> ArrayDescription:
    """Return the description of a Zarr v2 array in Zarr v3, whose chunks are the same objects.

    An undefined fill value becomes the zero of the type, as which it is read.

    Parameters
    ----------
    where : the key of its document, for messages.

    Raises
    ------
    Unsupported : Zarr v3 cannot say it. The message names the member, and the pointer leads to it.

    Notes
    -----
    As zarr-python's ``zarr migrate v3``, which refuses more: filters of bytes behind the codec
    ``bytes``, Blosc's automatic shuffle, an undefined fill value, and variable-length elements can
    be said, too. Structured types of several byte orders cannot, as v3 has one for all fields.
    """
    stored = array.dtype.stored
    if array.dtype.vlen is None and not _has_one_order(stored):
        raise Unsupported(
            f"{where}: dtype: its fields differ in byte order, which Zarr v3 cannot say", "/dtype"
        )
    if array.dtype.vlen is not None and array.dtype.vlen not in _OBJECT_CODECS:
        kind = array.dtype.vlen.value
        raise Unsupported(f"{where}: dtype: Zarr v3 has no type for {kind}", "/dtype")
    try:
        data_type_json(array.dtype, f"{where}: dtype")
    except Unsupported as error:
        raise Unsupported(str(error), "/dtype") from error
    return ArrayDescription(
        array.shape,
        array.chunk_shape,
        array.dtype,
        array.fill_value,
        CodecChain(3, tuple(_codecs(array, where))),
        array.chunk_keys,
    )


def document_of_v2(node: Node, stored: Mapping[str, Json] | None, where: str) -> bytes:
    """Return the ``zarr.json`` of a node that was read from documents of Zarr v2.

    The names of dimensions go from the attributes to ``dimension_names``, where readers understand
    them.

    Parameters
    ----------
    stored : the attributes in their document, with their spelling; None: those of the node are
        written, because what is stored means something else without the types beside it.
    where : the key of its document, for messages.

    Raises
    ------
    Unsupported : Zarr v3 cannot say it.
    """
    attributes: dict[str, Json] = dict(attribute_members(node))
    if isinstance(node, Variable):
        array = array_of_v2(node.array, where)
        members = dict(array_members(array, node.dimensions, where))
        has_names = not all(dimension.anonymous for dimension in node.dimensions)
    else:
        members = {"zarr_format": 3, "node_type": "group"}
        has_names = True
    if stored is not None:
        exact = {FILL_VALUE, UNLIMITED}
        attributes = {name: v for name, v in attributes.items() if name in exact} | {
            name: value
            for name, value in stored.items()
            if not (name in exact and name in attributes)
            and (not is_hidden(name) or (name == ARRAY_DIMENSIONS and not has_names))
        }
    if attributes:
        members[ATTRIBUTES] = attributes
    return strict(members).encode("utf-8", "surrogateescape")


def _codecs(array: ArrayDescription, where: str) -> list[CodecSpec]:
    chain = array.codecs
    found: list[CodecSpec] = []
    if chain.order == "F" and len(array.shape) > 1:
        axes: list[Json] = list(reversed(range(len(array.shape))))
        found.append(CodecSpec("transpose", MappingProxyType({"order": axes})))
    dtype = array.dtype.stored
    has_bytes = False
    for number, codec in enumerate(chain.codecs):
        is_last = chain.compressed and number == len(chain.codecs) - 1
        member = f"{where}: {'compressor' if is_last else f'filters[{number}]'}"
        pointer = "/compressor" if is_last else f"/filters/{number}"
        new = _renamed(codec, array)
        if array.dtype.vlen is not None and not number:
            if new.name != _OBJECT_CODECS[array.dtype.vlen]:
                raise Unsupported(f"{member}: Zarr v3 has no codec {shown(codec.name)}", pointer)
            has_bytes = True
        elif new.name in ARRAY_TO_ARRAY or new.name in ARRAY_TO_BYTES:
            if has_bytes:
                raise Unsupported(
                    f"{member}: {shown(codec.name)} follows a codec of bytes; in Zarr v3 it cannot",
                    pointer,
                )
            has_bytes = new.name in ARRAY_TO_BYTES
            dtype = _type_behind(codec, dtype, member)
        elif new.name in BYTES_TO_BYTES:
            if not has_bytes:
                found.append(bytes_codec(dtype))
                has_bytes = True
        else:
            raise Unsupported(f"{member}: Zarr v3 has no codec {shown(codec.name)}", pointer)
        found.append(new)
    if not has_bytes:
        found.append(bytes_codec(dtype))
    return found


def _renamed(codec: CodecSpec, array: ArrayDescription) -> CodecSpec:
    """Return a codec by its name in Zarr v3, or by that of numcodecs if only that fits."""
    configuration = codec.configuration
    levels = _LEVELS.get(codec.name)
    if levels is not None and configuration.get("level", 0) not in levels:
        return CodecSpec(f"numcodecs.{codec.name}", configuration)
    if codec.name == "crc32c" and configuration.get("location", "end") == "end":
        return CodecSpec("crc32c")
    return codec_of_v2(codec, array.dtype)


def _type_behind(codec: CodecSpec, dtype: np.dtype[Any], member: str) -> np.dtype[Any]:
    """Return the type of the elements that a filter gives."""
    configuration = codec.configuration
    if codec.name == "packbits":
        return np.dtype("u1")
    given = configuration.get("encode_dtype" if codec.name == "astype" else "astype")
    given = configuration.get("dtype") if given is None else given
    if given is None:
        return dtype
    try:
        return np.dtype(str(given))
    except TypeError as error:
        raise Unsupported(f"{member}: {shown(given)} is not a type") from error


def _has_one_order(dtype: np.dtype[Any]) -> bool:
    return dtype in (dtype.newbyteorder("<"), dtype.newbyteorder(">"))
