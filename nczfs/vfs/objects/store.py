"""The store, as the tree reads, writes and deletes objects in it, and tells who shows them."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar

from nczfs.buffers import Buffer
from nczfs.engine.chunks.place import Gate
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.listings import LISTED_ENTRIES_MAX
from nczfs.engine.pools import Pools
from nczfs.engine.spool.basis import Sent, sent
from nczfs.engine.spool.renames import Note, noted
from nczfs.engine.spool.space import Spool
from nczfs.errors import (
    Conflict,
    NczfsError,
    NoSuchObject,
    NoSuchPath,
    ObjectExists,
    ObjectTooLarge,
    PathExists,
    StaleHandle,
)
from nczfs.plaindata import frozen
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.objects.delivered import DeliveredObjects
from nczfs.vfs.objects.kept import KeptAttributes, MadeDirectories
from nczfs.vfs.objects.names import new_key, parent_of
from nczfs.vfs.objects.times import KnownTimes
from nczfs.vfs.staging import Base, StagedFile, stage
from nczfs.zmap.base import (
    ABSENT,
    ByteRange,
    Entry,
    Part,
    Stat,
    Version,
    part_bytes,
    part_size,
    read_range,
)
from nczfs.zmap.keys import Key, Prefix, moved
from nczfs.zmap.storable import storable

T = TypeVar("T")
U = TypeVar("U")

MIB = 1 << 20
NEAR_STEP = 128 * 1024
FAR_STEP = 4 * MIB
CHANGES_MAX = 4096  # more than are under way at a time
JOINED_BYTES_MAX = 8 * MIB  # an object of no more is one buffer


@frozen
class _Change:
    """The change of an object, counted, and the version that it has then."""

    number: int
    version: Version


_NEVER = _Change(0, ABSENT)


@frozen
class StoredOptions:
    """What is kept in the store besides bytes, or else in the mount alone.

    Attributes
    ----------
    keep_times : the times of objects.
    directory_markers : directories that are made.
    """

    keep_times: bool = False
    directory_markers: bool = False


class ObjectStore:
    """The changes of the store, and what is remembered of them.

    Parameters
    ----------
    changed : called with every key that was stored or deleted, and every prefix that moved.
    lost : called with every key for which the kernel has bytes that were not stored.
    settle : has everything stored that was written to datasets at or below a prefix, or around it.
    gate : is closed where objects are being renamed; who stores something else is inside.
    options : what is kept in the store itself, where it can.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        pools: Pools,
        spool: Spool,
        changed: Callable[[str], None],
        lost: Callable[[str], None],
        settle: Callable[[Prefix], None],
        gate: Gate,
        options: StoredOptions | None = None,
    ) -> None:
        options = options or StoredOptions()
        self.settle = settle
        self.gate = gate
        self.metadata = metadata
        self.zmap = metadata.zmap
        self._spool = spool
        self._pools = pools
        features = self.zmap.features
        self.times = (
            KnownTimes(metadata, pools) if options.keep_times and features.keeps_times else None
        )
        self._marks = options.directory_markers and features.markers
        self.kept = KeptAttributes()
        self.made = MadeDirectories()
        self.delivered = DeliveredObjects()
        self._changed = changed
        self._lost = lost
        self._marks_lock = threading.Lock()  # guards the two below
        self._changes = 0
        self._changed_at: OrderedDict[Key, _Change] = OrderedDict()
        self._prepared = False
        self._preparing = threading.Lock()

    def stat(self, key: Key) -> Stat:
        """Return what is there now. Raises NoSuchPath."""
        if (stat := self.find(key)) is None:
            raise NoSuchPath(f"{key}: no such object")
        return stat

    def find(self, key: Key) -> Stat | None:
        """Return what is there now; None for nothing."""
        try:
            stat = self.zmap.stat(key)
        except NoSuchObject:
            return None
        if self.times is not None:
            self.times.learn(stat)
        return stat

    def entry(self, key: Key) -> Entry | None:
        """Return the entry of a listing; None if there is no object and no key below.

        Both are asked for at once where a request is a round trip. An object is believed where the
        store can list nothing.
        """
        below = Prefix(key)
        far = self.metadata.far
        asked = self._pools.edit.submit(self.metadata.has_keys, below) if far else None
        stat = self.find(key)
        try:
            is_prefix = asked.result() if asked else self.metadata.has_keys(below)
        except NczfsError:
            if stat is None:
                raise
            is_prefix = False
        if stat is None and not is_prefix:
            return None
        return Entry(key.rpartition("/")[2], stat, is_prefix=is_prefix)

    def read(self, stat: Stat, start: int, stop: int) -> Buffer:
        """Return bytes of one version. Raises StaleHandle if the store no longer has it."""
        try:
            blob = self.zmap.read(stat.key, start, stop, version=stat.version)
        except (Conflict, NoSuchObject) as error:
            raise StaleHandle(
                f"{self.zmap.name}/{stat.key}: replaced or deleted since it was opened"
            ) from error
        if len(blob.data) != stop - start:
            raise StaleHandle(
                f"{self.zmap.name}/{stat.key}: {len(blob.data)} bytes instead of {stop - start}"
            )
        return blob.data

    def sent(self, parts: Sequence[Part]) -> Sent:
        """Describe what is sent. Raises StaleHandle as `read` does."""
        return sent(parts, lambda part: self.read(part.stat, part.start, part.stop))

    def stage(self, key: Key, stat: Stat | None) -> StagedFile:
        """Return a staged file that begins as a version of an object, or empty."""
        if stat is None:
            return stage(self._spool, key)
        return stage(self._spool, key, stat.size, self.base_of(stat))

    def keep(self, staged: StagedFile | None, key: Key, replaces: Version, reason: str) -> Path:
        """Leave a file that could not be stored in the spool; None: an empty one."""
        try:
            if staged is None:
                staged = self._spool.pressed(lambda: stage(self._spool, key))
            return staged.keep(key, replaces, reason)
        except NczfsError:
            self._spool.lost.append(f"{key}: {reason}")
            raise

    def base_of(self, stat: Stat) -> Base:
        """Return a version of an object as the initial contents of a staged file."""
        return Base(stat, lambda start, stop: self.read(stat, start, stop), self.step)

    @property
    def step(self) -> int:
        """Return the number of bytes that are worth one request."""
        return FAR_STEP if self.metadata.far else NEAR_STEP

    def mark(self) -> int:
        """Return the moment before a request, for `has_changed`."""
        return self._changes

    def has_changed(self, key: Key, mark: int) -> bool:
        """Return whether an object was changed here since a recent moment."""
        with self._marks_lock:
            return self._changed_at.get(key, _NEVER).number > mark

    def is_ours(self, stat: Stat) -> bool:
        """Return whether this mount stored this version recently."""
        with self._marks_lock:
            return self._changed_at.get(stat.key, _NEVER).version == stat.version

    def write(
        self, key: Key, parts: Sequence[Part], replaces: Version | None, mtime_ns: int
    ) -> Stat:
        """Store an object; it keeps the time `mtime_ns` in this mount.

        Parameters
        ----------
        parts : bytes, holes, and ranges of the version that is replaced.

        Raises
        ------
        StaleHandle : the store has another version than `replaces`, and keeps it.
        """
        with self._conditional(key):
            return self._write(key, parts, replaces, mtime_ns)

    def make(self, key: Key, parts: Sequence[Part], mtime_ns: int) -> Stat:
        """Store an object where none is, as `write` does. Raises PathExists."""
        with self._conditional(key), _exclusive(key):
            return self._write(key, parts, ABSENT, mtime_ns)

    def copy(self, stat: Stat, key: Key, *, replace: bool) -> Stat:
        """Store one version of an object under another key as well.

        Raises
        ------
        StaleHandle : the store has another version of it.
        PathExists : there is an object, and it is not to be replaced.
        """
        if not self.knows_time(stat):
            stat = self.find(stat.key) or stat
        mtime_ns = self.mtime_of(stat, time.time_ns())
        kept = mtime_ns if self.times is not None else None
        condition = None if replace else ABSENT
        with self._conditional(key), nullcontext() if replace else _exclusive(key):
            version = self.zmap.copy(stat, key, replaces=condition, mtime_ns=kept)
        return self._stored(Stat(key, stat.size, version, mtime_ns, kept))

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Stat:
        """Give a version of an object another time: in the store, or in this mount.

        Raises
        ------
        StaleHandle : the store has another version.
        """
        if self.times is None:
            self.kept.change(stat.key, AttributeChanges(mtime_ns=mtime_ns), stat.version)
            return stat
        try:
            version = self.zmap.set_mtime(stat, mtime_ns)
        except (Conflict, NoSuchObject) as error:
            raise StaleHandle(
                f"{self.zmap.name}/{stat.key}: replaced or deleted since it was looked up"
            ) from error
        except ObjectTooLarge:
            self.times.learn(stat, mtime_ns)
            return stat
        return self._stored(Stat(stat.key, stat.size, version, mtime_ns, mtime_ns))

    def entries(self, prefix: Prefix) -> Iterator[Entry]:
        """Yield the names below a prefix.

        Where each object is asked for its time, all are listed first: who knows which ones follow
        asks for several at a time.
        """
        entries = self.metadata.entries(prefix)
        if self.times is None:
            return entries
        return chain([*islice(entries, LISTED_ENTRIES_MAX)], entries)

    def with_time(self, stat: Stat) -> Stat:
        """Return an object with its time, which may take a request."""
        return stat if self.knows_time(stat) or self.times is None else self.times.ask(stat)

    def knows_time(self, stat: Stat) -> bool:
        """Return whether `mtime_of` an object is its real time."""
        return self.times is None or self.times.of(stat) is not None

    def mark_directory(self, prefix: Prefix) -> None:
        """Mark a new directory in the store, if configured."""
        if self._marks:
            self._prepare()
            self.zmap.mark(prefix)

    def unmark(self, prefix: Prefix) -> None:
        """Remove the marker of an empty directory, even that of another client. Raises Conflict."""
        if self.zmap.features.markers:
            self.zmap.unmark(prefix)

    def move_markers(self, prefix: Prefix, markers: Sequence[Prefix], goal: Prefix) -> None:
        """Move the markers of directories below one prefix to another."""
        self.each(lambda marked: self.zmap.mark(Prefix(moved(marked, prefix, goal))), markers)
        self.each(self.zmap.unmark, markers)

    def noted(self, prefix: Prefix, goal: Prefix) -> AbstractContextManager[Note]:
        """Note a rename during the block, so that others can finish an interrupted one."""
        return noted(self._spool, prefix, goal)

    def delete(self, key: Key, version: Version | None = None) -> None:
        """Delete an object; the directory that it was in stays.

        Raises
        ------
        NoSuchPath.
        Conflict : it is not `version`, and stays.
        """
        try:
            self.zmap.delete(key, version=version)
        except NoSuchObject as error:
            self.deleted(key)
            raise NoSuchPath(f"{key}: no such object") from error
        except NczfsError:
            self.announce(key)  # it may be gone all the same
            raise
        self.deleted(key)

    def delete_versions(self, stats: Iterable[Stat]) -> None:
        """Delete versions of objects that were just listed, without an announcement.

        A near store compares each once more.
        """
        if self.metadata.far:
            self.zmap.delete_many(stat.key for stat in stats)
            return
        for stat in stats:
            with suppress(Conflict, NoSuchObject):
                self.zmap.delete(stat.key, version=stat.version)

    def deleted(self, key: Key) -> None:
        """Note that an object is gone."""
        self._note_change(key, ABSENT)
        self.made.add(parent_of(key))
        self.kept.discard(key)
        self.metadata.deleted(key)
        self._changed(key)

    def each(self, function: Callable[[T], U], arguments: Iterable[T]) -> list[U]:
        """Call a function with every argument, several at a time where a request takes long."""
        if not self.metadata.far:
            return [function(argument) for argument in arguments]
        return list(self._pools.edit.map(function, arguments))

    def is_absent(self, key: Key, *, now: bool) -> bool:
        """Return whether there is no object; `write` compares again.

        Parameters
        ----------
        now : ask the store; otherwise a listing is believed for as long as opens of files may
            believe one.
        """
        prefix, _, name = key.rpartition("/")
        listed, entry = self.metadata.known_entry(Prefix(prefix), name)
        is_unlisted = listed and (entry is None or entry.stat is None)
        if is_unlisted and not (now or self.metadata.is_prompt):
            return True
        found = self.find(key)
        if found is not None and is_unlisted:
            self.metadata.stored(found)  # by another client, since
        return found is None

    def new_key(self, prefix: Prefix, name: str) -> Key:
        """Return the key of a new name. Raises BadKey, KeyTooLong, KeyNotText."""
        return storable(self.zmap, new_key(prefix, name))

    def has_keys(self, prefix: Prefix) -> bool:
        """Return whether the store has anything below a prefix now."""
        return self.zmap.exists(prefix, marked=False)

    def announce(self, key: str) -> None:
        """Announce a changed key, so that everything about it is read anew."""
        self.metadata.changed(Key(key))
        self._changed(key)

    def lost(self, key: Key) -> None:
        """Note that the writes to a file are lost and no longer shown."""
        self.announce(key)
        self._lost(key)

    def forget_pages(self, key: Key) -> None:
        """Let the kernel forget the bytes and the size of a file, and what is below a directory."""
        self._lost(key)

    def mtime_of(self, stat: Stat, otherwise: int) -> int:
        """Return the time of a version: as written or set through this mount, or the store's.

        Parameters
        ----------
        otherwise : where the store tells none.
        """
        if self.times is not None and (known := self.times.of(stat)) is not None:
            return known
        kept = self.kept.get(stat.key)
        if kept.mtime_ns is not None and kept.version == stat.version:
            return kept.mtime_ns
        return otherwise if stat.mtime_ns is None else stat.mtime_ns

    def _write(
        self, key: Key, parts: Sequence[Part], replaces: Version | None, mtime_ns: int
    ) -> Stat:
        kept = mtime_ns if self.times is not None else None
        size = sum(map(part_size, parts))
        if size > JOINED_BYTES_MAX or any(isinstance(part, ByteRange) for part in parts):
            version = self.zmap.write_parts(key, parts, replaces=replaces, mtime_ns=kept)
        else:
            read = partial(read_range, self.zmap)
            data = b"".join(piece for part in parts for piece in part_bytes(part, read))
            version = self.zmap.write(key, data, replaces=replaces, mtime_ns=kept)
        return self._stored(Stat(key, size, version, mtime_ns, kept))

    @contextmanager
    def _conditional(self, key: Key) -> Iterator[None]:
        """Raise StaleHandle if a condition about an open file is refused."""
        self._prepare()
        try:
            yield
        except (Conflict, ObjectExists, NoSuchObject) as error:
            raise StaleHandle(
                f"{self.zmap.name}/{key}: not stored, another client stored or deleted it since "
                f"it was opened ({error})"
            ) from error

    def _note_change(self, key: Key, version: Version) -> None:
        with self._marks_lock:
            self._changes += 1
            self._changed_at[key] = _Change(self._changes, version)
            self._changed_at.move_to_end(key)
            if len(self._changed_at) > CHANGES_MAX:
                self._changed_at.popitem(last=False)

    def _stored(self, stat: Stat) -> Stat:
        self._note_change(stat.key, stat.version)
        if self.times is None:
            self.kept.change(stat.key, AttributeChanges(mtime_ns=stat.mtime_ns), stat.version)
        else:
            self.times.forget(stat.key)
        self.metadata.stored(stat)
        self._changed(stat.key)
        return stat

    def _prepare(self) -> None:
        """Let the store find out its features before the first write."""
        if not self._prepared:
            with self._preparing:
                if not self._prepared:
                    self.zmap.prepare_writing()
                    self._prepared = True


@contextmanager
def _exclusive(key: Key) -> Iterator[None]:
    """Raise PathExists if another client made the object first."""
    try:
        yield
    except ObjectExists as error:
        raise PathExists(f"{key}: exists ({error})") from error
