"""The seam to FUSE: a whole file system in bytes, synchronous and thread-safe."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import NewType, Protocol, TypeAlias

from nczfs.zmap.base import Capacity

InodeNo = NewType("InodeNo", int)
HandleNo = NewType("HandleNo", int)
Buffer: TypeAlias = "bytes | bytearray | memoryview"
Entry: TypeAlias = "tuple[InodeNo, bytes]"
"""A directory, and a name in it."""

ROOT_INODE = InodeNo(1)


class FileKind(Enum):
    DIRECTORY = "directory"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Attributes:
    """What stat tells of a node.

    Attributes
    ----------
    atime_ns : None: as `mtime_ns`.
    valid_s : for how long the kernel may answer these attributes itself. 0 when `size` is only
        a stand-in, because the true one needs work that a listing must not wait for: the kernel
        then asks again before it tells anybody.
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


@dataclass(frozen=True, slots=True)
class Changes:
    """What a setattr asks for; None leaves a thing as it is."""

    size: int | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """Who makes a file or directory."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file; `direct_io` and `keep_cache` are for the kernel's page cache."""

    handle: HandleNo
    direct_io: bool
    keep_cache: bool


@dataclass(frozen=True, slots=True)
class DirectoryEntry:
    """An entry of a listing; `cookie` is where to go on after it."""

    name: bytes
    attributes: Attributes
    cookie: int


class Notifier(Protocol):
    """Tells the kernel what it must forget.

    Taking a note never blocks; the kernel is told by and by.
    """

    def invalidate_inode(self, ino: InodeNo) -> None:
        """The attributes and pages of a file."""

    def invalidate_entry(self, parent: InodeNo, name: bytes) -> None:
        """What a name in a directory stands for, or that it is absent."""

    def changing(
        self, entries: Collection[Entry] = (), locked: Collection[InodeNo] = ()
    ) -> AbstractContextManager[None]:
        """Around a request that changes something; the kernel answers its caller after it.

        It ends, with an error too, when the kernel has been told what was noted within, or after a
        moment: what cannot be told before the answer, as it needs a lock of the request, is told
        after it.

        Parameters
        ----------
        entries : what the kernel changes by itself when the request succeeds; it holds the locks
            of their directories.
        locked : other directories whose locks it holds.
        """


class FileSystem(ABC):
    """A tree of files, addressed by inode and handle numbers.

    Every method may be called from any thread. Those named ``..._if_cached`` answer from memory
    and never block: None means that the one without the suffix has to be called, in a thread.
    Errors are `NczfsError`; ``fuse`` gives them their errno.

    Lookup counts follow FUSE: `lookup`, `create`, `mkdir`, `link` and `remember` raise the count of
    an inode by one, `forget` lowers it. An inode lives while it is counted or open.
    """

    @abstractmethod
    def judges_access(self, *, shared: bool) -> bool:
        """Whether `access` says who may do what; otherwise the kernel judges by the modes.

        Only where nothing can be changed: the answer to an attempt is then that, whoever makes it.

        Parameters
        ----------
        shared : users other than the one who mounted see the mount.
        """

    @abstractmethod
    def access(self, ino: InodeNo, mask: int, uid: int) -> bool:
        """Whether a user may do to a node what `mask` names, as access(2). Raises ReadOnlyMount."""

    @abstractmethod
    def lookup(self, parent: InodeNo, name: bytes) -> Attributes:
        """The node called `name` in a directory. Raises NoSuchPath."""

    @abstractmethod
    def lookup_if_cached(self, parent: InodeNo, name: bytes) -> Attributes | None:
        """As `lookup`."""

    @abstractmethod
    def forget(self, counts: Iterable[tuple[InodeNo, int]]) -> None:
        """Lower the lookup counts of inodes. Never raises, never blocks."""

    @abstractmethod
    def getattr(self, ino: InodeNo) -> Attributes:
        """The attributes of a node."""

    @abstractmethod
    def getattr_if_cached(self, ino: InodeNo) -> Attributes | None:
        """As `getattr`."""

    @abstractmethod
    def setattr(self, ino: InodeNo, changes: Changes, handle: HandleNo | None) -> Attributes:
        """Change attributes; `handle` when the caller has the file open."""

    @abstractmethod
    def opendir(self, ino: InodeNo) -> HandleNo:
        """Open a directory for reading."""

    @abstractmethod
    def readdir(self, handle: HandleNo, cookie: int) -> Iterator[DirectoryEntry]:
        """The entries after `cookie` (0: from the start, taking a new listing); may block.

        Lookup counts are not raised: call `remember` for each entry that was handed on.
        """

    @abstractmethod
    def remember(self, ino: InodeNo) -> None:
        """Raise the lookup count of an inode that a listing gave. Never blocks."""

    @abstractmethod
    def releasedir(self, handle: HandleNo) -> None:
        """Close a directory. Never blocks."""

    @abstractmethod
    def open(self, ino: InodeNo, flags: int) -> Opened:
        """Open a file; `flags` as open(2), O_TRUNC included."""

    @abstractmethod
    def read(self, handle: HandleNo, offset: int, size: int) -> Buffer:
        """Exactly ``min(size, file size - offset)`` bytes, none beyond the end."""

    @abstractmethod
    def read_if_cached(self, handle: HandleNo, offset: int, size: int) -> Buffer | None:
        """As `read`."""

    @abstractmethod
    def write(self, handle: HandleNo, offset: int, data: Buffer) -> int:
        """Write all of `data`; how many bytes that was."""

    @abstractmethod
    def flush(self, handle: HandleNo) -> None:
        """At every close of every duplicate of a descriptor: store what was written."""

    @abstractmethod
    def fsync(self, handle: HandleNo, *, data_only: bool) -> None:
        """Store what was written."""

    @abstractmethod
    def fsyncdir(self, handle: HandleNo) -> None:
        """Store everything written below a directory."""

    @abstractmethod
    def release(self, handle: HandleNo) -> None:
        """The last descriptor is gone; store what came after the last flush, and free."""

    @abstractmethod
    def create(
        self, parent: InodeNo, name: bytes, flags: int, mode: int, owner: Owner | None = None
    ) -> tuple[Opened, Attributes]:
        """Make and open a file; `mode` are its permissions. Raises PathExists with O_EXCL.

        Parameters
        ----------
        owner : whom it belongs to, where owners are kept; None: whom all belongs to.
        """

    @abstractmethod
    def mkdir(
        self, parent: InodeNo, name: bytes, mode: int, owner: Owner | None = None
    ) -> Attributes:
        """Make a directory; `owner` as of `create`. Raises PathExists."""

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
        """Rename; with `replace` false the new name must be free."""

    @abstractmethod
    def link(self, ino: InodeNo, parent: InodeNo, name: bytes) -> Attributes:
        """Make a second file with the bytes that a file has now. Raises PathExists."""

    @abstractmethod
    def statfs(self) -> Capacity:
        """Sizes for ``df``."""

    @abstractmethod
    def refresh(self, path: str) -> None:
        """Forget what is cached of a path ("" is everything), never anything unwritten."""

    @abstractmethod
    def sync(self) -> None:
        """Store everything that was written. Raises the first error; the rest is tried as well."""

    @abstractmethod
    def save(self) -> None:
        """Save what is not stored on this machine, and what is not stored at once from now on.

        To be called before the end, which a store that hangs may delay; what is stored after all
        is not saved any more. Asks no store, and never raises.
        """

    @abstractmethod
    def close(self) -> None:
        """Stop threads, close stores. What is not stored by then is saved on this machine."""
