"""An open dataset: its nodes, loaded one by one when asked for, and the arrays behind them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nczfs.engine.array import Array
from nczfs.engine.cache import ChunkCache
from nczfs.engine.chunkio import ChunkIO
from nczfs.engine.edits import Edits
from nczfs.engine.lease import Leases
from nczfs.engine.metadata import MetadataCache, StoreDocuments
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.engine.quantize import rounding_of
from nczfs.engine.spill import spill_tier
from nczfs.engine.spool.journal import Journal
from nczfs.engine.spool.space import Spool, Survives
from nczfs.engine.writeback import WriteBack
from nczfs.errors import CodecError, MetadataError, NczfsError, NoSuchNode, NotADataset
from nczfs.formats import consolidated
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.detect import ROOT_KEYS, detect
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import Dimension, Group, GroupHeader, Variable
from nczfs.zmap.base import Version, ZMap
from nczfs.zmap.guarded import Guarded
from nczfs.zmap.keys import Key, Prefix, join, parse_prefix

log = logging.getLogger(__name__)


class Engine:
    """What all datasets of a process share: options, threads, the chunk cache.

    Parameters
    ----------
    spool : where chunks go that cannot be stored; None: their writers are told, and that is all.
    """

    def __init__(self, options: EngineOptions | None = None, spool: Spool | None = None) -> None:
        self.options = options or EngineOptions()
        self.pools = Pools(self.options)
        tier = spill_tier(self.options, self.pools)
        self.cache = ChunkCache(self.options.memory_limit_bytes, tier=tier)
        is_kept = spool is not None and spool.survives is not Survives.NOTHING
        self.journal = Journal(spool) if spool is not None and is_kept else None
        self.writeback = WriteBack(
            self.cache, self.pools, spool, self.options.flush_age_s, self.journal
        )
        self.leases = Leases(trusts=self.options.is_single_writer, terms=self.options.lease)

    def close(self) -> None:
        """Stop the threads and forget the chunks; whoever still waits gets an error.

        What is not stored by then goes to the spool.
        """
        self.writeback.close()
        self.cache.close()
        self.pools.close()
        self.writeback.join()
        if self.journal is not None:
            self.journal.close()
        self.leases.close()


@dataclass(frozen=True, slots=True)
class Loaded:
    """A node as it was read, and the versions of the documents that say so."""

    node: Node
    used: dict[Key, Version]
    mtime_ns: int


class Dataset:
    """The hierarchy of groups and variables at one prefix of a store.

    Paths are relative to the dataset's root, without a leading slash; "" is the root. Every method
    may be called from any thread. What changes the store through `zmap` holds the lease of the
    dataset, where one is needed. `_lock` guards the dicts of nodes and arrays and is never held
    while a document is read.
    """

    def __init__(
        self,
        engine: Engine,
        metadata: MetadataCache,
        root: Prefix,
        metadata_format: MetadataFormat,
        options: FormatOptions,
    ) -> None:
        self.engine = engine
        self.root = root
        self.format = metadata_format
        self.lease = engine.leases.of(metadata.zmap, root)
        self.lease.add_user(self)
        self.zmap: ZMap = Guarded(metadata.zmap, self.lease.writing)
        self.edits = Edits(
            metadata, root, metadata_format, options, engine.pools, self.lease.writing
        )
        self._metadata = metadata
        self._options = options
        self._lock = threading.Lock()
        self._nodes: dict[str, Loaded] = {}
        self._edited: dict[str, tuple[Loaded | None, int, Loaded | None]] = {}
        self._arrays: dict[str, tuple[Variable, Array]] = {}

    def url(self, path: str) -> str:
        """The place of a node, for messages."""
        return "/".join(part for part in (self.zmap.name, self.root, path) if part)

    def prefix(self, path: str) -> Prefix:
        """Where the keys of a node lie in the store."""
        return _below(self.root, path)

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
            with self._lock:
                self._nodes.pop(path, None)
            return None
        for problem in node.problems:
            log.info("%s/%s", self.url(""), problem)
        loaded = Loaded(node, documents.used, documents.mtime_ns)
        with self._lock:
            self._nodes[path] = loaded
        return loaded

    def node(self, path: str) -> Node:
        """The group or variable at a path. Raises NoSuchNode, MetadataError, StoreError."""
        loaded = self.load(path)
        if loaded is None:
            raise NoSuchNode(f"{self.url(path)}: no group or variable")
        return loaded.node

    def array(self, variable: Variable) -> Array:
        """The values of a variable; the same object as long as its description is the same."""
        with self._lock:
            known = self._arrays.get(variable.path)
            if known is not None and _same_array(known[0], variable):
                return known[1]
            if known is not None and _resized(known[0], variable):
                array = known[1].resized(variable.array)
                self._arrays[variable.path] = (variable, array)
                return array
            options = self.engine.options
            chunkio = ChunkIO(
                self.zmap,
                _below(self.root, variable.key),
                self.url(variable.key),
                variable.array,
                options.missing_chunks,
            )
            array = Array(
                variable.array,
                chunkio,
                self.engine.cache,
                self.engine.writeback,
                self.engine.pools,
                far=self._metadata.far,
                fetch_threads=options.fetch_threads,
                decode_threads=options.decode_threads,
                grows=tuple(dimension.unlimited for dimension in variable.dimensions),
                rounding=rounding_of(variable),
            )
            self._arrays[variable.path] = (variable, array)
        if known is not None:
            known[1].forget()
        return array

    def latest(self, variable: Variable) -> Variable:
        """A variable as long as it is by now, as far as that is known. Asks nobody."""
        known = self._arrays.get(variable.path)
        if known is None or known[0] is variable or not _resized(known[0], variable):
            return variable
        return known[0]

    def read_single_documents(self) -> None:
        """Believe no consolidated copy any more: who changes documents must know the true ones."""
        with self._lock:
            if self.format is not self.format.single:
                self.format = self.format.single
                self._nodes.clear()

    def problems(self, variable: Variable) -> tuple[str, ...]:
        """What is wrong with a variable: its metadata, or a codec that is not there."""
        try:
            self.array(variable).require_codecs()
        except CodecError as error:
            return (*variable.problems, str(error))
        return variable.problems

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
                broken.append((name, f"{self.url(child)}: listed by its group, and not there"))
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

    def forget(self, path: str) -> None:
        """Ask the store anew for a node and all below it, chunks included."""
        below = f"{path}/" if path else ""
        with self._lock:
            for known in [p for p in self._nodes if p == path or p.startswith(below)]:
                del self._nodes[known]
            arrays = [
                self._arrays.pop(known)[1]
                for known in list(self._arrays)
                if known == path or known.startswith(below)
            ]
        for array in arrays:
            array.forget()

    def removed(self, path: str) -> None:
        """A node, and all below it, are no more: nothing that was written to them is kept."""
        self.edits.forget(path)
        below = f"{path}/" if path else ""
        with self._lock:
            found = [(known, array) for known, (_, array) in self._arrays.items()]
        arrays = [array for known, array in found if known == path or known.startswith(below)]
        for array in arrays:
            array.writes.end()
            self.engine.writeback.drop(array.number, lambda _: False)
        self.forget(path)
        prefix = self.prefix(path)
        self._metadata.forget(prefix)
        self._metadata.changed(Key(prefix))

    def array_numbers(self) -> list[int]:
        """Under which numbers the chunks of this dataset are in the caches."""
        with self._lock:
            return [array.number for _, array in self._arrays.values()]

    def has_unsaved(self) -> bool:
        """Whether anything that was written is not stored yet. Asks nobody."""
        return bool(self.edits.pending()) or self.engine.writeback.has_unsaved(self.array_numbers())

    def forget_clean(self) -> None:
        """Ask the store anew for chunks and documents that are the same there, as it may seem."""
        for number in self.array_numbers():
            self.engine.cache.discard(number)
        self._metadata.forget(self.root)

    def store_document(self, key: str, data: bytes, replaces: Version) -> None:
        """Replace a version of a document. Raises Conflict, ObjectExists."""
        with self.lease.writing():
            self._metadata.write(join(self.root, key), data, replaces)

    def delete_documents(self, path: str) -> None:
        """Remove the documents of a node, those that make it visible among them."""
        documents = self.documents()
        for key in self.format.single.keys(path):
            if documents.get(key) is not None:
                full = join(self.root, key)
                self.zmap.delete(full)
                self._metadata.changed(full)

    def ask_again(self, keys: Iterable[str] | None = None) -> None:
        """Believe no more what some documents said; None: what any said, or was listed."""
        if keys is None:
            self._metadata.forget(self.root)
        else:
            self._metadata.ask_again(join(self.root, key) for key in keys)

    def delete_chunks(self, variable: Variable, is_wanted: Callable[[ChunkIndex], bool]) -> None:
        """Remove the stored chunks of an array for which `is_wanted` holds."""
        array = self.array(variable)
        number = array.number
        self.engine.writeback.drop(number, lambda chunk_id: not is_wanted(chunk_id[1]))
        prefix = _below(self.root, variable.key)
        start = f"{prefix}/" if prefix else ""
        gone: dict[Key, ChunkIndex] = {}
        for stat in self.zmap.list(prefix):
            index = variable.array.chunk_index(stat.key.removeprefix(start))
            if index is not None and is_wanted(index):
                gone[stat.key] = index
        try:
            self.zmap.delete_many(gone)
        finally:
            for index in gone.values():
                self.engine.cache.drop((number, index))

    def stale(self) -> list[str]:
        """Keys of which the consolidated copy says something else, where single ones are read."""
        store = self.documents()
        copies = None if self._metadata.far else _consolidated(store, self._options)
        if copies is None:
            return []
        keys = copies.consolidated_keys()
        return [key for key in keys if copies.is_stale(key, store.get(key))]

    def documents(self) -> StoreDocuments:
        """The single documents of the dataset."""
        return StoreDocuments(self._metadata, self.root, self._options.document_bytes_max)

    def _lists_members(self, path: str) -> bool:
        node = self.node(path)
        return isinstance(node, GroupHeader) and node.arrays is not None

    def _unchanged(self, known: Loaded) -> bool:
        bytes_max = self._options.document_bytes_max
        return all(
            self._metadata.get(key, bytes_max).version == version
            for key, version in known.used.items()
        )


def _edited(stored: Loaded | None, node: Node) -> Loaded:
    if stored is None:
        return Loaded(node, {}, 0)
    return stored if stored.node is node else replace(stored, node=node)


def _below(prefix: Prefix, path: str) -> Prefix:
    return parse_prefix("/".join(part for part in (prefix, path) if part))


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


def _same_array(one: Variable, other: Variable) -> bool:
    # Compared as text because a fill value of NaN equals nothing, not even itself.
    return one is other or (one.key == other.key and repr(one.array) == repr(other.array))


def _resized(one: Variable, other: Variable) -> bool:
    """Whether the chunks of two incarnations are the same, and only the shape differs."""
    if len(one.array.shape) != len(other.array.shape):
        return False
    return _same_array(replace(one, array=replace(one.array, shape=other.array.shape)), other)


def _all_variables(group: Group) -> list[Variable]:
    below = [variable for child in group.groups for variable in _all_variables(child)]
    return [*group.variables, *below]


def open_dataset(
    engine: Engine,
    metadata: MetadataCache,
    root: Prefix,
    options: FormatOptions,
    *,
    writable: bool = False,
) -> Dataset | None:
    """The dataset at a prefix, None when nothing there is a group or an array.

    Where a request is a round trip, the consolidated metadata are asked for first: where they are,
    nothing else needs to be. Whoever means to change the documents reads these (`writable`).

    Raises
    ------
    MetadataError : there is one, and its root cannot be read.
    """
    store = StoreDocuments(metadata, root, options.document_bytes_max)
    copies = _consolidated(store, options) if metadata.far and not writable else None
    if copies is None:
        store.fetch(ROOT_KEYS)
    try:
        found = detect(copies or store, options)
    except MetadataError as error:
        raise type(error)(f"{store.place}/{error}") from error
    if found is None:
        return None
    if copies is not None:
        found = consolidated.ConsolidatedFormat(found, options)
    return Dataset(engine, metadata, root, found, options)


def _consolidated(
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
