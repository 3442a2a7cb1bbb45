"""What a tree is made of: directories and files, without numbers and handles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from nczfs.engine.storedarray import StoredArray
from nczfs.errors import BadHandle, NoSuchPath, NotPermitted, PathError
from nczfs.vfs.base import Buffer, Changes


@dataclass(frozen=True, slots=True)
class NodeStat:
    """Size and time of a node.

    Attributes
    ----------
    exact : false when `size` is a stand-in, because the true one needs work that a listing must
        not wait for.
    mode, uid, gid : of this node; None is what the mount gives to all.
    atime_ns : None: as `mtime_ns`.
    linked : whether it has a name; false of a file that is removed and still open.
    """

    size: int
    mtime_ns: int
    exact: bool = True
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    linked: bool = True
    atime_ns: int | None = None


class Node(ABC):
    """A file or directory.

    Two nodes of the same name with equal `token` are the same file to whoever has it open; a node
    with another token gets another inode number, so that no library takes it for the old one.
    """

    @property
    def token(self) -> object:
        return None

    @abstractmethod
    def stat(self) -> NodeStat:
        """May block."""

    def stat_if_cached(self) -> NodeStat | None:
        """As `stat`, never blocking: None when it would have to."""
        stat = self.listing_stat()
        return stat if stat.exact else None

    @abstractmethod
    def listing_stat(self) -> NodeStat:
        """What can be said without waiting for anything."""

    def change(self, changes: Changes) -> None:
        """Change modes, owners or times; the size is none of them. May block."""
        raise NotPermitted("modes, owners and times cannot be changed here")


class Directory(Node):
    """A node with entries."""

    @abstractmethod
    def lookup(self, name: str) -> Node:
        """The entry called `name`. Raises NoSuchPath; may block."""

    def lookup_if_cached(self, name: str) -> Node | None:
        """As `lookup`, never blocking: None when it would have to, or there is no such entry."""
        return None

    @abstractmethod
    def listing(self) -> Iterator[tuple[str, Node]]:
        """Every entry once; may block between entries."""

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Make a file (or open the one that is there, unless `exclusive`), open for writing.

        Raises
        ------
        PathExists, NotPermitted.
        """
        raise self.refusal(name)

    def mkdir(self, name: str, mode: int) -> Directory:
        """Make a directory. Raises PathExists, NotPermitted."""
        raise self.refusal(name)

    def unlink(self, name: str) -> None:
        """Remove a file; who has it open keeps it. Raises NoSuchPath, IsADirectory."""
        raise self.refusal(name)

    def rmdir(self, name: str) -> None:
        """Remove an empty directory. Raises NoSuchPath, NotADirectory, DirectoryNotEmpty."""
        raise self.refusal(name)

    def rename(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        """Move an entry to another name, here or in another directory of the same kind.

        Raises
        ------
        NoSuchPath, PathExists, DirectoryNotEmpty, CrossesTrees, NotPermitted.
        """
        raise self.refusal(name)

    def link(self, node: File, name: str) -> File:
        """Make a second file with the bytes that a file has now.

        Raises
        ------
        PathExists, NoSuchPath, CrossesTrees, NotPermitted.
        """
        raise self.refusal(name)

    def refusal(self, name: str) -> PathError:
        """The error for whoever wants to change an entry where nothing can be."""
        return NotPermitted(f"{name}: cannot be made or changed here")

    def sync(self) -> None:
        """Store everything that was written below."""


class FixedDirectory(Directory):
    """A directory whose entries are known beforehand."""

    def __init__(self, entries: Mapping[str, Node], mtime_ns: int) -> None:
        self._entries = entries
        self._mtime_ns = mtime_ns

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._mtime_ns)

    def lookup(self, name: str) -> Node:
        try:
            return self._entries[name]
        except KeyError:
            raise NoSuchPath(f"{name}: no such file") from None

    def lookup_if_cached(self, name: str) -> Node | None:
        return self._entries.get(name)

    def listing(self) -> Iterator[tuple[str, Node]]:
        return iter(self._entries.items())


class NumberedDirectory(Directory):
    """A directory whose entries follow from their number, however many there are."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of entries."""

    def is_shown(self, number: int) -> bool:
        """Whether entry `number` is there; it keeps its number."""
        return True

    @abstractmethod
    def name_of(self, number: int) -> str:
        """The name of entry `number`."""

    @abstractmethod
    def number_of(self, name: str) -> int | None:
        """The number of the entry called `name`, None when there is none."""

    @abstractmethod
    def child(self, number: int) -> Node:
        """Entry `number`, always a file."""

    @abstractmethod
    def child_stat(self) -> NodeStat:
        """What every entry's `listing_stat` says, without making the entry."""


class OpenFile(ABC):
    """A file while it is open. Every method may be called from any thread.

    Attributes
    ----------
    appending : it was opened with O_APPEND.
    judges_writes : a write is refused for what it says, and other files tell why.
    begins_itself : it says itself when a write begins to have an effect (`engine/effects.py`).
    """

    appending = False
    judges_writes = False
    begins_itself = False

    @abstractmethod
    def read(self, offset: int, size: int) -> Buffer:
        """Exactly ``min(size, file size - offset)`` bytes, none beyond the end."""

    @abstractmethod
    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        """As `read`, never blocking: None when it would have to."""

    def write(self, offset: int, data: Buffer) -> int:
        """Write all of `data`."""
        raise BadHandle("this file was not opened for writing")

    def append(self, offset: int, data: Buffer) -> int:
        """Write all of `data` where the file ends by now.

        Parameters
        ----------
        offset : where the kernel takes its end to be.
        """
        return self.write(offset, data)

    def truncate(self, size: int) -> None:
        """Set the size."""
        raise BadHandle("this file was not opened for writing")

    def flush(self) -> None:  # noqa: B027 - most files have nothing to store
        """A descriptor is closed: store what was written."""

    def fsync(self) -> None:
        """Store what was written, and have the program know."""
        self.flush()

    @abstractmethod
    def close(self) -> None:
        """The last descriptor is gone."""

    def drop(self) -> None:  # noqa: B027 - most files hold nothing
        """The mount ends: let go of what is held on this machine, and ask no store."""


class File(Node):
    """A node with bytes."""

    direct_io = False
    """Whether the kernel must not cache pages: the content is made when the file is opened."""

    writable = False

    arrays: tuple[StoredArray, ...] = ()
    """The arrays whose values it shows, if it shows values."""

    @property
    def pages_token(self) -> object:
        """While this is the same, and was confirmed lately, pages that the kernel kept are true."""
        return self.token

    pages_token_is_version = False
    """Whether `pages_token` is confirmed with the store at each open, so that it needs no age."""

    @abstractmethod
    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        """Open the file; for writing only where `writable`. May block.

        Parameters
        ----------
        truncate : its content goes; nothing of it is read.
        """

    def truncate(self, size: int) -> None:
        """Set the size, of a file that the caller does not have open. May block."""
        raise NotPermitted("the size of this file follows from its content and cannot be set")


class MadeFile(File):
    """A file whose content is made when it is opened."""

    direct_io = True

    def __init__(self, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._mtime_ns)

    @abstractmethod
    def make(self) -> bytes:
        """The content as of now."""

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        return FixedContent(self.make())


class FixedContent(OpenFile):
    """An open file with all its bytes in memory.

    Parameters
    ----------
    synced : called at fsync: raises when what was written last to the file was refused.
    """

    def __init__(self, data: bytes, synced: Callable[[], None] = lambda: None) -> None:
        self._data = data
        self._synced = synced

    def read(self, offset: int, size: int) -> Buffer:
        return memoryview(self._data)[offset : offset + size]

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return self.read(offset, size)

    def fsync(self) -> None:
        self._synced()

    def close(self) -> None:
        """Nothing to give back."""
