"""The groups and variables of a dataset, read one by one on demand."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from nczfs.engine import headway
from nczfs.engine.metadata.copies import copy_problem, stale_keys
from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.engine.metadata.edits import Edits
from nczfs.engine.metadata.ledger import Shelf
from nczfs.engine.metadata.room import LEVELS_MAX, GroupMemoryLimit
from nczfs.engine.values.quantize import ATTRIBUTE as ROUNDING
from nczfs.engine.weight import weight_of_node
from nczfs.errors import (
    BadMetadata,
    MetadataError,
    NczfsError,
    NoSuchNode,
    NotADataset,
    TooManyNodes,
)
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.names import members_among, parent_of
from nczfs.model.hierarchy import Attribute, Dimension, Group, GroupHeader, Variable
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key, Prefix, is_within, join, parse_prefix

log = logging.getLogger(__name__)

HELD_BYTES_MAX = 16 << 10


@frozen(slots=False)
class LoadedNode:
    """A node as it was read, and the versions of the documents it was read from.

    Attributes
    ----------
    mtime_ns : of the newest of the documents; None if the store has no times.
    nbytes : memory that the node takes.
    """

    node: Node
    used: dict[Key, Version]
    mtime_ns: int | None
    nbytes: int = 0

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """The attributes of the node, by name."""
        return {attribute.name: attribute for attribute in self.node.attributes}

    @property
    def to_hold(self) -> LoadedNode:
        """The same for code that holds it outside of the budget of the metadata.

        A node that takes much memory is reduced to what its values need; load it for the rest.
        """
        return self if self.nbytes <= HELD_BYTES_MAX else replace(self, node=_light(self.node))


class Hierarchy:
    """The groups and variables at one prefix of a store, including pending changes.

    Paths are relative to the root, without a leading slash; "" is the root. Every method may be
    called from any thread. Nodes that were read are kept as long as the metadata budget has room.

    Attributes
    ----------
    reads_consolidated : a consolidated copy may be read instead of the single documents.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        root: Prefix,
        metadata_format: MetadataFormat,
        options: FormatOptions,
        edits: Edits,
    ) -> None:
        self.root = root
        self.format = metadata_format
        self.edits = edits
        self._metadata = metadata
        self.format_options = options
        ledger = metadata.ledger
        self._nodes: Shelf[str, LoadedNode] = Shelf(ledger)
        self._edited: Shelf[str, tuple[LoadedNode | None, int, LoadedNode | None]] = Shelf(ledger)
        self.reads_consolidated = True

    def url(self, path: str) -> str:
        """Return the place of a node, for messages."""
        return "/".join(filter(None, (self._metadata.zmap.name, self.root, path)))

    def prefix(self, path: str) -> Prefix:
        """Return the prefix of a node's keys in the store."""
        return parse_prefix("/".join(filter(None, (self.root, path))))

    def load(self, path: str) -> LoadedNode | None:
        """Return the group or variable at a path with its pending changes; None if there is none.

        The result is the same object until a document or a pending change differs.

        Raises
        ------
        MetadataError : its documents cannot be read. StoreError : the store could not be reached.
        """
        while True:
            revision = self.edits.revision
            stored = self._load_stored(path)
            known = self._edited.get(path)
            if known is not None and known[0] is stored and known[1] == revision:
                return known[2]
            node = stored.node if stored is not None else None
            if revision:
                node = self.edits.applied(path, node)
            # A change that was stored in between is in neither of the two.
            if revision == self.edits.revision:
                break
        if revision == 0:
            return stored
        edited = None if node is None else _edited(stored, node)
        nbytes = 0 if edited is None or edited is stored else edited.nbytes
        self._edited.put(path, (stored, revision, edited), nbytes)
        return edited

    def load_now(self, path: str) -> LoadedNode | None:
        """Load as `load` does, but ask the store again for the node's documents."""
        if (known := self._nodes.get(path)) is not None:
            self._metadata.ask_again(known.used)
        return self.load(path)

    def load_listed(self, path: str) -> LoadedNode | None:
        """Load as `load` does, but require an array that its group lists.

        A missing document of a group is no error here: groups may have none.

        Raises
        ------
        BadMetadata : the array is missing.
        """
        loaded = self.load(path)
        if loaded is None and self._lists_array(path):
            raise BadMetadata(self._missing(path))
        return loaded

    def node(self, path: str) -> Node:
        """Return the group or variable at a path. Raises NoSuchNode, MetadataError, StoreError."""
        found = self.found_node(path)
        if found is None:
            raise NoSuchNode(f"{self.url(path)}: no group or variable")
        return found

    def found_node(self, path: str) -> Node | None:
        """Return the group or variable at a path; None: there is none. Raises as `load`."""
        loaded = self.load(path)
        return None if loaded is None else loaded.node

    def known_node(self, path: str) -> Node:
        """Return a node as it was read last, with its pending changes. Raises as `node`."""
        known = self._nodes.get(path)
        node = None if known is None else self.edits.applied(path, known.node)
        return self.node(path) if node is None else node

    def names(self, path: str, *, are_loaded: bool = False) -> list[str]:
        """Return the possible names of members, listed or declared by the node, or in the store.

        With `are_loaded`, the caller loads each of them, and sees which are none.
        """
        node = self.node(path)
        if isinstance(node, Variable):
            return [each.name for each in node.dependents]
        if node.arrays is not None or node.groups is not None:
            return [*(node.arrays or ()), *(node.groups or ())]
        prefix = self.prefix(path)
        look = self._metadata.possible_names if are_loaded else self._metadata.prefix_names
        return sorted({*look(prefix), *members_among(self.edits.created(), path)})

    def has_member(self, path: str, name: str) -> bool:
        """Return whether a node may have a member of that name, without requesting the member."""
        node = self.node(path)
        if isinstance(node, Variable):
            return any(each.name == name for each in node.dependents)
        if node.arrays is not None or node.groups is not None:
            return name in (node.arrays or ()) or name in (node.groups or ())
        return True

    def is_known_absent(self, path: str) -> bool:
        """Return whether it is known that there is no node at a path. Makes no request."""
        above = self.prefix(parent_of(path))
        is_known, entry = self._metadata.known_entry(above, path.rpartition("/")[2])
        is_prefix = entry is not None and entry.is_prefix
        return is_known and not is_prefix and path not in self.edits.pending()

    def members(
        self, path: str, *, documented: bool = False
    ) -> tuple[list[Node], list[tuple[str, str]]]:
        """Return the nodes right below a group, and the names and errors of broken ones.

        Their documents are requested all at once. With `documented`, a document that gives all
        names is believed, and nothing is listed.
        """
        header = self.node(path)
        if not isinstance(header, GroupHeader):
            return self._loaded_members(path, self.names(path))
        names = self._documented_names(header) if documented else self.names(path, are_loaded=True)
        self._fetch_all([header], {path: names})
        return self._loaded_members(path, names)

    def other_names(self, path: str) -> list[str]:
        """Return the names of the prefixes right below a group that are no groups or variables.

        A far store is not asked for names that are unknown.
        """
        names = self._metadata.names_at_hand(self.prefix(path))
        return [name for name in names if not self._is_node(_joined(path, name))]

    def _is_node(self, path: str) -> bool:
        try:
            return self.load(path) is not None
        except MetadataError:
            return True

    def _loaded_members(
        self, path: str, names: Iterable[str], room: GroupMemoryLimit | None = None
    ) -> tuple[list[Node], list[tuple[str, str]]]:
        nodes: list[Node] = []
        broken: list[tuple[str, str]] = []
        group = self.node(path)
        listed = isinstance(group, GroupHeader) and group.arrays is not None
        for name in names:
            headway.make()
            child = _joined(path, name)
            try:
                loaded = self.load(child)
                if loaded is not None and room is not None:
                    room.take(loaded.nbytes, self.url(child))
            except MetadataError as error:
                broken.append((name, str(error)))
                continue
            if loaded is not None:
                nodes.append(loaded.node)
            elif listed:
                broken.append((name, self._missing(child)))
        return nodes, broken

    def group(self, path: str, *, nodes_max: int | None = None) -> Group:
        """Return a group with everything below it.

        Where a request is a round trip, all groups of a level are requested at once. If one
        document gives all names, nothing else is requested.

        Parameters
        ----------
        nodes_max : how many groups and variables there may be below it; None: any number.

        Raises
        ------
        NotADataset : the node is a variable.
        TooManyNodes : there are more names than `nodes_max`; found before their nodes are read.
        """
        header = self.node(path)
        if not isinstance(header, GroupHeader):
            raise NotADataset(f"{self.url(path)}: is a variable, not a group")
        if self._metadata.far:
            self._fetch_below(header, nodes_max)
        group = self._whole(header, GroupMemoryLimit(self._metadata.group_bytes_max, nodes_max))
        if not path and (problem := self.copy_problem()):
            header = replace(group.header, problems=(*group.header.problems, problem))
            group = replace(group, header=header)
        return group

    def _whole(self, header: GroupHeader, room: GroupMemoryLimit, level: int = 0) -> Group:
        room.enter(self.url(header.path), level)
        names = self._documented_names(header)
        room.expect(len(names), self.url(header.path))
        nodes, broken = self._loaded_members(header.path, names, room)
        variables = tuple(node for node in nodes if isinstance(node, Variable))
        groups: list[Group] = []
        for node in nodes:
            if isinstance(node, GroupHeader):
                try:
                    groups.append(self._whole(node, room, level + 1))
                except TooManyNodes:
                    raise
                except NczfsError as error:
                    broken.append((node.name, str(error)))
        dimensions = dimensions_of(header, variables, tuple(groups))
        return Group(header, dimensions, variables, tuple(groups), tuple(broken))

    def _fetch_below(self, header: GroupHeader, nodes_max: int | None) -> None:
        """Fetch the documents of all nodes below a group, level by level. Raises TooManyNodes."""
        expected = GroupMemoryLimit(self._metadata.group_bytes_max, nodes_max)
        level = [header]
        for _ in range(LEVELS_MAX):
            unlisted = [group for group in level if not self._tells_names(group)]
            self._metadata.fetch_names(self.prefix(group.path) for group in unlisted)
            names = {group.path: self._documented_names(group) for group in level}
            for path, found in names.items():
                expected.expect(len(found), self.url(path))
            self._fetch_all(level, names)
            room = GroupMemoryLimit(self._metadata.group_bytes_max)
            level = [
                node
                for group in level
                for node in self._loaded_members(group.path, names[group.path], room)[0]
                if isinstance(node, GroupHeader)
            ]
            if not level:
                return

    def _fetch_all(self, groups: Iterable[GroupHeader], names: Mapping[str, Iterable[str]]) -> None:
        """Fetch the documents of the nodes right below some groups.

        Most are arrays: further documents of a group are requested where there is no array.
        """
        documents, layout = self.documents(), self.format
        paths = [
            (_joined(group.path, name), name in (group.groups or ()))
            for group in groups
            for name in names[group.path]
        ]
        documents.fetch(
            key
            for path, is_group in paths
            for key in (layout.group_keys(path) if is_group else layout.array_keys(path))
        )
        documents.fetch(
            key
            for path, is_group in paths
            if not is_group and documents.lacks(layout.array_keys(path)[0])
            for key in layout.group_keys(path)
        )

    def _tells_names(self, header: GroupHeader) -> bool:
        """Return whether the names below a group follow from documents, and need no listing."""
        if header.arrays is not None or header.groups is not None:
            return True
        return self.format.names_below(header.path, self.documents()) is not None

    def _documented_names(self, header: GroupHeader) -> list[str]:
        """Return the names as `names` does, without a listing if a document gives them."""
        path = header.path
        documented = self.format.names_below(path, self.documents())
        if documented is None or header.arrays is not None or header.groups is not None:
            return self.names(path, are_loaded=True)
        listed = self._metadata.known_names(self.prefix(path))
        return sorted({*documented, *listed, *members_among(self.edits.created(), path)})

    def stale(self) -> list[str]:
        """Return the keys for which the consolidated copy differs, if single documents are read."""
        form = self.format.copy
        return [] if self._metadata.far or form is None else stale_keys(self.documents(), form)

    def copy_problem(self) -> str | None:
        """Return why the consolidated copy is not read; None: it is, or agrees, or is missing."""
        form = self.format.copy
        if form is None or self.format is not self.format.single:
            return None
        return copy_problem(self.documents(), form, far=self._metadata.far)

    def documents(self) -> StoreDocuments:
        """Return the single documents of the dataset."""
        return StoreDocuments(self._metadata, self.root, self.format_options)

    def read_single_documents(self) -> None:
        """Read no consolidated copy any more: changes must begin from the single documents."""
        self.reads_consolidated = False
        if self.format is not self.format.single:
            self.read_as(self.format.single)

    def read_as(self, metadata_format: MetadataFormat) -> None:
        """Read every node anew, by the rules of a format."""
        self.format = metadata_format
        self.edits.format = metadata_format.single
        self._nodes.clear()

    def forget(self, path: str) -> None:
        """Read a node and all below it anew, from documents that may be in memory."""
        self._nodes.discard([known for known in self._nodes if is_within(known, path)])

    def ask_again(self, keys: Iterable[str] | None = None) -> None:
        """Forget some documents; None: all documents and listings."""
        if keys is None:
            self._metadata.forget(self.root)
        else:
            self._metadata.ask_again(join(self.root, key) for key in keys)

    def mtime_ns(self, path: str) -> int | None:
        """Return the time of the documents of a node as last read; None: none is known."""
        known = self._nodes.get(path) or self.load(path)
        return None if known is None else known.mtime_ns

    def _load_stored(self, path: str) -> LoadedNode | None:
        known = self._nodes.get(path)
        if known is not None and self._is_fresh(known):
            return known
        documents = self.documents()
        documents.fetch(self.format.keys(path))
        if known is not None and self._unchanged(known):
            return known
        try:
            node = self._metadata.with_broken(documents.node(self.format, path), self.prefix(path))
        except MetadataError as error:
            raise type(error)(f"{self.url('')}/{error}") from error
        if node is None:
            self._nodes.pop(path)
            return None
        for problem in node.problems:
            log.info("%s/%s", self.url(""), problem)
        loaded = LoadedNode(node, documents.used, documents.mtime_ns, weight_of_node(node))
        self._nodes.put(path, loaded, loaded.nbytes)
        return loaded

    def _is_fresh(self, known: LoadedNode) -> bool:
        return all(map(self._metadata.is_fresh, known.used, known.used.values()))

    def _lists_array(self, path: str) -> bool:
        above = self.load(parent_of(path))
        group = None if above is None else above.node
        names = group.arrays if isinstance(group, GroupHeader) else None
        return path.rpartition("/")[2] in (names or ())

    def _missing(self, path: str) -> str:
        return f"{self.url(path)}: listed by its group, but missing"

    def _unchanged(self, known: LoadedNode) -> bool:
        documents = self.documents()
        return all(documents.version(key) == version for key, version in known.used.items())


N = TypeVar("N", bound=Node)


def node_to_hold(node: N) -> N:
    """Return the node as `LoadedNode.to_hold` has it."""
    return node if weight_of_node(node) <= HELD_BYTES_MAX else _light(node)


def _light(node: N) -> N:
    """Return a node without problems, names of members, and attributes except that of rounding."""
    attributes = tuple(
        each
        for each in node.attributes
        if each.name == ROUNDING and isinstance(each.value, tuple) and len(each.value) == 1
    )
    bare = replace(node, attributes=attributes, problems=(), omissions=())
    if isinstance(bare, Variable):
        return replace(bare, dependents=tuple([_light(each) for each in bare.dependents]))
    arrays, groups = (None if names is None else () for names in (bare.arrays, bare.groups))
    return replace(bare, dimensions=(), arrays=arrays, groups=groups)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def dimensions_of(
    header: GroupHeader, variables: Iterable[Variable], groups: Iterable[Group]
) -> tuple[Dimension, ...]:
    """Return the dimensions of a group: those it declares, and those of its variables.

    In pure Zarr a named dimension belongs to the group of the variable that names it, and an
    anonymous one to the root (netcdf-c 4.10). Of two with one name and different lengths the
    first counts here; a variable's own `dimensions` always fit its shape. A group may tell of a
    dimension only that it is unlimited; that is as long as the longest of its variables.
    """
    found = {dimension.name: dimension for dimension in header.dimensions}

    def add(candidates: Iterable[Variable]) -> None:
        for variable in candidates:
            for dimension in variable.dimensions:
                if dimension.group == header.path:
                    known = found.setdefault(dimension.name, dimension)
                    if known.unlimited and known.size < dimension.size:
                        found[dimension.name] = replace(dimension, unlimited=True)

    add(variables)
    for group in groups:
        add(_all_variables(group))
    return tuple(found.values())


def _edited(stored: LoadedNode | None, node: Node) -> LoadedNode:
    if stored is None:
        return LoadedNode(node, {}, 0, weight_of_node(node))
    if stored.node is node:
        return stored
    return replace(stored, node=node, nbytes=weight_of_node(node))


def _all_variables(group: Group) -> list[Variable]:
    below = [variable for child in group.groups for variable in _all_variables(child)]
    return [*group.variables, *below]
