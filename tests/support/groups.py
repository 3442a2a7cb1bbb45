"""Groups as plain data, for what needs no store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nczfs.formats.elementtypes import as_char, data_type
from nczfs.formats.names import parent_of
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    CodecChain,
    CodecSpec,
    Dimension,
    Group,
    GroupHeader,
    Variable,
)

ZARR, NCZARR = "zarr2", "nczarr-L3"

Lengths = Mapping[str, int]
"""Dimensions by name: in the variable's group, or with a leading slash by their full names."""


def variable(
    path: str,
    dtype: Any = "<f4",
    lengths: Lengths | None = None,
    *,
    filters: tuple[str, ...] = (),
    fill: object = None,
    attributes: tuple[Attribute, ...] = (),
    unlimited: tuple[str, ...] = (),
    format_name: str = ZARR,
) -> Variable:
    """A variable; the dtype ``char`` is netCDF's."""
    lengths = lengths or {}
    codecs = tuple(CodecSpec(name) for name in filters)
    known = (
        as_char(data_type("|S1", (), path)) if dtype == "char" else data_type(dtype, codecs, path)
    )
    shape = tuple(lengths.values())
    array = ArrayDescription(
        shape, tuple(max(1, n) for n in shape), known, fill, CodecChain(2, codecs)
    )
    dimensions = tuple(
        Dimension(name.rpartition("/")[2], size, name in unlimited, _home(name, path))
        for name, size in lengths.items()
    )
    return Variable(path, path, format_name, array, dimensions, attributes)


def group(
    path: str = "",
    *members: Variable | Group,
    attributes: tuple[Attribute, ...] = (),
    dimensions: tuple[Dimension, ...] = (),
    broken: tuple[tuple[str, str], ...] = (),
    format_name: str = ZARR,
) -> Group:
    """A group with its members."""
    return Group(
        GroupHeader(path, format_name, dimensions, attributes),
        dimensions,
        tuple(member for member in members if isinstance(member, Variable)),
        tuple(member for member in members if isinstance(member, Group)),
        broken,
    )


def said(name: str, value: object) -> Attribute:
    """An attribute of the type that Python's value suggests: text, strings, or doubles."""
    if isinstance(value, str):
        return Attribute(name, NcType.CHAR, value)
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        return Attribute(name, NcType.STRING, value)
    if isinstance(value, int | float):
        return Attribute(name, NcType.DOUBLE, (float(value),))
    return Attribute(name, NcType.JSON, value)  # type: ignore[arg-type]


def number(name: str, nc_type: NcType, *values: float) -> Attribute:
    """An attribute of a numeric type."""
    return Attribute(name, nc_type, values)


def _home(name: str, path: str) -> str:
    return parent_of(name.removeprefix("/")) if name.startswith("/") else parent_of(path)
