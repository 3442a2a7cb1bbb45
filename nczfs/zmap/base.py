"""The seam to storage: a flat map from keys to objects."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import NamedTuple, NewType, TypeAlias

from nczfs.errors import CorruptStore, NoSuchObject
from nczfs.zmap.joining import join
from nczfs.zmap.keys import Key, Prefix

Buffer: TypeAlias = "bytes | bytearray | memoryview"

RANGE_STEP_BYTES = 16 << 20  # read at once of a range that is copied
READ_BYTES_MAX = 1 << 30
"""A far store gives no more to a read without an end, whatever it says that there is."""


Version = NewType("Version", str)
"""An opaque token that changes whenever an object is replaced (ETag; mtime, inode, size)."""

ABSENT = Version("")
"""As `replaces` of a write: the object must not exist."""


class Blob(NamedTuple):
    """Bytes of an object, the version they came from, and the size of the whole object.

    `mtime_ns` is None where the store does not tell it with a read.
    """

    data: Buffer
    version: Version
    object_size: int
    mtime_ns: int | None = None


# Named tuples, since listings make them by the hundred thousand: they take a third of the time of a
# frozen dataclass.
class Stat(NamedTuple):
    """What a store knows of an object without reading it.

    Attributes
    ----------
    mtime_ns : when it was stored; None where the store has no time.
    kept_mtime_ns : the time that was given for it (`Features.keeps_times`); None where none was,
        and in what `search` and `list` say.
    """

    key: Key
    size: int
    version: Version
    mtime_ns: int | None = None
    kept_mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes [start, stop) of a version of an object; not beyond its end."""

    stat: Stat
    start: int
    stop: int

    def __post_init__(self) -> None:
        assert 0 <= self.start <= self.stop <= self.stat.size

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes [start, stop) of something on this machine, read when they are needed.

    Whoever makes it sees to it that they stay what they are until the object is written.

    Attributes
    ----------
    reader : gives the bytes between two offsets, or raises an `NczfsError`.
    """

    reader: Callable[[int, int], Buffer]
    start: int
    stop: int

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self.stop - self.start

    def read(self) -> Buffer:
        """All of them."""
        return self.reader(self.start, self.stop)


@dataclass(frozen=True, slots=True)
class Zeros:
    """So many bytes of zero; where a store can have holes, one."""

    size: int


Part: TypeAlias = "Buffer | Range | Piece | Zeros"
"""What an object is put together of: bytes, or those of an object in the same store."""


def part_size(part: Part) -> int:
    """How many bytes a part has."""
    return part.size if isinstance(part, Range | Piece | Zeros) else memoryview(part).nbytes


def cut_part(part: Part, start: int, stop: int) -> Part:
    """Bytes [start, stop) of a part, as a part."""
    match part:
        case Range():
            return Range(part.stat, part.start + start, part.start + stop)
        case Piece():
            return Piece(part.reader, part.start + start, part.start + stop)
        case Zeros():
            return Zeros(stop - start)
    return memoryview(part).cast("B")[start:stop]


class Entry(NamedTuple):
    """A name of the next level below a prefix.

    Attributes
    ----------
    stat : of the object with exactly this name, None where there is none.
    is_prefix : whether there are keys below this name.
    """

    name: str
    stat: Stat | None
    is_prefix: bool


@dataclass(frozen=True, slots=True)
class Features:
    """What a store can do, as data; the conformance suite asserts it both ways.

    Attributes
    ----------
    writable : objects can be written and deleted.
    conditional_writes : `write(replaces=...)` holds against writers racing for the same key. Of
        some stores only a trial tells: `ZMap.prepare_writing`.
    atomic_replace : a reader sees the old or the new object, nothing in between.
    ranges : a part of an object costs about a part of reading it whole.
    write_once : an object once written can not be replaced.
    near : a request takes microseconds (memory, local disk), not a network round trip.
    case_sensitive : two keys that differ only in case are two objects.
    server_copies : `copy`, the large ranges of `write_parts`, and `copy_from` within one server,
        need not come through this machine: to be preferred to reading and writing.
    forbidden_is_absent : "forbidden" for a key is taken for "no such object", since the store says
        so to those who may not list. Known once such an answer came, and may change.
    keeps_times : the `mtime_ns` of a write is kept with the object, and `stat` tells it.
    text_keys : keys are UTF-8, and others cannot be written.
    lists_all : what `list` and `search` give is all that there is. Web servers do not promise that.
    markers : a directory can be there without keys: `ZMap.mark`.
    dates_objects : the `mtime_ns` of a `Stat` is that of the object. In an archive on this machine
        it is that of the archive; its members are known without a request.
    lists_sizes : `search` and `list` need no request for each object to tell its size, and leave
        none out.
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
    lists_all: bool = True
    dates_objects: bool = True


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much a store holds and takes.

    Attributes
    ----------
    available_bytes : those of the free ones that not only root may fill.
    files, free_files : how many there can be, and how many more; 0: as many as fit.
    """

    total_bytes: int
    free_bytes: int
    available_bytes: int
    files: int = 0
    free_files: int = 0


# A bucket has no size: enough that nobody thinks it full.
UNLIMITED = Capacity(1 << 60, 1 << 60, 1 << 60)


class ZMap(ABC):
    """A flat map from keys to objects, with one-level search.

    Objects are replaced whole and atomically, or not at all. Every method blocks, has a deadline
    of its own, and may be called from any thread at any time. Keys are already checked
    (`keys.parse_key`); a backend need not defend itself against ``..``. "Absent" and "could not
    ask" are never confused: `NoSuchObject` means that the store said so.

    Every method may raise `Unavailable`, `DeadlinePassed`, `AccessDenied` and `CorruptStore`
    besides what it names.
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
        """Make ready for writing; to be called when a dataset is opened for that.

        Finds out what only a trial tells of a store, and clears away what writers of ours left
        that ended too early. Without a call, `features` may promise less than the store can.
        """
        return self.features

    @abstractmethod
    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        """Bytes [start, stop) of an object, cut at its end, and the version they came from.

        A `start` at or beyond the end gives no bytes. With `version`, only of that version.
        Without a `stop`, a far store refuses to give more than `READ_BYTES_MAX`.

        Raises
        ------
        NoSuchObject : no object has the key (a prefix of other keys is not an object).
        Conflict : the object is not the version named.
        """

    @abstractmethod
    def write(
        self,
        key: Key,
        data: Buffer,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        """Replace the whole object, atomically.

        Parameters
        ----------
        replaces : only that version; `ABSENT`: only where there is none; None: whatever is there.
        mtime_ns : the time that is kept with the object, where `Features.keeps_times`; other stores
            ignore it.

        Raises
        ------
        Conflict : the object is not `replaces`; nothing was changed. (`ObjectExists`, when
            `replaces` is `ABSENT`.)
        ReadOnlyStore, NoSpace, ObjectTooLarge, KeyNotText : as they say; nothing was changed.
        """

    def copy(
        self,
        source: Stat,
        goal: Key,
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        """Make `goal` a copy of a version of an object, atomically; gives the copy's version.

        Parameters
        ----------
        replaces : as of `write`, for the object at `goal`.
        mtime_ns : as of `write`; None: that of the source, or none.

        Raises
        ------
        NoSuchObject : the source is gone.
        Conflict : the source is another version by now, or what is at `goal` is not `replaces`;
            nothing was changed. (`ObjectExists`, when `replaces` is `ABSENT`.)
        """
        whole = Range(source, 0, source.size)
        return self.write_parts(goal, [whole], replaces=replaces, mtime_ns=mtime_ns)

    def copy_from(self, origin: ZMap, key: Key, goal: Key) -> Version:
        """Make `goal` a copy of what an object of another store is now; gives the copy's version.

        Here it is read and written. A store whose server can copy by itself has it do so.

        Parameters
        ----------
        key : of the object in `origin`.

        Raises
        ------
        NoSuchObject : the object is gone; and as `write`.
        """
        blob = origin.read(key, 0, RANGE_STEP_BYTES)
        size = blob.object_size
        if size <= RANGE_STEP_BYTES:
            return self.write(goal, blob.data)
        rest = Range(Stat(key, size, blob.version), RANGE_STEP_BYTES, size)
        return self.write(
            goal, join(chain([blob.data], part_bytes(rest, partial(read_range, origin))), size)
        )

    def located(self, key: Key) -> tuple[ZMap, Key]:
        """The store that holds an object, and its key there, whatever wrappers are round it."""
        return self, key

    def write_parts(
        self,
        key: Key,
        parts: Sequence[Part],
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        """Replace the whole object by parts one after the other, atomically.

        Ranges may be of the object that is replaced. Here they are read, and all is written at
        once, for which over 64 MiB a temporary file is used. Raises as `write` and `copy`.
        """
        if not self.features.writable:
            return self.write(key, b"", replaces=replaces)  # which raises, before anything is read
        read = partial(read_range, self)
        pieces = (piece for part in parts for piece in part_bytes(part, read))
        data = join(pieces, sum(map(part_size, parts)))
        return self.write(key, data, replaces=replaces, mtime_ns=mtime_ns)

    def set_mtime(self, stat: Stat, mtime_ns: int) -> Version:
        """Have a version of an object kept with another time; gives the version that it has then.

        Nothing happens where not `Features.keeps_times`.

        Raises
        ------
        NoSuchObject, Conflict : as `copy`, of an object onto itself.
        ObjectTooLarge : the store cannot do that with an object of this size.
        """
        del mtime_ns
        return stat.version

    @abstractmethod
    def delete(self, key: Key) -> None:
        """Remove an object. Raises NoSuchObject where the store can tell."""

    def delete_many(self, keys: Iterable[Key]) -> None:
        """Remove objects, with as few requests as the store can; those that are absent are none.

        Raises as `delete`; some of the objects may then be gone, and others not.
        """
        for key in keys:
            with contextlib.suppress(NoSuchObject):
                self.delete(key)

    @abstractmethod
    def stat(self, key: Key) -> Stat:
        """Size and version of an object. Raises NoSuchObject."""

    @abstractmethod
    def search(self, prefix: Prefix) -> Iterator[Entry]:
        """The next-level names below a prefix, each once, with the sizes of the objects.

        A prefix without keys gives nothing; it is not an error. Names that cannot be components of
        a key are left out. In no particular order, fetched page by page as the iterator advances.
        """

    @abstractmethod
    def list(self, prefix: Prefix) -> Iterator[Stat]:
        """Every object below a prefix, however deep, page by page, in no particular order."""

    def exists(self, prefix: Prefix, *, marked: bool = True) -> bool:
        """Whether there is anything below a prefix, or it has a marker.

        What `search` leaves out, since no key is called so, counts as well where it is stored.

        Parameters
        ----------
        marked : false: its own marker does not count.
        """
        return next(iter(self.search(prefix)), None) is not None

    def mark(self, prefix: Prefix) -> None:  # noqa: B027 - most stores have no markers
        """Have a prefix be there as a directory, with keys below it or without.

        The marker is no object of this map: only `exists`, `markers` and a search of the level
        above show it. Nothing happens where not `Features.markers`. Raises as `write`.
        """

    def unmark(self, prefix: Prefix) -> None:  # noqa: B027 - most stores have no markers
        """Remove the marker of a prefix, whoever made it; it may have none.

        Raises
        ------
        Conflict : what stands in its place holds bytes, and stays.
        """

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        """The prefixes with a marker: this one and those below, however deep, in no order.

        Raises
        ------
        Conflict : something below is neither an object of this map nor a marker: what `list` and
            this tell is not all that the prefix has.
        """
        return iter(())

    def capacity(self) -> Capacity:
        """How much there is room for, where the store has an end."""
        return UNLIMITED

    def flush(self) -> None:  # noqa: B027 - most stores have nothing to do
        """Make what was written so far durable, and visible to whoever opens the store.

        Stores whose writes are final do nothing. Raises as `write` does; what was not made durable
        then stays visible through this map, and a later call tries again.
        """

    @abstractmethod
    def close(self) -> None:
        """Flush, and give back connections and descriptors. Nothing works after it.

        May be called twice. Where it raises, everything was given back all the same.
        """


def read_range(zmap: ZMap, part: Range) -> Buffer:
    """The bytes of a range. Raises as `ZMap.read`, and CorruptStore where some are missing."""
    data = zmap.read(part.stat.key, part.start, part.stop, version=part.stat.version).data
    if len(data) != part.size:
        raise CorruptStore(
            f"{zmap.name}/{part.stat.key}: {len(data)} bytes came instead of {part.size}"
        )
    return data


def part_bytes(part: Part, read: Callable[[Range], Buffer]) -> Iterator[Buffer]:
    """The bytes of a part, some at a time.

    Parameters
    ----------
    read : gives those of a range.
    """
    # Nothing is read as well, of a range without bytes: its version may be another one.
    for start in range(0, max(part_size(part), 1), RANGE_STEP_BYTES):
        stop = min(part_size(part), start + RANGE_STEP_BYTES)
        match cut_part(part, start, stop):
            case Range() as piece:
                yield read(piece)
            case Piece() as piece:
                yield piece.read()
            case Zeros(size):
                yield bytes(size)
            case piece:
                yield piece
