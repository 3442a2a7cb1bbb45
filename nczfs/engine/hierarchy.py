"""The groups and variables of a dataset, read one by one when asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nczfs.engine.edits import Edits
from nczfs.engine.ledger import Shelf
from nczfs.engine.metadata import MetadataCache, StoreDocuments
from nczfs.engine.weight import weight_of_node
from nczfs.errors import BadMetadata, MetadataError, NczfsError, NoSuchNode, NotADataset
from nczfs.formats import consolidated
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.names import parent_of
from nczfs.model.hierarchy import Dimension, Group, GroupHeader, Variable
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key, Prefix, is_within, join, parse_prefix

log = logging.getLogger(__name__)

LEVELS_MAX = 512  # of groups: a key has 1024 bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A node as it was read, and the versions of the documents that say so.

    Attributes
    ----------
    mtime_ns : of the newest of the documents, None where the store has no times.
    """

    node: Node
    used: dict[Key, Version]
    mtime_ns: int | None


class Hierarchy:
    """The groups and variables at one prefix of a store, with the changes that are not stored yet.

    Paths are relative to the root, without a leading slash; "" is the root. Every method may be
    called from any thread. What was read is kept as the ledger of the metadata has room for it.

    Attributes
    ----------
    is_consolidated_believed : a consolidated copy may be read instead of the single documents.
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
        self._nodes: Shelf[str, Loaded] = Shelf(metadata.ledger)
        self._edited: Shelf[str, tuple[Loaded | None, int, Loaded | None]] = Shelf(metadata.ledger)
        self.is_consolidated_believed = True

    def url(self, path: str) -> str:
        """The place of a node, for messages."""
        return "/".join(part for part in (self._metadata.zmap.name, self.root, path) if part)

    def prefix(self, path: str) -> Prefix:
        """Where the keys of a node lie in the store."""
        return parse_prefix("/".join(part for part in (self.root, path) if part))

    def load(self, path: str) -> Loaded | None:
        """The group or variable at a path with its pending changes, None when there is none.

        The same object is given as long as none of its documents changed, and nobody changed it.

        Raises
        ------
        MetadataError : its documents cannot be read; StoreError: the store could not be asked.
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
            # What was stored in between is in neither of the two.
            if revision == self.edits.revision:
                break
        if revision == 0:
            return stored
        edited = None if node is None else _edited(stored, node)
        is_new = edited is not None and edited is not stored
        nbytes = weight_of_node(edited.node) if is_new and edited is not None else 0
        self._edited.put(path, (stored, revision, edited), nbytes)
        return edited

    def load_now(self, path: str) -> Loaded | None:
        """As `load`; the store is asked for what the node was made of."""
        known = self._nodes.get(path)
        if known is not None:
            self._metadata.ask_again(known.used)
        return self.load(path)

    def load_listed(self, path: str) -> Loaded | None:
        """As `load`; an array that its group lists must be there.

        A group without a document of its own is left to whoever looks at what is below it.

        Raises
        ------
        BadMetadata : it is not.
        """
        loaded = self.load(path)
        if loaded is None and self._lists_array(path):
            raise BadMetadata(self._missing(path))
        return loaded

    def node(self, path: str) -> Node:
        """The group or variable at a path. Raises NoSuchNode, MetadataError, StoreError."""
        loaded = self.load(path)
        if loaded is None:
            raise NoSuchNode(f"{self.url(path)}: no group or variable")
        return loaded.node

    def names(self, path: str) -> list[str]:
        """Names below a group that can be members: as listed by it, or else found in the store."""
        node = self.node(path)
        if isinstance(node, Variable):
            return []
        if node.arrays is not None or node.groups is not None:
            return [*(node.arrays or ()), *(node.groups or ())]
        prefix = self.prefix(path)
        stored = {entry.name for entry in self._metadata.entries(prefix) if entry.is_prefix}
        return sorted(stored.union(self.edits.created_below(path)))

    def has_member(self, path: str, name: str) -> bool:
        """Whether a group may have a member of that name, without asking for it."""
        node = self.node(path)
        if isinstance(node, Variable):
            return False
        if node.arrays is not None or node.groups is not None:
            return name in (node.arrays or ()) or name in (node.groups or ())
        return True

    def is_known_absent(self, path: str) -> bool:
        """Whether it is known that there is no node at a path. Asks nobody."""
        above = self.prefix(parent_of(path))
        is_known, entry = self._metadata.known_entry(above, path.rpartition("/")[2])
        is_prefix = entry is not None and entry.is_prefix
        return is_known and not is_prefix and path not in self.edits.pending()

    def members(self, path: str) -> tuple[list[Node], list[tuple[str, str]]]:
        """The nodes right below a group, and the broken ones: their names and what is wrong.

        Their documents are asked for all at once.
        """
        names = self.names(path)
        self._fetch_members(path, names)
        return self._loaded_members(path, names)

    def _loaded_members(
        self, path: str, names: Iterable[str]
    ) -> tuple[list[Node], list[tuple[str, str]]]:
        nodes: list[Node] = []
        broken: list[tuple[str, str]] = []
        listed = self._lists_members(path)
        for name in names:
            child = _joined(path, name)
            try:
                loaded = self.load(child)
            except MetadataError as error:
                broken.append((name, str(error)))
                continue
            if loaded is not None:
                nodes.append(loaded.node)
            elif listed:
                broken.append((name, self._missing(child)))
        return nodes, broken

    def group(self, path: str) -> Group:
        """A group with everything below it, read whole.

        Where a request is a round trip, all groups of a level are asked for at once. Where one
        document tells all names, no others are asked for.

        Raises
        ------
        NotADataset : the node is a variable.
        """
        header = self.node(path)
        if not isinstance(header, GroupHeader):
            raise NotADataset(f"{self.url(path)}: is a variable, not a group")
        if self._metadata.far:
            self._fetch_below(header)
        group = self._whole(header)
        if not path and (stale := self.stale()):
            problem = (
                f"{consolidated.KEY}: stale: {len(stale)} of its documents differ from the single "
                f"ones, {stale[0]} among them; the single ones are shown"
            )
            header = replace(group.header, problems=(*group.header.problems, problem))
            group = replace(group, header=header)
        return group

    def _whole(self, header: GroupHeader) -> Group:
        nodes, broken = self._loaded_members(header.path, self._told_names(header))
        variables = tuple(node for node in nodes if isinstance(node, Variable))
        groups: list[Group] = []
        for node in nodes:
            if isinstance(node, GroupHeader):
                try:
                    groups.append(self._whole(node))
                except NczfsError as error:
                    broken.append((node.name, str(error)))
        dimensions = dimensions_of(header, variables, tuple(groups))
        return Group(header, dimensions, variables, tuple(groups), tuple(broken))

    def _fetch_below(self, header: GroupHeader) -> None:
        """Have the documents of all nodes below a group at hand, level by level."""
        level = [header]
        for _ in range(LEVELS_MAX):
            unlisted = [group for group in level if not self._tells_names(group)]
            self._metadata.fetch_names(self.prefix(group.path) for group in unlisted)
            names = {group.path: self._told_names(group) for group in level}
            self._fetch_all(level, names)
            nodes = [self._loaded_members(group.path, names[group.path])[0] for group in level]
            level = [node for found in nodes for node in found if isinstance(node, GroupHeader)]
            if not level:
                return

    def _fetch_members(self, path: str, names: Sequence[str]) -> None:
        """Have the documents of the nodes right below a group at hand."""
        header = self.node(path)
        if isinstance(header, GroupHeader):
            self._fetch_all([header], {path: names})

    def _fetch_all(self, groups: Iterable[GroupHeader], names: Mapping[str, Iterable[str]]) -> None:
        """Have the documents of the nodes right below some groups at hand.

        Most are arrays: what a group needs besides is asked for where there is no array.
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
        """Whether the names below a group follow from documents, and need not be listed."""
        if header.arrays is not None or header.groups is not None:
            return True
        return self.format.names_below(header.path, self.documents()) is not None

    def _told_names(self, header: GroupHeader) -> list[str]:
        """As `names`; those that are told by a document are not asked for besides."""
        path = header.path
        told = self.format.names_below(path, self.documents())
        if told is None or header.arrays is not None or header.groups is not None:
            return self.names(path)
        listed = self._metadata.known_names(self.prefix(path))
        return sorted({*told, *listed, *self.edits.created_below(path)})

    def stale(self) -> list[str]:
        """Keys of which the consolidated copy says something else, where single ones are read."""
        store = self.documents()
        copies = None if self._metadata.far else consolidated_of(store)
        if copies is None:
            return []
        keys = copies.consolidated_keys()
        return [key for key in keys if copies.is_stale(key, store.get(key))]

    def documents(self) -> StoreDocuments:
        """The single documents of the dataset."""
        return StoreDocuments(self._metadata, self.root, self.format_options)

    def read_single_documents(self) -> None:
        """Believe no consolidated copy any more: who changes documents must know the true ones."""
        self.is_consolidated_believed = False
        if self.format is not self.format.single:
            self.read_as(self.format.single)

    def read_as(self, metadata_format: MetadataFormat) -> None:
        """Read every node anew, by the rules of a format."""
        self.format = metadata_format
        self.edits.format = metadata_format.single
        self._nodes.clear()

    def forget(self, path: str) -> None:
        """Read a node and all below it anew, from documents that may be in memory."""
        for known in [known for known in self._nodes if is_within(known, path)]:
            self._nodes.pop(known)

    def ask_again(self, keys: Iterable[str] | None = None) -> None:
        """Believe no more what some documents said; None: what any said, or was listed."""
        if keys is None:
            self._metadata.forget(self.root)
        else:
            self._metadata.ask_again(join(self.root, key) for key in keys)

    def _load_stored(self, path: str) -> Loaded | None:
        known = self._nodes.get(path)
        if known is not None and all(
            self._metadata.is_fresh(key, version) for key, version in known.used.items()
        ):
            return known
        documents = self.documents()
        documents.fetch(self.format.keys(path))
        if known is not None and self._unchanged(known):
            return known
        try:
            node = documents.node(self.format, path)
        except MetadataError as error:
            raise type(error)(f"{self.url('')}/{error}") from error
        if node is None:
            self._nodes.pop(path)
            return None
        for problem in node.problems:
            log.info("%s/%s", self.url(""), problem)
        loaded = Loaded(node, documents.used, documents.mtime_ns)
        self._nodes.put(path, loaded, weight_of_node(node))
        return loaded

    def _lists_members(self, path: str) -> bool:
        node = self.node(path)
        return isinstance(node, GroupHeader) and node.arrays is not None

    def _lists_array(self, path: str) -> bool:
        above = self.load(parent_of(path))
        group = None if above is None else above.node
        names = group.arrays if isinstance(group, GroupHeader) else None
        return path.rpartition("/")[2] in (names or ())

    def _missing(self, path: str) -> str:
        return f"{self.url(path)}: listed by its group, but missing"

    def _unchanged(self, known: Loaded) -> bool:
        bytes_max = self.format_options.bytes_max
        return all(
            self._metadata.stamp(key, bytes_max(key)).version == version
            for key, version in known.used.items()
        )


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def dimensions_of(
    header: GroupHeader, variables: Iterable[Variable], groups: Iterable[Group]
) -> tuple[Dimension, ...]:
    """The dimensions of a group: those it declares, and those its variables bring with them.

    In pure Zarr a named dimension belongs to the group of the variable that names it, and an
    anonymous one to the root (netcdf-c 4.10). Of two with one name and different lengths the
    first counts here; a variable's own `dimensions` always fit its shape.
    """
    found = {dimension.name: dimension for dimension in header.dimensions}

    def add(candidates: Iterable[Variable]) -> None:
        for variable in candidates:
            for dimension in variable.dimensions:
                if dimension.group == header.path:
                    found.setdefault(dimension.name, dimension)

    add(variables)
    for group in groups:
        add(_all_variables(group))
    return tuple(found.values())


def consolidated_of(store: StoreDocuments) -> consolidated.ConsolidatedDocuments | None:
    """The consolidated documents, None where there are none or they cannot be read."""
    try:
        data = store.get(consolidated.KEY)
        if data is None:
            return None
        found = consolidated.read_consolidated(data)
    except MetadataError as error:
        log.warning("%s/%s: the single documents are read instead", store.place, error)
        return None
    return consolidated.ConsolidatedDocuments(store, found)


def _edited(stored: Loaded | None, node: Node) -> Loaded:
    if stored is None:
        return Loaded(node, {}, 0)
    return stored if stored.node is node else replace(stored, node=node)


def _all_variables(group: Group) -> list[Variable]:
    below = [variable for child in group.groups for variable in _all_variables(child)]
    return [*group.variables, *below]
