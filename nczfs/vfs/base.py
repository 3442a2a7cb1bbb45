"""The interface to FUSE: a whole file system in bytes, synchronous and thread-safe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from enum import Enum
from typing import NewType, Protocol, TypeAlias

from nczfs.buffers import Buffer
from nczfs.plaindata import frozen
from nczfs.vfs.ending import Ending
from nczfs.zmap.capacity import Capacity

InodeNo = NewType("InodeNo", int)
HandleNo = NewType("HandleNo", int)
Entry: TypeAlias = "tuple[InodeNo, bytes]"
"""A directory, and a name in it."""

ROOT_INODE = InodeNo(1)


class FileKind(Enum):
    DIRECTORY = "directory"
    FILE = "file"


@frozen
class NodeAttributes:
    """The attributes of a node, for stat.

    Attributes
    ----------
    atime_ns : None: as `mtime_ns`.
    valid_s : for how long the kernel may cache these attributes. 0 if `size` is only a stand-in,
        because the true one needs work that a listing must not wait for: the kernel then asks again
        before it answers a program.
    """

    ino: InodeNo
    kind: FileKind
    mode: int
    size: int
    mtime_ns: int
    uid: int
    gid: int
    nlink: int
    valid_s: float
    entry_valid_s: float
    atime_ns: int | None = None


@frozen
class AttributeChanges:
    """The changes of a setattr; None leaves an attribute unchanged."""

    size: int | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


@frozen
class NodeOwner:
    """The user who makes a file or directory."""

    uid: int
    gid: int


@frozen
class Opened:
    """An open file; `direct_io` and `keep_cache` are for the kernel's page cache.

    Attributes
    ----------
    is_slow : whether reads may take long, so that reads of values must not queue behind them.
    """

    handle: HandleNo
    direct_io: bool
    keep_cache: bool
    is_slow: bool = False


@frozen
class DirectoryEntry:
    """An entry of a listing; `cookie` is the position after it."""

    name: bytes
    attributes: NodeAttributes
    cookie: int


class PageTicket:
    """The permission to put pages of a file into the kernel's cache.

    Attributes
    ----------
    is_valid : false from the moment on when anything may have changed that the file shows.
    """

    __slots__ = ("__weakref__", "ino", "is_valid")

    def __init__(self, ino: InodeNo) -> None:
        self.ino = ino
        self.is_valid = True


class Notifier(Protocol):
    """The interface for telling the kernel what to forget, and what it will need.

    Taking a note never blocks; the kernel is informed later.
    """

    def invalidate_inode(self, ino: InodeNo) -> None:
        """Forget the attributes and pages of a file, and void its tickets."""

    def page_ticket(self, ino: InodeNo) -> PageTicket:
        """Return a ticket for bytes of a file that are read after the call."""

    def put_pages(self, ticket: PageTicket, offset: int, data: Buffer) -> bool:
        """Have the kernel keep whole pages of a file, unless the ticket is void by then.

        Returns
        -------
        False if they were refused: the ticket is void, or too many others wait.
        """

    def void_pages(self, ino: InodeNo) -> None:
        """Void the tickets of a file, and wait for pages of it that are being put.

        Afterwards, nothing is put that was read before; if the kernel has been busy for too long,
        it forgets the pages later.
        """

    def invalidate_entry(self, parent: InodeNo, name: bytes) -> None:
        """Forget the entry of a name in a directory, or its absence."""

    def changing(
        self, entries: Collection[Entry] = (), locked: Collection[InodeNo] = ()
    ) -> AbstractContextManager[None]:
        """Enclose a request that changes something; the kernel answers its caller afterwards.

        The block ends, also after an error, when the kernel knows the notes that were taken within,
        or after a moment: notes that need a lock of the request are sent after the answer.

        Parameters
        ----------
        entries : that the kernel itself changes if the request succeeds; it holds the locks of
            their directories.
        locked : other directories whose locks it holds.
        """

    def writing(self, ino: InodeNo) -> AbstractContextManager[Callable[[], None]]:
        """Enclose a write to a file, as `changing` does; the kernel holds pages of the file.

        Yields
        ------
        what waits, for a moment at most, until the kernel knows the notes that were taken so far.
        """


class FileSystem(ABC):
    """A tree of files, addressed by inode and handle numbers.

    Every method may be called from any thread. Those named ``..._if_cached`` answer from memory and
    never block: after None the method without the suffix has to be called, in a thread. Errors are
    `NczfsError`; ``fuse`` gives them their errno.

    Lookup counts follow FUSE: `lookup`, `create`, `mkdir`, `link` and `remember` raise the count of
    an inode by one, `forget` lowers it. An inode lives while it is counted or open.
    """

    @abstractmethod
    def judges_access(self, *, shared: bool) -> bool:
        """Return whether `access` decides on permissions; otherwise the kernel does, by modes.

        True only where nothing can be changed: then every user gets that answer.

        Parameters
        ----------
        shared : users other than the one who mounted see the mount.
        """

    @abstractmethod
    def access(self, ino: InodeNo, mask: int, uid: int) -> bool:
        """Return whether `mask` is permitted to a user, as access(2). Raises ReadOnlyMount."""

    @abstractmethod
    def lookup(self, parent: InodeNo, name: bytes) -> NodeAttributes:
        """Look up the node called `name` in a directory. Raises NoSuchPath."""

    @abstractmethod
    def lookup_if_cached(self, parent: InodeNo, name: bytes) -> NodeAttributes | None:
        """Look up a node from memory."""

    @abstractmethod
    def forget(self, counts: Iterable[tuple[InodeNo, int]]) -> None:
        """Lower the lookup counts of inodes. Never raises, never blocks."""

    @abstractmethod
    def getattr(self, ino: InodeNo) -> NodeAttributes:
        """Return the attributes of a node."""

    @abstractmethod
    def getattr_if_cached(self, ino: InodeNo) -> NodeAttributes | None:
        """Return the attributes of a node from memory."""

    @abstractmethod
    def setattr(
        self, ino: InodeNo, changes: AttributeChanges, handle: HandleNo | None
    ) -> NodeAttributes:
        """Change attributes; `handle` is given if the caller has the file open."""

    @abstractmethod
    def opendir(self, ino: InodeNo) -> HandleNo:
        """Open a directory for reading."""

    @abstractmethod
    def readdir(self, handle: HandleNo, cookie: int) -> Iterator[DirectoryEntry]:
        """Yield the entries after `cookie` (0: a new listing from the start); may block.

        Lookup counts are not raised: call `remember` for each entry that was passed on.
        """

    @abstractmethod
    def remember(self, ino: InodeNo) -> None:
        """Raise the lookup count of an inode from a listing. Never blocks."""

    @abstractmethod
    def releasedir(self, handle: HandleNo) -> None:
        """Close a directory. Never blocks."""

    @abstractmethod
    def open(self, ino: InodeNo, flags: int) -> Opened:
        """Open a file; `flags` as in open(2), including O_TRUNC."""

    @abstractmethod
    def read(self, handle: HandleNo, offset: int, size: int) -> Buffer:
        """Read exactly ``min(size, file size - offset)`` bytes, none beyond the end."""

    @abstractmethod
    def read_if_cached(self, handle: HandleNo, offset: int, size: int) -> Buffer | None:
        """Read from memory."""

    @abstractmethod
    def write(self, handle: HandleNo, offset: int, data: Buffer) -> int:
        """Write all of `data`. Returns the number of bytes."""

    @abstractmethod
    def flush(self, handle: HandleNo) -> None:
        """Store what was written. Called at every close of every duplicate of a descriptor."""

    @abstractmethod
    def fsync(self, handle: HandleNo, *, data_only: bool) -> None:
        """Store what was written."""

    @abstractmethod
    def fsyncdir(self, handle: HandleNo) -> None:
        """Store everything written below a directory."""

    @abstractmethod
    def release(self, handle: HandleNo) -> None:
        """Store what came after the last flush, and free the handle, after the last close."""

    @abstractmethod
    def create(
        self, parent: InodeNo, name: bytes, flags: int, mode: int, owner: NodeOwner | None = None
    ) -> tuple[Opened, NodeAttributes]:
        """Make and open a file; `mode` are its permissions. Raises PathExists with O_EXCL.

        Parameters
        ----------
        owner : of the file, if owners are stored; None: the owner of all files.
        """

    @abstractmethod
    def mkdir(
        self, parent: InodeNo, name: bytes, mode: int, owner: NodeOwner | None = None
    ) -> NodeAttributes:
        """Make a directory; `owner` as in `create`. Raises PathExists."""

    @abstractmethod
    def unlink(self, parent: InodeNo, name: bytes) -> None:
        """Remove a file."""

    @abstractmethod
    def rmdir(self, parent: InodeNo, name: bytes) -> None:
        """Remove an empty directory."""

    @abstractmethod
    def rename(
        self,
        old_parent: InodeNo,
        old_name: bytes,
        new_parent: InodeNo,
        new_name: bytes,
        *,
        replace: bool,
    ) -> None:
        """Rename; if `replace` is false, the new name must be free."""

    @abstractmethod
    def link(self, ino: InodeNo, parent: InodeNo, name: bytes) -> NodeAttributes:
        """Make a second file with the present bytes of a file. Raises PathExists."""

    @abstractmethod
    def statfs(self) -> Capacity:
        """Return the sizes for ``df``."""

    @abstractmethod
    def refresh(self, path: str) -> None:
        """Forget what is cached of a path ("" is everything), never anything unwritten."""

    @abstractmethod
    def sync(self) -> None:
        """Store everything that was written. Raises one error after trying the rest: rather one of
        what was lost than one of what will be tried again.
        """

    def expect_end(self) -> None:  # noqa: B027 - most file systems do nothing that takes long
        """Give up what takes long and was not acknowledged, because the mount ends.

        Its callers get errors. Makes no request, and never raises.
        """

    @abstractmethod
    def ending_text(self) -> str:
        """Describe what the end of the mount waits for. Makes no request."""

    def ending(self) -> Ending:
        """Return what is not stored after the end, and where that is kept. Makes no request."""
        return Ending()

    @abstractmethod
    def save(self) -> None:
        """Save unstored writes on this machine, also later ones that are not stored at once.

        To be called before the end, which a hanging store may delay; writes that are stored after
        all are not saved any more. Makes no request, and never raises.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop threads and close stores. What is not stored yet is saved on this machine."""
