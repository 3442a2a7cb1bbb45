"""Readers of objects to which another client appends, or which it replaces."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nczfs.errors import StaleHandle
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects import delivered
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, rename, unlink, write

KEY, PATH = Key("run.log"), "objects/run.log"


@pytest.fixture
def store() -> MemoryZMap:
    store = MemoryZMap("memory://following")
    store.write(KEY, b"0123456789")
    return store


@pytest.fixture
def fs(store: MemoryZMap, tmp_path: Path) -> Iterator[TreeFileSystem]:
    tree = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path))
    yield tree
    tree.close()


def reader(fs: TreeFileSystem) -> HandleNo:
    fs.refresh("")
    return fs.open(find(fs, PATH).ino, os.O_RDONLY).handle


def test_a_reader_goes_on_with_a_version_that_has_all_it_has_read(
    fs: TreeFileSystem, store: MemoryZMap
) -> None:
    """SEMANTICS O20."""
    handle = reader(fs)
    assert bytes(fs.read(handle, 2, 4)) == b"2345"
    store.write(KEY, b"0123456789+")
    assert bytes(fs.read(handle, 0, 20)) == b"0123456789+"
    store.write(KEY, b"0123456789++")
    assert bytes(fs.read(handle, 0, 20)) == b"0123456789++"
    fs.release(handle)


@pytest.mark.parametrize(
    "newer", [b"01X3456789+", b"0123456789", b"0123", b""], ids=["other", "same", "cut", "empty"]
)
def test_a_reader_never_goes_on_with_another_file(
    fs: TreeFileSystem, store: MemoryZMap, newer: bytes
) -> None:
    """SEMANTICS O2, O20."""
    handle = reader(fs)
    assert bytes(fs.read(handle, 2, 4)) == b"2345"
    store.write(KEY, newer)
    for _ in range(2):
        with pytest.raises(StaleHandle):
            fs.read(handle, 0, 20)
    fs.release(handle)


def test_who_has_read_nothing_does_not_go_on_unless_there_was_nothing(
    fs: TreeFileSystem, store: MemoryZMap
) -> None:
    """SEMANTICS O20."""
    handle = reader(fs)
    store.write(KEY, b"0123456789+")
    with pytest.raises(StaleHandle):
        fs.read(handle, 0, 20)
    fs.release(handle)
    store.write(KEY, b"")
    handle = reader(fs)
    store.write(KEY, b"line")
    assert bytes(fs.read(handle, 0, 20)) == b"line"
    store.write(KEY, b"line\n")
    assert bytes(fs.read(handle, 4, 20)) == b"\n"
    fs.release(handle)


def test_what_another_handle_has_read_counts_too(fs: TreeFileSystem, store: MemoryZMap) -> None:
    """SEMANTICS O20: the kernel has its pages for both."""
    first, second = reader(fs), reader(fs)
    assert bytes(fs.read(first, 0, 1)) == b"0"
    assert bytes(fs.read(second, 8, 1)) == b"8"
    fs.release(second)
    store.write(KEY, b"01234567X9+")
    with pytest.raises(StaleHandle):
        fs.read(first, 9, 2)
    fs.release(first)


@pytest.mark.parametrize("is_open", [True, False])
def test_what_was_read_of_a_version_before_an_older_handle_came_to_it_counts_too(
    fs: TreeFileSystem, store: MemoryZMap, *, is_open: bool
) -> None:
    """SEMANTICS O2, O20: the kernel has one set of pages for all of them."""
    first = reader(fs)
    assert bytes(fs.read(first, 0, 1)) == b"0"
    store.write(KEY, b"0123456789+")
    second = reader(fs)
    assert bytes(fs.read(second, 8, 1)) == b"8"
    assert bytes(fs.read(first, 10, 1)) == b"+"
    if is_open:
        assert bytes(fs.read(second, 7, 1)) == b"7"
    else:
        fs.release(second)
    store.write(KEY, b"0123456X89++" if is_open else b"01234567X9++")
    with pytest.raises(StaleHandle):
        fs.read(first, 9, 3)
    fs.release(first)
    if is_open:
        fs.release(second)


def test_pages_of_which_nothing_is_known_are_not_mixed_with_a_newer_version(
    fs: TreeFileSystem, store: MemoryZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS O20: read by those who have closed the file long since."""
    monkeypatch.setattr(delivered, "OBJECTS_MAX", 0)
    fs.release(reader(fs))
    ino = find(fs, PATH).ino
    opened = fs.open(ino, os.O_RDONLY)
    assert opened.keep_cache
    assert bytes(fs.read(opened.handle, 0, 1)) == b"0"
    store.write(KEY, b"0123456789+")
    with pytest.raises(StaleHandle):
        fs.read(opened.handle, 0, 20)
    fs.release(opened.handle)


@pytest.mark.parametrize("newer", [b"0123456789+", b"X123456789+"], ids=["appended", "other"])
def test_what_was_read_before_the_file_was_closed_counts_too(
    fs: TreeFileSystem, store: MemoryZMap, newer: bytes
) -> None:
    """SEMANTICS O20: the kernel still has the pages."""
    before = reader(fs)
    assert bytes(fs.read(before, 0, 1)) == b"0"
    fs.release(before)
    opened = fs.open(find(fs, PATH).ino, os.O_RDONLY)
    assert opened.keep_cache
    assert bytes(fs.read(opened.handle, 5, 1)) == b"5"
    store.write(KEY, newer)
    if newer.startswith(b"0"):
        assert bytes(fs.read(opened.handle, 5, 20)) == b"56789+"
    else:
        with pytest.raises(StaleHandle):
            fs.read(opened.handle, 5, 20)
    fs.release(opened.handle)


def test_an_empty_file_that_was_removed_does_not_go_on_with_one_that_has_its_name(
    fs: TreeFileSystem, store: MemoryZMap
) -> None:
    """SEMANTICS O10."""
    store.write(KEY, b"")
    handle = reader(fs)
    unlink(fs, PATH)
    write(fs, PATH, b"another file")
    assert bytes(fs.read(handle, 0, 20)) == b""
    fs.release(handle)


def test_who_has_read_very_much_does_not_go_on(
    fs: TreeFileSystem, store: MemoryZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS O20."""
    monkeypatch.setattr(delivered, "READS_MAX", 3)
    handle = reader(fs)
    for offset in range(4):
        fs.read(handle, offset, 1)
    store.write(KEY, b"0123456789+")
    with pytest.raises(StaleHandle):
        fs.read(handle, 0, 20)
    fs.release(handle)


def test_a_writer_does_not_go_on_with_what_another_client_appended(
    fs: TreeFileSystem, store: MemoryZMap
) -> None:
    """SEMANTICS O20, O9."""
    handle = open_file(fs, PATH)
    assert bytes(fs.read(handle, 0, 4)) == b"0123"
    store.write(KEY, b"0123456789+")
    with pytest.raises(StaleHandle):
        fs.read(handle, 0, 20)
    close(fs, handle)
    assert bytes(store.read(KEY).data) == b"0123456789+"


def test_who_opens_the_file_to_write_while_a_reader_goes_on_cuts_off_nothing(
    tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O20, O9: what another client has appended stays."""
    expected_warnings.add("not stored")
    store = GatedZMap()
    store.write(KEY, b"0123456789")
    fs = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path))
    handle = reader(fs)
    assert bytes(fs.read(handle, 2, 4)) == b"2345"
    ino = find(fs, PATH).ino
    with ThreadPoolExecutor(2) as threads, store.stopping("stat", KEY, "after") as looked:
        opened = threads.submit(fs.open, ino, os.O_RDWR)
        assert looked.reached.wait(WAIT_S)
        store.write(KEY, b"0123456789+")
        with store.stopping("stat", KEY, "after") as going_on:
            read = threads.submit(fs.read, handle, 0, 20)
            assert going_on.reached.wait(WAIT_S)
            looked.open()
            writer = opened.result(WAIT_S).handle
            fs.write(writer, 0, b"W")
        with pytest.raises(StaleHandle):
            read.result(WAIT_S)
    with pytest.raises(StaleHandle):
        fs.fsync(writer, data_only=False)
    assert bytes(store.read(KEY).data) == b"0123456789+"
    fs.release(writer)
    fs.release(handle)
    fs.close()


@pytest.mark.parametrize("content", [b"", b"0123456789"], ids=["empty", "read"])
def test_a_reader_does_not_go_on_with_what_replaced_its_file_here(
    fs: TreeFileSystem, store: MemoryZMap, content: bytes
) -> None:
    """SEMANTICS O10: by a rename, and what replaced it begins in the same way."""
    store.write(KEY, content)
    handle = reader(fs)
    assert bytes(fs.read(handle, 0, 20)) == content
    store.write(Key("other"), content + b"more")
    rename(fs, "objects/other", PATH)
    for offset in (0, len(content)):
        assert bytes(fs.read(handle, offset, 20)) == content[offset:]
    fs.release(handle)
