"""Writing the ``.zarray`` of a Zarr v2 array."""

from __future__ import annotations

import json

from nczfs.formats.jsontext import plain
from nczfs.formats.rewriting import Encoding, OwnMembers
from nczfs.formats.zarr2.fill_write import fill_json
from nczfs.formats.zarr2.nodes import ZARRAY
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ArrayDescription, CodecSpec, Json, Variable


def array_members(
    array: ArrayDescription, where: str, *, literal_text: bool, scalar_shape: tuple[int, ...] = ()
) -> OwnMembers:
    """Return the members of a ``.zarray``, in netcdf-c's order.

    Parameters
    ----------
    where : its key, for messages.
    literal_text : whether the fill value of ``S`` types is the text itself, otherwise base64.
    scalar_shape : of an array without dimensions, ``(1,)`` for NCZarr.
    """
    shape, chunks = array.shape, array.chunk_shape
    if not shape:
        shape = chunks = scalar_shape
    codecs = [_codec(codec) for codec in array.codecs.codecs]
    compressor = codecs.pop() if array.codecs.compressed and codecs else None
    members = OwnMembers(
        zarr_format=2,
        shape=list(shape),
        dtype=_dtype(array.dtype),
        chunks=list(chunks),
        fill_value=fill_json(array.fill_value, array.dtype, where, literal_text=literal_text),
        order=array.codecs.order,
        compressor=compressor,
        filters=list(codecs) or None,
    )
    if array.chunk_keys.separator != ".":
        members["dimension_separator"] = array.chunk_keys.separator
    return members


def forget_fill(current: Encoding, existing: Variable, wanted: Variable) -> None:
    """Force the fill value to be written again if `_FillValue` was added or removed.

    The stored text then reads as another number: netcdf-c's printed default means the exact one
    only without the attribute.
    """
    if _has_fill(existing) != _has_fill(wanted):
        current[ZARRAY].pop("fill_value", None)


def _has_fill(variable: Variable) -> bool:
    return any(attribute.name == "_FillValue" for attribute in variable.attributes)


def _dtype(dtype: DataType) -> Json:
    fields: Json = json.loads(dtype.typestr) if dtype.typestr.startswith("[") else dtype.typestr
    return fields


def _codec(codec: CodecSpec) -> Json:
    return {"id": codec.name, **{name: plain(v) for name, v in codec.configuration.items()}}
