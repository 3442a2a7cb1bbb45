"""The constants of CDL and their types: by suffix, or for an attribute by all of its constants."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

import numpy as np

from nczfs.cdl.tokens import NUMBER_BEGINS, Token, TokenKind, unquoted
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.plaindata import frozen


class Misfit(Exception):
    """A constant does not fit. The caller adds the line number."""


@frozen
class Constant:
    """A number with its type, or the bytes of a text (STRING)."""

    type: NcType
    value: int | float | bytes


class Marker(Enum):
    """A constant that stands for no particular value."""

    FILL = "_"
    NIL = "NIL"


Item: TypeAlias = Constant | Marker

_INTEGER = re.compile(
    rb"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9A-Fa-f]+)|(?P<digits>[0-9]+))(?P<suffix>[a-zA-Z]*)\Z"
)
_OF_SUFFIX = {
    b"b": NcType.BYTE,
    b"ub": NcType.UBYTE,
    b"s": NcType.SHORT,
    b"us": NcType.USHORT,
    b"l": NcType.INT,
    b"ul": NcType.UINT,
    b"u": NcType.UINT,
    b"ll": NcType.INT64,
    b"ull": NcType.UINT64,
}
_WORDS = {
    b"NaN": Constant(NcType.DOUBLE, math.nan),
    b"nan": Constant(NcType.DOUBLE, math.nan),
    b"NaNf": Constant(NcType.FLOAT, math.nan),
    b"nanf": Constant(NcType.FLOAT, math.nan),
    b"Infinity": Constant(NcType.DOUBLE, math.inf),
    b"Infinityf": Constant(NcType.FLOAT, math.inf),
    b"Inf": Constant(NcType.DOUBLE, math.inf),
    b"Inff": Constant(NcType.FLOAT, math.inf),
    b"DoubleInf": Constant(NcType.DOUBLE, math.inf),
    b"FloatInf": Constant(NcType.FLOAT, math.inf),
}
_MARKERS = {b"_": Marker.FILL, b"NIL": Marker.NIL, b"nil": Marker.NIL, b"Nil": Marker.NIL}
_TEXTUAL = (NcType.CHAR, NcType.STRING)
_BITS = {nc_type: 8 * np.dtype(code).itemsize for nc_type, code in CODE_OF_NC_TYPE.items()}
_SIGNED = frozenset(t for t, code in CODE_OF_NC_TYPE.items() if code[0] == "i")


def item_of(token: Token) -> Item | None:
    """Return the constant of a token; None: it is not a constant.

    Raises
    ------
    Misfit : a number fits no type.
    """
    match token.kind:
        case TokenKind.NUMBER:
            return _number(token.source)
        case TokenKind.TEXT:
            return Constant(NcType.STRING, unquoted(token.source))
        case TokenKind.CHARACTER:
            # netCDF has no constants of a single character: for ncgen they are bytes.
            (code,) = unquoted(token.source)
            return Constant(NcType.BYTE, code - 256 if code > 127 else code)
        case TokenKind.WORD:
            return _WORDS.get(token.source) or _MARKERS.get(token.source)
        case _:
            return None


def begins_number(source: bytes) -> bool:
    """Return whether a number begins with these bytes, or equals them."""
    word = source[source[:1] in (b"+", b"-") :]
    return bool(NUMBER_BEGINS.fullmatch(source)) or any(w.startswith(word) for w in _WORDS)


def _number(source: bytes) -> Constant:
    word = _WORDS.get(source[1:])
    if word is not None:
        assert isinstance(word.value, float)
        return Constant(word.type, -word.value if source[:1] == b"-" else word.value)
    integer = _INTEGER.match(source)
    if integer is not None and integer["suffix"].lower() not in (b"f", b"d"):
        return _integer(integer)
    suffix = source[-1:].lower()
    number = float(source[:-1] if suffix in (b"f", b"d", b"l") else source)
    if suffix == b"f":
        return Constant(NcType.FLOAT, as_float32(number))
    return Constant(NcType.DOUBLE, number)


def _integer(match: re.Match[bytes]) -> Constant:
    digits = match["digits"]
    shown = match[0].decode()
    if len(match[0]) > 40:
        raise Misfit(f"`{shown[:40]}...` is too large for every integer type")
    if digits is None:
        number = int(match["hex"], 16)
    else:
        try:
            number = int(digits, 8 if digits[:1] == b"0" else 10)
        except ValueError:
            raise Misfit(f"`{shown}` is not octal, which a leading 0 means") from None
    if match["sign"] == b"-":
        number = -number
    suffix = match["suffix"].lower()
    nc_type = _OF_SUFFIX[suffix] if suffix else _smallest(number)
    if nc_type is None or number >= 1 << 64 or number < -(1 << 63):
        raise Misfit(f"`{shown}` is too large for every integer type")
    return Constant(nc_type, wrapped(number, nc_type))


def _smallest(number: int) -> NcType | None:
    """Return the type of an integer without a suffix, as in ncgen (INT64 only for negatives)."""
    if -(1 << 31) <= number < 1 << 31:
        return NcType.INT
    if 0 <= number < 1 << 32:
        return NcType.UINT
    return NcType.INT64 if number < 0 else NcType.UINT64


def as_float32(number: float) -> float:
    """Return the nearest number of single precision; infinite beyond its range."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def wrapped(number: int, nc_type: NcType) -> int:
    """Convert an integer to a type; 255 is -1 as a byte, and -1 is 255 without a sign.

    Raises
    ------
    Misfit : it has more bits than the type.
    """
    bits = _BITS[nc_type]
    if not -(1 << (bits - 1)) <= number < 1 << bits:
        raise Misfit(f"{number} is out of the range of {nc_type.value}")
    number %= 1 << bits
    return number - (1 << bits) if nc_type in _SIGNED and number >> (bits - 1) else number


def converted(item: Item, nc_type: NcType) -> int | float:
    """Convert a constant to a number of a type; fractions are cut off, as in C.

    Raises
    ------
    Misfit : it is not a number, or is outside the range of the type.
    """
    if isinstance(item, Marker):
        raise Misfit(f"`{item.value}` found; expected a value of type {nc_type.value}")
    value = item.value
    if isinstance(value, bytes):
        raise Misfit(f"a text found; expected a number of type {nc_type.value}")
    if nc_type is NcType.DOUBLE:
        return float(value)
    if nc_type is NcType.FLOAT:
        return as_float32(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Misfit(f"{value} found; expected a number of type {nc_type.value}")
        value = math.trunc(value)
    return wrapped(value, nc_type)


def common_type(items: Sequence[Item]) -> NcType:
    """Return the type of an attribute that states none: the widest type of its values.

    Raises
    ------
    Misfit : the list mixes texts and numbers, or has a marker.
    """
    types = [item.type for item in items if isinstance(item, Constant)]
    if len(types) < len(items):
        raise Misfit("a fill value or NIL cannot be the value of an attribute")
    if not types or all(found in _TEXTUAL for found in types):
        return NcType.CHAR
    if any(found in _TEXTUAL for found in types):
        raise Misfit("texts and numbers in one attribute; give its type: `char v:a = ...`")
    for wide in (NcType.DOUBLE, NcType.FLOAT):
        if wide in types:
            return wide
    if any(isinstance(i, Constant) and i.value >= 1 << 63 for i in items):  # type: ignore[operator]  # numbers all
        return NcType.UINT64
    # Of two types of one size, signed or not, ncgen takes the later one.
    result = types[0]
    for found in types[1:]:
        if _BITS[found] >= _BITS[result]:
            result = found
    return result


def joined(items: Sequence[Item]) -> bytes:
    """Concatenate the text of constants: texts, and bytes that are single characters.

    Raises
    ------
    Misfit : there is another kind of constant among them.
    """
    return b"".join(map(text_of, items))


def text_of(item: Item) -> bytes:
    """Return the bytes of a text or of a single character.

    Raises
    ------
    Misfit : it is neither.
    """
    match item:
        case Constant(NcType.STRING, bytes(value)):
            return value
        case Constant(NcType.BYTE | NcType.UBYTE, int(value)):
            return bytes([value % 256])
        case Marker():
            raise Misfit(f"`{item.value}` found; expected a text")
        case _:
            raise Misfit(f"{item.value!r} found; expected a text in quotes")
