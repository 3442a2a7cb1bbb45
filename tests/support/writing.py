"""Changing a file system in-process, as the kernel would, by paths."""

from __future__ import annotations

import os
from collections.abc import Callable

from nczfs.errors import NoSuchPath
from nczfs.vfs.base import (
    AttributeChanges,
    FileKind,
    FileSystem,
    HandleNo,
    InodeNo,
    NodeAttributes,
    Opened,
)
from tests.support.trees import find, listing


def split(fs: FileSystem, path: str) -> tuple[InodeNo, bytes]:
    """The directory of a path, and the name in it."""
    parent, _, name = path.rpartition("/")
    return find(fs, parent).ino, os.fsencode(name)


def open_file(fs: FileSystem, path: str, flags: int = os.O_RDWR, mode: int = 0o644) -> HandleNo:
    """As open(2)."""
    return open_fully(fs, path, flags, mode).handle


def open_fully(fs: FileSystem, path: str, flags: int, mode: int = 0o644) -> Opened:
    if not flags & os.O_CREAT:
        return fs.open(find(fs, path).ino, flags)
    parent, name = split(fs, path)
    try:
        found = fs.lookup(parent, name)
    except NoSuchPath:
        return fs.create(parent, name, flags, mode)[0]
    if flags & os.O_EXCL:
        raise AssertionError("the kernel answers this by itself")
    return fs.open(found.ino, flags)


def close(fs: FileSystem, handle: HandleNo) -> None:
    """As close(2) of the only descriptor."""
    try:
        fs.flush(handle)
    finally:
        fs.release(handle)


def sync(fs: FileSystem, path: str) -> None:
    """Open a file or directory for reading, and fsync it, as ``sync PATH`` does."""
    found = find(fs, path.rstrip("/"))
    if found.kind is FileKind.DIRECTORY:
        directory = fs.opendir(found.ino)
        fs.fsyncdir(directory)
        fs.releasedir(directory)
    else:
        handle = fs.open(found.ino, os.O_RDONLY).handle
        fs.fsync(handle, data_only=False)
        close(fs, handle)


def write(
    fs: FileSystem, path: str, data: bytes, offset: int = 0, flags: int = os.O_CREAT | os.O_TRUNC
) -> None:
    """Open, write and close."""
    handle = open_file(fs, path, flags | os.O_WRONLY)
    try:
        if data:
            assert fs.write(handle, offset, data) == len(data)
    finally:
        close(fs, handle)


def size(fs: FileSystem, path: str) -> int:
    return find(fs, path).size


def truncate(fs: FileSystem, path: str, size: int) -> NodeAttributes:
    """As truncate(2)."""
    return fs.setattr(find(fs, path).ino, AttributeChanges(size=size), None)


def mkdir(fs: FileSystem, path: str) -> NodeAttributes:
    return fs.mkdir(*split(fs, path), 0o755)


def unlink(fs: FileSystem, path: str) -> None:
    fs.unlink(*split(fs, path))


def rmdir(fs: FileSystem, path: str) -> None:
    fs.rmdir(*split(fs, path))


def rm_r(fs: FileSystem, path: str, between: Callable[[], object] = lambda: None) -> None:
    """As ``rm -r``, and something else after each step."""
    empty(fs, path, between)
    rmdir(fs, path)
    between()


def empty(fs: FileSystem, path: str, between: Callable[[], object] = lambda: None) -> None:
    """As ``rm -r`` of all that a directory shows."""
    for name, attributes in listing(fs, path).items():
        if attributes.kind is FileKind.DIRECTORY:
            rm_r(fs, f"{path}/{name}", between)
        else:
            unlink(fs, f"{path}/{name}")
            between()


def rename(fs: FileSystem, path: str, new_path: str, *, replace: bool = True) -> None:
    fs.rename(*split(fs, path), *split(fs, new_path), replace=replace)
