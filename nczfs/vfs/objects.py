"""The tree ``objects/``: every key of the store a file, byte for byte."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from nczfs import metrics
from nczfs.engine.dataset import Engine
from nczfs.engine.metadata import MetadataCache
from nczfs.engine.prefetch import FAR_FIRST_AHEAD_BYTES, MIB, AheadOptions, ReadAhead
from nczfs.errors import Conflict, NoSuchObject, NoSuchPath, StaleHandle
from nczfs.vfs.base import Buffer
from nczfs.vfs.nodes import Directory, File, Node, NodeStat, OpenFile
from nczfs.zmap import keys
from nczfs.zmap.base import Entry, Stat
from nczfs.zmap.keys import Key, Prefix

log = logging.getLogger(__name__)

NAME_BYTES_MAX = 255  # NAME_MAX of Linux

# A far object is fetched in parts of this size, several at a time; a near one is read in steps that
# keep a thread busy long enough to be worth waking it.
FAR_AHEAD = AheadOptions(8 * MIB, 64 * MIB, 0, FAR_FIRST_AHEAD_BYTES)
NEAR_AHEAD = AheadOptions(4 * MIB, 12 * MIB, 0)


def is_file_name(name: str) -> bool:
    """Whether a component of a key can be the name of a file."""
    return keys.is_name(name) and len(name.encode("utf-8", "surrogateescape")) <= NAME_BYTES_MAX


class ObjectsTree:
    """What all nodes of the tree share."""

    def __init__(self, metadata: MetadataCache, engine: Engine, mtime_ns: int) -> None:
        self.metadata = metadata
        self.engine = engine
        self.mtime_ns = mtime_ns
        self._reported: set[Key] = set()

    def root(self) -> Directory:
        return ObjectsDirectory(self, keys.ROOT)

    def node(self, prefix: Prefix, entry: Entry) -> Node:
        """The node of an entry. A prefix hides an object of the same name."""
        key = keys.join(prefix, entry.name)
        if entry.is_prefix:
            if entry.stat is not None and key not in self._reported:
                self._reported.add(key)
                log.warning(
                    "%s/%s: the keys below it hide the object of this name",
                    self.metadata.zmap.name,
                    key,
                )
            return ObjectsDirectory(self, Prefix(key))
        assert entry.stat is not None
        return ObjectFile(self, entry.stat)


class ObjectsDirectory(Directory):
    """A prefix of keys."""

    def __init__(self, tree: ObjectsTree, prefix: Prefix) -> None:
        self._tree = tree
        self._prefix = prefix

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._tree.mtime_ns)

    def lookup_if_cached(self, name: str) -> Node | None:
        _, entry = self._tree.metadata.known_entry(self._prefix, name)
        return self._tree.node(self._prefix, entry) if entry is not None else None

    def lookup(self, name: str) -> Node:
        metadata = self._tree.metadata
        listed, entry = metadata.known_entry(self._prefix, name)
        if entry is not None:
            return self._tree.node(self._prefix, entry)
        if listed or not is_file_name(name):
            raise NoSuchPath(f"{name}: no such object")
        key = keys.parse_key(keys.join(self._prefix, name))
        try:
            return ObjectFile(self._tree, metadata.zmap.stat(key))
        except NoSuchObject:
            if not metadata.has_keys(Prefix(key)):
                raise NoSuchPath(f"{name}: no such object") from None
            return ObjectsDirectory(self._tree, Prefix(key))

    def listing(self) -> Iterator[tuple[str, Node]]:
        for entry in self._tree.metadata.entries(self._prefix):
            if is_file_name(entry.name):
                yield entry.name, self._tree.node(self._prefix, entry)
            else:
                metrics.HIDDEN_KEYS.inc()


class ObjectFile(File):
    """An object, in the version that a listing or a stat told."""

    def __init__(self, tree: ObjectsTree, stat: Stat) -> None:
        self._tree = tree
        self._stat = stat

    def stat(self) -> NodeStat:
        """As the store has it now: a file may be stat'ed long after it was looked up."""
        key = self._stat.key
        prefix, _, name = key.rpartition("/")
        listed, entry = self._tree.metadata.known_entry(Prefix(prefix), name)
        if listed and entry is not None and entry.stat is not None:
            self._stat = entry.stat
        else:
            try:
                self._stat = self._tree.metadata.zmap.stat(key)
            except NoSuchObject as error:
                raise NoSuchPath(f"{key}: no such object") from error
        return self.listing_stat()

    def stat_if_cached(self) -> NodeStat | None:
        prefix, _, name = self._stat.key.rpartition("/")
        _, entry = self._tree.metadata.known_entry(Prefix(prefix), name)
        if entry is None or entry.stat is None:
            return None
        self._stat = entry.stat
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(self._stat.size, self._stat.mtime_ns or self._tree.mtime_ns)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        """Open the version that is there now (a far store is asked once in its TTL)."""
        zmap = self._tree.metadata.zmap
        if zmap.features.near:
            try:
                self._stat = zmap.stat(self._stat.key)
            except NoSuchObject as error:
                raise NoSuchPath(f"{self._stat.key}: no such object") from error
        else:
            self.stat()
        return OpenObject(self._tree, self._stat)

    pages_token_is_version = True

    @property
    def pages_token(self) -> object:
        return self._stat.version


class OpenObject(OpenFile):
    """One version of an object; when the store has another, reading says so and never mixes."""

    def __init__(self, tree: ObjectsTree, stat: Stat) -> None:
        self._zmap = tree.metadata.zmap
        self._stat = stat
        engine = tree.engine
        self._ahead = ReadAhead(
            self._read,
            None,
            stat.size,
            lambda: engine.pools.fetch if tree.metadata.far else engine.pools.assemble,
            engine.cache,
            FAR_AHEAD if tree.metadata.far else NEAR_AHEAD,
        )

    @property
    def key(self) -> Key:
        return self._stat.key

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        self._ahead.note(offset, size)
        return self._ahead.if_ready(offset, size)

    def read(self, offset: int, size: int) -> Buffer:
        size = max(0, min(size, self._stat.size - offset))
        if not size:
            return b""
        found = self._ahead.wait(offset, size)
        return found if found is not None else self._read(offset, size)

    def close(self) -> None:
        self._ahead.close()

    def _read(self, offset: int, size: int) -> Buffer:
        try:
            blob = self._zmap.read(
                self._stat.key, offset, offset + size, version=self._stat.version
            )
        except (Conflict, NoSuchObject) as error:
            raise StaleHandle(
                f"{self._zmap.name}/{self._stat.key}: replaced or deleted since it was opened"
            ) from error
        if len(blob.data) != size:
            raise StaleHandle(
                f"{self._zmap.name}/{self._stat.key}: {len(blob.data)} bytes instead of {size}"
            )
        return blob.data
