"""The groups, dimensions and variables of a copy, in their new dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nczfs.engine.structure.editor import Editor
from nczfs.engine.values.fillvalues import FILL_VALUE, attributes_with_fill, marks_missing
from nczfs.engine.values.quantize import ATTRIBUTE as QUANTIZE
from nczfs.errors import DatasetError, NoSuchNode
from nczfs.formats.base import MetadataFormat
from nczfs.formats.names import below, parent_of
from nczfs.formats.zarr3.dependents import SPELLINGS
from nczfs.model.declaration import VariableDeclaration
from nczfs.model.dtypes import DataType, NcType
from nczfs.model.hierarchy import Dimension, GroupHeader, Shards, Variable
from nczfs.plaindata import frozen
from nczfs.tools.transfer.dataset_source import DatasetSource
from nczfs.tools.transfer.declaring import NewVariables
from nczfs.tools.transfer.source import groups_of
from nczfs.tools.transfer.target import Target


@frozen
class NodeCopier:
    """A maker of the nodes of a source, with their names and attributes unchanged.

    Attributes
    ----------
    format : of the target.
    path : of the node in the target; "" is the root.
    keeps_names : whether neither side declares dimensions, so that those of each variable stay
        unchanged.
    is_variable : whether the source is one variable, and becomes one, or the only one of a new
        dataset.
    has_other_codecs : whether the codecs are those of the declarations, not of the source.
    """

    source: DatasetSource
    format: MetadataFormat
    path: str
    keeps_names: bool
    is_variable: bool
    has_other_codecs: bool

    def of(self, source: DatasetSource) -> NodeCopier:
        """Return the same for another form of the source."""
        return replace(self, source=source)

    def paths(self) -> Iterator[str]:
        """Return all nodes to make, by their paths in the target."""
        if self._is_alone:
            yield self.path
            return
        for group, declared in groups_of(self.source.root):
            yield _join(self.path, group)
            for variable in declared.variables:
                yield below(_join(self.path, group), variable.name)

    def rehearse(self, editor: Editor) -> NewVariables:
        """Make the nodes in an empty dataset, as a rehearsal. Raises as `make`."""
        return self._make_groups(editor, "")

    def make(self, target: Target) -> NewVariables:
        """Make the nodes in the target. Returns the variables by their paths in the source.

        Raises
        ------
        NameTaken : there is a dimension of the name with another length. NoSuchNode : a group above
            them is a variable. Unsupported.
        """
        try:
            self._make_groups_above(target)
            if self._is_alone:
                return self._make_alone(target.editor)
            return self._make_groups(target.editor, self.path)
        except DatasetError as error:
            raise type(error)(f"{target.dataset.url(self.path)}: {error}") from error

    @property
    def _is_alone(self) -> bool:
        """Whether a variable is made without its own group."""
        return self.is_variable and (bool(self.path) or self._is_array)

    @property
    def _is_array(self) -> bool:
        """Whether a dataset that is an array becomes another such dataset."""
        (key, *others) = [v.description.key for v in self.source.variables.values()]
        is_array = key == "" and not others
        return is_array and not self.path and not self.format.declares

    def _make_groups_above(self, target: Target) -> None:
        above = ""
        for step in parent_of(self.path).split("/") if parent_of(self.path) else ():
            above = below(above, step)
            loaded = target.dataset.load(above)
            if loaded is None:
                target.editor.add_group(above, ())
            elif not isinstance(loaded.node, GroupHeader):
                raise NoSuchNode(f"/{above} is a variable, not a group")

    def _make_groups(self, editor: Editor, path: str) -> NewVariables:
        """Make the root of the source as the group at a path, with all below it."""
        for sub, declared in groups_of(self.source.root):
            group = _join(path, sub)
            if group:
                editor.add_group(group, declared.attributes)
            else:
                editor.add_attributes("", declared.attributes)
            if self.format.declares:
                editor.add_dimensions(group, declared.dimensions)
        made: NewVariables = {}
        for sub, declared in groups_of(self.source.root):
            for variable in declared.variables:
                name = below(sub, variable.name)
                dimensions = self._dimensions(editor, name, variable, path, _join(path, sub))
                made[name] = editor.add_variable(
                    self._variable(editor, name, _join(path, name), variable, dimensions)
                )
        return made

    def _make_alone(self, editor: Editor) -> NewVariables:
        """Make the only variable at the path itself; it shares existing dimensions."""
        ((name, _),) = self.source.variables.items()
        (declared,) = self.source.root.variables
        group = parent_of(self.path)
        if self.format.declares:
            shared = {
                f"/{wanted.name}": self._shared(editor, group, wanted)
                for wanted in self.source.root.dimensions
            }
            dimensions = tuple(shared[full] for full in declared.dimensions)
        else:
            dimensions = self._dimensions(editor, name, declared, "", group)
        variable = self._variable(editor, name, self.path, declared, dimensions)
        make = editor.create_root_array if self._is_array else editor.add_variable
        return {name: make(variable)}

    def _shared(self, editor: Editor, group: str, wanted: Dimension) -> Dimension:
        """Return the dimension of the name that a group sees, if it fits, otherwise a new one."""
        try:
            known = editor.dimension(group, wanted.name)
        except NoSuchNode:
            known = None
        if known is not None and (known.size, known.unlimited) == (wanted.size, wanted.unlimited):
            return known
        return editor.add_dimensions(group, [wanted])[0]

    def _dimensions(
        self, editor: Editor, name: str, declared: VariableDeclaration, path: str, group: str
    ) -> tuple[Dimension, ...]:
        """Return the dimensions of a variable in a group of the target.

        Parameters
        ----------
        path : of the group that the root of the source has become.
        """
        if self.format.declares:
            base = f"/{path}" if path else ""
            return tuple(editor.dimension(group, base + full) for full in declared.dimensions)
        description = self.source.variables[name].description
        names = [full.rpartition("/")[2] for full in declared.dimensions]
        if self.keeps_names:
            names = [dimension.name for dimension in description.dimensions]
        return tuple(
            self._dimension(dimension, word, length, group)
            for word, length, dimension in zip(
                names, description.array.shape, description.dimensions, strict=True
            )
        )

    def _dimension(self, known: Dimension, name: str, length: int, group: str) -> Dimension:
        """Return a dimension as the target has it, which declares none."""
        if known.anonymous:
            return Dimension(name, length, anonymous=True)
        return Dimension(name, length, known.unlimited and self.format.lists_unlimited, group)

    def _variable(
        self,
        editor: Editor,
        name: str,
        path: str,
        declared: VariableDeclaration,
        dimensions: tuple[Dimension, ...],
    ) -> Variable:
        """Return a variable of the source as it will be in the target."""
        description = _as_declared(self.source.variables[name].description, declared)
        known, attributes = description.array, description.attributes
        chunk_shape = declared.chunk_shape or known.chunk_shape
        array = replace(known, chunk_shape=chunk_shape)
        known_shards = known.unit_shape if known.shards else None
        if (chunk_shape, declared.shard_shape) != (known.chunk_shape, known_shards):
            array = replace(array, shards=self._shards(declared), cuts=())
        elif self.has_other_codecs:
            array = replace(array, cuts=())  # values are written in boxes of equal units
        is_same_format = description.format == self.format.name
        is_same_type = is_same_format and not _is_resized(known.dtype, declared)
        if not is_same_type or self.has_other_codecs:
            made = editor.described(path, self._storable(declared), dimensions)
            array = replace(array, codecs=made.array.codecs) if is_same_type else made.array
            if marks_missing(known) != marks_missing(array):
                attributes = attributes_with_fill(description)
            if array.dtype.native == known.dtype.native and (
                marks_missing(known)
                or not marks_missing(array)
                or any(attribute.name == FILL_VALUE for attribute in attributes)
            ):
                # Taken exactly, even if an attribute says otherwise.
                array = replace(array, fill_value=known.fill_value)
            is_alike = known.codecs.zarr_format == array.codecs.zarr_format
            separator = known.chunk_keys.separator if is_alike else None
            array = replace(array, chunk_keys=self.format.chunk_keys(separator))
            has = {attribute.name for attribute in attributes}
            attributes += tuple(
                a for a in made.attributes if a.name == QUANTIZE and a.name not in has
            )
        return Variable(path, path, self.format.name, array, dimensions, attributes)

    def _storable(self, declared: VariableDeclaration) -> VariableDeclaration:
        """Return a declaration without the shards that the format of the target does not have."""
        return declared if self._shards(declared) else replace(declared, shard_shape=None)

    def _shards(self, declared: VariableDeclaration) -> tuple[Shards, ...]:
        shape = declared.shard_shape
        shards = None if shape is None else self.format.new_shards(shape)
        return () if shards is None else (shards,)


def _as_declared(variable: Variable, declared: VariableDeclaration) -> Variable:
    """Return a variable without what declares dependent arrays, if these become variables."""
    named = {attribute.name for attribute in declared.attributes}
    attributes = (a for a in variable.attributes if a.name in named or a.name not in SPELLINGS)
    return replace(variable, attributes=tuple(attributes))


def is_cell(dtype: DataType) -> bool:
    """Return whether elements are strings of a fixed number of bytes or characters."""
    return dtype.nc_type is NcType.STRING and dtype.vlen is None


def _is_resized(dtype: DataType, declared: VariableDeclaration) -> bool:
    wanted = declared.string_bytes
    is_sized = is_cell(dtype) and dtype.stored.kind == "S"
    return is_sized and wanted is not None and wanted != dtype.item_size


def _join(path: str, name: str) -> str:
    return "/".join(part for part in (path, name) if part)
