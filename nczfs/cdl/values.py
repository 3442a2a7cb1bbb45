"""The spelling of numbers and names in CDL, as ncdump prints them."""

from __future__ import annotations

import math

from nczfs.formats.numbers import DOUBLE_DIGITS, FLOAT_DIGITS, float_text
from nczfs.model.dtypes import NcType
from nczfs.plaindata import frozen


@frozen
class Digits:
    """The number of significant digits of a text's numbers; None: that of ncdump."""

    float: int | None = None
    double: int | None = None

    def of(self, nc_type: NcType) -> int:
        if nc_type is NcType.FLOAT:
            return FLOAT_DIGITS if self.float is None else self.float
        return DOUBLE_DIGITS if self.double is None else self.double


USUAL_DIGITS = Digits()


SUFFIX: dict[NcType, str] = {
    NcType.BYTE: "b",
    NcType.UBYTE: "UB",
    NcType.SHORT: "s",
    NcType.USHORT: "US",
    NcType.INT: "",
    NcType.UINT: "U",
    NcType.INT64: "LL",
    NcType.UINT64: "ULL",
    NcType.FLOAT: "f",
    NcType.DOUBLE: "",
}


def attribute_number(number: float, nc_type: NcType, digits: Digits = USUAL_DIGITS) -> str:
    """Format a number of an attribute as ncdump does, with the suffix of its type."""
    if nc_type not in (NcType.FLOAT, NcType.DOUBLE):
        return f"{number}{SUFFIX[nc_type]}"
    return float_text(number, digits.of(nc_type)) + SUFFIX[nc_type]


def data_number(number: float, nc_type: NcType) -> str:
    """Format a number of a variable as ncdump does: no suffix, and no point at its end.

    ncdump prints the fill value as an underscore; the caller does that.
    """
    match nc_type:
        case NcType.FLOAT if not math.isfinite(number):
            return float_text(number, FLOAT_DIGITS) + "f"
        case NcType.FLOAT | NcType.DOUBLE if math.isfinite(number):
            digits = FLOAT_DIGITS if nc_type is NcType.FLOAT else DOUBLE_DIGITS
            return f"{number:.{digits}g}"
        case NcType.DOUBLE:
            return float_text(number, DOUBLE_DIGITS)
        case _:
            return str(number)


_NAMED = {
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
    "'": "\\'",
}
_TEXT_ESCAPES = str.maketrans(
    {chr(code): f"\\{code:03o}" for code in (*range(32), 127)} | _NAMED,
)
_NAME_ESCAPES = str.maketrans(
    {chr(code): f"%{code:02x}" for code in (*range(32), 127)}
    | {character: f"\\{character}" for character in " !\"#$&'()*,:;<=>?[]\\^`{|}~"}
)


def quoted(text: str) -> str:
    """Quote a text as ncdump does; NULs at its end are dropped."""
    return '"' + text.rstrip("\0").translate(_TEXT_ESCAPES) + '"'


def escaped_name(name: str) -> str:
    """Escape a name for CDL: special characters by a backslash, control characters by a %."""
    escaped = name.translate(_NAME_ESCAPES)
    return f"\\{escaped}" if name[:1].isdigit() and name[:1].isascii() else escaped
