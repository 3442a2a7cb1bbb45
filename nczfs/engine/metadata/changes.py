"""Changes of metadata, which are applied to the newest documents of a node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from typing import ClassVar, Protocol, TypeAlias, TypeVar

from nczfs.engine.chunks.storedarray import has_same_chunks
from nczfs.engine.retrying import may_pass
from nczfs.errors import (
    DatasetError,
    NameTaken,
    NczfsError,
    NoSuchNode,
    StoreError,
    StructureChanged,
)
from nczfs.formats.base import Node
from nczfs.model.hierarchy import (
    ArrayDescription,
    Attribute,
    Dimension,
    GroupHeader,
    Variable,
)
from nczfs.plaindata import frozen

MAX_DEPTH = 1024  # levels of groups: a key has 1024 bytes

_NewLength = TypeVar("_NewLength", "Resize", "ResizeDimension")


class NodeChange(ABC):
    """One change of one node. Applying it twice is applying it once.

    A change is kept until it is stored, and is applied again when another client changed the
    document meanwhile. A change that can never be stored is withdrawn, and its caller gets the
    error.

    Attributes
    ----------
    outlasts_refusals : it is tried again even after the store has refused it for good, because
        there are values that cannot be read without it; other changes are withdrawn then.
    declares : it concerns the dimensions of a group.
    makes : it makes the node.
    """

    outlasts_refusals: ClassVar[bool] = False
    declares: ClassVar[bool] = False
    makes: ClassVar[bool] = False

    def may_be_stored_after(self, error: NczfsError) -> bool:
        """Return whether the change is worth another try after an attempt to store it failed."""
        return isinstance(error, StoreError) and (self.outlasts_refusals or may_pass(error))

    @property
    @abstractmethod
    def subject(self) -> tuple[str, ...]:
        """The part of the node that it changes; a later change of the same subject replaces it."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What it is, for messages."""

    @abstractmethod
    def apply(self, node: Node | None) -> Node:
        """Return the node with the change; `node` is None where there is no node yet."""

    def apply_again(self, node: Node | None) -> Node:
        """Return a node that has the change, with what others have changed of it since."""
        return self.apply(node)

    def after(self, earlier: NodeChange) -> NodeChange:
        """Return the change that replaces an earlier one of the same subject and this one."""
        return self

    def withdrawn(self, error: NczfsError) -> None:
        """Learn that it was withdrawn, because it can never be stored."""
        return


Refused: TypeAlias = "list[tuple[NodeChange, NczfsError]]"
"""Changes that could not be stored, each with the reason."""


@frozen
class AttributeChange(NodeChange):
    """A change of an attribute.

    Attributes
    ----------
    array : of the variable whose attribute it is, as the caller knows it; None: of a group, or of
        whatever has the path.
    """

    array: ArrayDescription | None = field(default=None, kw_only=True)

    def apply(self, node: Node | None) -> Node:
        node = _there(node)
        check_same_array(node, self.array)
        return replace(node, attributes=tuple(self.applied(node.attributes)))

    @abstractmethod
    def applied(self, attributes: Sequence[Attribute]) -> Iterable[Attribute]:
        """Return the attributes of a node with the change."""


@frozen
class SetAttribute(AttributeChange):
    """A new value of an attribute, which keeps its place if it had one."""

    attribute: Attribute

    @property
    def subject(self) -> tuple[str, ...]:
        return attribute_subject(self.attribute.name)

    @property
    def words(self) -> str:
        return f"attribute {self.attribute.name!r}"

    def applied(self, attributes: Sequence[Attribute]) -> Iterable[Attribute]:
        name = self.attribute.name
        if all(known.name != name for known in attributes):
            return (*attributes, self.attribute)
        return (self.attribute if known.name == name else known for known in attributes)


@frozen
class DeleteAttribute(AttributeChange):
    """The removal of an attribute."""

    name: str

    @property
    def subject(self) -> tuple[str, ...]:
        return attribute_subject(self.name)

    @property
    def words(self) -> str:
        return f"the removal of attribute {self.name!r}"

    def applied(self, attributes: Sequence[Attribute]) -> Iterable[Attribute]:
        return (known for known in attributes if known.name != self.name)


def attribute_subject(name: str) -> tuple[str, ...]:
    """Return the subject of all changes of an attribute."""
    return ("attribute", name)


def check_same_array(node: Node, array: ArrayDescription | None) -> None:
    """Raise StructureChanged if a node is no variable with the chunks of a known array.

    Parameters
    ----------
    array : None: any node will do.
    """
    if array is None:
        return
    if not (isinstance(node, Variable) and has_same_chunks(node.array, array)):
        raise StructureChanged(f"/{node.path}: another client has put something else in its place")


@frozen
class MemberChange(NodeChange):
    """A change of what a group lists under a name, if it lists its members at all."""

    name: str

    @property
    def subject(self) -> tuple[str, ...]:
        return ("member", self.name)

    @property
    def words(self) -> str:
        return f"member {self.name!r}"


@frozen
class AddMember(MemberChange):
    """A new array or group in a group's list of members, if the group has a list."""

    is_group: bool

    def apply(self, node: Node | None) -> Node:
        group = _group(node)
        if self.is_group:
            return replace(group, groups=_with_name(group.groups, self.name))
        return replace(group, arrays=_with_name(group.arrays, self.name))


@frozen
class RemoveMember(MemberChange):
    """The removal of an array or group from a group's list of members, if the group has a list."""

    def apply(self, node: Node | None) -> Node:
        group = _group(node)
        return replace(
            group,
            groups=_without_name(group.groups, self.name),
            arrays=_without_name(group.arrays, self.name),
        )


@frozen
class RenameMember(MemberChange):
    """A new name of a member in a group's list of members, if the group has a list."""

    new_name: str

    def apply(self, node: Node | None) -> Node:
        group = _group(node)
        return replace(
            group,
            groups=_renamed(group.groups, self.name, self.new_name),
            arrays=_renamed(group.arrays, self.name, self.new_name),
        )


@frozen
class GroupBecomesArray(MemberChange):
    """A member's move from a group's list of groups to that of arrays, if the group has lists."""

    def apply(self, node: Node | None) -> Node:
        group = _group(node)
        if group.groups is None:
            return group
        groups = _without_name(group.groups, self.name)
        return replace(group, groups=groups, arrays=_with_name(group.arrays, self.name))


@frozen
class AddDimension(NodeChange):
    """The declaration of a dimension by a group."""

    declares: ClassVar[bool] = True
    dimension: Dimension

    @property
    def subject(self) -> tuple[str, ...]:
        return ("dimension", self.dimension.name)

    @property
    def words(self) -> str:
        return f"dimension {self.dimension.name!r}"

    def apply(self, node: Node | None) -> Node:
        return _with_dimensions(_group(node), [self.dimension])


@frozen
class ResizeDimension(NodeChange):
    """A new length of a dimension.

    Attributes
    ----------
    grows : the length is a minimum: when two clients append, the longer one counts.
    """

    outlasts_refusals: ClassVar[bool] = True
    declares: ClassVar[bool] = True

    name: str
    size: int
    grows: bool

    @property
    def subject(self) -> tuple[str, ...]:
        return ("length", self.name)

    @property
    def words(self) -> str:
        return f"the length of dimension {self.name!r}"

    def after(self, earlier: NodeChange) -> NodeChange:
        return _both(earlier, self)

    def apply(self, node: Node | None) -> Node:
        group = _group(node)
        dimensions = (
            replace(known, size=_length(known.size, self.size, grows=self.grows))
            if known.name == self.name
            else known
            for known in group.dimensions
        )
        return replace(group, dimensions=tuple(dimensions))


class WrittenArray(Protocol):
    """An array to which values were written beyond its end."""

    def check(self, variable: Variable) -> None:
        """Raise StructureChanged if a variable of its name has other chunks."""

    def lost(self, error: NczfsError) -> None:
        """Learn that the values have no place any more."""


@frozen
class Resize(NodeChange):
    """A new length of an array along one dimension; `grows` as for `ResizeDimension`.

    Attributes
    ----------
    array : whose values need the length; None: nothing was written.
    """

    outlasts_refusals: ClassVar[bool] = True

    axis: int
    size: int
    grows: bool
    array: WrittenArray | None = None

    @property
    def subject(self) -> tuple[str, ...]:
        return ("length", str(self.axis))

    @property
    def words(self) -> str:
        return f"its length along axis {self.axis}"

    def after(self, earlier: NodeChange) -> NodeChange:
        return _both(earlier, self)

    def apply(self, node: Node | None) -> Variable:
        variable = _there(node)
        if not isinstance(variable, Variable) or self.axis >= len(variable.array.shape):
            raise StructureChanged(f"/{variable.path}: another client has changed it meanwhile")
        if self.array is not None:
            self.array.check(variable)
        shape = list(variable.array.shape)
        shape[self.axis] = _length(shape[self.axis], self.size, grows=self.grows)
        dimensions = list(variable.dimensions)
        dimensions[self.axis] = replace(dimensions[self.axis], size=shape[self.axis])
        return replace(
            variable,
            array=replace(variable.array, shape=tuple(shape)),
            dimensions=tuple(dimensions),
        )

    def withdrawn(self, error: NczfsError) -> None:
        if self.array is not None:
            self.array.lost(error)


def apply_all(node: Node | None, changes: Sequence[NodeChange]) -> Node:
    """Return a node with changes, which takes linear time if all are of one kind.

    Raises
    ------
    DatasetError : as `NodeChange.apply` of the first one that does not fit.
    """
    kinds = {type(change) for change in changes}
    if len(changes) > 1 and kinds == {SetAttribute}:
        return _with_attributes(_there(node), [c for c in changes if isinstance(c, SetAttribute)])
    if len(changes) > 1 and kinds == {AddDimension}:
        wanted = [change.dimension for change in changes if isinstance(change, AddDimension)]
        return _with_dimensions(_group(node), wanted)
    for change in changes:
        node = change.apply(node)
    return _there(node)


def apply_what_fits(
    node: Node | None, changes: Iterable[NodeChange], *, is_begun: bool
) -> tuple[Node | None, Refused]:
    """Return a node with the changes that fit it, and the errors of the others.

    Parameters
    ----------
    is_begun : what there is of the node was stored by this process, which creates it.
    """
    refused: Refused = []
    for _, those in groupby(changes, key=type):
        alike = list(those)
        is_there = is_begun and alike[0].makes
        try:
            if not is_there:
                node = apply_all(node, alike)
                continue
        except DatasetError:
            pass  # the others are not to blame for it
        for change in alike:
            try:
                node = change.apply_again(node) if is_there else change.apply(node)
            except DatasetError as error:
                refused.append((change, error))
    return node, refused


def concern(subjects: Mapping[str, Collection[tuple[str, ...]]], variable: Variable) -> bool:
    """Return whether others need a change to find a variable; see `Edits.concern`.

    Parameters
    ----------
    subjects : of the changes, by the path of their node.
    """
    path = variable.path
    if path in subjects:
        return True
    while path:
        above, _, name = path.rpartition("/")
        if not {("node",), ("member", name)}.isdisjoint(subjects.get(above, ())):
            return True
        path = above
    return any(
        not {("dimension", each.name), ("length", each.name)}.isdisjoint(
            subjects.get(each.group, ())
        )
        for each in variable.dimensions
    )


def listing(changes: Iterable[NodeChange], name: str) -> list[NodeChange]:
    """Return those changes of a group by which it lists a new node, not those of an older one."""
    added = (c for c in changes if isinstance(c, AddMember | GroupBecomesArray))
    return [change for change in added if change.name == name]


def in_order_of_storing(nodes: Mapping[str, Node]) -> list[list[str]]:
    """Return paths, grouped: variables, then groups, the deepest first, the root last."""

    def level(path: str) -> int:
        if isinstance(nodes[path], Variable):
            return -MAX_DEPTH
        return -path.count("/") if path else 1

    found = sorted(nodes, key=lambda path: (level(path), path))
    return [list(those) for _, those in groupby(found, key=level)]


def _with_attributes(node: Node, changes: Sequence[SetAttribute]) -> Node:
    known = {attribute.name: attribute for attribute in node.attributes}
    for change in changes:
        check_same_array(node, change.array)
        known[change.attribute.name] = change.attribute
    return replace(node, attributes=tuple(known.values()))


def _with_dimensions(group: GroupHeader, wanted: Iterable[Dimension]) -> GroupHeader:
    known = {dimension.name: dimension for dimension in group.dimensions}
    for new in wanted:
        found = known.setdefault(new.name, new)
        both_grow = found.unlimited and new.unlimited
        if not both_grow and found.size != new.size:
            raise NameTaken(
                f"/{group.path}: dimension {new.name!r}, of length {found.size}, was made by "
                "another client in the meantime"
            )
    return replace(group, dimensions=tuple(known.values()))


def _both(earlier: NodeChange, later: _NewLength) -> _NewLength:
    """Return one new length for two that follow each other."""
    assert isinstance(earlier, type(later))
    if later.grows and later.size <= earlier.size:
        return earlier
    return replace(later, grows=later.grows and earlier.grows)


def _length(known: int, wanted: int, *, grows: bool) -> int:
    return max(known, wanted) if grows else wanted


def _there(node: Node | None) -> Node:
    if node is None:
        raise NoSuchNode("another client has removed a group or variable meanwhile")
    return node


def _group(node: Node | None) -> GroupHeader:
    found = _there(node)
    if not isinstance(found, GroupHeader):
        raise StructureChanged(f"/{found.path}: was a group and is now a variable")
    return found


def _with_name(names: tuple[str, ...] | None, name: str) -> tuple[str, ...] | None:
    return names if names is None or name in names else (*names, name)


def _without_name(names: tuple[str, ...] | None, name: str) -> tuple[str, ...] | None:
    return None if names is None else tuple(known for known in names if known != name)


def _renamed(names: tuple[str, ...] | None, name: str, new_name: str) -> tuple[str, ...] | None:
    if names is None or name not in names:
        return names
    return tuple(new_name if known == name else known for known in names if known != new_name)
