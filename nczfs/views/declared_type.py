"""The type and the fill value of a variable, as an info.json spells them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from nczfs.errors import BadMetadata, BadValue, Unsupported
from nczfs.formats.elementtypes import OBJECT_CODECS, data_type
from nczfs.formats.jsontext import compact
from nczfs.formats.numbers import as_float, as_integer
from nczfs.messages import shown
from nczfs.model.declaration import ElementType, Fill
from nczfs.model.dtypes import (
    CODE_OF_NC_TYPE,
    DEFAULT_FILL,
    NC_TYPE_OF_CODE,
    EmptyArray,
    NcType,
    VlenKind,
    ZeroBytes,
    ZeroText,
)
from nczfs.model.hierarchy import CodecSpec, Json
from nczfs.plaindata import frozen

_FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_NC_TYPES = {nc_type.value: nc_type for nc_type in NcType if nc_type is not NcType.JSON}


@frozen
class Element:
    """The element type of a declared variable; `vlen` is the kind of objects."""

    type: ElementType
    byte_order: str | None = None
    string_bytes: int | None = None
    vlen: VlenKind | None = None

    @property
    def nc_type(self) -> NcType | None:
        """The equivalent netCDF type; None if netCDF has none."""
        if isinstance(self.type, NcType):
            return self.type
        return NC_TYPE_OF_CODE.get(self.type.str[1:])


def element_of(
    typestr: Json, nc_type: Json, codecs: tuple[CodecSpec, ...], *, is_shown: bool
) -> Element:
    """Return the type that `dtype` and `nc_type` name together.

    Parameters
    ----------
    codecs : the first one determines the objects of ``|O``.
    is_shown : whether nczfs has made the document, so that the dtype is taken literally.

    Raises
    ------
    BadValue : they name no type, or contradict each other.
    """
    known = _NC_TYPES.get(nc_type) if isinstance(nc_type, str) else None
    if nc_type is not None and known is None:
        raise BadValue(f"info.json: nc_type: {shown(nc_type)} is not one of {', '.join(_NC_TYPES)}")
    if typestr is None and known is not None:
        return Element(known)
    dtype = _structured(typestr) if isinstance(typestr, list) else _dtype(typestr)
    if known is not None and known not in _nc_types(dtype):
        raise BadValue(
            f"info.json: dtype {shown(typestr)} and nc_type {known.value!r} contradict each other"
        )
    order = dtype.str[0] if dtype.str[0] in "<>" else None
    if dtype.kind == "U" and is_shown and known is not NcType.CHAR:
        return Element(dtype.newbyteorder("="), order)
    if dtype.hasobject and is_shown and codecs and codecs[0].name != "vlen-utf8":
        return Element(dtype, vlen=OBJECT_CODECS.get(codecs[0].name, VlenKind.JSON))
    if known is NcType.STRING:
        return Element(known, string_bytes=dtype.itemsize if dtype.kind == "S" else None)
    if known is NcType.CHAR or (dtype == np.dtype("S1") and not is_shown):
        return Element(NcType.CHAR)
    if dtype.hasobject:
        return Element(NcType.STRING)
    if dtype.names is not None:
        return Element(dtype)
    return Element(dtype.newbyteorder("="), order)


def fill_of(document: dict[str, Json], element: Element, *, is_shown: bool) -> object:
    """Return the `fill_value` of a document, as `VariableDeclaration` has it. Raises BadValue."""
    if "fill_value" not in document:
        return Fill.DEFAULT
    value = document["fill_value"]
    if value is None:
        return Fill.NONE
    if is_shown:
        return _shown_fill(value, element)
    if element.nc_type is not None and value == DEFAULT_FILL.get(element.nc_type):
        return Fill.DEFAULT
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(part, int | float) for part in value):
            return complex(*value)  # type: ignore[arg-type]  # both are numbers
        raise BadValue("info.json: fill_value: a list must be the two parts of a complex number")
    return _FLOATS.get(value, value) if isinstance(value, str) else value


def _shown_fill(value: Json, element: Element) -> object:
    """Parse a fill value as info.json shows it."""
    if isinstance(element.type, NcType):
        if isinstance(value, str) and (element.type is NcType.CHAR or element.string_bytes):
            return _bytes(value)
        if element.type is NcType.STRING and value == 0 and not isinstance(value, bool):
            return ZeroText()
        return _FLOATS.get(value, value) if isinstance(value, str) else value
    if element.vlen is not None:
        return _of_vlen(value, element.vlen)
    return _of_dtype(value, element.type)


def _of_vlen(value: Json, kind: VlenKind) -> object:
    match kind, value:
        case VlenKind.TEXT, str():
            return value
        case VlenKind.BYTES, str():
            return _bytes(value)
        case VlenKind.BYTES, int() if value == 0 and not isinstance(value, bool):
            return ZeroBytes()
        case VlenKind.ARRAY, 0 | "" | [] if not isinstance(value, bool):
            return EmptyArray(compact(value))
        case VlenKind.JSON, bool() | int() | float() | str() | dict():
            return value
    raise BadValue(f"info.json: fill_value: {shown(value)} is not a {kind.value}")


def _of_dtype(value: Json, dtype: np.dtype[Any]) -> object:
    """Return a value of a numpy dtype; records as `numpy.void`."""
    match dtype.kind, value:
        case "f", _ if (number := as_float(value)) is not None:
            return number
        case "c", [real, imaginary]:
            x, y = as_float(real), as_float(imaginary)
            if x is not None and y is not None:
                return complex(x, y)
        case "m" | "M", _ if (number := as_integer(value)) is not None and _is_int64(number):
            return np.array(number, np.int64).view(dtype.newbyteorder("="))[()]
        case "S", str():
            return _bytes(value)
        case "V", str() if dtype.names is None:
            return _bytes(value).ljust(dtype.itemsize, b"\0")
        case "V", list() if dtype.names is not None and len(value) == len(dtype.names):
            record = np.zeros((), dtype.newbyteorder("="))
            for name, item in zip(dtype.names, value, strict=True):
                with _refusing(item, dtype[name]):
                    record[name] = _of_field(item, dtype[name])
            return record[()]
        case (("b" | "i" | "u" | "U"), _):
            return value
    raise BadValue(f"info.json: fill_value: {shown(value)} is not a value of type {dtype}")


@contextmanager
def _refusing(value: Json, dtype: np.dtype[Any]) -> Iterator[None]:
    """Refuse a value that numpy cannot convert to a type."""
    try:
        yield
    except (OverflowError, TypeError, ValueError):
        raise BadValue(
            f"info.json: fill_value: {shown(value)} is not a value of type {dtype}"
        ) from None


def _is_int64(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _of_field(value: Json, dtype: np.dtype[Any]) -> Any:
    if not dtype.shape:
        return _of_dtype(value, dtype)
    if not isinstance(value, list) or len(value) != dtype.shape[0]:
        raise BadValue(f"info.json: fill_value: {shown(value)} is not a value of type {dtype}")
    inner = np.dtype((dtype.base, dtype.shape[1:]))
    found = np.zeros(dtype.shape, dtype.base.newbyteorder("="))
    for index, item in enumerate(value):
        with _refusing(item, inner):
            found[index] = _of_field(item, inner)
    return found


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise BadValue(f"info.json: fill_value: {shown(text)}: {error.reason}") from None


def _structured(fields: list[Json]) -> np.dtype[Any]:
    try:
        return data_type(fields, (), "info.json").stored
    except (BadMetadata, Unsupported) as error:
        raise BadValue(str(error)) from None


def _dtype(typestr: Json) -> np.dtype[Any]:
    if typestr == "string":  # of variable length, in Zarr v3
        return np.dtype(object)
    try:
        dtype = np.dtype(typestr) if isinstance(typestr, str) else None
    except (TypeError, ValueError, SyntaxError):
        dtype = None
    if dtype is None:
        raise BadValue(f"info.json: dtype: {shown(typestr)} is not a type; give one like '<f4'")
    code = CODE_OF_NC_TYPE.get(_NC_TYPES.get(str(typestr), NcType.JSON), dtype.str[1:])
    if code != dtype.str[1:]:
        raise BadValue(
            f"info.json: dtype: {shown(typestr)} is {code} to netCDF and {dtype.str[1:]} to numpy; "
            f"give one like '<{code}', or nc_type"
        )
    return dtype


def _nc_types(dtype: np.dtype[Any]) -> set[NcType | None]:
    """Return the netCDF types that a dtype can store."""
    if dtype.kind not in "SUO":
        return {NC_TYPE_OF_CODE.get(dtype.str[1:])}
    is_character = dtype.str[1:] in ("S1", "U1")
    return {NcType.STRING, NcType.CHAR} if is_character else {NcType.STRING}
