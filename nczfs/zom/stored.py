"""The hierarchy that a store holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.copies import readable_copy
from nczfs.engine.metadata.documents import StoreDocuments
from nczfs.engine.metadata.turns import take
from nczfs.engine.options import EngineOptions
from nczfs.errors import CorruptStore, MetadataError, NoSuchNode, ReferenceRefused
from nczfs.formats.base import Consolidated
from nczfs.formats.names import below, parent_of
from nczfs.formats.zom.checking import LEVELS_MAX
from nczfs.formats.zom.documents import NodeKeys, keys_for, node_of
from nczfs.formats.zom.nodes import ArrayV2, ArrayV3, Node, with_members
from nczfs.library.opening import open_url

FETCHED_MAX = 4096  # nodes whose documents are requested at once: so many are surely kept
_UNREADABLE = (MetadataError, CorruptStore, ReferenceRefused)


@dataclass(frozen=True, slots=True)
class Problem:
    """A node of a store that its hierarchy lacks, or lacks in part.

    Attributes
    ----------
    path : "" is the root, and others begin with a slash.
    """

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class StoredHierarchy:
    """The hierarchy that a store holds.

    Attributes
    ----------
    problems : nodes that could not be read; their siblings are there.
    """

    node: Node
    problems: tuple[Problem, ...] = ()


def from_store(
    url: str, *, depth: int | None = None, is_consolidated: bool = False
) -> StoredHierarchy:
    """Return the hierarchy at a URL; see `read_stored`.

    Raises
    ------
    NotADataset, BadUrl, MetadataError, StoreError : as `nczfs.open` does.
    """
    options = EngineOptions(metadata_ttl_s=math.inf)  # a large one takes minutes
    with open_url(url, options=options) as dataset:
        return read_stored(dataset.engine_dataset, depth=depth, is_consolidated=is_consolidated)


def read_stored(
    dataset: Dataset,
    path: str = "",
    *,
    depth: int | None = None,
    is_consolidated: bool = False,
    nodes_max: int | None = None,
    bytes_max: int | None = None,
) -> StoredHierarchy:
    """Return the hierarchy at a node of an open dataset, from its stored documents.

    All documents of a level are requested at once.

    Parameters
    ----------
    path : of the node, below the root of the dataset.
    depth : levels below the node that are read. The groups of the last one have unknown members.
        None: all.
    is_consolidated : read the consolidated metadata where there are any. They are read in any case
        where the store cannot list names.
    nodes_max : groups whose members would be more in all have unknown members, and a problem.
    bytes_max : of documents. Groups whose members would have more have unknown members, too.

    Raises
    ------
    NoSuchNode : there is no node.
    MetadataError : it cannot be read. For members below it, this is a problem.
    StoreError : the store did not answer.
    """
    source: _Source = _Single(dataset)
    if is_consolidated or not dataset.zmap.features.lists_all:
        source = _Copy.of(dataset) or source
    return _Walk(source, dataset, nodes_max, bytes_max).hierarchy(path, depth)


class _Source(Protocol):
    """Where documents and names come from."""

    def get(self, key: str) -> bytes | None:
        """Return a document; None: there is none."""

    def fetch(self, keys: Iterable[str]) -> None:
        """Request documents at once."""

    def lacks(self, key: str) -> bool:
        """Return whether it is known that there is no such document."""

    def names(self, paths: list[str]) -> Iterator[list[str] | MetadataError]:
        """Yield the possible names of the members of each group."""


class _Single:
    """The single documents, and names that the store lists."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._documents: StoreDocuments = dataset.documents()
        self.get = self._documents.get
        self.lacks = self._documents.lacks

    def fetch(self, keys: Iterable[str]) -> None:
        if self._dataset.is_far:
            self._documents.fetch(keys)

    def names(self, paths: list[str]) -> Iterator[list[str] | MetadataError]:
        if not self._dataset.is_far or len(paths) < 2:
            yield from map(self._names, paths)
            return
        yield from self._dataset.engine.pools.fetch.map(self._names, paths)

    def _names(self, path: str) -> list[str] | MetadataError:
        try:
            return self._dataset.names(path)
        except MetadataError as error:
            return error


@dataclass
class _Copy:
    """The documents in the consolidated metadata."""

    documents: StoreDocuments
    found: Consolidated
    below: Mapping[str, list[str]]

    @staticmethod
    def of(dataset: Dataset) -> _Copy | None:
        """Return the consolidated metadata of a dataset; None: there are none to be read."""
        form = dataset.format.copy
        documents = dataset.documents()
        found = None if form is None else readable_copy(documents, form)
        if found is None:
            return None
        names: dict[str, list[str]] = {}
        for node in sorted(found.nodes - {""}):
            above, _, name = node.rpartition("/")
            names.setdefault(above, []).append(name)
        return _Copy(documents, found, names)

    def get(self, key: str) -> bytes | None:
        data = self.found.text(key)
        return self.documents.get(key) if data is None and "/" not in key else data

    def fetch(self, keys: Iterable[str]) -> None:
        """Do nothing: all documents are in one."""

    def lacks(self, key: str) -> bool:
        return "/" in key and self.found.text(key) is None

    def names(self, paths: list[str]) -> Iterator[list[str] | MetadataError]:
        return (self.below.get(path, []) for path in paths)


@dataclass
class _Walk:
    """A walk over a hierarchy, level by level."""

    source: _Source
    dataset: Dataset
    nodes_max: int | None
    bytes_max: int | None = None
    nbytes: int = 0
    problems: list[Problem] = field(default_factory=list)
    found: dict[str, Node] = field(default_factory=dict)  # groups before their members
    unknown: set[str] = field(default_factory=set)

    def hierarchy(self, path: str, depth: int | None) -> StoredHierarchy:
        keys = keys_for(self.dataset.format.names)
        self.source.fetch(keys.keys(path))
        root = self._node(path, keys)
        if root is None and not path:
            root = self._undocumented(keys)
        if root is None:
            raise NoSuchNode(f"{self.dataset.url(path)}: no group or array")
        self.found[path] = root
        level = [] if isinstance(root, ArrayV2 | ArrayV3) else [path]
        levels = 0
        while level and (depth is None or levels < depth):
            if levels == LEVELS_MAX:
                self._leave(level, path, f"groups within groups more than {LEVELS_MAX} times")
                break
            level = self._below(level, path, keys)
            levels += 1
        else:
            self.unknown.update(level)
        return StoredHierarchy(self._tree(path), tuple(self.problems))

    def _below(self, groups: list[str], root: str, keys: NodeKeys) -> list[str]:
        """Read the members of some groups, and return the groups among them."""
        paths: list[str] = []
        count = len(self.found)
        for group, names in zip(groups, self.source.names(groups), strict=True):
            if isinstance(names, MetadataError):
                self._leave([group], root, str(names))
            elif self.nodes_max is not None and count + len(names) > self.nodes_max:
                self._leave([group], root, f"the members are left out: over {self.nodes_max} nodes")
            else:
                paths += [below(group, name) for name in names]
                count += len(names)
        groups = []
        for start in range(0, len(paths), FETCHED_MAX):
            groups += self._read(paths[start : start + FETCHED_MAX], root, keys)
        return [path for path in groups if parent_of(path) not in self.unknown]

    def _read(self, paths: list[str], root: str, keys: NodeKeys) -> list[str]:
        """Read some members, and return the groups among them."""
        self.source.fetch(key for path in paths for key in _of_array(path, keys))
        if keys.group != keys.array:
            lacking = (p for p in paths if self.source.lacks(below(p, keys.array)))
            self.source.fetch(below(path, keys.group) for path in lacking)
        found: list[str] = []
        for path in paths:
            if parent_of(path) in self.unknown:
                continue
            try:
                node = self._node(path, keys)
            except _UNREADABLE as error:
                self._leave([path], root, str(error), is_known=False)
                continue
            if self.bytes_max is not None and self.nbytes > self.bytes_max:
                why = f"the members are left out: their documents have over {self.bytes_max} bytes"
                self._leave([parent_of(path)], root, why)
            elif node is not None:
                self.found[path] = node
                if not isinstance(node, ArrayV2 | ArrayV3):
                    found.append(path)
        return found

    def _node(self, path: str, keys: NodeKeys) -> Node | None:
        names = [keys.array, *((keys.attributes,) if keys.attributes else ())]
        documents: dict[str, bytes] = {}
        for name in names:
            if (data := self.source.get(below(path, name))) is not None:
                documents[name] = data
        if keys.array not in documents and keys.group != keys.array:
            data = self.source.get(below(path, keys.group))
            if data is not None:
                documents[keys.group] = data
        self.nbytes += sum(map(len, documents.values()))
        take(self.nbytes)
        return node_of(documents, path)

    def _undocumented(self, keys: NodeKeys) -> Node | None:
        """Return the root of which only other documents show that it is a group, as netcdf-c."""
        if keys.attributes is None:
            return None
        data = self.source.get(keys.attributes)
        documents = {} if data is None else {keys.attributes: data}
        return node_of(documents | {keys.group: b'{"zarr_format": 2}'}, "")

    def _leave(self, paths: list[str], root: str, text: str, *, is_known: bool = True) -> None:
        for path in paths:
            if is_known:
                self.unknown.add(path)
            relative = path[len(root) :].lstrip("/")
            self.problems.append(Problem(f"/{relative}" if relative else "", text))

    def _tree(self, root: str) -> Node:
        members: dict[str, dict[str, Node]] = {}
        for path, node in reversed(self.found.items()):
            whole = node
            if not isinstance(node, ArrayV2 | ArrayV3):
                found = members.pop(path, {})
                known = None if path in self.unknown else dict(sorted(found.items()))
                whole = with_members(node, known)
            if path == root:
                return whole
            above, _, name = path.rpartition("/")
            members.setdefault(above, {})[name] = whole
        raise AssertionError("the root is the first that was found")


def _of_array(path: str, keys: NodeKeys) -> tuple[str, ...]:
    names = (keys.array, keys.attributes) if keys.attributes else (keys.array,)
    return tuple(below(path, name) for name in names)
