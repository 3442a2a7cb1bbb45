"""Reading an array of Zarr v2 from its JSON."""

from __future__ import annotations

import re

import numpy as np

from nczfs.errors import BadMetadata
from nczfs.formats.elementtypes import data_type
from nczfs.formats.zom.checking import (
    Corrections,
    at,
    json_at,
    lengths_at,
    object_at,
    required,
    wrong,
)
from nczfs.formats.zom.nodes import ArrayV2
from nczfs.formats.zom.pointers import below
from nczfs.messages import shown
from nczfs.model.hierarchy import CodecSpec, Json

CODECS_MAX = 64
MEMBERS = (
    "shape",
    "chunks",
    "filters",
    "dtype",
    "order",
    "dimension_separator",
    "compressor",
    "fill_value",
)
"""What `array_v2` reads."""

_SINGLE_BYTES = re.compile(r"[<>]([biu]1)\Z")
_NAMES = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")


def array_v2(members: dict[str, Json], pointer: str, corrections: Corrections) -> ArrayV2:
    """Return an array of Zarr v2.

    Parameters
    ----------
    members : of its JSON, without its version and attributes; what is read is taken out of it.

    Raises
    ------
    BadMetadata : as `loads`.
    """

    def place(name: str) -> str:
        return below(pointer, name)

    shape = lengths_at(required(members, "shape", pointer), place("shape"))
    chunks = _chunks(required(members, "chunks", pointer), shape, place("chunks"))
    filters = _filters(members.pop("filters", None), place("filters"), corrections)
    dtype = _dtype(required(members, "dtype", pointer), filters, place("dtype"), corrections)
    order = members.pop("order", "C")
    if order not in ("C", "F"):
        raise wrong(place("order"), f"{shown(order)} is neither 'C' nor 'F'")
    separator = members.pop("dimension_separator", None)
    if separator not in (None, ".", "/"):
        raise wrong(place("dimension_separator"), f"{shown(separator)} is neither '.' nor '/'")
    compressor = members.pop("compressor", None)
    if compressor == {}:
        corrections.note(place("compressor"), "{} is no codec; there is none")
        compressor = None
    return ArrayV2(
        shape,
        chunks,
        dtype,
        json_at(members.pop("fill_value", None), place("fill_value")),
        str(order),
        None if compressor is None else _codec(compressor, place("compressor")),
        filters or None,
        str(separator or "."),
    )


def _chunks(value: Json, shape: tuple[int, ...], pointer: str) -> tuple[int, ...]:
    chunks = lengths_at(value, pointer)
    if len(chunks) != len(shape):
        raise wrong(pointer, f"has {len(chunks)} dimensions and shape has {len(shape)}")
    for length, chunk in zip(shape, chunks, strict=True):
        if chunk == 0 and length != 0:
            raise wrong(pointer, f"length 0 in a dimension of length {length}")
    return chunks


def _filters(
    value: Json, pointer: str, corrections: Corrections
) -> tuple[dict[str, Json], ...] | None:
    if value == {}:
        corrections.note(pointer, "{} is not a list of codecs; there are none")
        return None
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise wrong(pointer, f"{shown(value)} is not a list of codecs")
    if len(value) > CODECS_MAX:
        raise wrong(pointer, f"{len(value)} codecs (max {CODECS_MAX})")
    return tuple(_codec(each, f"{pointer}/{i}") for i, each in enumerate(value))


def _codec(value: Json, pointer: str) -> dict[str, Json]:
    members = object_at(value, pointer)
    if not isinstance(members.get("id"), str):
        raise wrong(pointer, f"{shown(value)} is not a codec with an id")
    return {name: json_at(item, below(pointer, name)) for name, item in members.items()}


def _dtype(
    value: Json,
    filters: tuple[dict[str, Json], ...] | None,
    pointer: str,
    corrections: Corrections,
) -> Json:
    found = json_at(value, pointer)
    if isinstance(found, str):
        if _NAMES.fullmatch(found):
            corrections.note(pointer, f"{shown(found)} is no type string of Zarr v2")
            found = np.dtype(found).newbyteorder("<").str
        elif (single := _SINGLE_BYTES.match(found)) is not None:
            found = f"|{single[1]}"
    codecs = [CodecSpec(str(each["id"]), each) for each in filters or ()]
    with at(pointer):
        try:
            data_type(found, tuple(codecs), pointer)
        except BadMetadata as error:
            text = str(error).removeprefix(f"{pointer}: ").removeprefix("dtype ")
            raise BadMetadata(f"{pointer}: {text.removeprefix('dtype: ')}") from error
    return found
