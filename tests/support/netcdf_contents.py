"""Contents of netCDF files made by hand, with values from numpy, and their bytes as real files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.options import Tally
from nczfs.model.dtypes import CODE_OF_NC_TYPE, NC_TYPE_OF_CODE, DataType, NcType
from nczfs.model.hierarchy import ArrayDescription, Attribute, CodecChain, Variable
from nczfs.views.layout import Layout
from nczfs.views.netcdf.content import (
    Compound,
    Elements,
    FileContent,
    FileDimension,
    FileGroup,
    FileType,
    FileVariable,
    Opaque,
    Texts,
)
from nczfs.views.segments import Padding, Run
from tests.support.elements import Numbers

PIECE_BYTES = 1 << 20
WHOLE_BYTES_MAX = 1 << 30  # of longer runs, only the ends are in the real file


def text(name: str, value: str) -> Attribute:
    return Attribute(name, NcType.CHAR, value)


def texts(name: str, *values: str) -> Attribute:
    return Attribute(name, NcType.STRING, values)


def number(name: str, code: str, *values: float) -> Attribute:
    return Attribute(name, NC_TYPE_OF_CODE[code], values)


class Formula(Numbers):
    """Elements that are computed: each is its number modulo a thousand."""

    def __init__(self, dtype: str) -> None:
        super().__init__(np.empty(0, dtype))

    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        out[...] = np.arange(first, first + len(out)) % 1000


@dataclass
class Handmade:
    """Variables of a file, collected one by one.

    Attributes
    ----------
    sources : the elements of each variable, by its path.
    """

    groups: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    sources: dict[str, Numbers] = field(default_factory=dict)

    def _group(self, path: str) -> dict[str, list[Any]]:
        for above in ["", *(path[:i] for i, c in enumerate(path) if c == "/"), path]:
            self.groups.setdefault(above, {"dimensions": [], "attributes": [], "variables": []})
        return self.groups[path]

    def dimension(
        self, name: str, size: int, *, unlimited: bool = False, group: str = ""
    ) -> FileDimension:
        found = FileDimension(name, size, unlimited, group)
        self._group(group)["dimensions"].append(found)
        return found

    def attributes(self, *attributes: Attribute, group: str = "") -> None:
        self._group(group)["attributes"] += attributes

    def variable(
        self,
        name: str,
        dimensions: Iterable[FileDimension],
        values: Values | Numbers | tuple[str, ...],
        *attributes: Attribute,
        group: str = "",
        type_: FileType | None = None,
    ) -> FileVariable:
        """Add a variable; its type is that of its values unless another is given."""
        path = f"{group}/{name}".lstrip("/")
        dimensions = tuple(dimensions)
        shape = tuple(dimension.size for dimension in dimensions)
        if isinstance(values, tuple):
            stored = _variable(path, np.dtype(object), shape)
            shown: Elements | Texts = Texts(stored, values)
            type_ = NcType.STRING
        else:
            source = values if isinstance(values, Numbers) else Numbers(_flat(values), path)
            dtype = source.values.dtype
            type_ = type_ or _type_of(dtype)
            self.sources[path] = source
            shown = Elements(_variable(path, dtype, shape), _cell(type_, dtype))
        found = FileVariable(name, type_, dimensions, attributes, shown)
        self._group(group)["variables"].append(found)
        return found

    def content(self) -> FileContent:
        built: dict[str, FileGroup] = {}
        for path in reversed(self.groups):
            members = self.groups[path]
            below = tuple(
                built[child] for child in self.groups if child and _above(child) == path != child
            )
            built[path] = FileGroup(
                path,
                tuple(members["dimensions"]),
                tuple(members["attributes"]),
                tuple(members["variables"]),
                below,
            )
        return FileContent(built[""])

    def elements(self, variable: Variable) -> Numbers:
        return self.sources[variable.path]


def write_file(layout: Layout, path: Path) -> None:
    """Write the bytes of a layout to a sparse file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.ftruncate(fd, layout.size)
        at = 0
        for segment in layout.segments:
            size = segment.size
            begins = range(0, size, PIECE_BYTES)
            if isinstance(segment, Padding):
                begins = range(0)
            elif isinstance(segment, Run) and size > WHOLE_BYTES_MAX:
                begins = range(0, size, size - PIECE_BYTES)[:2]
            for begin in begins:
                stop = min(begin + PIECE_BYTES, size)
                os.pwrite(fd, segment.read(begin, stop, Tally(), 0.0), at + begin)
            at += size
    finally:
        os.close(fd)


def _flat(values: Values) -> Values:
    return np.ascontiguousarray(values).reshape(-1)


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _type_of(dtype: np.dtype[Any]) -> FileType:
    if dtype.kind in "SU":
        return NcType.CHAR
    return NC_TYPE_OF_CODE[dtype.str[1:]]


def _cell(type_: FileType, dtype: np.dtype[Any]) -> np.dtype[Any]:
    match type_:
        case Compound():
            return type_.dtype
        case Opaque():
            return np.dtype(f"V{type_.size}")
        case NcType.CHAR:
            return dtype
        case _:
            return np.dtype(CODE_OF_NC_TYPE[type_])


def _variable(path: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Variable:
    chunks = tuple(max(1, n) for n in shape)
    array = ArrayDescription(shape, chunks, DataType(dtype.str, dtype), None, CodecChain(2))
    return Variable(path, path, "zarr2", array, ())
