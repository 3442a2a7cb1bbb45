"""The creation of a node, as a change that is stored like others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import ClassVar

from nczfs.engine.chunks.storedarray import has_same_chunks
from nczfs.engine.metadata.changes import NodeChange
from nczfs.errors import NameTaken, StructureChanged
from nczfs.formats.base import MetadataFormat, Node
from nczfs.model.hierarchy import Attribute, GroupHeader, Variable
from nczfs.plaindata import frozen


@frozen
class Create(NodeChange):
    """The creation of a node.

    Attributes
    ----------
    is_over_group : an empty group may be there, whose attributes the node keeps.
    """

    declares: ClassVar[bool] = True
    makes: ClassVar[bool] = True

    node: Node
    is_over_group: bool = False

    @property
    def subject(self) -> tuple[str, ...]:
        return ("node",)

    @property
    def words(self) -> str:
        return "its creation"

    def apply(self, node: Node | None) -> Node:
        if node is None or repr(node) == repr(self.node):
            return self.node
        if self.is_over_group and isinstance(node, GroupHeader) and node.is_empty:
            own = {attribute.name for attribute in self.node.attributes}
            kept = (each for each in node.attributes if each.name not in own)
            return replace(self.node, attributes=(*kept, *self.node.attributes))
        raise NameTaken(f"/{node.path}: another client has created it meanwhile")

    def apply_again(self, node: Node | None) -> Node:
        """Return a node that this process has stored, with what others have changed of it since.

        Raises
        ------
        NameTaken : another client has removed it since, and made something else.
        """
        made = self.node
        if isinstance(made, GroupHeader) and isinstance(node, GroupHeader):
            return node
        if not (isinstance(made, Variable) and isinstance(node, Variable)):
            return self.apply(node)
        is_same = has_same_chunks(node.array, made.array)
        return _with_dimensions_of(made, node) if is_same else self.apply(node)


@frozen
class DropGroup(NodeChange):
    """The removal of the documents by which a variable was a group before."""

    @property
    def subject(self) -> tuple[str, ...]:
        return ("group",)

    @property
    def words(self) -> str:
        return "the removal of the group that it was"

    def apply(self, node: Node | None) -> Node:
        if not isinstance(node, Variable):
            raise StructureChanged("another client has removed or replaced a variable meanwhile")
        return node


def new_group(
    metadata_format: MetadataFormat, path: str, attributes: Iterable[Attribute] = ()
) -> GroupHeader:
    """Return a group as it is made: empty, with a list of members if the format has one."""
    listed: tuple[str, ...] | None = () if metadata_format.declares else None
    return GroupHeader(path, metadata_format.name, (), tuple(attributes), listed, listed)


def turning(header: GroupHeader, variable: Variable, declared: Collection[str]) -> list[NodeChange]:
    """Return the changes by which an empty group becomes a variable.

    Parameters
    ----------
    variable : with the attributes of the group, which it keeps as they are when it is stored.
    declared : the names of the attributes that replace those of the group.
    """
    kept = {attribute.name for attribute in header.attributes}.difference(declared)
    own = tuple(each for each in variable.attributes if each.name not in kept)
    return [Create(replace(variable, attributes=own), is_over_group=True), DropGroup()]


def _with_dimensions_of(made: Variable, found: Variable) -> Variable:
    """Return a variable as it was found, with the dimensions that nobody has declared yet."""
    missing = [
        new.anonymous < old.anonymous
        for new, old in zip(made.dimensions, found.dimensions, strict=True)
    ]
    if not any(missing):
        return found
    dimensions = tuple(
        replace(new, size=old.size) if is_missing else old
        for new, old, is_missing in zip(made.dimensions, found.dimensions, missing, strict=True)
    )
    return replace(found, dimensions=dimensions, problems=made.problems)
