"""A store that is a zip archive in a local file, for reading and writing."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from nczfs.buffers import Buffer
from nczfs.errors import BadKey, Conflict, NoSuchObject, ObjectExists, ReadOnlyStore
from nczfs.plaindata import frozen
from nczfs.zmap.aside import Aside, Exchanges, new_aside
from nczfs.zmap.base import ABSENT, Blob, Entry, Features, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, is_own, is_within, join
from nczfs.zmap.zip.growing import Commit, GrowingArchive
from nczfs.zmap.zip.index import ROOT_MARK, ZipIndex, ZipMember, whole_entries
from nczfs.zmap.zip.indexcache import IndexCache
from nczfs.zmap.zip.ozx import without_mark
from nczfs.zmap.zip.records import FULL16, STORED, UTF8, NewMember, dos_time, end_records
from nczfs.zmap.zip.store import ENCODING, OpenArchive, open_index
from nczfs.zmap.zip.view import MemberChanges, WrittenMember, version_of

try:  # a fifth of the time of zlib's
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

_PIECE_BYTES: Final = 8 << 20
_ATTEMPTS: Final = 100  # attempts to open an archive that is being replaced repeatedly
_FOLD_LEAST: Final = 1024  # changes that are looked up one by one before the index is read anew


@frozen
class LocalZipOptions:
    """Options of writing an archive.

    Attributes
    ----------
    commit : how writes get into the archive at `flush`.
    write_once : whether flushed members cannot be replaced or deleted.
    index_cache : for the indexes of large archives.
    """

    commit: Commit = Commit.APPEND
    write_once: bool = False
    index_cache: IndexCache | None = None


USUAL_OPTIONS = LocalZipOptions()


class LocalZipZMap(ZMap):
    """The members of an archive as objects; the archive is a file.

    A write is visible at once through every map of this process, and to others after `flush` (or
    `close`): then the archive is the old one plus the writes, and a crash at any moment leaves the
    old or the new one (`growing`). Writes after the last `flush` are lost with the process.

    One process at a time writes: from the first write, or `prepare_writing`, until the maps that
    wrote are closed. Others may read; earlier openers continue to read the earlier contents. Once
    other programs replace or change the file, every read raises `Conflict`.

    Parameters
    ----------
    path : of the archive.
    read_only : refuse writes, and do not complete an interrupted one.

    Raises
    ------
    NoSuchObject : there is no archive.
    CorruptStore : it is not a zip archive, or its central directory is damaged.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: LocalZipOptions = USUAL_OPTIONS,
        *,
        read_only: bool = False,
    ) -> None:
        self._options = options
        self._archive = _shared(os.path.realpath(path), options, may_repair=not read_only)
        self._is_closed = False
        directory = os.path.dirname(self._archive.path)
        writable = not read_only and all(
            os.access(path, os.W_OK) for path in (self._archive.path, directory)
        )
        can_exchange = writable and not options.write_once
        self._features = Features(
            writable=writable,
            conditional_writes=writable,
            write_once=options.write_once,
            dates_objects=False,
            gathers_writes=writable,
            exchanges=Exchanges.ALL if can_exchange else Exchanges.NOTHING,
        )

    @property
    def name(self) -> str:
        return self._archive.name

    @property
    def features(self) -> Features:
        return self._features

    @property
    def top(self) -> str:
        """The directory of the archive that is the root of the keys; "" for the archive's root."""
        return self._archive.open.view.index.top

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        return self._archive.open.read(key, start, stop, version)

    def prepare_writing(self) -> Features:
        """Take the lock of the archive. Raises StoreBusy if another process has it."""
        if self._features.writable:
            self._archive.begin(self)
        return self._features

    def write(
        self,
        key: Key,
        data: Buffer,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        self._check_writable(key)
        return self._archive.write(self, key, data, replaces, once=self._options.write_once)

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        self._check_writable(key)
        self._archive.delete(self, key, version, once=self._options.write_once)

    def stat(self, key: Key) -> Stat:
        return self._archive.open.stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return self._archive.open.search(prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return self._archive.open.list(prefix)

    @contextlib.contextmanager
    def aside(self, prefix: Prefix, path: str = "") -> Iterator[Aside]:
        self._check_writable(Key(prefix))
        if self._options.write_once:
            raise ReadOnlyStore(f"{self.name}/{prefix}: the archive is written once")
        if next(self.list(prefix), None) is None:
            raise NoSuchObject(f"{self.name}/{prefix}: nothing is there")
        place = Prefix(join(prefix, new_aside()))
        new = join(place, path) if path else place
        self._archive.begin_aside(self, new, prefix)
        try:
            yield Aside(place, lambda: self._archive.exchange(new, prefix, self._options.commit))
        finally:
            self._archive.end_aside(place)

    def flush(self) -> None:
        """Commit writes to the archive, with a new central directory each time."""
        self._archive.flush(self._options.commit)

    def close(self) -> None:
        """Flush, and let others write."""
        if not self._is_closed:
            self._is_closed = True
            _release(self._archive, self, self._options.commit)

    def _check_writable(self, key: Key) -> None:
        if not self._features.writable:
            raise ReadOnlyStore(
                f"{self.name}/{key}: the archive was opened read-only, or you may not write to it "
                "or its directory"
            )


class _Archive:
    """An archive that all maps of this process share.

    Every change holds `_lock`, also while the disk is written to, because there is only one file.
    Readers take no lock; they use `open`, which is replaced as a whole.
    """

    def __init__(self, path: str, options: LocalZipOptions, *, may_repair: bool) -> None:
        self.path = path
        self.name = Path(path).as_uri()
        self.handles = 0
        self._lock = threading.RLock()
        self._cache = options.index_cache
        self._goals: dict[str, Prefix] = {}
        self._aside = MemberChanges()
        self._bytes = GrowingArchive(path, self.name, may_repair=may_repair)
        try:
            self.open = self._opened(None)
        except BaseException:
            self._bytes.close()
            raise
        self._writers: set[int] = set()
        self._is_dirty = False
        self._hides_flushed = False  # since the last flush, a member was replaced or deleted
        self._is_outdated = False

    @property
    def is_current(self) -> bool:
        """Whether opening the archive now would give the same contents."""
        return self._bytes.is_current

    def begin(self, handle: object) -> None:
        """Take the lock of the archive for a map."""
        with self._lock:
            self._is_outdated |= self._bytes.begin()
            self._writers.add(id(handle))
            if self._is_outdated:
                self.open = self._opened(self.open.view.index.top)
                self._is_outdated = False

    def write(
        self, handle: object, key: Key, data: Buffer, replaces: Version | None, *, once: bool
    ) -> Version:
        """Write as `ZMap.write` does."""
        view = memoryview(data).cast("B")
        name = self._member_name(self._goal(key))
        new = NewMember(name, len(view), crc32(view), dos_time(time.time()))
        header = new.local_header()
        with self._lock:
            self.begin(handle)
            hides = self._check_replaceable(key, replaces, once=once)
            offset = self._bytes.append([header, view])
            entry = new.central_entry(offset - self.open.view.index.end.shift)
            size = len(view)
            member = ZipMember(-1, offset, len(header), size, size, new.crc, STORED, UTF8)
            self._put(key, WrittenMember(member, entry), hides_flushed=hides)
        return version_of(member)

    def delete(self, handle: object, key: Key, version: Version | None, *, once: bool) -> None:
        """Delete as `ZMap.delete` does."""
        with self._lock:
            self.begin(handle)
            member = self.open.find(key)
            if version is not None and version != version_of(member):
                raise Conflict(f"{self.name}/{key}: replaced since it was opened")
            if once and self._is_committed(member):
                raise ReadOnlyStore(f"{self.name}/{key}: the archive is written once")
            self._put(key, None, hides_flushed=self._is_committed(member))

    def flush(self, how: Commit) -> None:
        """Flush as `ZMap.flush` does."""
        with self._lock:
            if not self._is_dirty:
                return
            if not self._has_changed():
                if not self._goals:
                    self._bytes.drop()
                self._is_dirty = False
                return
            self._bytes.commit(self._closing(), how)
            self._is_dirty = self._hides_flushed = False
            view = self.open.view
            if len(view.changes) > _FOLD_LEAST + len(view.index) // 8:
                self.open = self._opened(view.index.top)

    def begin_aside(self, handle: object, new: Prefix | Key, goal: Prefix) -> None:
        """Take members aside from now on that will be at a prefix, under their later names."""
        with self._lock:
            self.begin(handle)
            self._goals[f"{new}/"] = goal

    def exchange(self, new: Prefix | Key, goal: Prefix, how: Commit) -> None:
        """Put the members aside in the place of others, and commit that; all or nothing."""
        start = f"{new}/".encode(*ENCODING)
        with self._lock:
            before = self.open.view.changes, self._is_dirty, self._hides_flushed
            by_key = dict(before[0].by_key)
            for key, _ in self.open.view.below(goal.encode(*ENCODING)):
                by_key[key] = None
            found = {key: each for key, each in self._aside.by_key.items() if key.startswith(start)}
            above = f"{goal}/".encode(*ENCODING) if goal else b""
            by_key.update((above + key[len(start) :], each) for key, each in found.items())
            if not any(found.values()):
                raise NoSuchObject(f"{self.name}/{new}: nothing is there")
            view = self.open.view
            view.changes = MemberChanges(by_key)
            self._is_dirty = self._hides_flushed = True
            try:
                self.flush(how)
            except BaseException:
                view.changes, self._is_dirty, self._hides_flushed = before
                raise
            self._aside.drop(start)

    def end_aside(self, place: Prefix) -> None:
        """Forget what is aside there; its bytes go with the next flush that has nothing to keep."""
        start = f"{place}/".encode(*ENCODING)
        with self._lock:
            self._goals = {n: g for n, g in self._goals.items() if not is_within(n, place)}
            self._aside.drop(start)

    def end(self, handle: object) -> None:
        """Let other processes write, if no map of this process writes any more."""
        with self._lock:
            self._writers.discard(id(handle))
            if not self._writers and self._bytes.is_writing:
                self._bytes.end()
                if self._is_dirty:  # writes that could not be flushed are dropped
                    self._is_dirty = self._hides_flushed = False
                    self.open = self._opened(self.open.view.index.top)

    def close(self) -> None:
        """Release the descriptors."""
        with self._lock:
            self._bytes.close()

    def _opened(self, top: str | None) -> OpenArchive:
        index = open_index(self._bytes, top, self._cache)
        return OpenArchive(self._bytes, index, aside=self._aside)

    def _put(self, key: Key, written: WrittenMember | None, *, hides_flushed: bool) -> None:
        if is_own(key):
            self._aside.put(key.encode(*ENCODING), written)
            return
        self.open.view.changes.put(key.encode(*ENCODING), written)
        self._hides_flushed |= hides_flushed
        self._is_dirty = True

    def _goal(self, key: Key) -> Key:
        """Return the key that an object will have when it is in place."""
        for new, goal in self._goals.items():
            if key.startswith(new):
                return join(goal, key[len(new) :])
        return key

    def _member_name(self, key: Key) -> bytes:
        if "\\" in key:
            raise BadKey(f"{self.name}/{key}: names in archives cannot contain a backslash")
        top = self.open.view.index.top
        return (f"{top}/{key}" if top else key).encode(*ENCODING)

    def _check_replaceable(self, key: Key, replaces: Version | None, *, once: bool) -> bool:
        """Check that a key may be written. Returns whether a flushed member has it."""
        found = self.open.view.find(key.encode(*ENCODING))
        current = ABSENT if found is None else version_of(found)
        if found is not None and replaces == ABSENT:
            raise ObjectExists(f"{self.name}/{key}: exists already")
        if replaces is not None and replaces != current:
            raise Conflict(f"{self.name}/{key}: replaced by another client")
        is_flushed = found is not None and self._is_committed(found)
        if once and is_flushed:
            raise ReadOnlyStore(f"{self.name}/{key}: the archive is written once")
        return is_flushed

    def _is_committed(self, member: ZipMember) -> bool:
        return member.offset < self._bytes.committed_size

    def _has_changed(self) -> bool:
        """Return whether a flush would make another archive than the present one.

        What was both written and deleted since the last flush leaves no trace.
        """
        written = self.open.view.changes.by_key.values()
        return self._hides_flushed or any(
            each is not None and not self._is_committed(each.member) for each in written
        )

    def _closing(self) -> Iterator[Buffer]:
        """Return the new central directory and end record, of valid old entries and new ones."""
        index, changes = self.open.view.index, self.open.view.changes
        found = (index.find(key) for key in changes.keys())  # noqa: SIM118 - no mapping
        gone = {member.row for member in found if member is not None}
        gone.update(index.columns.shadowed.tolist())
        start = self._bytes.size
        size = count = 0
        for run, kept in _entries_but(self._directory(index), gone):
            yield run
            size += len(run)
            count += kept
        written = changes.written()
        entries = b"".join(each.entry for each in written)
        yield entries
        comment = without_mark(index.end.comment)
        if not index.top and ROOT_MARK not in comment:
            # Otherwise the only directory of an archive, without anything beside it, counts as its
            # top.
            comment = (comment + ROOT_MARK)[-FULL16:]
        yield end_records(
            count + len(written),
            size + len(entries),
            start,
            shift=index.end.shift,
            comment=comment,
        )

    def _directory(self, index: ZipIndex) -> Iterator[bytes]:
        end = index.end
        for at in range(end.start, end.stop, _PIECE_BYTES):
            yield self._bytes.read(at, min(at + _PIECE_BYTES, end.stop))


def _entries_but(pieces: Iterator[bytes], gone: set[int]) -> Iterator[tuple[bytes, int]]:
    """Return the entries of a central directory without some rows, and their number."""
    row = 0
    for data, starts in whole_entries(pieces):
        rows = range(row, row + len(starts))
        row = rows.stop
        if gone.isdisjoint(rows):
            yield data, len(starts)
            continue
        kept = [
            data[start:stop]
            for at, (start, stop) in zip(rows, pairwise([*starts, len(data)]), strict=True)
            if at not in gone
        ]
        yield b"".join(kept), len(kept)


_registry_lock = threading.Lock()  # guards _archives, and the `handles` of its archives
_archives: dict[str, _Archive] = {}


def _shared(path: str, options: LocalZipOptions, *, may_repair: bool) -> _Archive:
    """Return the archive at a path, the same for all maps of this process with the same file."""
    with _registry_lock:
        if found := _joined(path):
            return found
    made = _made(path, options, may_repair=may_repair)
    with _registry_lock:
        if found := _joined(path):  # another thread was faster
            made.close()
            return found
        _archives[path] = made
        made.handles = 1
        return made


def _made(path: str, options: LocalZipOptions, *, may_repair: bool) -> _Archive:
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(Conflict):  # replaced before its index was read
            return _Archive(path, options, may_repair=may_repair)
    return _Archive(path, options, may_repair=may_repair)


def _joined(path: str) -> _Archive | None:
    found = _archives.get(path)
    if found is None or not found.is_current:
        return None
    found.handles += 1
    return found


def _release(archive: _Archive, handle: object, how: Commit) -> None:
    try:
        archive.flush(how)
    finally:
        archive.end(handle)
        with _registry_lock:
            archive.handles -= 1
            is_last = archive.handles == 0
            if is_last and _archives.get(archive.path) is archive:
                del _archives[archive.path]
        if is_last:
            archive.close()
