"""What an open file of ``objects/`` is while its name, its time or its object changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from nczfs.buffers import Buffer
from nczfs.engine.spool.space import Survives
from nczfs.errors import NoSpace, StaleHandle, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.store import ObjectStore
from nczfs.vfs.staging import StagedFile
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import ABSENT, Features, Stat
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.killed import copied, left_by, object_of, recovered
from tests.support.trees import exists, find, tree_over
from tests.support.writing import close, open_file, rename, split, truncate, unlink, write

A, B = Key("d/a"), Key("d/b")
PATH, OTHER = "objects/d/a", "objects/d/b"
LARGE = bytes(range(256)) * 4096  # no handle fetches so much to change a byte


@pytest.fixture
def store() -> GatedZMap:
    store = GatedZMap()
    store.write(A, b"old")
    return store


@pytest.fixture
def fs(store: GatedZMap, tmp_path: Path) -> Iterator[TreeFileSystem]:
    tree = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path / "spool"))
    yield tree
    tree.close()


def stored(store: MemoryZMap, key: Key) -> bytes:
    return bytes(store.read(key).data)


def test_a_file_that_was_just_made_is_empty(fs: TreeFileSystem) -> None:
    """SEMANTICS O6."""
    handle = open_file(fs, "objects/d/new", os.O_RDWR | os.O_CREAT)
    assert bytes(fs.read(handle, 0, 10)) == b""
    close(fs, handle)


def test_a_link_of_a_written_file_has_its_time(fs: TreeFileSystem) -> None:
    """SEMANTICS L8, O12."""
    handle = open_file(fs, PATH)
    fs.write(handle, 0, b"new")
    fs.setattr(find(fs, PATH).ino, AttributeChanges(mtime_ns=7), handle)
    fs.link(find(fs, PATH).ino, *split(fs, OTHER))
    assert find(fs, OTHER).mtime_ns == 7
    close(fs, handle)


@pytest.mark.parametrize("state", ["read", "opened to write", "stored"])
def test_an_open_file_of_which_everything_is_stored_has_the_time_that_is_set(
    fs: TreeFileSystem, state: str
) -> None:
    """SEMANTICS O12."""
    handle = open_file(fs, PATH, os.O_RDONLY if state == "read" else os.O_RDWR)
    if state == "stored":
        fs.write(handle, 0, b"new")
        fs.fsync(handle, data_only=False)
    fs.setattr(find(fs, PATH).ino, AttributeChanges(mtime_ns=7), handle)
    assert find(fs, PATH).mtime_ns == 7
    close(fs, handle)
    assert find(fs, PATH).mtime_ns == 7


@pytest.mark.parametrize("state", ["written", "removed"])
def test_the_time_of_what_the_store_does_not_have_is_not_set_there(
    fs: TreeFileSystem, state: str
) -> None:
    """SEMANTICS O10, O12: it is stored with what was written, or not at all."""
    ino, handle = find(fs, PATH).ino, open_file(fs, PATH)
    if state == "written":
        fs.write(handle, 0, b"new")
    else:
        unlink(fs, PATH)
    asked = AssertionError("the store was asked")
    with mock.patch.object(ObjectStore, "set_mtime", side_effect=asked) as set_there:
        assert fs.setattr(ino, AttributeChanges(mtime_ns=7), handle).mtime_ns == 7
    set_there.assert_not_called()
    close(fs, handle)


def test_a_renamed_file_that_another_client_has_replaced_keeps_its_inode(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O2, O7: who has it open and who finds it have one file."""
    ino, handle = find(fs, PATH).ino, open_file(fs, PATH, os.O_RDONLY)
    store.write(A, b"another one")
    rename(fs, PATH, OTHER)
    assert find(fs, OTHER).ino == ino
    fs.release(handle)


def test_what_arrives_after_a_rename_has_failed_is_the_file_s_own_object(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O6, O9, O11: the request was under way all the time."""
    handle = open_file(fs, PATH)
    fs.write(handle, 0, b"one")
    with ThreadPoolExecutor(1) as threads:
        with store.stopping("write", A) as gate:
            syncing = threads.submit(fs.fsync, handle, data_only=False)
            assert gate.reached.wait(WAIT_S)
            gate.open(Unavailable(A))
            with pytest.raises(Unavailable):
                syncing.result(WAIT_S)
        with store.stopping("delete", A) as gate:
            renaming = threads.submit(rename, fs, PATH, OTHER)
            assert gate.reached.wait(WAIT_S)
            gate.open(Unavailable(A))
            with pytest.raises(Unavailable):
                renaming.result(WAIT_S)
    store.write(A, b"one")
    fs.write(handle, 0, b"two")
    close(fs, handle)
    assert stored(store, A) == b"two"


def test_a_reader_of_a_file_that_may_have_been_replaced_has_nothing_to_store(
    tmp_path: Path,
) -> None:
    """SEMANTICS O28: `mv b a` has no answer, and a is only read."""
    store = Faulty(MemoryZMap())
    store.write(A, b"a, as it was")
    store.write(B, b"b")
    fs = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path / "spool"))
    handle = open_file(fs, PATH, os.O_RDONLY)
    store.arm(Fault(0, after=True, operations=frozenset({"write", "write_parts", "copy"})))
    with pytest.raises(Unavailable):
        rename(fs, OTHER, PATH)
    store.arm()
    close(fs, handle)
    assert bytes(store.read(A).data) == b"b"
    fs.close()
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_size_that_was_refused_is_not_put_back_after_a_kill(
    store: GatedZMap, tmp_path: Path
) -> None:
    """SEMANTICS O6, W21: truncate(2) failed, so the file is as it was."""
    options = VfsOptions(read_only=False, spool_dir=tmp_path / "spool", survives=Survives.KILL)
    fs = tree_over(store, options)
    reading = open_file(fs, PATH, os.O_RDONLY)
    with ThreadPoolExecutor(1) as threads, store.stopping("write", A) as gate:
        cutting = threads.submit(truncate, fs, PATH, 1)
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable(A))
        with pytest.raises(Unavailable):
            cutting.result(WAIT_S)
    left, copy = left_by(tmp_path / "spool", tmp_path / "killed"), copied(store)
    recovered(left, copy)
    assert stored(copy, A) == b"old"
    fs.release(reading)
    fs.close()


def test_what_is_read_of_a_written_file_needs_no_room_on_the_disk(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O6: what the store has of it is kept only if there is room."""
    store.write(B, LARGE)
    handle = open_file(fs, OTHER)
    fs.write(handle, 0, b"new")
    with mock.patch.object(StagedFile, "take", side_effect=NoSpace("on purpose")):
        assert bytes(fs.read(handle, len(LARGE) - 300, 400)) == LARGE[-300:]
    close(fs, handle)
    assert stored(store, B) == b"new" + LARGE[3:]


def test_an_empty_file_that_is_emptied_again_has_a_new_time(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O12: as open(2) with O_TRUNC says."""
    store.write(B, b"")
    fs.setattr(find(fs, OTHER).ino, AttributeChanges(mtime_ns=7), None)
    write(fs, OTHER, b"", flags=os.O_TRUNC)
    assert find(fs, OTHER).mtime_ns > 7


@pytest.mark.parametrize("is_write_once", [True, False])
def test_a_new_file_that_a_shell_closes_first_is_stored_empty_if_it_can_be_replaced(
    fs: TreeFileSystem, store: GatedZMap, *, is_write_once: bool
) -> None:
    """A shell opens, duplicates and closes before a program writes a byte."""
    with mock.patch.object(GatedZMap, "features", Features(write_once=is_write_once)):
        handle = open_file(fs, OTHER, os.O_CREAT | os.O_WRONLY)
        fs.flush(handle)
        assert (("write", B) in store.calls) is not is_write_once
        fs.write(handle, 0, b"new")
        close(fs, handle)
    assert stored(store, B) == b"new"


@pytest.mark.parametrize(
    ("is_new", "data"),
    [(True, b"lost"), (True, b""), (False, b"lost")],
    ids=["new", "empty", "old"],
)
def test_what_could_not_be_stored_is_kept_with_the_reason_and_its_place(
    fs: TreeFileSystem,
    store: GatedZMap,
    tmp_path: Path,
    expected_warnings: ExpectedWarnings,
    *,
    is_new: bool,
    data: bytes,
) -> None:
    """SEMANTICS O6, O9, O17, O18: who still reads the file has the stored bytes, if any."""
    expected_warnings.add("not stored")
    key, path = (B, OTHER) if is_new else (A, PATH)
    handle = open_file(fs, path, os.O_RDWR | os.O_CREAT)
    if data:
        fs.write(handle, 0, data)
    reading = open_file(fs, path, os.O_RDONLY)
    away = Unavailable("on purpose")
    with mock.patch.object(GatedZMap, "write", side_effect=away), pytest.raises(Unavailable):
        close(fs, handle)
    (kept,) = tmp_path.rglob("*.kept")
    entry = object_of(kept)
    replaces = ABSENT if is_new else store.stat(key).version
    assert (entry.key, entry.reason, entry.replaces) == (key, "on purpose", replaces)
    assert kept.read_bytes() == data
    if is_new:
        with pytest.raises(StaleHandle):
            fs.read(reading, 0, 4)
        assert not exists(fs, path)
    else:
        assert bytes(fs.read(reading, 0, 4)) == b"old"
        other = open_file(fs, path)
        fs.write(other, 0, b"new")
        close(fs, other)
        assert stored(store, key) == b"new"
    fs.release(reading)
    kept.unlink()


@pytest.mark.parametrize("state", ["opened to write", "removed"])
def test_the_end_of_a_file_that_only_this_mount_changes_takes_no_request(
    fs: TreeFileSystem, store: GatedZMap, state: str
) -> None:
    """SEMANTICS O7, O20: nobody follows what another client may append to it."""
    handle = open_file(fs, PATH)
    if state == "removed":
        unlink(fs, PATH)
    store.calls.clear()
    assert bytes(fs.read(handle, 3, 10)) == b""
    assert store.calls == []
    close(fs, handle)


def test_what_was_stored_and_closed_just_before_a_read_comes_from_the_store(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS O7: the reader had still seen the file as it was written."""
    handle = open_file(fs, PATH, os.O_RDONLY)
    seen = mock.PropertyMock(side_effect=[True, False, False])
    with mock.patch.object(LiveFile, "is_staged", seen):
        assert bytes(fs.read(handle, 0, 3)) == b"old"
    fs.release(handle)


def test_closing_a_file_that_is_stored_fetches_nothing_of_it(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O8: only the needed parts are fetched."""
    store.write(B, LARGE)
    handle = open_file(fs, OTHER)
    with mock.patch.object(ObjectStore, "read", side_effect=AssertionError("fetched")) as read:
        fs.write(handle, 0, b"new")
        close(fs, handle)
    read.assert_not_called()
    assert stored(store, B) == b"new" + LARGE[3:]


def test_a_file_that_is_open_when_the_mount_ends_is_kept(
    fs: TreeFileSystem, tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O17."""
    expected_warnings.add("not stored")
    handle = open_file(fs, PATH)
    fs.write(handle, 0, b"new")
    fs.close()
    (kept,) = tmp_path.rglob("*.kept")
    assert object_of(kept).reason == "the mount ended with it open"
    assert kept.read_bytes() == b"new"


def test_a_new_file_that_stays_empty_needs_no_room_on_the_disk(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O13."""
    with mock.patch.object(ObjectStore, "stage", side_effect=NoSpace("on purpose")):
        write(fs, OTHER, b"")
    assert stored(store, B) == b""


def test_a_written_file_keeps_its_time_under_a_new_name(fs: TreeFileSystem) -> None:
    """SEMANTICS O12, O24."""
    handle = open_file(fs, PATH)
    fs.write(handle, 0, b"new")
    fs.setattr(find(fs, PATH).ino, AttributeChanges(mtime_ns=7), handle)
    rename(fs, PATH, OTHER, replace=False)
    assert find(fs, OTHER).mtime_ns == 7
    close(fs, handle)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_file_whose_name_goes_while_it_is_read_is_read_on(
    fs: TreeFileSystem, is_replaced: bool
) -> None:
    """SEMANTICS O10: by another thread, between the look at the file and the request."""
    write(fs, OTHER, b"other")
    handle, inner, done = open_file(fs, PATH, os.O_RDONLY), ObjectStore.read, list[str]()

    def read(store: ObjectStore, stat: Stat, start: int, stop: int) -> Buffer:
        if not done:
            done.append(stat.key)
            if is_replaced:
                rename(fs, OTHER, PATH)
            else:
                unlink(fs, PATH)
        return inner(store, stat, start, stop)

    with mock.patch.object(ObjectStore, "read", read):
        assert bytes(fs.read(handle, 0, 10)) == b"old"
    assert done
    close(fs, handle)
