"""An open dataset: the arrays of its variables, and the changes of its store."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from nczfs.buffers import Values
from nczfs.engine.arrays.appending import Appends
from nczfs.engine.arrays.array import Array
from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.arrays.check import ArrayCheck, OpenArray
from nczfs.engine.arrays.dependents import Families
from nczfs.engine.arrays.storing import Storing
from nczfs.engine.chunks.base import ChunkSource
from nczfs.engine.chunks.cache import ChunkCache
from nczfs.engine.chunks.shardindexes import ShardIndexes, ShardMemory
from nczfs.engine.chunks.sources import source_of
from nczfs.engine.chunks.spill import spill_tier
from nczfs.engine.chunks.storedarray import StoredArray, StoredArrays, is_resized, is_same_array
from nczfs.engine.lease.lease import Lease, Leases
from nczfs.engine.metadata.changes import WrittenArray
from nczfs.engine.metadata.consolidate import ConsolidatedCopy
from nczfs.engine.metadata.documents import LEDGER_SHARE, MetadataCache
from nczfs.engine.metadata.edits import Edits
from nczfs.engine.metadata.hierarchy import Hierarchy, node_to_hold
from nczfs.engine.metadata.ledger import Ledger, Shelf
from nczfs.engine.metadata.refusedchanges import Listener
from nczfs.engine.metadata.rootformat import format_at
from nczfs.engine.metadata.useddimensions import UsedDimensions
from nczfs.engine.metadata.withdrawn import Withdrawn
from nczfs.engine.opennode import OpenNode
from nczfs.engine.options import EngineOptions
from nczfs.engine.pools import Pools
from nczfs.engine.readahead.prefetch import Windows
from nczfs.engine.retrying import Confirmation, Trouble, newest
from nczfs.engine.spool.journal import Journal
from nczfs.engine.spool.space import Spool, Survives
from nczfs.engine.values.quantize import rounding_of
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import CodecError, NczfsError
from nczfs.formats.base import FormatOptions, MetadataFormat
from nczfs.model.hierarchy import Variable
from nczfs.model.overlaps import Overlap
from nczfs.zmap.base import ZMap
from nczfs.zmap.guarded import Guarded
from nczfs.zmap.keys import Key, Prefix, is_within, join, moved, relative

log = logging.getLogger(__name__)


class Engine:
    """The shared parts of all datasets of a process: options, threads, the chunk cache.

    Parameters
    ----------
    spool : for chunks that cannot be stored; None: their writers only get the error.
    """

    def __init__(self, options: EngineOptions | None = None, spool: Spool | None = None) -> None:
        self.options = options or EngineOptions()
        self.pools = Pools(self.options)
        tier = spill_tier(self.options, self.pools)
        self.cache = ChunkCache(self.options.memory_limit_bytes, tier=tier)
        self.windows = Windows(self.cache)
        self.ledger = Ledger(self.options.memory_limit_bytes // LEDGER_SHARE, self.cache.claim)
        self.texts: Shelf[object, bytes] = Shelf(self.ledger)
        self.shards = ShardMemory(ShardIndexes(Shelf(self.ledger)), self.cache.claim)
        is_kept = spool is not None and spool.survives is not Survives.NOTHING
        self.moves = spool.moves if spool is not None else None
        self.journal = Journal(spool.log, spool.moves) if spool is not None and is_kept else None
        moving = self.journal or self.moves
        self.arrays = StoredArrays(moving.moving if moving is not None else None)
        self.writeback = WriteBack(
            self.cache,
            self.pools,
            spool,
            self.options.flush_age_s,
            self.journal,
            self._store_documents,
        )
        self.leases = Leases(trusts=self.options.is_single_writer, terms=self.options.lease)
        self.withdrawn = Withdrawn()
        self._changed: dict[Dataset, float] = {}
        self._changed_lock = threading.Lock()

    def note_changes(self, dataset: Dataset) -> None:
        """Hold a dataset of which metadata may be unsaved, until they are stored."""
        with self._changed_lock:
            self._changed.setdefault(dataset, time.monotonic())
        self.writeback.expect()

    def changed(self, before: float = math.inf) -> list[Dataset]:
        """Return the datasets with unsaved metadata that were changed before some time."""
        with self._changed_lock:
            for dataset in [each for each in self._changed if not each.has_changes]:
                del self._changed[dataset]
            return [dataset for dataset, since in self._changed.items() if since <= before]

    def lost(self) -> list[str]:
        """Return what neither the store nor the spool has of all that was written, in words.

        While a mount lives, that may still be stored.
        """
        documents = (words for dataset in self.changed() for words in dataset.storing.lost())
        return [*self.writeback.lost(), *documents, *self.withdrawn.words()]

    @property
    def trouble(self) -> Trouble | None:
        """Why chunks or documents are not stored; None: nothing has failed."""
        documents = (dataset.trouble(self._pause_s(dataset)) for dataset in self.changed())
        return newest((self.writeback.trouble, *documents))

    def _pause_s(self, dataset: Dataset) -> float | None:
        """Return the seconds until the background stores the documents of a dataset."""
        if self.options.flush_age_s is None:
            return None
        with self._changed_lock:
            since = self._changed.get(dataset, -math.inf)
        due_s = since + self.options.flush_age_s - time.monotonic()
        return max(self.writeback.pause_s, due_s, 0.0)

    def _store_documents(self, before: float) -> bool:
        """Store what was changed before some time. Returns whether anything is left to wait for."""
        for dataset in self.changed(before):
            with self._changed_lock:
                self._changed[dataset] = time.monotonic()  # when to try again
            try:
                dataset.store()
            except NczfsError as error:
                log.info("%s: changes are kept and will be tried again: %s", dataset.url(""), error)
        return bool(self.changed())

    def close(self) -> None:
        """Stop the threads and forget the chunks; waiting callers get an error.

        What is not stored yet goes to the spool.
        """
        self.writeback.close()
        self.windows.close()
        self.cache.close()
        self.pools.close()
        self.writeback.join()
        self.leases.close()


class Dataset(Hierarchy):
    """An open dataset: its hierarchy, the arrays of its variables, and the changes of its store.

    All changes through `zmap` hold the lease of the dataset, where one is needed.
    `_arrays_lock` guards the dict of arrays.

    Parameters
    ----------
    edited : called when the node at a prefix may read differently after a change by this process.
    is_apart : whether its changes are stored only when it is asked for that; see `apart`.

    Attributes
    ----------
    is_closed : set by the opener; the dataset must not be used any more.
    """

    def __init__(
        self,
        engine: Engine,
        metadata: MetadataCache,
        root: Prefix,
        metadata_format: MetadataFormat,
        options: FormatOptions,
        edited: Callable[[Prefix], None] = lambda _: None,
        *,
        is_apart: bool = False,
        lease: Lease | None = None,
    ) -> None:
        self.engine = engine
        self._is_apart = is_apart
        self.lease = lease or engine.leases.of(metadata.zmap, root)
        self.zmap: ZMap = Guarded(metadata.zmap, self.lease.writing)
        edits = Edits(
            metadata,
            root,
            metadata_format,
            options,
            engine.pools,
            self.lease.writing,
            self._note_edited,
            lambda keys: self.copy.changing(keys),
            None if is_apart else engine.withdrawn,
        )
        super().__init__(metadata, root, metadata_format, options, edits)
        self.used_dimensions = UsedDimensions(
            lambda group: self.members(group)[0], self.found_node, metadata
        )
        self.copy = ConsolidatedCopy(self, edits.store)
        self.appends = Appends(self, self.array, lambda: metadata.zmap.features.conditional_writes)
        self.storing = Storing(
            self,
            self.appends,
            self.copy,
            engine.writeback,
            engine.arrays,
            metadata.zmap,
            self.zmap.flush,
        )
        self._tell_edited = edited
        self._families = Families(self, engine.options, engine.arrays)
        self._arrays_lock = threading.Lock()
        self._arrays: dict[str, tuple[Variable, Array]] = {}
        self.is_closed = False
        self.lease.add_user(self)

    def array(self, variable: Variable) -> Array:
        """Return a variable's values: the same object as long as its description is the same.

        Of arrays that depend on others, or have such, the store may be asked.
        """
        known = self._arrays.get(variable.path)
        if known is not None and is_same_array(known[0], variable):
            return known[1]
        overlap = self._families.overlap(variable)
        with self._arrays_lock:
            known = self._arrays.get(variable.path)
            if known is not None and is_same_array(known[0], variable):
                return known[1]
            if known is not None and is_resized(known[0], variable):
                array, outdated = known[1].resized(variable.array), None
            else:
                array, outdated = self._new_array(variable, overlap), known
            self._arrays[variable.path] = (node_to_hold(variable), array)
        if outdated is not None:
            self.engine.cache.discard(outdated[1].stored)
            outdated[1].stored.note_changed()
        return array

    def latest(self, variable: Variable, array: StoredArray | None = None) -> Variable:
        """Return a variable with its current length, as far as that is known. Makes no request.

        Parameters
        ----------
        array : of the variable, which may have been renamed.
        """
        prefix = self.prefix(variable.key) if array is None else array.place.prefix
        key = relative(prefix, self.root)
        if key != variable.key:
            variable = variable.moved(variable.key, key)
        known = self._arrays.get(variable.path)
        if known is None or known[0] is variable or not is_resized(known[0], variable):
            return variable
        return known[0]

    def written(self, variable: Variable) -> WrittenArray | None:
        """Return the array of a variable to which values may have been written; None: none were."""
        known = self._arrays.get(variable.path)
        array = None if known is None else known[1].stored
        return None if array is None else OpenArray(self, array, variable.array, self.lose)

    def lose(self, array: StoredArray, error: NczfsError) -> None:
        """Note that an array is gone, and something that was written to it."""
        array.has_lost = True
        array.end(str(error))
        self.forget(self.path_of(array))

    def path_of(self, array: StoredArray) -> str:
        """Return the current path of an array of this dataset."""
        return relative(array.prefix, self.root)

    def problems(self, variable: Variable) -> tuple[str, ...]:
        """Return what is wrong with a variable: its metadata, or a missing codec."""
        try:
            self.array(variable).require_codecs()
        except CodecError as error:
            return (*variable.problems, str(error))
        return variable.problems

    def shows(self, key: str) -> bool:
        """Return whether there is an object below the root, as `MetadataCache.shows` does."""
        return self._metadata.shows(join(self.root, key))

    def forget(self, path: str) -> None:
        """Forget a node and all below it, including chunks, so that the store is asked again."""
        super().forget(path)
        prefix = self.prefix(path)
        before = self.stored_arrays(prefix)  # in place of one that is over, another may come soon
        self._undescribe(path)
        self._forget_chunks({*before, *self.stored_arrays(prefix)})
        for array in self.stored_arrays(prefix):
            array.doubts += 1

    def open_node(self, path: str) -> OpenNode:
        """Return a node that is found again after it was renamed."""
        place = self.engine.arrays.nodes.of(self._metadata.zmap, self.prefix(path))
        return OpenNode(place, self.root)

    def removed(self, path: str) -> None:
        """Note that a node and all below it are removed; nothing written to them is kept."""
        self.edits.forget(path)
        self.appends.forget(lambda known: is_within(known, path))
        prefix = self.prefix(path)
        self.engine.arrays.nodes.end(self._metadata.zmap, prefix)
        self._end_arrays(prefix, "the variable was removed")
        self.forget(path)
        self.forget_documents(path)

    @contextmanager
    def undescribed(self, path: str, why: str) -> Iterator[None]:
        """End the arrays at and below a path. Nobody describes or stores one during the block."""
        prefix = self.prefix(path)
        self._end_arrays(prefix, why)
        with self.engine.arrays.gate.closed(prefix), self._arrays_lock:
            for array in self.stored_arrays(prefix):
                array.end(why)
            for known in [known for known in self._arrays if is_within(known, path)]:
                del self._arrays[known]
            try:
                yield
            finally:
                self._metadata.forget(prefix)

    def moved(self, path: str, goal: str) -> None:
        """Note that a node and all below it have moved; open files follow."""
        self.forget_documents(goal)  # known as missing, and read there from the next line on
        with self._arrays_lock:  # or an array is described at the old place, and moved without it
            self.engine.arrays.move(self._metadata.zmap, self.prefix(path), self.prefix(goal))
            for known in [known for known in self._arrays if is_within(known, path)]:
                variable, array = self._arrays.pop(known)
                self._arrays[moved(known, path, goal)] = variable.moved(path, goal), array
        self.forget_documents(path)
        self.edits.move(path, goal)

    def forget_documents(self, path: str) -> None:
        """Forget a node and all below it, except chunks, so that the store is asked again."""
        super().forget(path)
        self._metadata.forget(self.prefix(path))
        self._metadata.changed(Key(self.prefix(path)))

    @contextmanager
    def moving(self, path: str) -> Iterator[Callable[[str], None]]:
        """Let other threads store nothing of the dataset while a node moves; they wait.

        Until the end of the block, what is at the old place is taken for what has moved.

        Yields
        ------
        what ends the waiting for all but one prefix in the dataset.
        """
        arrays, zmap, prefix = self.engine.arrays, self._metadata.zmap, self.prefix(path)
        leaving = arrays.nodes.leaving(zmap, prefix, lambda: self._undescribe(path))
        with arrays.gate.closed(self.root) as narrow, leaving:
            yield narrow

    def append(self, array: StoredArray, values: Values, grow: Callable[[int], None]) -> int:
        """Append records; see `Appends.add`. When memory is short of room, they are stored."""
        first = self.appends.add(lambda: self.path_of(array), array, values, grow)
        if self.engine.writeback.is_crowded:
            try:
                self.store((self.path_of(array),))
            except NczfsError as error:
                log.info("%s: appended records are kept, and tried again: %s", self.url(""), error)
        return first

    def claim(self, array: StoredArray) -> None:
        """Claim a place for the records that were appended to an array; see `Appends`."""
        path = None
        while path != self.path_of(array):  # it may be renamed meanwhile
            path = self.path_of(array)
            self.appends.claim_for(path)

    @property
    def has_changes(self) -> bool:
        """Whether a document, or the consolidated copy, is not stored yet as it should be."""
        return bool(self.edits.pending()) or self.appends.is_any or self.copy.is_owed

    @property
    def is_far(self) -> bool:
        """Whether its store takes a network round trip for each request."""
        return self._metadata.far

    def has_unsaved(self, path: str = "") -> bool:
        """Return whether a write to a node or below it is not stored yet. Makes no request."""
        if any(is_within(known, path) for known in self.edits.pending()):
            return True
        zmap, prefix = self._metadata.zmap, self.prefix(path)
        is_owed = not path and self.copy.is_owed
        return is_owed or self.engine.writeback.has_unsaved(lambda a: a.is_within(zmap, prefix))

    def store(self, asked: Iterable[str] | None = None, listener: Listener | None = None) -> None:
        """Store all that was written and changed: chunks, documents, the consolidated copy.

        Parameters
        ----------
        asked : the paths of the nodes whose failures are raised, because a caller need not learn of
            the failures of others. None: all.
        listener : made before the caller changed these nodes; None: a new one.

        Raises
        ------
        CodecError, StoreError : what could not be stored is kept. DatasetError, MetadataError : a
            change can never be stored, and was withdrawn.
        """
        self.storing.store(asked, listener)

    def trouble(self, pause_s: float | None) -> Trouble | None:
        """See `Storing.trouble`."""
        return self.storing.trouble(pause_s)

    def forget_clean(self) -> None:
        """Forget chunks and documents without unsaved changes, so that the store is asked again."""
        self._forget_chunks(self.stored_arrays(self.root))
        self._metadata.forget(self.root)

    def delete_documents(self, keys: Iterable[str]) -> None:
        """Remove the given documents, as far as they exist."""
        documents = self.documents()
        for key in keys:
            if documents.get(key) is not None:
                full = join(self.root, key)
                self.zmap.delete(full)
                self._metadata.changed(full, is_edit=True)

    def chunks(self, variable: Variable) -> tuple[StoredArray, ChunkSource]:
        """Return the array of a variable, and where its chunks come from."""
        array = variable.array  # the variable itself is not held: its attributes may be large
        engine, lease = self.engine, self.lease
        prefix, name = self.prefix(variable.key), variable.name_at_key
        stored = engine.arrays.of(self._metadata.zmap, prefix, array, name)
        stored.is_waiting = lambda: lease.is_being_taken
        check = ArrayCheck(self, self._metadata, array, stored, lease.prepare)
        near = None if self.is_far else check.is_unchanged
        confirm = Confirmation(check.ask, lambda: stored.doubts, near)
        options, shards, grows = engine.options, engine.shards, self.format.grows(variable)
        return stored, source_of(self.zmap, stored.place, array, options, confirm, shards, grows)

    def _new_array(self, variable: Variable, overlap: Overlap | None) -> Array:
        engine, grows = self.engine, self.format.grows(variable)
        stored, source = self.chunks(variable)

        def shape() -> tuple[int, ...]:
            node = self.node(self.path_of(stored))
            return node.array.shape if isinstance(node, Variable) else ()

        chunks = ArrayChunks(
            source, stored, engine.cache, engine.writeback, engine.pools, grows=grows, shape=shape
        )
        chunks = self._families.prepared(variable, chunks, overlap)
        return Array(chunks, engine.options, far=self._metadata.far, rounding=rounding_of(variable))

    def apart(self) -> Dataset:
        """Return the same dataset for changes that nobody sees before they are stored together."""
        metadata, options = self._metadata, self.format_options
        return Dataset(self.engine, metadata, self.root, self.format, options, is_apart=True)

    def joined(self, path: str) -> None:
        """Note that what was made apart at a path, or below it, is stored now."""
        self.forget_documents(path)
        self.edits.note_change()
        self._note_edited(path)

    def _undescribe(self, path: str) -> None:
        with self._arrays_lock:
            for known in [known for known in self._arrays if is_within(known, path)]:
                del self._arrays[known]

    def _note_edited(self, path: str) -> None:
        if not self._is_apart:
            self.engine.note_changes(self)
        self.used_dimensions.changed(path)
        self._tell_edited(self.prefix(path))

    def stored_arrays(self, prefix: Prefix) -> list[StoredArray]:
        """Return the arrays at and below a prefix that are open or have chunks in memory."""
        return self.engine.arrays.within(self._metadata.zmap, prefix)

    def _forget_chunks(self, arrays: Iterable[StoredArray]) -> None:
        for array in arrays:
            self.engine.cache.discard(array)
            array.note_changed()

    def _end_arrays(self, prefix: Prefix, why: str) -> None:
        """End the arrays at and below a prefix; nothing that was written to them is kept."""
        for array in self.stored_arrays(prefix):
            array.end(why)
            self.engine.writeback.drop(array, lambda _: False)


def open_dataset(
    engine: Engine,
    metadata: MetadataCache,
    root: Prefix,
    options: FormatOptions,
    *,
    writable: bool = False,
    edited: Callable[[Prefix], None] = lambda _: None,
) -> Dataset | None:
    """Open the dataset at a prefix; None if there is no group or array. See `format_at`."""
    found = format_at(metadata, root, options, reads_consolidated=not writable)
    return None if found is None else Dataset(engine, metadata, root, found, options, edited)
