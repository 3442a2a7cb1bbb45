"""The one table of element types: Zarr typestr, numpy dtype, netCDF type, default fill value."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import numpy as np

from nczfs.errors import BadMetadata, Unsupported
from nczfs.messages import shown
from nczfs.plaindata import frozen

MAX_ITEM_BYTES = 1 << 30


class NcType(Enum):
    """The atomic types of netCDF-4 by their CDL names, and JSON for all other values."""

    BYTE = "byte"
    CHAR = "char"
    SHORT = "short"
    INT = "int"
    FLOAT = "float"
    DOUBLE = "double"
    UBYTE = "ubyte"
    USHORT = "ushort"
    UINT = "uint"
    INT64 = "int64"
    UINT64 = "uint64"
    STRING = "string"
    JSON = "json"


NC_TYPE_OF_CODE: dict[str, NcType] = {
    "i1": NcType.BYTE,
    "i2": NcType.SHORT,
    "i4": NcType.INT,
    "i8": NcType.INT64,
    "u1": NcType.UBYTE,
    "u2": NcType.USHORT,
    "u4": NcType.UINT,
    "u8": NcType.UINT64,
    "f4": NcType.FLOAT,
    "f8": NcType.DOUBLE,
}
CODE_OF_NC_TYPE: dict[NcType, str] = {nc_type: code for code, nc_type in NC_TYPE_OF_CODE.items()}

# netcdf.h, NC_FILL_*: what readers get where nothing was written and no fill value was set.
DEFAULT_FILL: dict[NcType, int | float | bytes | str] = {
    NcType.BYTE: -127,
    NcType.CHAR: b"\0",
    NcType.SHORT: -32767,
    NcType.INT: -2147483647,
    NcType.FLOAT: float(np.float32(9.9692099683868690e36)),
    NcType.DOUBLE: 9.9692099683868690e36,
    NcType.UBYTE: 255,
    NcType.USHORT: 65535,
    NcType.UINT: 4294967295,
    NcType.INT64: -9223372036854775806,
    NcType.UINT64: 18446744073709551614,
    NcType.STRING: "",
}


class ZeroText(str):
    """The empty text where the ``fill_value`` is 0, as zarr-python has it for objects."""


class ZeroBytes(bytes):
    """The same for objects that are bytes."""


@frozen
class EmptyArray:
    """The empty array as the fill value of an array of arrays.

    Attributes
    ----------
    spelling : the ``fill_value`` in JSON: zarr-python writes 0, others "" or [].
    """

    spelling: str


class VlenKind(Enum):
    """The kind of an element of a variable-length type."""

    TEXT = "text"
    BYTES = "bytes"
    ARRAY = "array"
    JSON = "json"


@frozen
class DataType:
    """The type of the elements of an array.

    Attributes
    ----------
    typestr : as Zarr v2 spells it: ``<f4``, ``|S8``, ``|O``; a structured type is the compact
        JSON of its field list. Types that v2 does not have are spelled as in v3: ``bfloat16``.
    stored : the numpy dtype of one element as it is stored, including byte order (object for
        variable-length types).
    vlen : the kind of elements, for variable-length types; None for fixed-size ones.
    nc_type : the equivalent netCDF type; None if netCDF has none (complex, datetime, ...).
    base : for an array of ``vlen-array``, the dtype of one element's array.
    """

    typestr: str
    stored: np.dtype[Any]
    vlen: VlenKind | None = None
    nc_type: NcType | None = None
    base: np.dtype[Any] | None = None

    @property
    def native(self) -> np.dtype[Any]:
        """The dtype in memory: the stored one in this machine's byte order."""
        return self.stored.newbyteorder("=")

    @property
    def item_size(self) -> int:
        """Bytes of one element; 0 for variable-length types, which have no fixed size."""
        return 0 if self.vlen is not None else self.stored.itemsize


_SIMPLE = re.compile(r"([<>|])(b1|[iu][1248]|f[248]|c8|c16|[SUV]\d{1,9})\Z")
_TIME = re.compile(r"([<>])([Mm]8)\[(\d{0,9})(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]\Z")


def parse_typestr(text: str, where: str) -> np.dtype[Any]:
    """Return the numpy dtype of a fixed-size Zarr v2 type string.

    Parameters
    ----------
    text : the type string, including its byte order character.
    where : the key of the document, for the message.

    Raises
    ------
    BadMetadata : not a type string.
    Unsupported : a type string of a type that nczfs does not read (long double).

    Notes
    -----
    Zarr v2 specification, "Data type encoding". ``<i1`` and ``>S1`` are what netcdf-c writes.
    """
    if _SIMPLE.match(text) or _TIME.match(text):
        dtype = np.dtype(text)
        if dtype.itemsize > MAX_ITEM_BYTES:
            raise BadMetadata(f"{where}: an element of {dtype.itemsize} bytes is too large")
        return dtype
    if re.match(r"[<>|](f16|f12|c32|c24)\Z", text):
        raise Unsupported(f"{where}: dtype {shown(text)}: long doubles have no portable form")
    raise BadMetadata(f"{where}: dtype {shown(text)} is not a Zarr v2 type string")


def nc_type_of(stored: np.dtype[Any]) -> NcType | None:
    """Return the netCDF type that represents such elements exactly; None: there is none."""
    if stored.kind in "iuf" and stored.str[1:] in NC_TYPE_OF_CODE:
        return NC_TYPE_OF_CODE[stored.str[1:]]
    if stored.kind in "SU":
        return NcType.STRING
    return None
