"""The file system: nodes with inode numbers, open files and directories with handles."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from nczfs.engine.array import now
from nczfs.errors import (
    BadHandle,
    IsADirectory,
    NameTooLong,
    NczfsError,
    NotADirectory,
    NotPermitted,
    ReadOnlyMount,
)
from nczfs.vfs.base import (
    Attributes,
    Buffer,
    Changes,
    DirectoryEntry,
    FileKind,
    FileSystem,
    HandleNo,
    InodeNo,
    Notifier,
    Opened,
    StatFs,
)
from nczfs.vfs.inodes import Inode, InodeTable
from nczfs.vfs.nodes import Directory, File, Node, NodeStat, NumberedDirectory, OpenFile
from nczfs.vfs.objects import NAME_BYTES_MAX

FIRST_COOKIE = 3  # 0 is the start; 1 and 2 mean something to NFS
DIRECTORY_NLINK = 2
STATFS_BYTES = 1 << 60  # a bucket has no size: enough that nobody thinks it full


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """How a tree is shown.

    Attributes
    ----------
    uid, gid, file_mode, dir_mode : of every file and directory.
    read_only : nothing can be made, removed or renamed; files that are `writable` all the same
        take writes (the control directory).
    attr_ttl_s : for how long the kernel may answer attributes itself.
    pages_ttl_s : for how long pages that the kernel kept are believed without asking the store.
    """

    uid: int = 0
    gid: int = 0
    file_mode: int = 0o444
    dir_mode: int = 0o555
    read_only: bool = True
    attr_ttl_s: float = 1.0
    pages_ttl_s: float = 1.0


@dataclass(frozen=True, slots=True)
class _FileHandle:
    inode: Inode
    file: OpenFile


class _DirectoryHandle:
    """A listing as it was taken; entries are kept as they come, for whoever goes back."""

    __slots__ = ("entries", "inode", "iterator", "lock", "made")

    def __init__(self, inode: Inode) -> None:
        self.inode = inode
        self.lock = threading.Lock()  # guards the three below
        self.entries: list[tuple[str, Node]] = []
        self.iterator: Iterator[tuple[str, Node]] | None = None
        self.made: set[InodeNo] = set()


class TreeFileSystem(FileSystem):
    """A tree of nodes as a file system.

    `_lock` guards the two tables of handles. The nodes do the work; this class numbers them.

    Parameters
    ----------
    forget : forgets what is cached of a path in the tree, and tells which other paths of the tree
        show the same keys.
    sync : stores what the nodes hold that was written and no open file has.
    save : keeps on this machine what the nodes hold that is not stored.
    close : ends what the nodes lean on.
    notifier : of the kernel; None when nothing is mounted.
    """

    def __init__(
        self,
        root: Directory,
        options: TreeOptions,
        *,
        forget: Callable[[str], Callable[[str], bool]],
        sync: Callable[[], None],
        save: Callable[[], None],
        close: Callable[[], None],
        notifier: Notifier | None = None,
    ) -> None:
        self.inodes = InodeTable(root)
        self._options = options
        self._forget = forget
        self._sync = sync
        self._save = save
        self._notifier = notifier
        self._close = close
        self._lock = threading.Lock()
        self._handles = itertools.count(1)
        self._files: dict[HandleNo, _FileHandle] = {}
        self._directories: dict[HandleNo, _DirectoryHandle] = {}

    @property
    def open_files(self) -> int:
        return len(self._files)

    def lookup(self, parent: InodeNo, name: bytes) -> Attributes:
        directory = self._directory(parent)
        if len(name) > NAME_BYTES_MAX:
            raise NameTooLong(f"{os.fsdecode(name)[:40]}...: a name has at most 255 bytes")
        text = os.fsdecode(name)
        node = self._node_of(directory).lookup(text)
        inode = self.inodes.number(directory, text, node)
        # Counted before anything blocks, so that a forget meanwhile cannot drop it.
        self.inodes.remember(inode.ino)
        try:
            return self._attributes(inode.ino, inode.node, inode.node.stat())
        except BaseException:
            self.inodes.forget([(inode.ino, 1)])
            raise

    def lookup_if_cached(self, parent: InodeNo, name: bytes) -> Attributes | None:
        directory = self._directory(parent)
        text = os.fsdecode(name)
        node = self._node_of(directory).lookup_if_cached(text)
        stat = node.stat_if_cached() if node is not None else None
        if node is None or stat is None:
            return None
        inode = self.inodes.number(directory, text, node)
        self.inodes.remember(inode.ino)
        return self._attributes(inode.ino, node, stat)

    def forget(self, counts: Iterable[tuple[InodeNo, int]]) -> None:
        self.inodes.forget(counts)

    def getattr(self, ino: InodeNo) -> Attributes:
        node = self.inodes.get(ino).node
        return self._attributes(ino, node, node.stat())

    def getattr_if_cached(self, ino: InodeNo) -> Attributes | None:
        node = self.inodes.get(ino).node
        stat = node.stat_if_cached()
        return self._attributes(ino, node, stat) if stat is not None else None

    def setattr(self, ino: InodeNo, changes: Changes, handle: HandleNo | None) -> Attributes:
        inode = self.inodes.get(ino)
        self._check_writable(inode)
        if changes.size is not None:
            if handle is not None:
                self._open_file(handle).truncate(changes.size)
            else:
                self._file(inode).truncate(changes.size)
        attributes = self.getattr(ino)
        rest = _beyond(changes, attributes)
        if rest == Changes():
            return attributes
        inode.node.change(rest)
        return self.getattr(ino)

    def opendir(self, ino: InodeNo) -> HandleNo:
        inode = self._directory(ino)
        self.inodes.opened(ino)
        with self._lock:
            handle = HandleNo(next(self._handles))
            self._directories[handle] = _DirectoryHandle(inode)
        return handle

    def readdir(self, handle: HandleNo, cookie: int) -> Iterator[DirectoryEntry]:
        directory = self._open_directory(handle)
        node = self._node_of(directory.inode)
        position = max(0, cookie - FIRST_COOKIE + 1) if cookie else 0
        if isinstance(node, NumberedDirectory):
            yield from self._numbered(directory.inode, node, position)
            return
        if cookie == 0:
            with directory.lock:
                directory.entries = []
                directory.iterator = iter(node.listing())
        while True:
            with directory.lock:
                found = _entry_at(directory, position)
                if found is None:
                    return
                name, child = found
                inode = self.inodes.number(directory.inode, name, child)
                directory.made.add(inode.ino)
            yield self._directory_entry(inode.ino, name, inode.node, position)
            position += 1

    def remember(self, ino: InodeNo) -> None:
        self.inodes.remember(ino)

    def releasedir(self, handle: HandleNo) -> None:
        with self._lock:
            directory = self._directories.pop(handle, None)
        if directory is not None:
            self.inodes.drop_unused(directory.made)
            self.inodes.closed(directory.inode.ino)

    def open(self, ino: InodeNo, flags: int) -> Opened:
        inode = self.inodes.get(ino)
        node = self._file(inode)
        writing = flags & os.O_ACCMODE != os.O_RDONLY
        truncate = bool(flags & os.O_TRUNC)
        if writing or truncate:
            self._check_writable(inode)
        token_before = node.pages_token
        file = node.open(writing=writing, truncate=truncate)
        file.appending = bool(flags & os.O_APPEND)
        keep = self._keeps_pages(inode, node, token_before) and not truncate
        return self._opened(inode, node, file, keep=keep)

    def read(self, handle: HandleNo, offset: int, size: int) -> Buffer:
        return self._open_file(handle).read(offset, size)

    def read_if_cached(self, handle: HandleNo, offset: int, size: int) -> Buffer | None:
        return self._open_file(handle).read_if_cached(offset, size)

    def write(self, handle: HandleNo, offset: int, data: Buffer) -> int:
        return self._open_file(handle).write(offset, data)

    def flush(self, handle: HandleNo) -> None:
        self._open_file(handle).flush()

    def fsync(self, handle: HandleNo, *, data_only: bool) -> None:
        self._open_file(handle).fsync()

    def fsyncdir(self, handle: HandleNo) -> None:
        self._node_of(self._open_directory(handle).inode).sync()

    def release(self, handle: HandleNo) -> None:
        with self._lock:
            found = self._files.pop(handle, None)
        if found is not None:
            try:
                found.file.close()
            finally:
                self.inodes.closed(found.inode.ino)

    def create(
        self, parent: InodeNo, name: bytes, flags: int, mode: int
    ) -> tuple[Opened, Attributes]:
        directory, text = self._place(parent, name)
        node, file = self._node_of(directory).create(text, mode, exclusive=bool(flags & os.O_EXCL))
        file.appending = bool(flags & os.O_APPEND)
        if flags & os.O_TRUNC:
            file.truncate(0)
        inode = self.inodes.number(directory, text, node)
        self.inodes.remember(inode.ino)
        opened = self._opened(inode, node, file, keep=False)
        return opened, self._attributes(inode.ino, node, node.stat())

    def mkdir(self, parent: InodeNo, name: bytes, mode: int) -> Attributes:
        directory, text = self._place(parent, name)
        node = self._node_of(directory).mkdir(text, mode)
        inode = self.inodes.number(directory, text, node)
        self.inodes.remember(inode.ino)
        return self._attributes(inode.ino, node, node.stat())

    def unlink(self, parent: InodeNo, name: bytes) -> None:
        directory, text = self._place(parent, name)
        self._node_of(directory).unlink(text)
        self.inodes.removed(parent, text)

    def rmdir(self, parent: InodeNo, name: bytes) -> None:
        directory, text = self._place(parent, name)
        self._node_of(directory).rmdir(text)
        self.inodes.removed(parent, text)

    def rename(
        self,
        old_parent: InodeNo,
        old_name: bytes,
        new_parent: InodeNo,
        new_name: bytes,
        *,
        replace: bool,
    ) -> None:
        source, old = self._place(old_parent, old_name)
        target, new = self._place(new_parent, new_name)
        self._node_of(source).rename(old, self._node_of(target), new, replace=replace)
        moved = self.inodes.renamed(old_parent, old, new_parent, new)
        for inode in moved:
            self._find_again(inode)

    def statfs(self) -> StatFs:
        return StatFs(STATFS_BYTES, STATFS_BYTES, len(self.inodes))

    def refresh(self, path: str) -> None:
        self.invalidate(self._forget(path))

    def invalidate(self, concerns: Callable[[str], bool]) -> None:
        """Have the kernel ask again for the files whose paths `concerns` holds for."""
        for inode in self.inodes.all():
            if concerns(self.inodes.path(inode)):
                self._invalidate(inode)

    def invalidate_below(self, path: str) -> None:
        """Have the kernel ask again for what is at or below a path, or for its absence."""
        words = path.split("/")
        *above, last = self.inodes.along(words)
        if len(above) == len(words):
            for inode in self.inodes.below(last):
                self._invalidate(inode)
        elif self._notifier is not None:
            self._notifier.invalidate_entry(last.ino, os.fsencode(words[len(above)]))

    def invalidate_content(self, path: str) -> None:
        """Have the kernel ask again for the bytes and sizes of what is at or below a path."""
        words = path.split("/")
        found = self.inodes.along(words)
        if len(found) <= len(words):
            return
        for inode in self.inodes.below(found[-1]):
            inode.pages_token = None
            if self._notifier is not None:
                self._notifier.invalidate_inode(inode.ino)

    def _invalidate(self, inode: Inode) -> None:
        inode.pages_token = None
        if self._notifier is not None:
            self._notifier.invalidate_inode(inode.ino)
            self._notifier.invalidate_entry(inode.parent, os.fsencode(inode.name))

    def sync(self) -> None:
        with self._lock:
            files = list(self._files.values())
        errors: list[NczfsError] = []
        for store in (*(open_file.file.fsync for open_file in files), self._sync):
            try:
                store()
            except NczfsError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def close(self) -> None:
        with self._lock:
            files = list(self._files.values())
            self._files.clear()
        self._save()
        for open_file in files:
            open_file.file.drop()
        self._close()

    def _keeps_pages(self, inode: Inode, node: File, token_before: object) -> bool:
        """Whether pages of the last open are still true: same version, and believed that long."""
        known = inode.pages_token
        token = node.pages_token
        fresh = now() - inode.pages_from < self._options.pages_ttl_s
        keep = known is not None and known == token == token_before and fresh
        if token is not None and token == known and node.pages_token_is_version:
            keep = True
        if not keep:
            inode.pages_token = token
            inode.pages_from = now()
        return keep and not node.direct_io

    def _numbered(
        self, inode: Inode, node: NumberedDirectory, position: int
    ) -> Iterator[DirectoryEntry]:
        stat = node.child_stat()
        first = self.inodes.first_of_block(inode)
        mode = self._file_mode(node.child(0)) if node.count else 0
        for number in range(position, node.count):
            if not node.is_shown(number):
                continue
            name = node.name_of(number)
            if first is not None:
                ino = InodeNo(first + number)
            else:
                ino = self.inodes.number(inode, name, node.child(number)).ino
            attributes = self._file_attributes(ino, stat, mode)
            yield DirectoryEntry(os.fsencode(name), attributes, number + FIRST_COOKIE)

    def _directory_entry(
        self, ino: InodeNo, name: str, node: Node, position: int
    ) -> DirectoryEntry:
        attributes = self._attributes(ino, node, node.listing_stat())
        return DirectoryEntry(os.fsencode(name), attributes, position + FIRST_COOKIE)

    def _attributes(self, ino: InodeNo, node: Node, stat: NodeStat) -> Attributes:
        options = self._options
        if isinstance(node, File):
            return self._file_attributes(ino, stat, self._file_mode(node))
        return Attributes(
            ino=ino,
            kind=FileKind.DIRECTORY,
            mode=_or(stat.mode, options.dir_mode),
            size=stat.size,
            mtime_ns=stat.mtime_ns,
            uid=_or(stat.uid, options.uid),
            gid=_or(stat.gid, options.gid),
            nlink=DIRECTORY_NLINK,
            valid_s=options.attr_ttl_s,
            entry_valid_s=options.attr_ttl_s,
        )

    def _file_attributes(self, ino: InodeNo, stat: NodeStat, mode: int) -> Attributes:
        options = self._options
        return Attributes(
            ino=ino,
            kind=FileKind.FILE,
            mode=_or(stat.mode, mode),
            size=stat.size,
            mtime_ns=stat.mtime_ns,
            uid=_or(stat.uid, options.uid),
            gid=_or(stat.gid, options.gid),
            nlink=1,
            valid_s=options.attr_ttl_s if stat.exact else 0.0,
            entry_valid_s=options.attr_ttl_s,
        )

    def _file_mode(self, file: Node) -> int:
        """What a file shows unless it has a mode of its own: the owner may write where one can."""
        mode = self._options.file_mode
        return mode | 0o200 if isinstance(file, File) and file.writable else mode & ~0o222

    def _directory(self, ino: InodeNo) -> Inode:
        inode = self.inodes.get(ino)
        if not isinstance(inode.node, Directory):
            raise NotADirectory(f"{self.inodes.path(inode)}: is not a directory")
        return inode

    def _node_of(self, inode: Inode) -> Directory:
        assert isinstance(inode.node, Directory)
        return inode.node

    def _open_file(self, handle: HandleNo) -> OpenFile:
        found = self._files.get(handle)
        if found is None:
            raise BadHandle(f"no open file has the handle {handle}")
        return found.file

    def _open_directory(self, handle: HandleNo) -> _DirectoryHandle:
        found = self._directories.get(handle)
        if found is None:
            raise BadHandle(f"no open directory has the handle {handle}")
        return found

    def _place(self, parent: InodeNo, name: bytes) -> tuple[Inode, str]:
        """A directory, and a name in it that shall be made or changed."""
        directory = self._directory(parent)
        text = os.fsdecode(name)
        if self._options.read_only:
            path = self.inodes.path(directory).rstrip("/")
            raise ReadOnlyMount(f"{path}/{text}: the mount is read-only")
        if len(name) > NAME_BYTES_MAX:
            raise NameTooLong(f"{text[:40]}...: a name has at most 255 bytes")
        return directory, text

    def _file(self, inode: Inode) -> File:
        if not isinstance(inode.node, File):
            raise IsADirectory(f"{self.inodes.path(inode)}: is a directory")
        return inode.node

    def _check_writable(self, inode: Inode) -> None:
        node = inode.node
        if isinstance(node, File) and node.writable:
            return
        path = self.inodes.path(inode)
        if self._options.read_only:
            raise ReadOnlyMount(f"{path}: the mount is read-only")
        if isinstance(node, File):
            raise NotPermitted(f"{path}: can only be read")

    def _opened(self, inode: Inode, node: File, file: OpenFile, *, keep: bool) -> Opened:
        self.inodes.opened(inode.ino)
        with self._lock:
            handle = HandleNo(next(self._handles))
            self._files[handle] = _FileHandle(inode, file)
        return Opened(handle, node.direct_io, keep)

    def _find_again(self, inode: Inode) -> None:
        """The node of an inode below a directory that was renamed: it knows its new place."""
        parent = self.inodes.get(inode.parent).node
        if isinstance(parent, Directory):
            try:
                inode.node = parent.lookup(inode.name)
            except NczfsError:
                return  # it will be looked up again


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _beyond(changes: Changes, shown: Attributes) -> Changes:
    """What is wanted of modes, owners and times that is not so already."""
    return replace(
        changes,
        size=None,
        mode=None if changes.mode == shown.mode else changes.mode,
        uid=None if changes.uid == shown.uid else changes.uid,
        gid=None if changes.gid == shown.gid else changes.gid,
    )


def _entry_at(directory: _DirectoryHandle, position: int) -> tuple[str, Node] | None:
    if directory.iterator is None:
        directory.iterator = iter(())
    while len(directory.entries) <= position:
        entry = next(directory.iterator, None)
        if entry is None:
            return None
        directory.entries.append(entry)
    return directory.entries[position]
