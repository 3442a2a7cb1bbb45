"""Conversion of a caller's values to elements of a type; what does not fit is an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.errors import BadValue
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NC_TYPE_OF_CODE, DataType, NcType, VlenKind
from nczfs.model.hierarchy import Attribute, Json

_ELEMENT_OF: dict[VlenKind, type | tuple[type, ...]] = {
    VlenKind.TEXT: str,
    VlenKind.BYTES: bytes,
    VlenKind.ARRAY: (np.ndarray, list, tuple),
}


def converted(values: Any, dtype: DataType, place: str) -> Values:
    """Convert values to elements of a type, in its native dtype; copied only if needed.

    Numbers are converted as in C: a float loses its fraction. Strings become UTF-8.

    Parameters
    ----------
    place : the place of the variable, for messages.

    Raises
    ------
    BadValue : a number is outside the range of the type, a string is too long, or values of this
        kind have no meaning there. Nothing was written.
    """
    if dtype.vlen is not None:
        return _objects(values, dtype.vlen, place)
    given = np.asarray(values)
    native = dtype.native
    if given.dtype.kind == "f" and native.kind == "u" and not isinstance(values, np.ndarray):
        # numpy makes doubles of a list that mixes integers beyond int64 with smaller ones.
        given = np.asarray(values, object)
    if given.dtype == native:
        return given
    if given.dtype.hasobject:
        given = _without_objects(given, native, place)
    if native.kind in "SU":
        return _strings(given, native, place)
    if native.kind in "biufc" and given.dtype.kind in "biufc":
        return _numbers(given, native, place)
    try:
        if given.dtype.kind in "iu" and native.kind in "Mm":
            return given.astype(np.int64).view(native)
        return given.astype(native, casting="same_kind")
    except (TypeError, ValueError) as error:
        raise BadValue(f"{place}: {given.dtype} values for elements of {native}: {error}") from None


def converted_fill(fill: Any, dtype: DataType, place: str) -> Values:
    """Convert a fill value to an array of one element, or of none for an empty text.

    Raises
    ------
    BadValue : it is not a value of the type, also where `converted` would drop a fraction.
    """
    try:
        given = np.asarray(fill)
    except ValueError:
        raise BadValue(f"{place}: fill value: lists of unequal lengths are not a value") from None
    found = converted(given, dtype, f"{place}: fill value").reshape(-1)
    if dtype.stored.kind in "iu" and not np.array_equal(found, given.reshape(-1)):
        raise BadValue(f"{place}: fill value: {fill} is not a value of type {dtype.typestr}")
    return found[:1]


def attribute_of(name: str, value: Any) -> Attribute:
    """Make an attribute from a Python value.

    Text is CHAR, a list of texts STRING; numbers have the type of their numpy dtype (so a Python
    int is INT64, a float DOUBLE); a value without a netCDF type, such as a dict, is JSON.

    Raises
    ------
    BadValue : neither netCDF nor JSON has such a value.
    """
    if isinstance(value, Attribute):
        return Attribute(name, value.type, value.value)
    if isinstance(value, bytes):
        value = _decoded(value, name)
    if isinstance(value, str):
        return Attribute(name, NcType.CHAR, str(value))
    if value is None or isinstance(value, bool | dict):
        return Attribute(name, NcType.JSON, _json(value, name))
    array = np.asarray(value)
    if array.ndim <= 1 and array.dtype.kind in "SUO" and _all_texts(array):
        texts = tuple(_decoded(item, name) for item in array.reshape(-1).tolist())
        return Attribute(name, NcType.STRING, texts)
    nc_type = NC_TYPE_OF_CODE.get(array.dtype.str[1:])
    if nc_type is not None and array.ndim <= 1:
        return Attribute(name, nc_type, tuple(array.reshape(-1).tolist()))
    return Attribute(name, NcType.JSON, _json(value, name))


def fill_attribute(fill: Any, dtype: DataType, place: str) -> Attribute | None:
    """Return the `_FillValue` attribute of a variable, None if netCDF has no such type or text."""
    if dtype.nc_type is None:
        return None
    name = "_FillValue"
    if dtype.nc_type is NcType.STRING:
        try:
            return Attribute(name, NcType.STRING, (_decoded(fill, place),))
        except BadValue:
            return None  # bytes that are not text: only the array's own fill value holds them
    value = converted_fill(fill, dtype, place)[0].item()
    if dtype.nc_type is NcType.CHAR:
        return Attribute(name, NcType.CHAR, value.decode("utf-8", "surrogateescape") or "\0")
    return Attribute(name, dtype.nc_type, (value,))


def retyped(attribute: Attribute, nc_type: NcType) -> Attribute:
    """Convert a numeric attribute to another numeric type. Raises BadValue if it does not fit."""
    assert isinstance(attribute.value, tuple)
    stored = np.dtype(CODE_OF_NC_TYPE[nc_type])
    place = f"attribute {attribute.name!r}"
    numbers = converted(attribute.value, DataType(stored.str, stored), place)
    if stored.kind in "iu" and not np.array_equal(numbers, attribute.value):
        raise BadValue(f"{place}: {nc_type.value} cannot hold fractions")
    return Attribute(attribute.name, nc_type, tuple(numbers.tolist()))


def _numbers(given: Values, native: np.dtype[Any], place: str) -> Values:
    if native.kind in "iu":
        _check_range(given, native, place)
    elif native.kind == "b":
        if not np.isin(given, (0, 1)).all():
            raise BadValue(f"{place}: only 0 and 1 are values of type bool")
    elif given.dtype.kind == "c" and native.kind == "f":
        raise BadValue(f"{place}: complex values for elements of {native}")
    with np.errstate(over="ignore", invalid="ignore"):
        found = given.astype(native)
    if native.kind in "fc" and given.size:
        lost = np.isinf(found) & np.isfinite(given)
        if lost.any():
            raise _out_of_range(given[lost], native, place)
    return found


def _check_range(given: Values, native: np.dtype[Any], place: str) -> None:
    if given.dtype.kind == "c":
        raise BadValue(f"{place}: complex values for elements of {native}")
    if given.dtype.kind == "b" or np.can_cast(given.dtype, native) or given.size == 0:
        return
    limits = np.iinfo(native)
    if given.dtype.kind == "f":
        # Doubles represent the limits of narrow types, and values beyond those of the widest.
        wide = given.astype(np.float64, copy=False)
        fits = (wide > limits.min - 1.0) | (wide == limits.min)
        fits &= wide < limits.max + 1.0
    else:
        fits = (given >= max(limits.min, np.iinfo(given.dtype).min)) & (
            given <= min(limits.max, np.iinfo(given.dtype).max)
        )
    if not fits.all():
        raise _out_of_range(given[~fits], native, place)


def _out_of_range(wrong: Values, native: np.dtype[Any], place: str) -> BadValue:
    return BadValue(f"{place}: {wrong.reshape(-1)[0]} is out of range for {native}")


def _strings(given: Values, native: np.dtype[Any], place: str) -> Values:
    if given.dtype.kind not in "SU":
        raise BadValue(f"{place}: {given.dtype} values for elements of text")
    if native.kind == "S" and given.dtype.kind == "U":
        given = np.strings.encode(given, "utf-8", "surrogateescape")
    if native.kind == "U" and given.dtype.kind == "S":
        try:
            given = np.strings.decode(given, "utf-8")
        except UnicodeDecodeError as error:
            raise BadValue(f"{place}: {error}") from None
    if native == np.dtype("S1") and given.dtype.itemsize > 1:
        # A text is a row of characters.
        rows = np.ascontiguousarray(given)
        return rows.view("S1").reshape(*given.shape, given.dtype.itemsize)
    room = native.itemsize if native.kind == "S" else native.itemsize // 4
    lengths = np.strings.str_len(given)
    if lengths.size and int(lengths.max()) > room:
        longest = given[lengths == lengths.max()].reshape(-1)[0].item()
        unit = "bytes" if native.kind == "S" else "characters"
        raise BadValue(
            f"{place}: {longest!r} has {int(lengths.max())} {unit}, an element {room}; create the "
            "variable with longer strings"
        )
    return given.astype(native)


def _without_objects(given: Values, native: np.dtype[Any], place: str) -> Values:
    if native.kind in "SU" and _all_texts(given):
        if all(isinstance(item, str) for item in given.reshape(-1)):
            return given.astype("U") if given.size else given.astype("U1")
        encoded = [
            item.encode("utf-8", "surrogateescape") if isinstance(item, str) else item
            for item in given.reshape(-1)
        ]
        return np.array(encoded, "S").reshape(given.shape)
    items = given.reshape(-1).tolist()
    try:
        if native.kind in "iu" and all(isinstance(item, int | np.integer) for item in items):
            return np.array([int(item) for item in items], native).reshape(given.shape)
        found = np.asarray(given.tolist())
    except (TypeError, ValueError, OverflowError) as error:
        raise BadValue(f"{place}: objects for elements of {native}: {error}") from None
    if found.dtype.kind in "SU" and native.kind in "SU":
        raise BadValue(f"{place}: not all objects are texts")
    if found.dtype.hasobject or found.shape != given.shape:
        raise BadValue(
            f"{place}: objects for elements of {native}, or numbers that are too large for them"
        )
    return found


def _objects(values: Any, kind: VlenKind, place: str) -> Values:
    if kind is VlenKind.ARRAY:
        given = values if isinstance(values, np.ndarray) and values.dtype == object else None
        if given is None:
            given = np.empty(len(values), object)
            given[:] = [np.asarray(item) for item in values]
    else:
        given = np.asarray(values, object)
    if kind is VlenKind.TEXT and any(isinstance(item, bytes) for item in given.reshape(-1)):
        texts = [_decoded(i, place) if isinstance(i, bytes) else i for i in given.reshape(-1)]
        given = np.array([*texts, None], object)[:-1].reshape(given.shape)
    wanted = _ELEMENT_OF.get(kind)
    if wanted is not None:
        for item in given.reshape(-1):
            if item is not None and not isinstance(item, wanted):
                raise BadValue(f"{place}: {item!r}: expected {kind.value}")
    return given


def _all_texts(array: Values) -> bool:
    return array.dtype.kind in "SU" or all(
        isinstance(item, str | bytes) for item in array.reshape(-1)
    )


def _decoded(value: Any, place: str) -> str:
    if isinstance(value, str):
        return str(value)
    try:
        return bytes(value).decode("utf-8")
    except (UnicodeDecodeError, TypeError) as error:
        raise BadValue(f"{place}: {error}") from None


def _json(value: Any, name: str) -> Json:
    match value:
        case None | bool() | str():
            return value
        case np.bool_():
            return bool(value)
        case int() | np.integer():
            return int(value)
        case float() | np.floating():
            return float(value)
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _json(item, name) for key, item in value.items()}
        case list() | tuple() | np.ndarray():
            return [_json(item, name) for item in value]
    raise BadValue(
        f"attribute {name!r}: {type(value).__name__} exists neither in netCDF nor in JSON"
    )
