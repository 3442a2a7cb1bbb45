"""The kinds of netCDF files, and their limits."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, TypeAlias

from nczfs.engine.values.convert import attribute_of
from nczfs.engine.values.fillvalues import FILL_VALUE, as_fill_value, is_fill_value
from nczfs.errors import BadValue, Unsupported
from nczfs.formats.names import NETCDF_NAME_BYTES_MAX, below, netcdf_fault, parent_of
from nczfs.messages import shown
from nczfs.model.declaration import Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute, Dimension
from nczfs.plaindata import frozen
from nczfs.tools.transfer.source import Notice, Source, groups_of, variables_of

_CLASSIC_TYPES = frozenset(
    {NcType.BYTE, NcType.CHAR, NcType.SHORT, NcType.INT, NcType.FLOAT, NcType.DOUBLE}
)
_ALL_TYPES = frozenset(NcType) - {NcType.JSON}

HDF5_ATTRIBUTES = frozenset(
    {
        "CLASS",
        "DIMENSION_LIST",
        "NAME",
        "REFERENCE_LIST",
        "_Format",
        "_IsNetcdf4",
        "_NCProperties",
        "_Netcdf4Coordinates",
        "_Netcdf4Dimid",
        "_SuperblockVersion",
        "_nc3_strict",
    }
)
"""Attributes that netcdf-c keeps for itself in files of HDF5 (its table of reserved names)."""


Format: TypeAlias = Literal[
    "NETCDF4", "NETCDF4_CLASSIC", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"
]


@frozen
class NetcdfKind:
    """A kind of file.

    Attributes
    ----------
    format : its name in netCDF4-python.
    types : of variables and attributes.
    has_groups : whether it has groups, and several unlimited dimensions in any position.
    is_hdf5 : whether it has chunks, filters, and a byte order for each variable.
    """

    format: Format
    types: frozenset[NcType]
    has_groups: bool = False
    is_hdf5: bool = False


KINDS = {
    "netcdf4": NetcdfKind("NETCDF4", _ALL_TYPES, has_groups=True, is_hdf5=True),
    "netcdf4-classic": NetcdfKind("NETCDF4_CLASSIC", _CLASSIC_TYPES, is_hdf5=True),
    "64bit-data": NetcdfKind("NETCDF3_64BIT_DATA", _ALL_TYPES - {NcType.STRING}),
    "64bit-offset": NetcdfKind("NETCDF3_64BIT_OFFSET", _CLASSIC_TYPES),
    "classic": NetcdfKind("NETCDF3_CLASSIC", _CLASSIC_TYPES),
}


def fitted(source: Source, kind: NetcdfKind, notice: Notice, *, skip_unsupported: bool) -> Source:
    """Return the part of a source that fits into files of a kind.

    Raises
    ------
    Unsupported : something does not fit, and may not be left out.
    """
    fitting = _Fitting(source.root, kind)
    root = fitting.group(source.root, "")
    if fitting.refused and not skip_unsupported:
        more = f", and {len(fitting.refused) - 1} more" if len(fitting.refused) > 1 else ""
        raise Unsupported(
            f"{source.name}: {fitting.refused[0]}, which {kind.format} files cannot hold{more}; "
            "--skip-unsupported leaves such things out"
        )
    for line in fitting.refused:
        notice(f"{line}: left out")
    for line in fitting.changed:
        notice(line)
    kept = {path for path, _ in variables_of(root)}
    contents = {path: content for path, content in source.contents.items() if path in kept}
    return replace(source, root=root, contents=contents)


class _Fitting:
    """A walk through the groups of a source.

    Attributes
    ----------
    refused : what files of the kind cannot hold, one phrase each.
    changed : what is converted, one line each.
    """

    def __init__(self, root: GroupDeclaration, kind: NetcdfKind) -> None:
        self._kind = kind
        self._declared = {
            f"/{below(path, dimension.name)}": dimension
            for path, group in groups_of(root)
            for dimension in group.dimensions
        }
        self._used = {name for variable in root.variables for name in variable.dimensions}
        # The only dimension of a classic file that can grow or have the length 0.
        open_ended = [d for d in root.dimensions if d.unlimited or not d.size]
        open_ended.sort(key=lambda d: (f"/{d.name}" not in self._used, not d.unlimited))
        self._record = open_ended[0] if open_ended else None
        self._left_out: set[str] = set()
        self.refused: list[str] = []
        self.changed: list[str] = []

    def group(self, group: GroupDeclaration, path: str) -> GroupDeclaration:
        groups, names = group.groups, set[str]()
        if groups and not self._kind.has_groups:
            self.refused += [f"/{below(path, child.name)} is a group" for child in groups]
            groups = ()
        return replace(
            group,
            dimensions=tuple(self._dimensions(group.dimensions, path)),
            attributes=self._attributes(group.attributes, f"/{path}"),
            variables=tuple(self._variables(group.variables, path, names)),
            groups=tuple(
                self.group(child, below(path, child.name))
                for child in groups
                if self._takes_name("group", child.name, names, path)
            ),
        )

    def _takes_name(self, noun: str, name: str, names: set[str], path: str) -> bool:
        """Return whether a member's name is possible and free; `names` gets it."""
        wrong = _name_fault(name, names)
        if wrong is not None:
            self.refused.append(f"/{path} has a {noun} {shown(name)} ({wrong})")
        return wrong is None

    def _dimensions(self, dimensions: tuple[Dimension, ...], path: str) -> Iterator[Dimension]:
        names: set[str] = set()
        for dimension in dimensions:
            if not self._takes_name("dimension", dimension.name, names, path):
                self._left_out.add(f"/{below(path, dimension.name)}")
                continue
            if not dimension.unlimited and not dimension.size:
                self.changed.append(f"dimension {dimension.name!r} of length 0 becomes unlimited")
            if self._can_grow(dimension) or (dimension.size and not dimension.unlimited):
                yield dimension
            elif dimension.size:
                self.changed.append(f"dimension {dimension.name!r} is no longer unlimited")
                yield replace(dimension, unlimited=False)

    def _can_grow(self, dimension: Dimension) -> bool:
        return self._kind.has_groups or dimension is self._record

    def _variables(
        self, variables: tuple[VariableDeclaration, ...], path: str, names: set[str]
    ) -> Iterator[VariableDeclaration]:
        for variable in variables:
            if not self._takes_name("variable", variable.name, names, path):
                continue
            place = f"/{below(path, variable.name)}"
            wrong = self._fault(variable, path)
            if wrong is not None:
                self.refused.append(f"{place} {wrong}")
                continue
            attributes = self._attributes(self._with_fill(variable, place), place)
            yield replace(variable, attributes=attributes)

    def _with_fill(self, variable: VariableDeclaration, place: str) -> tuple[Attribute, ...]:
        """Return the attributes with a `_FillValue` of the variable's type, or without one."""
        own = next((a for a in variable.attributes if a.name == FILL_VALUE), None)
        if own is None or is_fill_value(own, variable.type):
            return variable.attributes
        assert isinstance(variable.type, NcType)
        try:
            fitting = as_fill_value(own, variable.type)
        except BadValue:
            if isinstance(variable.fill_value, Fill):
                self.changed.append(f"{place}: its _FillValue is not of its type: left out")
                return tuple(a for a in variable.attributes if a is not own)
            stated = attribute_of(FILL_VALUE, variable.fill_value)
            fitting = as_fill_value(stated, variable.type)
            self.changed.append(
                f"{place}: its _FillValue is not of its type: the array's fill value replaces it"
            )
        return tuple(fitting if a is own else a for a in variable.attributes)

    def _fault(self, variable: VariableDeclaration, path: str) -> str | None:
        nc_type = variable.type
        if not isinstance(nc_type, NcType) or nc_type not in self._kind.types:
            name = nc_type.value if isinstance(nc_type, NcType) else nc_type
            return f"is of type {name}"
        for name in variable.dimensions:
            if name in self._left_out:
                return f"has the dimension {shown(name)}"
            if _nearest(self._declared, name.rpartition("/")[2], path) != name:
                return f"has a dimension {name} that is hidden by a nearer one of that name"
        if not self._kind.has_groups:
            found = [self._declared[name] for name in variable.dimensions]
            if any(dimension is self._record for dimension in found[1:]):
                return "has the unlimited dimension after another one"
            if any(not d.size and d is not self._record for d in found):
                return "has a second dimension of length 0"
        return None

    def _attributes(self, attributes: tuple[Attribute, ...], place: str) -> tuple[Attribute, ...]:
        found: list[Attribute] = []
        names: set[str] = set()
        for attribute in attributes:
            value = attribute.value
            wrong = _name_fault(attribute.name, names)
            if self._kind.is_hdf5 and attribute.name in HDF5_ATTRIBUTES:
                wrong = "netCDF reserves it"
            if wrong is not None:
                self.refused.append(f"{place} has an attribute {shown(attribute.name)} ({wrong})")
            elif attribute.type in self._kind.types or attribute.type is NcType.JSON:
                found.append(attribute)
            elif attribute.type is NcType.STRING and isinstance(value, tuple) and len(value) == 1:
                found.append(Attribute(attribute.name, NcType.CHAR, str(value[0])))
            else:
                self.refused.append(
                    f"{place} has an attribute {shown(attribute.name)} of type "
                    f"{attribute.type.value}"
                )
        return tuple(found)


def stored_name(name: str) -> str:
    """Return the form in which netCDF stores a name or a path."""
    return unicodedata.normalize("NFC", name)


def _name_fault(name: str, names: set[str]) -> str | None:
    """Why a name cannot be given beside others, which get it if it can."""
    stored = stored_name(name)
    if stored in names:
        return "it is the same as another one in normal form C"
    names.add(stored)
    return netcdf_fault(stored, NETCDF_NAME_BYTES_MAX)


def _nearest(declared: dict[str, Dimension], name: str, path: str) -> str:
    place = path
    while (full := f"/{below(place, name)}") not in declared and place:
        place = parent_of(place)
    return full
