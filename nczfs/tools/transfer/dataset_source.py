"""A group or variable of an open dataset as a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from nczfs.engine.chunks.loaded import Values
from nczfs.engine.values.fillvalues import FILL_VALUE, as_fill_value, attributes_with_fill
from nczfs.errors import BadMetadata, BadValue
from nczfs.formats.names import below
from nczfs.library.api import Group
from nczfs.library.variable import Variable
from nczfs.model import hierarchy as model
from nczfs.model.declaration import ElementType, Fill, GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import Attribute, CodecSpec, Dimension
from nczfs.tools.sparse import Selection
from nczfs.tools.transfer.source import Content, Notice, Source, item_bytes


@dataclass(frozen=True, slots=True)
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
) -> DatasetSource:
    """Return a source of everything below a group, which becomes the root, or of one variable.

    Parameters
    ----------
    name : of the node, for messages.
    notice : takes lines about what is not carried over unchanged.
    skip_unsupported : leave out members that cannot be read, instead of raising an error.
    unique_dimensions : whether one of two dimensions with the same group and name but different
        lengths gets another name; otherwise the first one stands for both.

    Raises
    ------
    BadMetadata : a member cannot be read.
    """
    if isinstance(node, Variable):
        header = model.GroupHeader("", node.description.format)
        tree = model.Group(header, (), (node.description,))
        base, variables = node.path.rpartition("/")[0].strip("/"), {node.description.path: node}
    else:
        tree, base = node.tree(), node.path.strip("/")
        variables = _variables(node)
    walk = _Walk(name, base, notice, skip_unsupported, unique_dimensions)
    walk.check(tree)
    root = walk.group(tree, "")
    taken = {
        _relative(path, base) or walk.name_of(variable.description): variable
        for path, variable in variables.items()
        if path in walk.taken
    }
    contents = {path: _content(variable) for path, variable in taken.items()}
    root = replace(root, name="", dimensions=walk.dimensions(""))
    return DatasetSource(name, root, contents, taken, base)


@dataclass
class _Walk:
    """A converter of groups to declarations with paths relative to the exported group.

    Attributes
    ----------
    base : path of that group in its dataset.
    taken : paths of the variables, in the dataset.
    """

    name: str
    base: str
    notice: Notice
    skip_unsupported: bool
    unique_dimensions: bool
    taken: set[str] = field(default_factory=set)
    _found: dict[str, dict[str, Dimension]] = field(default_factory=dict)

    def check(self, group: model.Group) -> None:
        """Refuse broken members, or report that they are left out."""
        for name, why in group.broken:
            if not self.skip_unsupported:
                raise BadMetadata(f"{name}: {why}; --skip-unsupported leaves it out")
            self.notice(f"{name}: {why}: left out")
        for child in group.groups:
            self.check(child)

    def group(self, group: model.Group, path: str) -> GroupDeclaration:
        for dimension in group.header.dimensions:
            self._named(dimension, dimension.size)
        variables = tuple(self._variable(variable) for variable in group.variables)
        groups = tuple(self.group(child, below(path, child.name)) for child in group.groups)
        return GroupDeclaration(
            group.name, self.dimensions(path), group.header.attributes, variables, groups
        )

    def name_of(self, variable: model.Variable) -> str:
        """Return the name of a variable, also of one that is a dataset by itself."""
        return variable.name or self.name.rstrip("/").rpartition("/")[2]

    def dimensions(self, path: str) -> tuple[Dimension, ...]:
        """Return the dimensions found so far that belong to a group."""
        return tuple(self._found.get(path, {}).values())

    def _variable(self, variable: model.Variable) -> VariableDeclaration:
        array = variable.array
        self.taken.add(variable.path)
        return VariableDeclaration(
            self.name_of(variable),
            _type(array.dtype),
            tuple(
                self._named(dimension, length)
                for dimension, length in zip(variable.dimensions, array.shape, strict=True)
            ),
            attributes_with_fill(variable),
            array.chunk_shape,
            _codecs(array),
            _fill_value(variable),
            ">" if array.dtype.stored.str.startswith(">") else None,
            order=array.codecs.order,
        )

    def _named(self, dimension: Dimension, length: int) -> str:
        """Return the full name of a dimension, changed where two of one name differ in length.

        A dimension of a group above the exported one becomes one of the root.
        """
        inside = f"{dimension.group}/".startswith(f"{self.base}/") or not self.base
        path = _relative(dimension.group, self.base) if inside else ""
        known = self._found.setdefault(path, {})
        wanted = replace(dimension, size=length, group=path)
        if known.setdefault(dimension.name, wanted).size != length and self.unique_dimensions:
            wanted = replace(wanted, name=f"{dimension.name}_{length}")
            if wanted.name not in known:
                self.notice(
                    f"/{path}: a second dimension {dimension.name!r} is renamed to {wanted.name!r}"
                )
            known.setdefault(wanted.name, wanted)
        return "/" + below(path, wanted.name)


def _variables(group: Group) -> dict[str, Variable]:
    found = {variable.description.path: variable for variable in group.variables.values()}
    for child in group.groups.values():
        found |= _variables(child)
    return found


def _content(variable: Variable) -> Content:
    def read(selection: Selection) -> Values:
        return np.asarray(variable[selection or ...])

    return Content(variable.shape, variable.chunks, item_bytes(variable.dtype), read)


def _relative(path: str, base: str) -> str:
    return path.removeprefix(base).strip("/") if base else path


def _type(dtype: DataType) -> ElementType:
    return dtype.stored if dtype.nc_type is None else dtype.nc_type


def _codecs(array: model.ArrayDescription) -> tuple[CodecSpec, ...]:
    """Return the codecs without that for objects, which netCDF does not need."""
    codecs = array.codecs.codecs
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
