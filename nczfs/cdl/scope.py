"""The parser's groups, dimensions and variables of CDL, and the declarations made from them."""

from __future__ import annotations

from collections.abc import Sequence

from nczfs.cdl.constants import (
    Item,
    Marker,
    Misfit,
    common_type,
    converted,
    joined,
    text_of,
)
from nczfs.cdl.lists import CdlData, ListLayout, ListNode, needed_lengths, placed
from nczfs.cdl.special import OF_THE_FILE, StoredForm
from nczfs.cdl.tokens import decoded
from nczfs.formats.names import below
from nczfs.model.declaration import Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import DEFAULT_FILL, NcType
from nczfs.model.hierarchy import Attribute, Dimension

RANK_MAX = 32  # limit of HDF5, and so of netCDF-4


class DimensionScope:
    """A dimension. The length of an unlimited one grows while data are read."""

    def __init__(self, name: str, length: int | None, group: str) -> None:
        self.name = name
        self.fixed = length
        self.size = length or 0
        self._group = group

    def dimension(self) -> Dimension:
        return Dimension(self.name, self.size, self.fixed is None, self._group)


class GroupScope:
    """A group, and the names that are declared in it."""

    def __init__(self, name: str, parent: GroupScope | None) -> None:
        self.name = name
        self.path: str = "" if parent is None else below(parent.path, name)
        self.dimensions: dict[str, DimensionScope] = {}
        self.variables: dict[str, VariableScope] = {}
        self.groups: dict[str, GroupScope] = {}
        self.format: str | None = None
        self._parent = parent
        self._attributes: dict[str, Attribute] = {}

    def add_dimension(self, name: str, length: int | None) -> None:
        self.dimensions[name] = DimensionScope(name, length, self.path)

    def set_attribute(self, name: str, nc_type: NcType | None, items: Sequence[Item]) -> None:
        """Set an attribute. Raises Misfit if its values do not fit its type."""
        if self._parent is None and name in OF_THE_FILE:
            return
        if self._parent is None and name == "_Format":
            self.format = decoded(joined(items))
            return
        self._attributes[name] = attribute_of(name, nc_type, items)

    def below(self, names: Sequence[str]) -> GroupScope | None:
        group: GroupScope | None = self
        for name in names:
            group = None if group is None else group.groups.get(name)
        return group

    def dimension(self, reference: str) -> DimensionScope | None:
        """Return the dimension that a name, or a full name, means here."""
        if reference.startswith("/"):
            *groups, name = reference.split("/")[1:]
            home = self._root().below(groups)
            return None if home is None else home.dimensions.get(name)
        group: GroupScope | None = self
        while group is not None and reference not in group.dimensions:
            group = group._parent
        return None if group is None else group.dimensions[reference]

    def declaration(self) -> GroupDeclaration:
        return GroupDeclaration(
            self.name,
            tuple(dimension.dimension() for dimension in self.dimensions.values()),
            tuple(self._attributes.values()),
            tuple(variable.declaration for variable in self.variables.values()),
            tuple(group.declaration() for group in self.groups.values()),
        )

    def _root(self) -> GroupScope:
        return self if self._parent is None else self._parent._root()


class VariableScope:
    """A variable, from its declaration to its values.

    Parameters
    ----------
    references : its dimensions: names, or full names with a leading slash.
    start : position of its declaration, for messages.

    Raises
    ------
    Misfit : a dimension is not declared, or there are too many.

    Attributes
    ----------
    list : the contents of its data list; None: it has none.
    declaration, data : made by `finish`.
    """

    declaration: VariableDeclaration

    def __init__(
        self,
        name: str,
        nc_type: NcType,
        group: GroupScope,
        references: tuple[str, ...],
        start: int,
    ) -> None:
        if len(references) > RANK_MAX:
            raise Misfit(f"{name} has {len(references)} dimensions (max {RANK_MAX})")
        self.name = name
        self.path = below(group.path, name)
        self.start = start
        self.list: ListNode | None = None
        self.data: CdlData | None = None
        self._type = nc_type
        self._references = references
        self._dimensions = [_declared(group.dimension(word), word, name) for word in references]
        self._attributes: dict[str, Attribute] = {}
        self._form = StoredForm()
        self._fill: object = Fill.DEFAULT
        self.layout = ListLayout(nc_type, tuple(dimension.fixed for dimension in self._dimensions))

    def set_attribute(self, name: str, nc_type: NcType | None, items: Sequence[Item]) -> None:
        """Set an attribute, or a special attribute about how the variable is stored.

        Raises
        ------
        Misfit : the values do not fit its type.
        Unsupported : it names a filter that has no codec.
        """
        if name == "_FillValue":
            self._set_fill(items)
        elif not self._form.set(name, items):
            self._attributes[name] = attribute_of(name, nc_type, items)

    def lengthen(self) -> None:
        """Extend its unlimited dimensions to the length of its data."""
        if self.list is not None:
            for place, length in needed_lengths(self.list, self.layout).items():
                self._dimensions[place].size = max(self._dimensions[place].size, length)

    def finish(self) -> None:
        """Make its declaration and its data, once all lengths are known. Raises Misfit."""
        shape = tuple(dimension.size for dimension in self._dimensions)
        attributes = tuple(self._attributes.values())
        declaration = VariableDeclaration(
            self.name, self._type, self._references, attributes, fill_value=self._fill
        )
        self.declaration = self._form.applied(declaration, shape)
        if self.list is not None:
            try:
                rows = placed(self.list, self.layout, shape)
            except Misfit as error:
                raise Misfit(f"{self.name} = ...: {error}") from None
            self.data = CdlData(self.path, self._type, shape, self._filler(), rows)

    def _set_fill(self, items: Sequence[Item]) -> None:
        """Set the fill value, which has the type of the variable, even if spelled otherwise."""
        if len(items) != 1:
            raise Misfit(f"{len(items)} values found; expected one")
        attribute = attribute_of("_FillValue", self._type, items)
        if self._type is NcType.CHAR:
            text = joined(items)
            if len(text) > 1:
                raise Misfit(f"{len(text)} characters found; expected one")
            self._fill = text or b"\0"
        else:
            assert isinstance(attribute.value, tuple)
            self._fill = attribute.value[0]
        self._attributes["_FillValue"] = attribute

    def _filler(self) -> object:
        return DEFAULT_FILL[self._type] if isinstance(self._fill, Fill) else self._fill


def _declared(dimension: DimensionScope | None, reference: str, name: str) -> DimensionScope:
    if dimension is None:
        raise Misfit(f"{name}: no dimension {reference!a} has been declared so far")
    return dimension


def attribute_of(name: str, nc_type: NcType | None, items: Sequence[Item]) -> Attribute:
    """Make an attribute from constants; without a declared type it has that of its values.

    Raises
    ------
    Misfit : the values do not fit the type.
    """
    nc_type = common_type(items) if nc_type is None else nc_type
    if nc_type is NcType.CHAR:
        return Attribute(name, nc_type, decoded(joined(items)))
    if not items:
        raise Misfit(f"an attribute of type {nc_type.value} has a value")
    if nc_type is NcType.STRING:
        return Attribute(
            name,
            nc_type,
            tuple("" if item is Marker.NIL else decoded(text_of(item)) for item in items),
        )
    return Attribute(name, nc_type, tuple(converted(item, nc_type) for item in items))
