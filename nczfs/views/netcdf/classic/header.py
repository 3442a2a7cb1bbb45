"""The header of a classic file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nczfs.model.classic import ATTRIBUTES, DIMENSIONS, NUMBER_OF_TYPE, SIZES, VARIABLES, padded
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NcType
from nczfs.model.hierarchy import Attribute
from nczfs.model.printing import encoded
from nczfs.views.netcdf.classic.versions import Version
from nczfs.views.netcdf.content import FileContent, FileDimension, FileVariable

_VSIZE_MAX = 2**32 - 1
"""What older versions have for the size of a variable with more than 2^32 - 4 bytes."""


def header(
    content: FileContent,
    version: Version,
    record_count: int,
    sizes: Sequence[int],
    begins: Sequence[int],
) -> bytes:
    """Return the header of a file. Its length does not depend on the last three parameters.

    Parameters
    ----------
    sizes, begins : of the variables, in bytes: without padding (of a record variable, that of one
        record), and the offset of the first byte.
    """
    return _Header(version).of(content, record_count, sizes, begins)


class _Header:
    def __init__(self, version: Version) -> None:
        self._version = version
        self._absent = bytes(4 + version.number_bytes)

    def of(
        self, content: FileContent, count: int, sizes: Sequence[int], begins: Sequence[int]
    ) -> bytes:
        root = content.root
        numbers = {dimension.name: n for n, dimension in enumerate(root.dimensions)}
        variables = [
            self._variable(variable, numbers, size, begin)
            for variable, size, begin in zip(root.variables, sizes, begins, strict=True)
        ]
        return b"".join(
            (
                b"CDF",
                bytes((self._version.number,)),
                self._number(count),
                self._list(DIMENSIONS, list(map(self._dimension, root.dimensions))),
                self._attributes(root.attributes),
                self._list(VARIABLES, variables),
            )
        )

    def _number(self, value: int) -> bytes:
        return value.to_bytes(self._version.number_bytes, "big")

    def _list(self, tag: int, items: Sequence[bytes]) -> bytes:
        if not items:
            return self._absent
        return tag.to_bytes(4, "big") + self._number(len(items)) + b"".join(items)

    def _name(self, name: str) -> bytes:
        data = name.encode()
        return self._number(len(data)) + _padded(data)

    def _dimension(self, dimension: FileDimension) -> bytes:
        length = 0 if dimension.unlimited else dimension.size
        return self._name(dimension.name) + self._number(length)

    def _attributes(self, attributes: Sequence[Attribute]) -> bytes:
        return self._list(ATTRIBUTES, list(map(self._attribute, attributes)))

    def _attribute(self, attribute: Attribute) -> bytes:
        nc_type, data = _values(attribute, self._version)
        count = len(data) // SIZES[nc_type]
        return self._name(attribute.name) + _type(nc_type) + self._number(count) + _padded(data)

    def _variable(
        self, variable: FileVariable, numbers: dict[str, int], size: int, begin: int
    ) -> bytes:
        assert isinstance(variable.type, NcType)
        vsize = padded(size)
        if self._version.number_bytes == 4:
            vsize = min(vsize, _VSIZE_MAX)
        ids = b"".join(self._number(numbers[d.name]) for d in variable.dimensions)
        return b"".join(
            (
                self._name(variable.name),
                self._number(len(variable.dimensions)),
                ids,
                self._attributes(variable.attributes),
                _type(variable.type),
                self._number(vsize),
                begin.to_bytes(self._version.offset_bytes, "big"),
            )
        )


def _values(attribute: Attribute, version: Version) -> tuple[NcType, bytes]:
    """Return the type and the bytes of an attribute.

    What a version has no type for is an int if it fits, and else a double.
    """
    nc_type, value = attribute.type, attribute.value
    if isinstance(value, str):
        return NcType.CHAR, encoded(value)
    assert isinstance(value, tuple)
    numbers = np.array(value, CODE_OF_NC_TYPE[nc_type])
    if nc_type not in version.types:
        limits = np.iinfo(np.int32)
        is_int = bool(np.all((numbers <= limits.max) & (numbers.astype("i8") >= limits.min)))
        nc_type = NcType.INT if is_int else NcType.DOUBLE
    return nc_type, numbers.astype(f">{CODE_OF_NC_TYPE[nc_type]}").tobytes()


def _type(nc_type: NcType) -> bytes:
    return NUMBER_OF_TYPE[nc_type].to_bytes(4, "big")


def _padded(data: bytes) -> bytes:
    return data + bytes(padded(len(data)) - len(data))
