"""A file of ``objects/`` that is opened while its name is being given to another one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

import pytest

from nczfs.errors import NoSuchPath
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects.store import ObjectStore
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from tests.support.contents import objects_of
from tests.support.gated import WAIT_S
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, rename


@pytest.fixture
def store() -> MemoryZMap:
    store = MemoryZMap()
    for name in ("new", "name"):
        store.write(Key(name), name.encode())
    return store


@pytest.fixture
def fs(store: MemoryZMap, tmp_path: Path) -> Iterator[TreeFileSystem]:
    tree = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path / "spool"))
    yield tree
    tree.close()


class Opening:
    """A thread that opens a file, which the kernel knows already, to write to it."""

    def __init__(self, fs: TreeFileSystem, name: str) -> None:
        self._fs = fs
        self._ino = find(fs, f"objects/{name}").ino
        self._thread = threading.Thread(target=self._open)
        self.handle: HandleNo | None = None

    def begin(self) -> None:
        self._thread.start()
        self._thread.join(0.2)  # unless it waits

    def end(self) -> HandleNo | None:
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        return self.handle

    def _open(self) -> None:
        try:
            self.handle = self._fs.open(self._ino, os.O_RDWR).handle
        except NoSuchPath:
            self.handle = None


def begin_after_copying(opening: Opening) -> AbstractContextManager[object]:
    copy = ObjectStore.copy

    def copied(store: ObjectStore, stat: Stat, key: Key, *, replace: bool) -> Stat:
        found = copy(store, stat, key, replace=replace)
        opening.begin()
        return found

    return mock.patch.object(ObjectStore, "copy", copied)


def begin_before_deleting(opening: Opening) -> AbstractContextManager[object]:
    delete = ObjectStore.delete

    def deleted(store: ObjectStore, key: Key, version: Version | None = None) -> None:
        opening.begin()
        delete(store, key, version)

    return mock.patch.object(ObjectStore, "delete", deleted)


def test_what_is_written_to_a_name_that_another_file_has_just_got_is_stored(
    fs: TreeFileSystem, store: MemoryZMap
) -> None:
    """SEMANTICS O6, O11."""
    opening = Opening(fs, "name")
    with begin_after_copying(opening):
        rename(fs, "objects/new", "objects/name")
    handle = opening.end()
    assert handle is not None
    fs.write(handle, 0, b"N")
    fs.fsync(handle, data_only=False)
    assert objects_of(store) == {"name": b"New"}
    close(fs, handle)


def test_a_file_that_is_open_is_opened_by_the_name_that_it_is_getting(
    fs: TreeFileSystem, store: MemoryZMap
) -> None:
    """SEMANTICS O6, O7, O11: and both write to it."""
    opening, first = Opening(fs, "name"), open_file(fs, "objects/new")
    with begin_before_deleting(opening):
        rename(fs, "objects/new", "objects/name")
    second = opening.end()
    assert second is not None
    for number, handle in enumerate([first, second]):
        fs.write(handle, number, b"12"[number : number + 1])
        fs.fsync(handle, data_only=False)
    assert objects_of(store) == {"name": b"12w"}
    for handle in (first, second):
        close(fs, handle)


@pytest.mark.parametrize("begin", [begin_after_copying, begin_before_deleting])
def test_nobody_opens_a_file_by_a_name_that_it_is_losing(
    fs: TreeFileSystem,
    store: MemoryZMap,
    begin: Callable[[Opening], AbstractContextManager[object]],
) -> None:
    """SEMANTICS O11."""
    opening = Opening(fs, "new")
    with begin(opening):
        rename(fs, "objects/new", "objects/name")
    assert opening.end() is None
    assert objects_of(store) == {"name": b"new"}
