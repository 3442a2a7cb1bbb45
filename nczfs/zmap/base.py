"""The interface of stores: a flat map from keys to objects."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import NamedTuple, NewType, TypeAlias, TypedDict, Unpack

from nczfs.buffers import Buffer
from nczfs.errors import CorruptStore, NoSuchObject
from nczfs.plaindata import frozen
from nczfs.zmap.aside import Exchanges, Exchanging
from nczfs.zmap.capacity import UNLIMITED, Capacity
from nczfs.zmap.joining import join
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.ranges import read_joined
from nczfs.zmap.run import ListedRange

RANGE_STEP_BYTES = 16 << 20  # read at once from a range that is copied
GLANCE_ENTRIES = 900  # fewer than pages of web servers have
PIECE_STEP_BYTES = 1 << 20  # read at once on this machine: the same memory serves each step

Version = NewType("Version", str)
"""An opaque token that changes whenever an object is replaced (ETag; inode, size, times)."""

ABSENT = Version("")
"""As `replaces` of a write: the object must not exist."""


class WriteOptions(TypedDict, total=False):
    """What may be said with anything that makes or replaces an object, as keyword arguments.

    Who passes them on says `**options: Unpack[WriteOptions]`; who uses them names both, so that a
    name that is misspelt is an error.

    Attributes
    ----------
    replaces : the only version to replace; `ABSENT`: write only if there is none; None, which is
        the default: replace any.
    mtime_ns : the time to store with the object, if `Features.keeps_times`; other stores ignore it.
        None, which is the default: none, or for a copy that of its source.
    """

    replaces: Version | None
    mtime_ns: int | None


class Blob(NamedTuple):
    """Bytes of an object, the version they came from, and the size of the whole object.

    `mtime_ns` is None if the store does not give it with a read.
    """

    data: Buffer
    version: Version
    object_size: int
    mtime_ns: int | None = None


# Named tuples: listings make hundreds of thousands of them, in a third of a dataclass's time.
class Stat(NamedTuple):
    """What a store knows of an object without reading it.

    Attributes
    ----------
    mtime_ns : when it was stored; None if the store has no times.
    ctime_ns : when the status of its file changed; no program can set that, as it can `mtime_ns`.
    kept_mtime_ns : the time that was given for it (`Features.keeps_times`); None if none was given,
        and in the results of `search` and `list`.
    """

    key: Key
    size: int
    version: Version
    mtime_ns: int | None = None
    kept_mtime_ns: int | None = None
    ctime_ns: int | None = None

    @property
    def stored_ns(self) -> int | None:
        """When it was stored at the latest: a copy that keeps its time is put there later."""
        return max(filter(None, (self.mtime_ns, self.ctime_ns)), default=self.mtime_ns)


@frozen
class ByteRange:
    """Bytes [start, stop) of a version of an object; not beyond its end."""

    stat: Stat
    start: int
    stop: int

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.stop <= self.stat.size

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.stop - self.start


@frozen
class Piece:
    """Bytes [start, stop) of something on this machine, read on demand.

    Its maker ensures that they do not change until the object is written.

    Attributes
    ----------
    reader : returns the bytes between two offsets, or raises an `NczfsError`.
    """

    reader: Callable[[int, int], Buffer]
    start: int
    stop: int

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.stop - self.start

    def read(self) -> Buffer:
        """Return all bytes."""
        return self.reader(self.start, self.stop)


@frozen
class Zeros:
    """A number of zero bytes; a hole if the store can have holes."""

    size: int


Part: TypeAlias = "Buffer | ByteRange | Piece | Zeros"
"""A part of an object: bytes, or those of an object in the same store."""


def part_size(part: Part) -> int:
    """Return the number of bytes of a part."""
    return part.size if isinstance(part, ByteRange | Piece | Zeros) else memoryview(part).nbytes


def cut_part(part: Part, start: int, stop: int) -> Part:
    """Return bytes [start, stop) of a part, as a part."""
    match part:
        case ByteRange():
            return ByteRange(part.stat, part.start + start, part.start + stop)
        case Piece():
            return Piece(part.reader, part.start + start, part.start + stop)
        case Zeros():
            return Zeros(stop - start)
    return memoryview(part).cast("B")[start:stop]


class Entry(NamedTuple):
    """A name of the next level below a prefix.

    Attributes
    ----------
    stat : of the object with exactly this name; None if there is none.
    is_prefix : whether there are keys below this name.
    """

    name: str
    stat: Stat | None
    is_prefix: bool


Glance: TypeAlias = "tuple[list[Entry], Callable[[], Iterator[Entry]] | None]"
"""Names, and what searches for others, perhaps with some of these again; None: there are none."""


@frozen
class Features:
    """What a store can do, as data. The conformance suite asserts it both ways.

    Attributes
    ----------
    writable : objects can be written and deleted.
    conditional_writes : racing writers respect `write(replaces=...)`; see `ZMap.prepare_writing`.
    atomic_replace : a reader sees the old or the new object, nothing in between.
    ranges : a part of an object costs about a part of reading it whole.
    write_once : a written object cannot be replaced.
    near : a request takes microseconds (memory, local disk), not a network round trip.
    case_sensitive : two keys that differ only in case are two objects.
    server_copies : `copy`, the large ranges of `write_parts`, and `copy_from` within one server,
        do not go through this machine, and are better than reading and writing.
    forbidden_is_absent : "forbidden" for a key counts as "no such object": the store answers so to
        clients that may not list. It is known after the first such answer, and may change.
    keeps_times : the `mtime_ns` of a write is stored with the object, and `stat` returns it.
    text_keys : keys are UTF-8, and others cannot be written.
    name_bytes_max : of each component of a key; None: as many as the key.
    lists_all : the results of `list` and `search` are complete; those of web servers may not be.
    markers : a directory can exist without keys: `ZMap.mark`.
    dates_objects : the `mtime_ns` of a `Stat` is that of the object, not that of an archive.
    time_resolution_ns : how much later than its `Stat.stored_ns` says an object may have been
        stored, at most: times of HTTP and S3 are cut to seconds.
    lists_sizes : `search` and `list` omit nothing, and need no request for the size of each object.
    gathers_writes : only `flush` shows others the writes since the last one, all of them together.
    exchanges : what can be replaced in one step: `ZMap.aside`.
    """

    writable: bool = True
    conditional_writes: bool = True
    atomic_replace: bool = True
    ranges: bool = True
    write_once: bool = False
    near: bool = True
    case_sensitive: bool = True
    server_copies: bool = False
    forbidden_is_absent: bool = False
    keeps_times: bool = False
    markers: bool = False
    lists_sizes: bool = True
    text_keys: bool = False
    name_bytes_max: int | None = None
    lists_all: bool = True
    dates_objects: bool = True
    time_resolution_ns: int = 1_000_000_000
    gathers_writes: bool = False
    exchanges: Exchanges = Exchanges.NOTHING


class ZMap(Exchanging, ABC):
    """A flat map from keys to objects, with one-level search.

    Objects are replaced whole and atomically, or not at all. Every method blocks, has a deadline
    of its own, and may be called from any thread at any time. Keys are already checked
    (`keys.parse_key`); a backend need not defend itself against ``..``. A missing object is never
    confused with a failed request: `NoSuchObject` means that the store said so.

    Every method may also raise `Unavailable`, `DeadlinePassed`, `AccessDenied` and `CorruptStore`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The store as a URL without secrets, for messages."""

    @property
    @abstractmethod
    def features(self) -> Features:
        """What this store can do."""

    def prepare_writing(self) -> Features:
        """Prepare for writing; to be called when a dataset is opened for writing.

        This finds out what only a trial shows, and removes what interrupted writers of nczfs left.
        Without a call, `features` may promise less than the store can do.
        """
        return self.features

    @abstractmethod
    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        """Read bytes [start, stop) of an object, cut at its end, and the version they came from.

        A negative `start`, without a `stop`, counts from the end, and gives all bytes of an object
        that has no more. A `start` at or beyond the end gives no bytes. With `version`, only that
        version is read. Without a `stop`, a far store refuses more than `READ_BYTES_MAX`.

        Raises
        ------
        NoSuchObject : no object has the key (a prefix of other keys is not an object).
        Conflict : the object is not the version named.
        """

    def read_ranges(
        self, key: Key, ranges: Sequence[tuple[int, int]], *, version: Version
    ) -> Sequence[Buffer]:
        """Return the bytes of several ranges [start, stop) of a version of an object, in order.

        All lie in the object. Neighbours are read together, and what is far apart by several
        threads where the store is far. Raises as `read`, and CorruptStore where bytes are missing.
        """

        def read(start: int, stop: int) -> Buffer:
            return read_whole(self, key, start, stop, version)

        return read_joined(read, ranges, near=self.features.near)

    @abstractmethod
    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        """Replace the whole object, atomically.

        Raises
        ------
        Conflict : the object is not `replaces`; nothing was changed. (`ObjectExists` if `replaces`
            is `ABSENT`.)
        ReadOnlyStore, NoSpace, ObjectTooLarge, KeyNotText : nothing was changed.
        """

    def copy(self, source: Stat, goal: Key, **options: Unpack[WriteOptions]) -> Version:
        """Make `goal` a copy of a version of an object, atomically. Returns the copy's version.

        Raises
        ------
        NoSuchObject : the source is gone.
        Conflict : the source has another version now, or the object at `goal` is not `replaces`;
            nothing was changed. (`ObjectExists` if `replaces` is `ABSENT`.)
        """
        whole = ByteRange(source, 0, source.size)
        return self.write_parts(goal, [whole], **options)

    def copy_from(self, origin: ZMap, key: Key, goal: Key) -> Version:
        """Make `goal` a copy of an object of another store as it is now. Returns its version.

        The default reads and writes it. A store whose server can copy lets it do so.

        Raises NoSuchObject: the object is gone; and as `write`.
        """
        blob = origin.read(key, 0, RANGE_STEP_BYTES)
        size = blob.object_size
        if size <= RANGE_STEP_BYTES:
            return self.write(goal, blob.data)
        rest = ByteRange(Stat(key, size, blob.version), RANGE_STEP_BYTES, size)
        pieces = chain([blob.data], part_bytes(rest, partial(read_range, origin)))
        return self.write(goal, join(pieces, size))

    def located(self, key: Key) -> tuple[ZMap, Key]:
        """Return the store that holds an object, inside all wrappers, and its key there."""
        return self, key

    def write_parts(
        self, key: Key, parts: Sequence[Part], **options: Unpack[WriteOptions]
    ) -> Version:
        """Replace the whole object by consecutive parts, atomically.

        Ranges may be of the object that is replaced. The default reads them and writes everything
        at once, using a temporary file beyond 64 MiB. Raises as `write` and `copy`.
        """
        if not self.features.writable:
            return self.write(key, b"", **options)  # which raises, before anything is read
        read = partial(read_range, self)
        pieces = (piece for part in parts for piece in part_bytes(part, read))
        data = join(pieces, sum(map(part_size, parts)))
        return self.write(key, data, **options)

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Version:
        """Change the time of a version of an object. Returns its new version.

        Without `Features.keeps_times` nothing happens.

        Raises as `copy`, of an object onto itself, and ObjectTooLarge: it is too large for that.
        """
        del mtime_ns
        return stat.version

    @abstractmethod
    def delete(self, key: Key, *, version: Version | None = None) -> None:
        """Remove an object; with `version`, only that one.

        A store without conditional deletions compares just before. Raises Conflict (nothing was
        changed), and NoSuchObject if the store can tell that there is none.
        """

    def delete_many(self, keys: Iterable[Key]) -> None:
        """Remove objects with as few requests as possible; missing ones are no error.

        Raises as `delete`; some of the objects may then be gone, and others not.
        """
        for key in keys:
            with contextlib.suppress(NoSuchObject):
                self.delete(key)

    @abstractmethod
    def stat(self, key: Key) -> Stat:
        """Return size and version of an object. Raises NoSuchObject."""

    @abstractmethod
    def search(self, prefix: Prefix) -> Iterator[Entry]:
        """Yield the next-level names below a prefix, each once, with the sizes of the objects.

        A prefix without keys yields nothing; it is not an error. Names that cannot be components of
        a key are left out. The order is arbitrary; pages are fetched as the iterator advances.
        """

    def glance(self, prefix: Prefix) -> Glance:
        """Return the names that come with one request. Raises as `search`."""
        found = self.search(prefix)
        first = list(islice(found, GLANCE_ENTRIES))
        return first, None if next(found, None) is None else partial(self.search, prefix)

    def prefixes(self, prefix: Prefix) -> Iterator[str]:
        """Yield the names of the prefixes right below a prefix, and perhaps of some without keys.

        This is for those who look into each of them anyway: a store of directories need not look
        first. Otherwise as `search`.
        """
        return (entry.name for entry in self.search(prefix) if entry.is_prefix)

    @abstractmethod
    def list(self, prefix: Prefix) -> Iterator[Stat]:
        """Yield every object below a prefix at any depth, page by page, in arbitrary order."""

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        """List by one request from a key on (None: the first one); None: the store cannot."""
        return None

    def exists(self, prefix: Prefix, *, marked: bool = True) -> bool:
        """Return whether there is anything below a prefix, or it has a marker.

        Stored objects that `search` omits count, too; with `marked`, its own marker does as well.
        """
        return next(iter(self.search(prefix)), None) is not None

    def mark(self, prefix: Prefix) -> None:
        """Mark a prefix as a directory, with or without keys below it.

        The marker is not an object of this map: only `exists`, `markers` and a search of the level
        above show it. Without `Features.markers` nothing happens. Raises as `write`.
        """

    def unmark(self, prefix: Prefix) -> None:
        """Remove the marker of a prefix, if it has one, even from another program.

        Raises Conflict if the object in its place has bytes; it stays.
        """

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        """Yield this prefix and those below at any depth that have a marker, in arbitrary order.

        Raises Conflict if something below is neither an object of this map nor a marker.
        """
        return iter(())

    def broken(self, prefix: Prefix) -> Iterator[tuple[Key, str]]:
        """Yield objects below a prefix that cannot be read, and why, as far as that is known.

        Makes no request. The results of `search` and `list` contain these objects, too.
        """
        return iter(())

    def capacity(self) -> Capacity:
        """Return the capacity, if the store has a limit."""
        return UNLIMITED

    @property
    def silent_s(self) -> float:
        """How long ago the first request without an answer was sent; 0.0: the store answers."""
        return 0.0

    @property
    def memory_bytes(self) -> int:
        """About what the store keeps in memory as long as it is open; 0: little."""
        return 0

    def flush(self) -> None:
        """Make all writes so far durable, and visible to all who open the store.

        Raises as `write`; what is not durable then stays visible here, and a later call repeats it.
        """

    @abstractmethod
    def close(self) -> None:
        """Flush, and release connections and descriptors. The store is unusable afterwards.

        May be called twice. Even if it raises, everything was released.
        """


def read_range(zmap: ZMap, part: ByteRange) -> Buffer:
    """Read the bytes of a range. Raises as `ZMap.read`, and CorruptStore if some are missing."""
    return read_whole(zmap, part.stat.key, part.start, part.stop, part.stat.version)


def read_whole(zmap: ZMap, key: Key, start: int, stop: int, version: Version) -> Buffer:
    """Read all bytes [start, stop) of a version of an object. Raises as `read_range`."""
    data = zmap.read(key, start, stop, version=version).data
    if len(data) != stop - start:
        raise CorruptStore(f"{zmap.name}/{key}: {len(data)} bytes came instead of {stop - start}")
    return data


def part_bytes(part: Part, read: Callable[[ByteRange], Buffer]) -> Iterator[Buffer]:
    """Yield the bytes of a part, some at a time.

    Parameters
    ----------
    read : returns the bytes of a range.
    """
    # A range without bytes is read, too, because its version may have changed.
    size = part_size(part)
    step = PIECE_STEP_BYTES if isinstance(part, Piece) else RANGE_STEP_BYTES
    for start in range(0, max(size, 1), step):
        match cut_part(part, start, min(size, start + step)):
            case ByteRange() as piece:
                yield read(piece)
            case Piece() as piece:
                yield piece.read()
            case Zeros(count):
                yield bytes(count)
            case piece:
                yield piece
