"""Second names of objects below ``objects/``, driven as the kernel would (docs/SEMANTICS.md)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from nczfs.errors import CrossesTrees, NotPermitted, PathExists, ReadOnlyMount, StaleHandle
from nczfs.testing.copying import Copying
from nczfs.vfs.base import AttributeChanges, NodeAttributes
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects.store import JOINED_BYTES_MAX
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import Part, Version, ZMap
from nczfs.zmap.keys import ROOT, Key, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.trees import find, listing, read, tree_over
from tests.support.writing import close, mkdir, open_file, rename, split, truncate, unlink, write

NOTES = "objects/plain/notes.txt"
COPY = "objects/copy"
CLOSE_S = 0.3

Mounting = Callable[..., AbstractContextManager[TreeFileSystem]]


@pytest.fixture
def store() -> ZMap:
    store = MemoryZMap()
    store.write(parse_key("plain/notes.txt"), b"hello")
    return store


@pytest.fixture
def mounting(tmp_path: Path) -> Mounting:
    @contextmanager
    def mounted(store: ZMap, *, read_only: bool = False) -> Iterator[TreeFileSystem]:
        options = VfsOptions(read_only=read_only, spool_dir=tmp_path / "spool")
        tree = tree_over(store, options)
        yield tree
        tree.close()

    return mounted


@pytest.fixture
def fs(store: ZMap, mounting: Mounting) -> Iterator[TreeFileSystem]:
    with mounting(store) as tree:
        yield tree


def link(fs: TreeFileSystem, path: str, new_path: str) -> NodeAttributes:
    return fs.link(find(fs, path).ino, *split(fs, new_path))


def stored(store: ZMap) -> dict[str, bytes]:
    return {s.key: bytes(store.read(s.key).data) for s in store.list(ROOT)}


def test_a_link_is_a_second_object_with_the_same_bytes(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS L8."""
    made = link(fs, NOTES, "objects/plain/copy")
    assert stored(store) == {"plain/notes.txt": b"hello", "plain/copy": b"hello"}
    assert (made.size, made.nlink, find(fs, NOTES).nlink) == (5, 1, 1)
    assert made.ino != find(fs, NOTES).ino
    assert set(listing(fs, "objects/plain")) == {"notes.txt", "copy"}
    write(fs, NOTES, b"changed")
    assert read(fs, "objects/plain/copy") == b"hello"
    unlink(fs, NOTES)
    assert stored(store) == {"plain/copy": b"hello"}


def test_a_link_has_the_mode_the_owner_and_the_times_of_the_file(fs: TreeFileSystem) -> None:
    """SEMANTICS L8, O12."""
    changes = AttributeChanges(mode=0o600, uid=7, gid=8, atime_ns=5, mtime_ns=0)
    fs.setattr(find(fs, NOTES).ino, changes, None)
    link(fs, NOTES, COPY)
    found = find(fs, COPY)
    assert (found.mode, found.uid, found.gid) == (0o600, 7, 8)
    assert (found.atime_ns, found.mtime_ns) == (5, 0)


def test_a_link_has_what_was_written_and_is_not_stored_yet(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS L8, O7."""
    handle = open_file(fs, NOTES)
    fs.write(handle, 0, b"J")
    link(fs, NOTES, COPY)
    assert stored(store) == {"plain/notes.txt": b"hello", "copy": b"Jello"}
    fs.write(handle, 1, b"E")
    assert read(fs, COPY) == b"Jello"
    close(fs, handle)
    assert stored(store) == {"plain/notes.txt": b"JEllo", "copy": b"Jello"}
    assert find(fs, COPY).mtime_ns <= find(fs, NOTES).mtime_ns


def test_a_file_that_was_never_stored_can_be_linked(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS L8."""
    handle = open_file(fs, "objects/new", os.O_CREAT | os.O_WRONLY)
    link(fs, "objects/new", "objects/empty")
    fs.write(handle, 0, b"new")
    link(fs, "objects/new", COPY)
    unlink(fs, "objects/new")
    close(fs, handle)
    assert stored(store) == {"plain/notes.txt": b"hello", "empty": b"", "copy": b"new"}


class ClosingMeanwhile(MemoryZMap):
    """Runs something in another thread before it takes the parts of an object."""

    def __init__(self) -> None:
        super().__init__()
        self.thread: threading.Thread | None = None

    def write_parts(
        self,
        key: Key,
        parts: Sequence[Part],
        *,
        replaces: Version | None = None,
        mtime_ns: int | None = None,
    ) -> Version:
        if self.thread is not None and key == "copy":
            self.thread.start()
            self.thread.join(CLOSE_S)  # or until it waits for this call
        return super().write_parts(key, parts, replaces=replaces, mtime_ns=mtime_ns)


def test_a_file_can_be_closed_while_a_link_to_it_is_made(mounting: Mounting) -> None:
    """SEMANTICS L8: what the link is made of stays until it is there."""
    store = ClosingMeanwhile()
    data = bytes(range(256)) * (JOINED_BYTES_MAX // 256 + 1)
    with mounting(store) as fs:
        handle = open_file(fs, "objects/new", os.O_CREAT | os.O_WRONLY)
        fs.write(handle, 0, data)
        store.thread = threading.Thread(target=close, args=(fs, handle))
        link(fs, "objects/new", COPY)
        store.thread.join()
        assert stored(store) == {"new": data, "copy": data}


def test_a_link_is_made_in_the_store_where_that_can_copy(store: ZMap, mounting: Mounting) -> None:
    """SEMANTICS L8."""
    copying = Copying(store)
    with mounting(copying) as fs:
        before = copying.reads
        link(fs, NOTES, COPY)
        handle = open_file(fs, NOTES)
        fs.write(handle, 5, b"!")
        link(fs, NOTES, "objects/longer")
        assert copying.reads == before
        close(fs, handle)
    assert stored(store) == {"plain/notes.txt": b"hello!", "copy": b"hello", "longer": b"hello!"}


def test_nothing_is_replaced_by_a_link(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS L8."""
    mkdir(fs, "objects/directory")
    handle = open_file(fs, "objects/unsaved", os.O_CREAT | os.O_WRONLY)
    write(fs, "objects/there", b"there")
    for path in ("objects/directory", "objects/unsaved", "objects/there", NOTES):
        with pytest.raises(PathExists):
            link(fs, NOTES, path)
    close(fs, handle)
    assert stored(store) == {"plain/notes.txt": b"hello", "unsaved": b"", "there": b"there"}


@pytest.mark.parametrize("written", [False, True], ids=["stored", "written"])
def test_what_another_client_made_first_is_not_replaced(
    fs: TreeFileSystem, store: ZMap, *, written: bool
) -> None:
    """SEMANTICS L8, O11."""
    listing(fs, "objects")
    handle = open_file(fs, NOTES)
    if written:
        fs.write(handle, 0, b"J")
    store.write(parse_key("copy"), b"theirs")
    with pytest.raises(PathExists, match="copy: exists"):
        link(fs, NOTES, COPY)
    with pytest.raises(PathExists, match="copy: exists"):
        rename(fs, NOTES, COPY, replace=False)
    assert stored(store) == {"plain/notes.txt": b"hello", "copy": b"theirs"}
    close(fs, handle)


def test_what_another_client_replaced_is_not_mixed_with_what_was_written(
    store: ZMap, mounting: Mounting, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS L8, O2."""
    expected_warnings.add("cannot be kept for the programs that have it open")
    with mounting(Copying(store)) as fs:
        handle = open_file(fs, NOTES)
        fs.write(handle, 0, b"J")
        store.write(parse_key("plain/notes.txt"), b"THEIRS")
        with pytest.raises(StaleHandle):
            link(fs, NOTES, COPY)
        assert stored(store) == {"plain/notes.txt": b"THEIRS"}
        unlink(fs, NOTES)
        close(fs, handle)


def test_only_objects_are_linked_and_only_to_objects(
    fs: TreeFileSystem, store: ZMap, mounting: Mounting
) -> None:
    """SEMANTICS L8."""
    truncate(fs, NOTES, 2)
    with pytest.raises(NotPermitted):
        link(fs, NOTES, "datasets/copy")
    with pytest.raises(NotPermitted):
        link(fs, NOTES, ".nczfs/copy")
    with pytest.raises(CrossesTrees):
        link(fs, ".nczfs/config.json", COPY)
    with mounting(store, read_only=True) as other, pytest.raises(ReadOnlyMount):
        link(other, NOTES, COPY)
