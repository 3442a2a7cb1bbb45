"""Walking a file system in-process, as the kernel would, by paths; and one over any store."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

from nczfs.engine.dataset import Engine
from nczfs.errors import NoSuchPath
from nczfs.vfs.base import ROOT_INODE, FileKind, FileSystem, InodeNo, NodeAttributes
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap


def tree_over(store: ZMap, options: VfsOptions, url: str = "memory://store") -> TreeFileSystem:
    """The tree of a mount of a store that a test has made."""
    with mock.patch("nczfs.vfs.tree.open_store", return_value=store):
        return mount_tree(url, None, options)


def tree_and_engine_over(
    store: ZMap, options: VfsOptions, url: str = "memory://store"
) -> tuple[TreeFileSystem, Engine]:
    """The same tree, and its engine."""
    engines: list[Engine] = []

    def new_engine(*arguments: Any) -> Engine:
        engines.append(Engine(*arguments))
        return engines[-1]

    with mock.patch("nczfs.vfs.tree.Engine", new_engine):
        tree = tree_over(store, options, url)
    return tree, engines[0]


def find(fs: FileSystem, path: str) -> NodeAttributes:
    """The attributes of a path. Raises NoSuchPath."""
    ino = ROOT_INODE
    attributes = fs.getattr(ino)
    for name in path.strip("/").split("/"):
        if name:
            attributes = fs.lookup(ino, os.fsencode(name))
            ino = attributes.ino
    return attributes


def exists(fs: FileSystem, path: str) -> bool:
    try:
        find(fs, path)
    except NoSuchPath:
        return False
    return True


def listing(fs: FileSystem, path: str) -> dict[str, NodeAttributes]:
    """The entries of a directory, by name."""
    handle = fs.opendir(find(fs, path).ino)
    try:
        return {os.fsdecode(e.name): e.attributes for e in fs.readdir(handle, 0)}
    finally:
        fs.releasedir(handle)


def read(fs: FileSystem, path: str, offset: int = 0, size: int | None = None) -> bytes:
    """Bytes of a file; the whole of it, to its end, when no size is given."""
    attributes = find(fs, path)
    assert attributes.kind is FileKind.FILE
    return read_inode(fs, attributes.ino, offset, 1 << 40 if size is None else size)


def read_inode(fs: FileSystem, ino: InodeNo, offset: int, size: int) -> bytes:
    handle = fs.open(ino, os.O_RDONLY).handle
    try:
        return bytes(fs.read(handle, offset, size))
    finally:
        fs.flush(handle)
        fs.release(handle)


class KnownPaths:
    """Paths of a file system that are looked up once, as the kernel remembers them for a while."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._numbers: dict[str, InodeNo] = {}

    def ino(self, path: str) -> InodeNo:
        if path not in self._numbers:
            self._numbers[path] = find(self._fs, path).ino
        return self._numbers[path]

    def size(self, path: str) -> int:
        return self._fs.getattr(self.ino(path)).size

    def read(self, path: str) -> bytes:
        return read_inode(self._fs, self.ino(path), 0, 1 << 40)

    def forget(self) -> None:
        """Have every path be looked up again."""
        self._numbers.clear()
