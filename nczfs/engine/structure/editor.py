"""Changes of an open dataset: new groups, dimensions and variables, attributes, lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from nczfs.codecs.pipelines import check_codecs
from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import (
    AddDimension,
    AddMember,
    DeleteAttribute,
    GroupBecomesArray,
    MemberChange,
    NodeChange,
    SetAttribute,
)
from nczfs.engine.metadata.newnodes import Create, new_group, turning
from nczfs.engine.structure import (
    dependents,
    groupdimensions,
    leftgroups,
    relayout,
    removal,
    renaming,
    resizing,
)
from nczfs.engine.structure.attributechanges import settings, takings
from nczfs.engine.structure.creation import described, keeping, string_bytes
from nczfs.errors import (
    CodecError,
    NameTaken,
    NoSuchNode,
    NotWritable,
    Unsupported,
    UsageError,
)
from nczfs.formats.base import MetadataFormat, Node
from nczfs.formats.dimensions import anonymous
from nczfs.formats.limits import check_array
from nczfs.formats.names import below, parent_of, split_path
from nczfs.formats.naming import checked_name
from nczfs.formats.rewriting import check_described_once
from nczfs.model.declaration import VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    Dimension,
    GroupHeader,
    Variable,
)

LENGTH_MAX = 2**63 - 1


class Editor:
    """A maker and changer of nodes in a dataset that was opened for writing.

    Changes are visible at once through the same `Dataset`; others see them after `sync`. Every
    method may be called from any thread. A dataset may have any number of editors; each has its
    own `sync` tell once what was refused since it was made.

    Parameters
    ----------
    separator : of the chunk keys of new variables; None: the usual one of the format.
    """

    def __init__(self, dataset: Dataset, separator: str | None) -> None:
        self._dataset = dataset
        self._separator = separator
        self._names = dataset.edits.names
        self._listener = dataset.edits.refusals.listener()

    def create_root(self) -> None:
        """Make the root group."""
        self._add("", [Create(new_group(self._dataset.format, ""))])

    def create_group(self, path: str, attributes: Iterable[Attribute] = ()) -> GroupHeader:
        """Make a group, and missing groups above it.

        Raises
        ------
        NameTaken : a group or variable is there. UsageError : a name is invalid.
        """
        with self._names.changing(lambda: path):
            above = ""
            steps = [checked_name(step) for step in path.split("/")]
            for step in steps[:-1]:
                above = below(above, step)
                group = new_group(self._dataset.format, above)
                if leftgroups.is_free(self._dataset, above, group):
                    self._add_group(above, ())
                self._group(above)
            return self._add_group(below(above, steps[-1]), attributes)

    def create_dimension(self, group: str, name: str, size: int | None) -> Dimension:
        """Declare a dimension; None: unlimited, with the length 0 for now."""
        with self._names.changing(lambda: group):
            wanted = Dimension(name, size or 0, size is None, group)
            return self.create_dimensions(group, [wanted])[0]

    def create_dimensions(self, group: str, declared: Sequence[Dimension]) -> Sequence[Dimension]:
        """Declare dimensions of a group, as described, in linear time. Raises NameTaken."""
        made: dict[str, Dimension] = {}
        with self._names.changing(lambda: group):
            header = self._group(group)
            known = {each.name for each in header.dimensions}
            for wanted in declared:
                name = checked_name(wanted.name)
                if not 0 <= wanted.size <= LENGTH_MAX:
                    raise UsageError(f"dimension {name!r}: {wanted.size} is not a length")
                is_known = name in known or name in made
                if is_known or groupdimensions.is_in_use(self._dataset, group, name):
                    raise NameTaken(
                        f"/{below(group, name)}: a dimension of that name exists already"
                    )
                made[name] = replace(wanted, name=name, group=group)
            self._declare(*made.values())
            return list(made.values())

    def create_variable(self, group: str, declaration: VariableDeclaration) -> Variable:
        """Make a variable.

        Raises
        ------
        NameTaken, NoSuchNode (a dimension that no group declares), and as `described`. BadValue :
        as `dependents.declare`, where an attribute declares arrays.
        """
        with self._names.changing(lambda: group):
            name = checked_name(declaration.name)
            path = below(group, name)
            self._check_free(path)
            dimensions = self._wanted_dimensions(group, declaration)
            variable = self.described(path, declaration, dimensions)
            dependents.check_made(variable)
            return self.add_variable(variable)

    def add_variable(self, variable: Variable) -> Variable:
        """Make a variable exactly as it is described. Raises NameTaken, Unsupported."""
        with self._names.changing(lambda: variable.path):
            self._check_free(variable.path)
            self._list_unlimited(variable.dimensions)
            listing = AddMember(variable.name, is_group=False)
            changes = [Create(variable), *resizing.unstored(self._dataset, variable)]
            return self._add_variable(variable, changes, listing)

    def add_group(self, path: str, attributes: Iterable[Attribute]) -> GroupHeader:
        """Make a group with the name and attributes of another dataset's; the group above exists.

        Raises
        ------
        NameTaken, Unsupported.
        """
        with self._names.changing(lambda: path):
            return self._add_group(path, attributes)

    def add_attributes(self, path: str, attributes: Iterable[Attribute]) -> None:
        """Give a node the attributes of another one. Raises Unsupported."""
        self._add(path, [SetAttribute(attribute) for attribute in attributes])

    def add_dimensions(self, group: str, wanted: Iterable[Dimension]) -> list[Dimension]:
        """Declare dimensions as described, unless the group has them, in linear time.

        Raises
        ------
        NameTaken : the group has another one of that name. Unsupported.
        """
        with self._names.changing(lambda: group):
            known = {each.name: each for each in self._group(group).dimensions}
            found, new = [], []
            for each in (replace(each, group=group) for each in wanted):
                if each.anonymous:
                    found.append(self.dimension("", self.anonymous_dimension(each.size)))
                    continue
                there = known.setdefault(each.name, each)
                if (there.size, there.unlimited) != (each.size, each.unlimited):
                    raise NameTaken(
                        f"/{group}: there is a dimension {each.name!r} of length {there.size}, "
                        f"and one of length {each.size} is wanted"
                    )
                found.append(there)
                if there is each:
                    new.append(each)
            if new:
                self._declare(*new)
            return found

    def create_root_array(self, variable: Variable) -> Variable:
        """Make the root an array, instead of the group from `create_root` that is not stored yet.

        Raises
        ------
        Unsupported : the format has no such datasets.
        """
        with self._names.changing(lambda: ""):
            if self._dataset.format.declares:
                raise Unsupported(f"{self._dataset.format.name}: the root has to be a group")
            self._dataset.edits.forget("")
            return self._add_variable(variable, [Create(variable)])

    def turn_into_variable(self, path: str, declaration: VariableDeclaration) -> Variable:
        """Turn an empty group into a variable, which keeps its attributes and gets declared ones.

        Raises
        ------
        NotWritable : the group has members or dimensions, or is the root.
        NoSuchNode (a dimension), StoreError, and as `described`.
        """
        with self._names.held(path):
            self.sync()
            header = self._group(path)
            self.check_empty(path)
            whole = keeping(declaration, header.attributes)
            above = parent_of(path)
            variable = self.described(path, whole, self._wanted_dimensions(above, whole))
            declared = {each.name for each in declaration.attributes}
            changes = turning(header, variable, declared)
            changes += resizing.unstored(self._dataset, variable)
            return self._add_variable(variable, changes, GroupBecomesArray(variable.name))

    def complete_variable(self, path: str) -> None:
        """Remove what an interrupted `turn_into_variable` has left of a group, not the root."""
        with self._names.held(path):
            self._dataset.edits.add_together(leftgroups.completing(self._dataset, path))

    def check_empty(self, path: str) -> None:
        """Raise NotWritable unless a group can become a variable: empty, and not the root."""
        header = self._group(path)
        if not path or header.dimensions or self._dataset.names(path):
            raise NotWritable(
                f"/{path}: only an empty group can become a variable; make another one "
                "beside it (mkdir)"
            )

    def node(self, path: str) -> Node:
        """Return the group or variable at a path. Raises NoSuchNode, MetadataError, StoreError."""
        return self._dataset.node(path)

    @property
    def declares(self) -> bool:
        """Whether groups declare their dimensions; otherwise the variables define them."""
        return self._dataset.format.declares

    def described(
        self,
        path: str,
        declaration: VariableDeclaration,
        dimensions: Sequence[Dimension],
        metadata_format: MetadataFormat | None = None,
    ) -> Variable:
        """Return the variable that a declaration asks for, without making it.

        Parameters
        ----------
        dimensions : those that the declaration names; they need not exist yet.
        metadata_format : None: that of the dataset.

        Raises
        ------
        BadMetadata, BadValue, Unsupported, UsageError : it could not be made, or not be read
            afterwards.
        """
        if declaration.string_bytes is None:
            root = self._group("").attributes if declaration.type is NcType.STRING else ()
            declaration = replace(declaration, string_bytes=string_bytes(declaration, root))
        dataset = self._dataset
        metadata_format = metadata_format or dataset.format
        variable = described(path, declaration, dimensions, metadata_format, self._separator)
        check_array(variable.array, f"/{path}", dataset.format_options)
        try:
            check_codecs(variable.array)
        except CodecError as error:
            raise UsageError(f"/{path}: {error}") from error
        return variable

    def _wanted_dimensions(self, group: str, declaration: VariableDeclaration) -> list[Dimension]:
        return [self.dimension(group, wanted) for wanted in declaration.dimensions]

    def anonymous_dimension(self, size: int) -> str:
        """Return the full name of an anonymous dimension of a length, made if needed."""
        with self._names.changing(lambda: ""):
            dimension = anonymous(size)
            header = self._group("")
            if self._dataset.format.declares and self._declared(header, dimension.name) is None:
                self._declare(dimension)
            return f"/{dimension.name}"

    def dimension(self, group: str, name: str) -> Dimension:
        """Return the dimension that a name means in a group: the nearest upwards, or by full name.

        Raises
        ------
        NoSuchNode : no group declares it.
        """
        if name.startswith("/"):
            place = split_path(name)
            found = None
            if place is not None:
                found = self._declared(self._group(place[0]), place[1])
            if found is None and name.startswith("/_Anonymous_Dim_"):
                return anonymous(int(name.rpartition("_")[2]))
        else:
            above = group
            while (found := self._declared(self._group(above), name)) is None and above:
                above = parent_of(above)
        if found is None:
            raise NoSuchNode(f"/{group}: no dimension {name!r}; create_dimension makes one")
        return found

    def set_attribute(
        self, path: str, attribute: Attribute, array: ArrayDescription | None = None
    ) -> None:
        """Give an attribute a value; a `_FillValue` gets the type of its variable.

        Parameters
        ----------
        array : of the variable that is meant; None: of any node that has the path.

        Raises
        ------
        UsageError : the name is reserved by the format. BadValue : the `_FillValue` does not fit
            the variable. StructureChanged : another variable has the path. NameTaken, BadValue :
            as `dependents.declare`, where the attribute declares arrays.
        """
        self.set_attributes(path, [attribute], array)

    def set_attributes(
        self,
        path: str,
        attributes: Iterable[Attribute],
        array: ArrayDescription | None = None,
    ) -> None:
        """Give attributes values, all together, as `set_attribute` does for one."""
        self._add(path, settings(self._dataset, path, attributes, array))

    def change_format(self, metadata_format: MetadataFormat) -> None:
        """Change the format of a dataset without variables. Raises NotWritable."""
        with self._names.held(""):
            self.sync()
            gate = self._dataset.engine.arrays.gate.inside(lambda: self._dataset.root)
            with gate, self._dataset.copy.changing((None,)):
                relayout.change_format(self._dataset, metadata_format)

    def take_attributes(
        self,
        path: str,
        attributes: Iterable[Attribute],
        array: ArrayDescription | None = None,
    ) -> None:
        """Give a node the attributes of another one, including reserved names.

        Parameters and errors are those of `set_attribute`.
        """
        self._add(path, takings(self._dataset, path, attributes, array))

    def delete_attribute(self, path: str, name: str, array: ArrayDescription | None = None) -> None:
        """Remove an attribute if it exists. Parameters are those of `set_attribute`."""
        with self._names.finding(path, lambda: self._dataset.node(path)):
            self._dataset.edits.add(path, DeleteAttribute(name, array=array))

    def grow(self, variable: Variable, shape: Sequence[int]) -> None:
        """Extend the unlimited dimensions of a variable to a shape; after an error, none."""
        with self._names.changing(lambda: variable.path):
            resizing.grow(self._dataset, variable, shape)

    def resize(self, dimension: Dimension, size: int, *, grows: bool = False) -> None:
        """Change the length of a dimension, and of every variable that has it.

        Values beyond the new end are deleted; new elements read as fill.

        Parameters
        ----------
        grows : the length is a minimum, in case another client extends the dimension, too.
        """
        with self._names.changing(lambda: dimension.group) if grows else self._names.held(""):
            resizing.resize(self._dataset, dimension, size, grows=grows)

    def rename(
        self,
        path: str,
        name: str,
        renamed: Callable[[str, str], object] = lambda path, goal: None,
    ) -> str:
        """Rename a group or variable. Returns its new path. See `renaming.rename`."""
        return renaming.rename(self._dataset, path, name, renamed)

    def remove(self, path: str) -> int:
        """Remove a group or variable and all below it. Returns the number of objects."""
        with self._holding_node(path) as found:
            return removal.remove(self._dataset, found)

    def remove_hollow(self, path: str) -> bool:
        """Remove a group if it holds nothing. Returns whether it did. Raises as `remove`."""
        with self._holding_node(path) as found:
            is_hollow = removal.is_hollow(self._dataset, found)
            if is_hollow:
                removal.remove(self._dataset, found)
            return is_hollow

    def hollow_below(self, path: str) -> list[str] | None:
        """Return the groups below a group; see `removal.hollow_below`."""
        return removal.hollow_below(self._dataset, path)

    def sync(self, *asked: str) -> None:
        """Store everything, and raise errors that concern some nodes; see `Dataset.store`.

        Parameters
        ----------
        asked : the paths of these nodes; none: all nodes.
        """
        self._dataset.store(asked or None, self._listener)

    @contextmanager
    def _holding_node(self, path: str) -> Iterator[str]:
        """Hold a node wherever renames have put it meanwhile; yields its path."""
        node = self._dataset.open_node(path)
        while True:
            with self._names.held(found := node.path):
                if found == node.path:
                    yield found
                    return

    def _add(self, path: str, changes: Sequence[NodeChange], *listing: MemberChange) -> None:
        """Add changes of one node, checked once, because that takes as long as all of it.

        With them comes the node's `listing` by its group, if that has a list, so that nothing
        stores them without it.
        """
        if changes:
            above = parent_of(path)
            lists = bool(listing) and self._group(above).groups is not None
            listings = [(above, each) for each in listing if lists]
            with self._names.finding(path, lambda: self._dataset.edits.check(path, *changes)):
                self._dataset.edits.add_together([*((path, each) for each in changes), *listings])

    def _add_variable(
        self, variable: Variable, changes: Sequence[NodeChange], *listing: MemberChange
    ) -> Variable:
        self._add(variable.path, changes, *listing)
        self._dataset.array(variable).stored.is_new = True
        return variable

    def _add_group(self, path: str, attributes: Iterable[Attribute]) -> GroupHeader:
        group = new_group(self._dataset.format, path, attributes)
        self._check_free(path, group)
        self._add(path, [Create(group)], AddMember(group.name, is_group=True))
        return group

    def _check_free(self, path: str, group: GroupHeader | None = None) -> None:
        """Check that a node can be made. Raises NameTaken, NotWritable, StoreError."""
        documents, above = self._dataset.edits.documents(), parent_of(path)
        documents.fetch(self._dataset.format.keys_to_change(path))
        check_described_once(self._dataset.format, above, documents, "nothing can be made in it")
        if not leftgroups.is_free(self._dataset, path, group):
            raise NameTaken(f"/{path}: a group or variable of that name exists already")

    def _group(self, path: str) -> GroupHeader:
        node = self._dataset.node(path)
        if not isinstance(node, GroupHeader):
            raise NoSuchNode(f"/{path}: is a variable, not a group")
        return node

    def _declare(self, *dimensions: Dimension) -> None:
        """Declare dimensions of one group."""
        if self._dataset.format.declares:
            for group in {dimension.group for dimension in dimensions}:
                self._add(group, [AddDimension(dimension) for dimension in dimensions])
        else:
            self._list_unlimited(dimensions)
            for dimension in dimensions:
                self._dataset.edits.declare(dimension)

    def _list_unlimited(self, dimensions: Iterable[Dimension]) -> None:
        for dimension in groupdimensions.unlisted(self._dataset, dimensions):
            self._add(dimension.group, [AddDimension(dimension)])

    def _declared(self, group: GroupHeader, name: str) -> Dimension | None:
        return groupdimensions.declared(self._dataset, group, name)
