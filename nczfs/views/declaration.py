"""An info.json that somebody writes: what variable it asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from nczfs.engine.fillvalues import FILL_VALUE, as_fill_value
from nczfs.errors import BadMetadata, BadValue
from nczfs.formats.attributes import is_hidden, untyped
from nczfs.formats.jsontext import Unfinished, parse, plain
from nczfs.model.declaration import ElementType, Fill, VariableDeclaration
from nczfs.model.dtypes import CODE_OF_NC_TYPE, DEFAULT_FILL, NC_TYPE_OF_CODE, NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Json

DECLARED = frozenset(
    {"shape", "dimensions", "dtype", "nc_type", "chunk_shape", "codecs", "fill_value", "attributes"}
)
DERIVED = frozenset({"name", "path", "format", "chunk_count", "decoded_bytes", "problems"})
"""What an info.json shows besides: it may stand there, and says nothing."""

_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_NC_TYPES = {nc_type.value: nc_type for nc_type in NcType if nc_type is not NcType.JSON}


@dataclass(frozen=True, slots=True)
class WantedDimension:
    """A dimension of the variable; it is made where nobody declares one of that name.

    Attributes
    ----------
    name : None: it has none.
    unlimited : of one that is made.
    """

    name: str | None
    size: int
    unlimited: bool = False


@dataclass(frozen=True, slots=True)
class WantedVariable:
    """A variable, and its dimensions, which the declaration does not name yet."""

    declaration: VariableDeclaration
    dimensions: tuple[WantedDimension, ...]


def wanted_variable(name: str, data: bytes) -> WantedVariable:
    """The variable that an info.json asks for: `shape` and `dtype` must be there.

    Raises
    ------
    BadValue : it is no such document. Unfinished : it is the beginning of one.
    """
    try:
        document = plain(parse(data, "info.json").value)
    except Unfinished:
        if not data.lstrip().startswith((b"{", b"\xef\xbb\xbf")) and data.strip():
            raise BadValue("info.json: is no JSON object") from None
        raise
    except BadMetadata as error:
        raise BadValue(str(error)) from None
    if not isinstance(document, dict):
        raise BadValue("info.json: is no JSON object")
    unknown = sorted(set(document) - DECLARED - DERIVED)
    if unknown:
        raise BadValue(f"info.json: {unknown[0]!r} means nothing; known: {', '.join(DECLARED)}")
    shape = _lengths(document.get("shape"), "shape")
    chunks = document.get("chunk_shape")
    element = _element(document.get("dtype"), document.get("nc_type"))
    codecs = document.get("codecs")
    declaration = VariableDeclaration(
        name,
        element.type,
        attributes=tuple(_attributes(document.get("attributes", {}), element.nc_type)),
        chunk_shape=None if chunks is None else _lengths(chunks, "chunk_shape"),
        codecs=None if codecs is None else tuple(map(_codec, _list(codecs, "codecs"))),
        fill_value=_fill(document, element.nc_type),
        byte_order=element.byte_order,
        string_bytes=element.string_bytes,
    )
    return WantedVariable(declaration, tuple(_dimensions(document.get("dimensions"), shape)))


@dataclass(frozen=True, slots=True)
class _Element:
    type: ElementType
    byte_order: str | None = None
    string_bytes: int | None = None

    @property
    def nc_type(self) -> NcType | None:
        if isinstance(self.type, NcType):
            return self.type
        return NC_TYPE_OF_CODE.get(self.type.str[1:])


def _element(typestr: Json, nc_type: Json) -> _Element:
    known = _NC_TYPES.get(nc_type) if isinstance(nc_type, str) else None
    if nc_type is not None and known is None:
        raise BadValue(f"info.json: nc_type: {nc_type!r} is none of {', '.join(_NC_TYPES)}")
    if typestr is None and known is not None:
        return _Element(known)
    dtype = _dtype(typestr)
    if known is not None and known not in _nc_types(dtype):
        raise BadValue(
            f"info.json: dtype {typestr!r} and nc_type {known.value!r} contradict each other"
        )
    if known is NcType.STRING:
        return _Element(known, string_bytes=dtype.itemsize if dtype.kind == "S" else None)
    if known is NcType.CHAR or dtype == np.dtype("S1"):
        return _Element(NcType.CHAR)
    if dtype.hasobject:
        return _Element(NcType.STRING)
    order = dtype.str[0]
    return _Element(dtype.newbyteorder("="), order if order in "<>" else None)


def _dtype(typestr: Json) -> np.dtype[Any]:
    try:
        dtype = np.dtype(typestr) if isinstance(typestr, str) else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None:
        raise BadValue(f"info.json: dtype: {typestr!r} is no type; give one like '<f4'")
    code = CODE_OF_NC_TYPE.get(_NC_TYPES.get(str(typestr), NcType.JSON), dtype.str[1:])
    if code != dtype.str[1:]:
        raise BadValue(
            f"info.json: dtype: {typestr!r} is {code} to netCDF and {dtype.str[1:]} to numpy; give "
            f"one like '<{code}', or nc_type"
        )
    return dtype


def _nc_types(dtype: np.dtype[Any]) -> set[NcType | None]:
    """The netCDF types that a dtype can be meant to store."""
    if dtype.kind not in "SUO":
        return {NC_TYPE_OF_CODE.get(dtype.str[1:])}
    is_character = dtype.str[1:] in ("S1", "U1")
    return {NcType.STRING, NcType.CHAR} if is_character else {NcType.STRING}


def _dimensions(named: Json, shape: tuple[int, ...]) -> Iterable[WantedDimension]:
    if named is None:
        return [WantedDimension(None, size) for size in shape]
    wanted = _list(named, "dimensions")
    if len(wanted) != len(shape):
        raise BadValue(f"info.json: dimensions: {len(wanted)} for a shape of {len(shape)}")
    found = [_dimension(item, size) for item, size in zip(wanted, shape, strict=True)]
    sizes: dict[str, int] = {}
    for dimension in found:
        if dimension.name and sizes.setdefault(dimension.name, dimension.size) != dimension.size:
            raise BadValue(f"info.json: dimensions: {dimension.name!r} has two lengths")
    return found


def _dimension(item: Json, size: int) -> WantedDimension:
    match item:
        case str():
            return WantedDimension(item, size)
        case {"name": str(name), **rest}:
            unlimited = rest.get("unlimited", False)
            if rest.get("size", size) == size and isinstance(unlimited, bool):
                return WantedDimension(name, size, unlimited)
    raise BadValue(f"info.json: dimensions: {json.dumps(item)} is no dimension of length {size}")


def _attributes(members: Json, nc_type: NcType | None) -> Iterable[Attribute]:
    if not isinstance(members, dict):
        raise BadValue("info.json: attributes: is no JSON object")
    for name, value in members.items():
        if is_hidden(name):
            raise BadValue(f"info.json: attribute {name!r} belongs to the format")
        attribute = untyped(name, value, nc_type)
        if name == FILL_VALUE and nc_type is not None:
            attribute = as_fill_value(attribute, nc_type)
        yield attribute


def _codec(codec: Json) -> CodecSpec:
    if not isinstance(codec, dict) or not isinstance(codec.get("id"), str):
        raise BadValue(f"info.json: codecs: {json.dumps(codec)} is none: it needs an 'id'")
    settings = {name: value for name, value in codec.items() if name != "id"}
    return CodecSpec(str(codec["id"]), MappingProxyType(settings))


def _fill(document: dict[str, Json], nc_type: NcType | None) -> object:
    value = document.get("fill_value")
    is_default = nc_type is not None and value == DEFAULT_FILL.get(nc_type)
    if "fill_value" not in document or is_default:
        return Fill.DEFAULT
    if value is None:
        return Fill.NONE
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(part, int | float) for part in value):
            return complex(*value)  # type: ignore[arg-type]  # both are numbers
        raise BadValue("info.json: fill_value: a list is a complex number, of two parts")
    return _FLOATS.get(value, value) if isinstance(value, str) else value


def _lengths(value: Json, what: str) -> tuple[int, ...]:
    lengths = _list(value, what)
    found = tuple(n for n in lengths if isinstance(n, int) and not isinstance(n, bool) and n >= 0)
    if len(found) != len(lengths):
        raise BadValue(f"info.json: {what}: {json.dumps(value)} is no list of lengths")
    return found


def _list(value: Json, what: str) -> list[Json]:
    if not isinstance(value, list):
        raise BadValue(f"info.json: {what}: a list is needed, not {json.dumps(value)}")
    return value
