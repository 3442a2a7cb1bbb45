"""A group or variable of an open dataset as a source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.values.fillvalues import FILL_VALUE, as_fill_value, attributes_with_fill
from nczfs.errors import BadMetadata, BadValue
from nczfs.formats.declarations import DeclaredDimensions, groups_of
from nczfs.formats.flattening import flattened
from nczfs.formats.names import below
from nczfs.formats.zarr3.to_v2 import codecs_of_v3
from nczfs.library.api import Group
from nczfs.library.variable import Variable
from nczfs.model import hierarchy as model
from nczfs.model.declaration import ElementType, Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.grid import Slices
from nczfs.model.hierarchy import Attribute, CodecSpec, Dimension
from nczfs.plaindata import frozen
from nczfs.tools.transfer.source import Content, Notice, Source, item_bytes


@frozen
class DatasetSource(Source):
    """A source with the variables of its contents, by the same paths.

    Attributes
    ----------
    base : path of the exported group in its dataset.
    """

    variables: Mapping[str, Variable]
    base: str


def dataset_source(
    node: Group | Variable,
    name: str,
    notice: Notice,
    *,
    skip_unsupported: bool,
    unique_dimensions: bool = True,
    keeps_dependents: bool = False,
) -> DatasetSource:
    """Return a source of everything below a group, which becomes the root, or of one variable.

    Parameters
    ----------
    name : of the node, for messages.
    notice : takes lines about what is not carried over unchanged.
    skip_unsupported : leave out members that cannot be read, instead of raising an error.
    unique_dimensions : whether one of two dimensions with the same group and name but different
        lengths gets another name; otherwise the first one stands for both.
    keeps_dependents : whether dependent arrays come along with their primary, and are not among
        the variables; otherwise each becomes one.

    Raises
    ------
    BadMetadata : a member cannot be read.
    """
    if isinstance(node, Variable):
        header = model.GroupHeader("", node.description.format)
        base = node.description.group
        tree = model.Group(header, (), (node.description,))
        found = [node]
    else:
        tree, base = node.tree(), node.path.strip("/")
        found = list(_variables(node))
    variables = {v.description.path: v for variable in found for v in _family(variable)}
    if not keeps_dependents:
        tree = flattened(tree)
    for each in groups_of(tree):
        for member, why in each.broken:
            if not skip_unsupported:
                raise BadMetadata(f"{member}: {why}; --skip-unsupported leaves it out")
            notice(f"{member}: {why}: left out")
    declared = _Declarations(tree, name, base, notice, unique_dimensions=unique_dimensions)
    root = replace(declared.group(tree), name="")
    taken = {
        declared.path_of(variable, each): variables[variable.path]
        for each in groups_of(tree)
        for variable in each.variables
    }
    contents = {path: content_of(variable) for path, variable in taken.items()}
    return DatasetSource(name, root, contents, taken, base)


class _Declarations:
    """The groups of a tree as declarations, with paths relative to the exported group.

    Parameters
    ----------
    name : of the exported node.
    base : path of the exported group in its dataset.
    """

    def __init__(
        self, tree: model.Group, name: str, base: str, notice: Notice, *, unique_dimensions: bool
    ) -> None:
        self._name = name
        self._base = base
        self._notice = notice
        self._renamed: set[tuple[str, str]] = set()
        spare = _renamed if unique_dimensions else _shared
        self._declarations = DeclaredDimensions(tree, spare=spare)

    def group(self, group: model.Group) -> GroupDeclaration:
        path = group.header.path
        return GroupDeclaration(
            group.name,
            tuple(map(self._relative, self._declarations.declared[path].values())),
            group.header.attributes,
            tuple(self._variable(variable, path) for variable in group.variables),
            tuple(map(self.group, group.groups)),
        )

    def path_of(self, variable: model.Variable, group: model.Group) -> str:
        """Return the path of a variable of a group below the exported group."""
        return below(_relative(group.header.path, self._base), self._name_of(variable))

    def _name_of(self, variable: model.Variable) -> str:
        """Return the name of a variable, also of one that is a dataset by itself."""
        return variable.name or self._name.rstrip("/").rpartition("/")[2]

    def _relative(self, dimension: Dimension) -> Dimension:
        return replace(dimension, group=_relative(dimension.group, self._base))

    def _variable(self, variable: model.Variable, here: str) -> VariableDeclaration:
        array = variable.array
        return VariableDeclaration(
            self._name_of(variable),
            _type(array.dtype),
            self._dimensions(variable, here),
            attributes_with_fill(variable),
            array.chunk_shape,
            _codecs(array),
            _fill_value(variable),
            ">" if array.dtype.stored.str.startswith(">") else None,
            order=array.codecs.order,
            shard_shape=array.unit_shape if array.shards else None,
        )

    def _dimensions(self, variable: model.Variable, here: str) -> tuple[str, ...]:
        """Return the full names of the dimensions of a variable."""
        names: list[str] = []
        found = self._declarations.of(variable, here)
        for own, declared in zip(variable.dimensions, found, strict=True):
            dimension = self._relative(declared)
            names.append("/" + below(dimension.group, dimension.name))
            if dimension.name != own.name and (declared.group, declared.name) not in self._renamed:
                self._renamed.add((declared.group, declared.name))
                self._notice(
                    f"/{dimension.group}: a second dimension {own.name!r} is renamed to "
                    f"{dimension.name!r}"
                )
        return tuple(names)


def _renamed(_: Dimension, second: Dimension) -> Dimension:
    return replace(second, name=f"{second.name}_{second.size}")


def _shared(declared: Dimension, _: Dimension) -> Dimension:
    return declared


def _variables(group: Group) -> Iterator[Variable]:
    yield from group.variables.values()
    for child in group.groups.values():
        yield from _variables(child)


def _family(variable: Variable) -> Iterator[Variable]:
    """Yield a variable, and those that depend on it."""
    yield variable
    for each in variable.dependents.values():
        yield from _family(each)


def content_of(variable: Variable) -> Content:
    def read(selection: Slices) -> Values:
        return np.asarray(variable[selection or ...])

    return Content(variable.shape, variable.chunks, item_bytes(variable.dtype), read)


def _relative(path: str, base: str) -> str:
    return path.removeprefix(base).strip("/") if base else path


def _type(dtype: DataType) -> ElementType:
    return dtype.stored if dtype.nc_type is None else dtype.nc_type


def _codecs(array: model.ArrayDescription) -> tuple[CodecSpec, ...] | None:
    """Return the codecs without that for objects, which netCDF does not need.

    They have the names of Zarr v2; None: it lacks some of them, so the default is better.
    """
    codecs = array.codecs.codecs
    if array.codecs.zarr_format == 3:
        return codecs_of_v3(codecs)
    return codecs[1:] if array.dtype.vlen is not None else codecs


def _fill_value(variable: model.Variable) -> object:
    """Return the fill value if no attribute has it: none, or one other than `_FillValue`."""
    dtype, fill = variable.array.dtype, variable.array.fill_value
    if fill is None:
        return Fill.NONE
    own = next((a for a in variable.attributes if a.name == FILL_VALUE), None)
    if own is None or dtype.nc_type is None or _can_be_fill(own, dtype.nc_type):
        return Fill.DEFAULT
    return fill


def _can_be_fill(attribute: Attribute, element: NcType) -> bool:
    try:
        as_fill_value(attribute, element)
    except BadValue:
        return False
    return True
