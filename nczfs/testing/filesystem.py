"""A small file system in memory, to test the code that mounts file systems."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from nczfs.buffers import Buffer
from nczfs.errors import (
    BadHandle,
    DirectoryNotEmpty,
    NoSuchPath,
    NotADirectory,
    PathExists,
    StaleHandle,
)
from nczfs.vfs.base import (
    ROOT_INODE,
    AttributeChanges,
    DirectoryEntry,
    FileKind,
    FileSystem,
    HandleNo,
    InodeNo,
    NodeAttributes,
    NodeOwner,
    Opened,
)
from nczfs.zmap.capacity import Capacity

_FIRST_COOKIE = 3  # 0 is the start; 1 and 2 are special for NFS


@dataclass(slots=True)
class _Node:
    ino: InodeNo
    kind: FileKind
    data: bytearray = field(default_factory=bytearray)
    children: dict[bytes, _Node] = field(default_factory=dict)
    mode: int = 0o644


class ToyFileSystem(FileSystem):
    """Files in dictionaries, with hooks where tests make operations fail or wait.

    Parameters
    ----------
    before : called with the name of each operation and the name or number it concerns, before
        it is done; may raise or block.
    cached : whether the ``..._if_cached`` methods answer at all.
    """

    def __init__(
        self, before: Callable[[str, object], None] | None = None, *, cached: bool = True
    ) -> None:
        self._before = before or (lambda _operation, _what: None)
        self._cached = cached
        self._lock = threading.RLock()  # guards all attributes below
        self._numbers = itertools.count(ROOT_INODE)
        self._nodes: dict[InodeNo, _Node] = {}
        self._root = self._new(FileKind.DIRECTORY)
        self._handles: dict[HandleNo, _Node] = {}
        self._listings: dict[HandleNo, list[tuple[bytes, _Node]]] = {}
        self._handle_numbers = itertools.count(1)
        self.lookups: dict[InodeNo, int] = {}
        self.refreshed: list[str] = []
        self.closed = False

    def _new(self, kind: FileKind) -> _Node:
        node = _Node(InodeNo(next(self._numbers)), kind)
        node.mode = 0o755 if kind is FileKind.DIRECTORY else 0o644
        self._nodes[node.ino] = node
        return node

    def add(self, path: str, data: bytes = b"") -> InodeNo:
        """Make a file and the directories above it."""
        *parents, name = os.fsencode(path).split(b"/")
        node = self._root
        for parent in parents:
            if parent not in node.children:
                node.children[parent] = self._new(FileKind.DIRECTORY)
            node = node.children[parent]
        leaf = node.children[name] = self._new(FileKind.FILE)
        leaf.data[:] = data
        return leaf.ino

    @property
    def open_handles(self) -> int:
        """The number of open handles, including directories."""
        return len(self._handles)

    def judges_access(self, *, shared: bool) -> bool:
        return False

    def access(self, ino: InodeNo, mask: int, uid: int) -> bool:
        self._before("access", ino)
        return True

    def lookup(self, parent: InodeNo, name: bytes) -> NodeAttributes:
        self._before("lookup", name)
        with self._lock:
            node = self._child(parent, name)
            self._count(node.ino)
            return self._attributes(node)

    def lookup_if_cached(self, parent: InodeNo, name: bytes) -> NodeAttributes | None:
        if not self._cached:
            return None
        self._before("lookup_if_cached", name)
        with self._lock:
            node = self._child(parent, name)
            self._count(node.ino)
            return self._attributes(node)

    def forget(self, counts: Iterable[tuple[InodeNo, int]]) -> None:
        with self._lock:
            for ino, count in counts:
                self.lookups[ino] = self.lookups.get(ino, 0) - count
        self._before("forget", None)

    def getattr(self, ino: InodeNo) -> NodeAttributes:
        self._before("getattr", ino)
        return self._attributes(self._node(ino))

    def getattr_if_cached(self, ino: InodeNo) -> NodeAttributes | None:
        if not self._cached:
            return None
        return self._attributes(self._node(ino))

    def setattr(
        self, ino: InodeNo, changes: AttributeChanges, handle: HandleNo | None
    ) -> NodeAttributes:
        self._before("setattr", ino)
        with self._lock:
            node = self._node(ino)
            if changes.size is not None:
                del node.data[changes.size :]
                node.data.extend(bytes(changes.size - len(node.data)))
            if changes.mode is not None:
                node.mode = changes.mode
            return self._attributes(node)

    def opendir(self, ino: InodeNo) -> HandleNo:
        self._before("opendir", ino)
        return self._open(self._node(ino))

    def readdir(self, handle: HandleNo, cookie: int) -> Iterator[DirectoryEntry]:
        self._before("readdir", cookie)
        if cookie == 0:
            self._listings[handle] = list(self._handle(handle).children.items())
        first = max(0, cookie - _FIRST_COOKIE + 1)
        listing = self._listings[handle]
        for position in range(first, len(listing)):
            name, node = listing[position]
            self._before("readdir_entry", name)
            yield DirectoryEntry(name, self._attributes(node), position + _FIRST_COOKIE)

    def remember(self, ino: InodeNo) -> None:
        with self._lock:
            self._count(ino)

    def releasedir(self, handle: HandleNo) -> None:
        del self._handles[handle]
        self._listings.pop(handle, None)

    def open(self, ino: InodeNo, flags: int) -> Opened:
        self._before("open", ino)
        node = self._node(ino)
        if flags & os.O_TRUNC:
            node.data.clear()
        return Opened(self._open(node), direct_io=False, keep_cache=False)

    def read(self, handle: HandleNo, offset: int, size: int) -> Buffer:
        self._before("read", handle)
        return memoryview(self._handle(handle).data).toreadonly()[offset : offset + size]

    def read_if_cached(self, handle: HandleNo, offset: int, size: int) -> Buffer | None:
        if not self._cached:
            return None
        return memoryview(self._handle(handle).data).toreadonly()[offset : offset + size]

    def write(self, handle: HandleNo, offset: int, data: Buffer) -> int:
        self._before("write", handle)
        with self._lock:
            # A new buffer, because the old one may be on its way to a reader.
            node = self._handle(handle)
            content = bytearray(node.data)
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
            node.data = content
        return len(data)

    def flush(self, handle: HandleNo) -> None:
        self._before("flush", handle)

    def fsync(self, handle: HandleNo, *, data_only: bool) -> None:
        self._before("fsync", handle)

    def fsyncdir(self, handle: HandleNo) -> None:
        self._before("fsyncdir", handle)

    def release(self, handle: HandleNo) -> None:
        self._before("release", handle)
        del self._handles[handle]

    def create(
        self, parent: InodeNo, name: bytes, flags: int, mode: int, owner: NodeOwner | None = None
    ) -> tuple[Opened, NodeAttributes]:
        self._before("create", name)
        with self._lock:
            node = self._make(parent, name, FileKind.FILE)
            return Opened(self._open(node), direct_io=False, keep_cache=False), self._attributes(
                node
            )

    def mkdir(
        self, parent: InodeNo, name: bytes, mode: int, owner: NodeOwner | None = None
    ) -> NodeAttributes:
        self._before("mkdir", name)
        with self._lock:
            return self._attributes(self._make(parent, name, FileKind.DIRECTORY))

    def unlink(self, parent: InodeNo, name: bytes) -> None:
        self._before("unlink", name)
        with self._lock:
            self._child(parent, name)
            del self._node(parent).children[name]

    def rmdir(self, parent: InodeNo, name: bytes) -> None:
        self._before("rmdir", name)
        with self._lock:
            if self._child(parent, name).children:
                raise DirectoryNotEmpty(os.fsdecode(name))
            del self._node(parent).children[name]

    def rename(
        self,
        old_parent: InodeNo,
        old_name: bytes,
        new_parent: InodeNo,
        new_name: bytes,
        *,
        replace: bool,
    ) -> None:
        self._before("rename", old_name)
        with self._lock:
            node = self._child(old_parent, old_name)
            if not replace and new_name in self._node(new_parent).children:
                raise PathExists(os.fsdecode(new_name))
            del self._node(old_parent).children[old_name]
            self._node(new_parent).children[new_name] = node

    def link(self, ino: InodeNo, parent: InodeNo, name: bytes) -> NodeAttributes:
        self._before("link", name)
        with self._lock:
            data = self._node(ino).data
            made = self._make(parent, name, FileKind.FILE)
            made.data = bytearray(data)
            return self._attributes(made)

    def statfs(self) -> Capacity:
        return Capacity(1 << 40, free_bytes=1 << 39, available_bytes=1 << 38)

    def refresh(self, path: str) -> None:
        self.refreshed.append(path)
        self._before("refresh", path)

    def sync(self) -> None:
        """Do nothing: everything is stored at once."""

    def ending_text(self) -> str:
        return "waiting for nothing"

    def save(self) -> None:
        """Do nothing: everything is stored."""

    def close(self) -> None:
        self._before("close", None)
        self.closed = True

    def _make(self, parent: InodeNo, name: bytes, kind: FileKind) -> _Node:
        directory = self._node(parent)
        if name in directory.children:
            raise PathExists(os.fsdecode(name))
        node = directory.children[name] = self._new(kind)
        self._count(node.ino)
        return node

    def _count(self, ino: InodeNo) -> None:
        self.lookups[ino] = self.lookups.get(ino, 0) + 1

    def _open(self, node: _Node) -> HandleNo:
        with self._lock:
            handle = HandleNo(next(self._handle_numbers))
            self._handles[handle] = node
        return handle

    def _node(self, ino: InodeNo) -> _Node:
        try:
            return self._nodes[ino]
        except KeyError:
            raise StaleHandle(f"inode {ino}") from None

    def _handle(self, handle: HandleNo) -> _Node:
        try:
            return self._handles[handle]
        except KeyError:
            raise BadHandle(f"handle {handle}") from None

    def _child(self, parent: InodeNo, name: bytes) -> _Node:
        directory = self._node(parent)
        if directory.kind is not FileKind.DIRECTORY:
            raise NotADirectory(os.fsdecode(name))
        try:
            return directory.children[name]
        except KeyError:
            raise NoSuchPath(os.fsdecode(name)) from None

    @staticmethod
    def _attributes(node: _Node) -> NodeAttributes:
        return NodeAttributes(
            ino=node.ino,
            kind=node.kind,
            mode=node.mode,
            size=len(node.data),
            mtime_ns=1_700_000_000_000_000_000,
            uid=os.getuid(),
            gid=os.getgid(),
            nlink=1,
            valid_s=1.0,
            entry_valid_s=1.0,
        )
