"""The names of everything in a netCDF file, given before any of it is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nczfs.formats.names import below
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Dimension, Group, Variable
from nczfs.plaindata import frozen
from nczfs.views.netcdf.content import Compound, FileDimension, FileType, Opaque
from nczfs.views.netcdf.names import UniqueNames
from nczfs.views.netcdf.types import UnnamedType


@frozen
class Named:
    """What one group of a file names.

    Attributes
    ----------
    group : in the dataset.
    dimensions : that it declares, each of them in this group of the dataset.
    variables : that the file holds.
    """

    group: Group
    dimensions: Sequence[Dimension]
    variables: Sequence[Variable]


class FileNames:
    """The names in a file. HDF5 has one space of names in each group, so no group, and no type, has
    that of a dimension or a variable beside it.

    Parameters
    ----------
    groups : each before those below it; the first one is the root.
    widths : of dimensions of characters, which the root declares.
    types : that the root names.
    title : the name of a variable without one, which is a dataset by itself.
    """

    def __init__(
        self,
        groups: Sequence[Named],
        widths: Iterable[int],
        types: Iterable[UnnamedType],
        title: str = "",
    ) -> None:
        self._title = title
        self._paths = {id(groups[0].group): ""}
        self._variables: dict[int, str] = {}
        self._dimensions: dict[tuple[str, str], FileDimension] = {}
        self._declared: dict[int, list[FileDimension]] = {}
        self._types: dict[np.dtype[Any], FileType] = {}
        for named in groups:
            names = self._name(named)
            if named is groups[0]:
                root, in_root = self._declared[id(named.group)], names
        self._characters = {width: _characters(width, root, in_root) for width in widths}
        root += [d for d in self._characters.values() if d not in root]
        for type_ in types:
            if not isinstance(type_, NcType) and type_ not in self._types:
                self._types[type_] = _named_type(type_, in_root)

    def path(self, group: Group) -> str:
        """Return the path of a group in the file."""
        return self._paths[id(group)]

    def declared(self, group: Group) -> tuple[FileDimension, ...]:
        """Return the dimensions that a group of the dataset declares in the file."""
        return tuple(self._declared[id(group)])

    def variable(self, variable: Variable) -> str:
        """Return the name of a variable."""
        return self._variables[id(variable)]

    def dimension(self, dimension: Dimension) -> FileDimension:
        """Return a declared dimension."""
        return self._dimensions[dimension.group, dimension.name]

    def characters(self, width: int) -> FileDimension:
        """Return the dimension for texts of so many characters."""
        return self._characters[width]

    def type(self, type_: UnnamedType) -> FileType:
        """Return a type with its name."""
        return type_ if isinstance(type_, NcType) else self._types[type_]

    def _name(self, named: Named) -> UniqueNames:
        """Name what is in a group. Returns all names in it."""
        group, path = named.group, self._paths[id(named.group)]
        dimensions, variables = UniqueNames(), UniqueNames()
        declared = self._declared[id(group)] = []
        for dimension in named.dimensions:
            name = dimensions.given(dimension.name)
            found = FileDimension(name, dimension.size, dimension.unlimited, path)
            self._dimensions[dimension.group, dimension.name] = found
            declared.append(found)
        for variable in named.variables:
            self._variables[id(variable)] = variables.given(variable.name or self._title)
        names = dimensions | variables
        for child in group.groups:
            self._paths[id(child)] = below(path, names.given(child.name))
        return names


def _characters(width: int, declared: Sequence[FileDimension], names: UniqueNames) -> FileDimension:
    wanted = FileDimension(f"string{width}", width)
    return wanted if wanted in declared else replace(wanted, name=names.given(wanted.name))


def _named_type(type_: np.dtype[Any], names: UniqueNames) -> FileType:
    if type_.fields is None:
        return Opaque(names.given(f"opaque{type_.itemsize}"), type_.itemsize)
    is_complex = type_.names == ("r", "i") and type_["r"].kind == type_["i"].kind == "f"
    wanted = f"complex{8 * type_.itemsize}" if is_complex else f"compound{type_.itemsize}"
    return Compound(names.given(wanted), type_)
