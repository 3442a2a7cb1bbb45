"""The nodes of a tree: directories and files, without numbers and handles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping

from nczfs.buffers import Buffer
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.readahead.backwards import PageCache
from nczfs.errors import BadHandle, NoSuchPath, NotPermitted, PathError
from nczfs.plaindata import frozen
from nczfs.vfs.base import AttributeChanges


@frozen
class NodeStat:
    """The size and time of a node.

    Attributes
    ----------
    exact : false if `size` is a stand-in, because the true one needs work that a listing must not
        wait for.
    mode, uid, gid : of this node; None: the mount's default.
    atime_ns : None: as `mtime_ns`.
    linked : whether it has a name; false for a file that is removed but still open.
    """

    size: int
    mtime_ns: int
    exact: bool = True
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    linked: bool = True
    atime_ns: int | None = None


class TreeNode(ABC):
    """A file or directory.

    Two nodes of the same name with equal `token` are the same file; a node with another token gets
    another inode number, so that no library takes it for the old file.
    """

    @property
    def token(self) -> object:
        return None

    def looked_up(self) -> None:  # noqa: B027 - most nodes know their token without the store
        """Called when a lookup has found the node, before its `token` is used. May block."""

    @abstractmethod
    def stat(self) -> NodeStat:
        """Return size and time. May block."""

    def stat_if_cached(self) -> NodeStat | None:
        """Return what `stat` does, or None if that would block."""
        stat = self.listing_stat()
        return stat if stat.exact else None

    def lookup_stat(self) -> NodeStat:
        """Return what a lookup answers, for which the kernel locks the directory. May block.

        What is not exact, the kernel asks for once more, without that lock.
        """
        return self.stat()

    @abstractmethod
    def listing_stat(self) -> NodeStat:
        """Return what is known without waiting."""

    def change(self, changes: AttributeChanges) -> None:
        """Change modes, owners or times, but not the size. May block."""
        raise NotPermitted("modes, owners and times cannot be changed here")

    @property
    def content(self) -> object:
        """What all programs that have the file open share, wherever it is by now; None: nothing.

        The kernel must not have it under two inode numbers, each with pages of its own.
        """
        return None

    def has_left(self, found: TreeNode) -> bool:
        """Return whether the file is open, and is not the one that was found in its place."""
        return False

    def succeeds(self, old: TreeNode) -> None:  # noqa: B027 - most nodes know nothing of open files
        """Take over what the former node of the same inode knows of its open files."""


class Directory(TreeNode):
    """A node with entries."""

    @abstractmethod
    def lookup(self, name: str) -> TreeNode:
        """Return the entry called `name`. Raises NoSuchPath; may block."""

    def lookup_if_cached(self, name: str) -> TreeNode | None:
        """Return the entry called `name`; None if it does not exist, or looking would block."""
        return None

    @abstractmethod
    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        """Yield every entry once; may block between entries."""

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Make a file, or open an existing one unless `exclusive`, for writing.

        Raises
        ------
        PathExists, NotPermitted.
        """
        raise self.refusal(name)

    def mkdir(self, name: str, mode: int) -> Directory:
        """Make a directory. Raises PathExists, NotPermitted."""
        raise self.refusal(name)

    def unlink(self, name: str) -> None:
        """Remove a file; it stays usable where it is open. Raises NoSuchPath, IsADirectory."""
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
        """Return the error for changing an entry where that is impossible."""
        return NotPermitted(f"{name}: cannot be made or changed here")

    def sync(self) -> None:
        """Store everything that was written below."""


class FixedDirectory(Directory):
    """A directory with fixed entries."""

    def __init__(self, entries: Mapping[str, TreeNode], mtime_ns: int) -> None:
        self._entries = entries
        self._mtime_ns = mtime_ns

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._mtime_ns)

    def lookup(self, name: str) -> TreeNode:
        try:
            return self._entries[name]
        except KeyError:
            raise NoSuchPath(f"{name}: no such file") from None

    def lookup_if_cached(self, name: str) -> TreeNode | None:
        return self._entries.get(name)

    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        return iter(self._entries.items())


class NumberedDirectory(Directory):
    """A directory of any number of entries, which follow from their numbers."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of entries."""

    def is_shown(self, number: int) -> bool:
        """Return whether entry `number` is shown; it keeps its number."""
        return True

    @abstractmethod
    def name_of(self, number: int) -> str:
        """Return the name of entry `number`."""

    @abstractmethod
    def number_of(self, name: str) -> int | None:
        """Return the number of the entry called `name`; None if there is none."""

    @abstractmethod
    def child(self, number: int) -> TreeNode:
        """Return entry `number`, which is always a file."""

    @abstractmethod
    def child_stat(self) -> NodeStat:
        """Return every entry's `listing_stat`, without making the entry."""


class OpenFile(ABC):
    """An open file. Every method may be called from any thread.

    Attributes
    ----------
    appending : whether it was opened with O_APPEND.
    judges_writes : whether writes may be refused for their contents, which other files explain.
    begins_itself : whether it notes itself when a write begins to have an effect
        (`vfs/effects.py`).
    direct_io : whether the kernel must not answer reads from its pages, because these show another
        version of the file.
    is_slow : whether reads may take long, so that reads of values must not queue behind them.
    own_node : what its inode is from now on, while others find another inode at the name. None: it
        is what it was.
    """

    appending = False
    direct_io = False
    is_slow = False
    own_node: File | None = None
    judges_writes = False
    begins_itself = False

    def has_pages(self, *, kept: bool) -> None:  # noqa: B027 - most files do not mind
        """Note, when it was opened, whether the kernel has kept pages of an earlier open."""

    def puts_pages(self, pages: PageCache) -> None:  # noqa: B027 - most files read forwards only
        """Take, when it was opened for reading, the kernel's pages of the file."""

    def expect_reads(self) -> None:  # noqa: B027 - most files can be read at once
        """Called when it was opened for reading and writing. If it raises, the file is dropped."""

    @abstractmethod
    def read(self, offset: int, size: int) -> Buffer:
        """Read exactly ``min(size, file size - offset)`` bytes, none beyond the end."""

    @abstractmethod
    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        """Read as `read` does, or return None if that would block."""

    def write(self, offset: int, data: Buffer) -> int:
        """Write all of `data`."""
        raise BadHandle("this file was not opened for writing")

    def append(self, offset: int, data: Buffer) -> int:
        """Write all of `data` at the present end of the file.

        Parameters
        ----------
        offset : the end of the file as the kernel knows it.
        """
        return self.write(offset, data)

    def truncate(self, size: int) -> None:
        """Set the size."""
        raise BadHandle("this file was not opened for writing")

    def flush(self) -> None:  # noqa: B027 - most files have nothing to store
        """Store what was written. Called when a descriptor is closed."""

    def fsync(self) -> None:
        """Store what was written, and report errors to the program."""
        self.flush()

    @abstractmethod
    def close(self) -> None:
        """Close the file after the last descriptor is closed."""

    def drop(self) -> None:  # noqa: B027 - most files hold nothing
        """Release what is held on this machine when the mount ends, without using the store."""


class File(TreeNode):
    """A node with bytes."""

    direct_io = False
    """Whether the kernel must not cache pages, because the contents are made at each open."""

    writable = False

    is_replaceable = False
    """Whether a program that truncates it writes another file, and its readers keep this one."""

    arrays: tuple[StoredArray, ...] = ()
    """The arrays whose values it shows, if it shows values."""

    @property
    def pages_token(self) -> object:
        """A token: while it is the same, and was confirmed lately, the kernel's pages are valid."""
        return self.token

    pages_token_is_version = False
    """Whether each open confirms `pages_token` with the store, so that its age does not matter."""

    @abstractmethod
    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        """Open the file; for writing only if `writable`. May block.

        Parameters
        ----------
        truncate : whether the contents are dropped without reading them.
        """

    def truncate(self, size: int) -> None:
        """Set the size of a file that the caller does not have open. May block."""
        raise NotPermitted("the size of this file follows from its content and cannot be set")


class MadeFile(File):
    """A file whose contents are made when it is opened."""

    direct_io = True

    def __init__(self, mtime_ns: int) -> None:
        self._mtime_ns = mtime_ns

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._mtime_ns)

    @abstractmethod
    def make(self) -> bytes:
        """Return the present contents."""

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        return FixedContent(self.make())


class FixedContent(OpenFile):
    """An open file with all its bytes in memory.

    Parameters
    ----------
    synced : called at fsync: raises if the last write to the file was refused.
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
        """Do nothing: there is nothing to release."""
