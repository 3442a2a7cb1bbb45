"""The groups and variables of a dataset, read one by one when asked for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nczfs.engine.edits import Edits
from nczfs.engine.metadata import MetadataCache, StoreDocuments
from nczfs.errors import BadMetadata, MetadataError, NczfsError, NoSuchNode, NotADataset
from nczfs.formats import consolidated
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.names import parent_of
from nczfs.model.hierarchy import Dimension, Group, GroupHeader, Variable
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key, Prefix, is_within, join, parse_prefix

log = logging.getLogger(__name__)


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
    called from any thread. `_nodes_lock` guards the dict of nodes and is never held while a
    document is read.

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
        self._nodes_lock = threading.Lock()
        self._nodes: dict[str, Loaded] = {}
        self._edited: dict[str, tuple[Loaded | None, int, Loaded | None]] = {}
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
            # What was stored in between is in neither of the two.
            if revision == self.edits.revision:
                break
        if revision == 0:
            return stored
        known = self._edited.get(path)
        if known is not None and known[0] is stored and known[1] == revision:
            return known[2]
        node = self.edits.applied(path, stored.node if stored is not None else None)
        edited = None if node is None else _edited(stored, node)
        self._edited[path] = (stored, revision, edited)
        return edited

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

    def members(self, path: str) -> tuple[list[Node], list[tuple[str, str]]]:
        """The nodes right below a group, and the broken ones: their names and what is wrong.

        Their documents are asked for all at once.
        """
        names = self.names(path)
        paths = [f"{path}/{name}" if path else name for name in names]
        self.documents().fetch(key for child in paths for key in self.format.keys(child))
        nodes: list[Node] = []
        broken: list[tuple[str, str]] = []
        listed = self._lists_members(path)
        for name, child in zip(names, paths, strict=True):
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

        Raises
        ------
        NotADataset : the node is a variable.
        """
        header = self.node(path)
        if not isinstance(header, GroupHeader):
            raise NotADataset(f"{self.url(path)}: is a variable, not a group")
        nodes, broken = self.members(path)
        variables = tuple(node for node in nodes if isinstance(node, Variable))
        groups: list[Group] = []
        for node in nodes:
            if isinstance(node, GroupHeader):
                try:
                    groups.append(self.group(node.path))
                except NczfsError as error:
                    broken.append((node.name, str(error)))
        dimensions = dimensions_of(header, variables, tuple(groups))
        if not path and (stale := self.stale()):
            problem = (
                f"{consolidated.KEY}: stale: {len(stale)} of its documents differ from the single "
                f"ones, {stale[0]} among them; the single ones are shown"
            )
            header = replace(header, problems=(*header.problems, problem))
        return Group(header, dimensions, variables, tuple(groups), tuple(broken))

    def stale(self) -> list[str]:
        """Keys of which the consolidated copy says something else, where single ones are read."""
        store = self.documents()
        copies = None if self._metadata.far else consolidated_of(store, self.format_options)
        if copies is None:
            return []
        keys = copies.consolidated_keys()
        return [key for key in keys if copies.is_stale(key, store.get(key))]

    def documents(self) -> StoreDocuments:
        """The single documents of the dataset."""
        return StoreDocuments(self._metadata, self.root, self.format_options.document_bytes_max)

    def read_single_documents(self) -> None:
        """Believe no consolidated copy any more: who changes documents must know the true ones."""
        self.is_consolidated_believed = False
        if self.format is not self.format.single:
            self.read_as(self.format.single)

    def read_as(self, metadata_format: MetadataFormat) -> None:
        """Read every node anew, by the rules of a format."""
        with self._nodes_lock:
            self.format = metadata_format
            self.edits.format = metadata_format.single
            self._nodes.clear()

    def forget(self, path: str) -> None:
        """Read a node and all below it anew, from documents that may be in memory."""
        with self._nodes_lock:
            for known in [known for known in self._nodes if is_within(known, path)]:
                del self._nodes[known]

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
            with self._nodes_lock:
                self._nodes.pop(path, None)
            return None
        for problem in node.problems:
            log.info("%s/%s", self.url(""), problem)
        loaded = Loaded(node, documents.used, documents.mtime_ns)
        with self._nodes_lock:
            self._nodes[path] = loaded
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
        bytes_max = self.format_options.document_bytes_max
        return all(
            self._metadata.get(key, bytes_max).version == version
            for key, version in known.used.items()
        )


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


def consolidated_of(
    store: StoreDocuments, options: FormatOptions
) -> consolidated.ConsolidatedDocuments | None:
    """The consolidated documents, None where there are none or they cannot be read."""
    try:
        data = store.get(consolidated.KEY)
        if data is None:
            return None
        found = consolidated.read_consolidated(data, options)
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
