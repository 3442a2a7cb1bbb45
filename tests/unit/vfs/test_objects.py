"""Writing below ``objects/``, driven as the kernel would (docs/SEMANTICS.md)."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nczfs.errors import (
    AccessDenied,
    BadArgument,
    BadHandle,
    BadKey,
    CrossesTrees,
    DirectoryNotEmpty,
    IsADirectory,
    NameTooLong,
    NoSpace,
    NoSuchPath,
    NotADirectory,
    NotPermitted,
    PathExists,
    ReadOnlyMount,
    StaleHandle,
    Unavailable,
)
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import AttributeChanges, FileKind
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects.store import ObjectStore
from nczfs.vfs.staging import StagedFile
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import Stat, ZMap
from nczfs.zmap.keys import Key, parse_key, parse_prefix
from nczfs.zmap.registry import open_store
from tests.conftest import ExpectedWarnings
from tests.support.killed import object_of
from tests.support.trees import exists, find, listing, read, tree_over
from tests.support.writing import (
    close,
    mkdir,
    open_file,
    rename,
    rmdir,
    size,
    split,
    truncate,
    unlink,
    write,
)

_stores = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory://objects{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    store.write(parse_key("plain/notes.txt"), b"hello")
    return store


@pytest.fixture
def fs(store: ZMap, url: str, tmp_path: Path) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, None, VfsOptions(read_only=False, spool_dir=tmp_path / "spool"))
    yield tree
    tree.close()
    assert not [p for p in (tmp_path / "spool").rglob("*") if not p.is_dir()]


@pytest.fixture
def faulty(store: ZMap) -> Faulty:
    return Faulty(store)


@pytest.fixture
def faulty_fs(faulty: Faulty, url: str, tmp_path: Path) -> Iterator[TreeFileSystem]:
    options = VfsOptions(read_only=False, spool_dir=tmp_path / "spool")
    tree = tree_over(faulty, options, url)
    yield tree
    tree.close()


def stored(store: ZMap) -> dict[str, bytes]:
    return {s.key: bytes(store.read(s.key).data) for s in store.list(parse_prefix(""))}


NOTES = "objects/plain/notes.txt"
WRITES = frozenset({"write", "write_parts"})


def test_a_file_is_in_the_store_when_it_was_closed(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O6."""
    handle = open_file(fs, "objects/plain/new", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 3, b"abc")
    assert set(stored(store)) == {"plain/notes.txt"}
    fs.flush(handle)
    assert stored(store)["plain/new"] == b"\0\0\0abc"
    fs.release(handle)
    assert read(fs, "objects/plain/new") == b"\0\0\0abc"
    assert set(listing(fs, "objects/plain")) == {"notes.txt", "new"}


def test_fsync_stores_and_the_file_goes_on(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O6."""
    handle = open_file(fs, NOTES)
    fs.write(handle, 0, b"J")
    fs.fsync(handle, data_only=False)
    assert stored(store)["plain/notes.txt"] == b"Jello"
    fs.write(handle, 5, b"!")
    assert fs.read(handle, 0, 100) == b"Jello!"
    close(fs, handle)
    assert stored(store)["plain/notes.txt"] == b"Jello!"


def test_syncing_a_directory_stores_what_is_below(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O6."""
    handle = open_file(fs, "objects/plain/new", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, b"abc")
    directory = fs.opendir(find(fs, "objects/plain").ino)
    fs.fsyncdir(directory)
    assert stored(store)["plain/new"] == b"abc"
    fs.releasedir(directory)
    close(fs, handle)


def test_what_is_written_after_the_last_close_is_stored_at_release(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS O6."""
    handle = open_file(fs, NOTES)
    fs.flush(handle)
    fs.write(handle, 0, b"mmap!")
    fs.release(handle)
    assert stored(store)["plain/notes.txt"] == b"mmap!"


def test_a_shell_redirection_replaces_an_object_once(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O8."""
    handle = open_file(fs, NOTES, os.O_WRONLY | os.O_TRUNC)
    fs.flush(handle)
    assert stored(store)["plain/notes.txt"] == b"hello"
    assert size(fs, NOTES) == 0
    fs.write(handle, 0, b"new")
    fs.flush(handle)
    assert stored(store)["plain/notes.txt"] == b"new"
    fs.release(handle)


def test_a_file_only_truncated_is_stored_when_it_is_let_go(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O8."""
    close(fs, open_file(fs, NOTES, os.O_WRONLY | os.O_TRUNC))
    assert stored(store)["plain/notes.txt"] == b""


def test_what_another_writer_has_begun_is_not_stored_by_a_close_before_it(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS O6, O8: the kernel releases a file some time after it was closed."""
    first = open_file(fs, NOTES)
    fs.flush(first)
    second = open_file(fs, NOTES, os.O_WRONLY | os.O_TRUNC)
    third = open_file(fs, NOTES)
    fs.release(first)
    assert stored(store)["plain/notes.txt"] == b"hello"
    fs.write(second, 0, b"half")
    fs.release(third)
    assert stored(store)["plain/notes.txt"] == b"hello"
    fs.write(second, 4, b" and half")
    close(fs, second)
    assert stored(store)["plain/notes.txt"] == b"half and half"


def test_an_empty_file_is_an_empty_object(fs: TreeFileSystem, store: ZMap) -> None:
    handle = open_file(fs, "objects/empty", os.O_CREAT | os.O_WRONLY)
    fs.flush(handle)
    assert stored(store)["empty"] == b""
    fs.release(handle)


def test_setting_a_size_cuts_and_extends_with_zeros(fs: TreeFileSystem, store: ZMap) -> None:
    assert truncate(fs, NOTES, 2).size == 2
    assert stored(store)["plain/notes.txt"] == b"he"
    assert truncate(fs, NOTES, 4).size == 4
    assert stored(store)["plain/notes.txt"] == b"he\0\0"
    handle = open_file(fs, NOTES)
    assert fs.setattr(find(fs, NOTES).ino, AttributeChanges(size=1), handle).size == 1
    close(fs, handle)
    assert stored(store)["plain/notes.txt"] == b"h"


def test_all_handles_of_a_file_see_what_was_written(fs: TreeFileSystem) -> None:
    """SEMANTICS O7."""
    early = open_file(fs, NOTES, os.O_RDONLY)
    assert fs.read(early, 0, 10) == b"hello"
    writer = open_file(fs, NOTES)
    fs.write(writer, 5, b" you")
    late = open_file(fs, NOTES, os.O_RDONLY)
    for reader in (early, late, writer):
        assert fs.read_if_cached(reader, 0, 20) is None
        assert fs.read(reader, 0, 20) == b"hello you"
    assert size(fs, NOTES) == 9
    close(fs, writer)
    for reader in (early, late):
        assert fs.read(reader, 0, 20) == b"hello you"
        close(fs, reader)


def test_a_file_is_not_opened_while_the_kernel_believes_another_size(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS O21: the kernel appends, and reads, by the size that it was told last."""
    ino = find(fs, NOTES).ino
    store.write(parse_key("plain/notes.txt"), b"hello from elsewhere")
    for flags in (os.O_WRONLY | os.O_APPEND, os.O_RDONLY):
        with pytest.raises(StaleHandle, match="since it was looked up"):
            fs.open(ino, flags)
        assert find(fs, NOTES).size == 20
        fs.release(fs.open(ino, flags).handle)
        store.write(parse_key("plain/notes.txt"), b"hello")
        with pytest.raises(StaleHandle, match="since it was looked up"):
            fs.open(ino, flags)
        assert find(fs, NOTES).size == 5
        store.write(parse_key("plain/notes.txt"), b"hello from elsewhere")


def test_exclusive_creation_of_what_exists_is_refused(fs: TreeFileSystem) -> None:
    with pytest.raises(PathExists):
        fs.create(*split(fs, NOTES), os.O_WRONLY | os.O_EXCL, 0o644)
    handle = open_file(fs, "objects/plain/new", os.O_CREAT | os.O_WRONLY)
    with pytest.raises(PathExists):
        fs.create(*split(fs, "objects/plain/new"), os.O_WRONLY | os.O_EXCL, 0o644)
    close(fs, handle)


def test_who_loses_the_race_for_a_new_object_learns_it_at_close(
    fs: TreeFileSystem, store: ZMap, tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O9, O17."""
    expected_warnings.add(r"plain/new: (was not stored|not stored \()")
    handle = fs.create(*split(fs, "objects/plain/new"), os.O_WRONLY | os.O_EXCL, 0o644)[0].handle
    fs.write(handle, 0, b"ours")
    store.write(parse_key("plain/new"), b"theirs")
    for _ in range(2):
        with pytest.raises(StaleHandle, match="plain/new"):
            fs.flush(handle)
    fs.release(handle)
    assert read(fs, "objects/plain/new") == b"theirs"
    (kept,) = tmp_path.rglob("*.kept")
    assert kept.read_bytes().startswith(b"ours")
    assert object_of(kept).data.size == 4
    kept.unlink()


def test_what_another_client_replaced_meanwhile_is_not_overwritten(
    fs: TreeFileSystem, store: ZMap, tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O9, O17, O18."""
    expected_warnings.add(r"plain/notes.txt: (was not stored|not stored \()")
    handle = open_file(fs, NOTES, os.O_WRONLY | os.O_TRUNC)
    fs.write(handle, 0, b"ours")
    store.write(parse_key("plain/notes.txt"), b"theirs")
    with pytest.raises(StaleHandle):
        fs.fsync(handle, data_only=True)
    assert read(fs, NOTES) == b"ours"
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert read(fs, NOTES) == b"theirs"
    (kept,) = tmp_path.rglob("*.kept")
    assert kept.read_bytes().startswith(b"ours")
    assert object_of(kept).data.size == 4
    kept.unlink()


@pytest.mark.parametrize("name", [NOTES, "objects/plain/new"])
def test_who_reads_what_could_not_be_stored_is_never_told_other_bytes(
    fs: TreeFileSystem,
    store: ZMap,
    tmp_path: Path,
    expected_warnings: ExpectedWarnings,
    name: str,
) -> None:
    """SEMANTICS A2, O18."""
    expected_warnings.add("(was not stored|not stored \\()")
    writing = open_file(fs, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    fs.write(writing, 0, b"ours")
    store.write(parse_key(name.removeprefix("objects/")), b"theirs")
    reading = open_file(fs, name, os.O_RDONLY)
    with pytest.raises(StaleHandle):
        fs.flush(writing)
    assert bytes(fs.read(reading, 0, 100)) == b"ours"
    fs.release(writing)
    with pytest.raises(StaleHandle):
        fs.read(reading, 0, 100)
    fs.release(reading)
    assert read(fs, name) == b"theirs"
    (kept,) = tmp_path.rglob("*.kept")
    kept.unlink()


def test_what_a_store_refuses_stands_for_itself_in_the_spool(
    faulty_fs: TreeFileSystem,
    faulty: Faulty,
    tmp_path: Path,
    expected_warnings: ExpectedWarnings,
) -> None:
    """SEMANTICS O17, O18."""
    expected_warnings.add("(was not stored|not stored \\()")
    handle = open_file(faulty_fs, NOTES)
    faulty_fs.write(handle, 1, b"E")
    faulty.arm(Fault(0, AccessDenied, operations=WRITES, repeats=1000))
    with pytest.raises(AccessDenied):
        close(faulty_fs, handle)
    faulty.arm()
    assert read(faulty_fs, NOTES) == b"hello"
    (kept,) = tmp_path.rglob("*.kept")
    assert kept.read_bytes().startswith(b"hEllo")
    assert object_of(kept).missing == ()
    kept.unlink()


def test_a_new_file_is_made_longer_and_shorter(fs: TreeFileSystem, store: ZMap) -> None:
    new = "objects/plain/new"
    handle = open_file(fs, new, os.O_CREAT | os.O_WRONLY)
    truncate(fs, new, 100)
    assert find(fs, new).size == 100
    fs.write(handle, 0, b"abc")
    truncate(fs, new, 2)
    truncate(fs, new, 4)
    close(fs, handle)
    assert stored(store)["plain/new"] == b"ab\0\0"


def test_what_is_truncated_by_who_only_reads_is_truncated(fs: TreeFileSystem, store: ZMap) -> None:
    handle = open_file(fs, NOTES, os.O_RDONLY | os.O_TRUNC)
    assert fs.read(handle, 0, 10) == b""
    close(fs, handle)
    assert read(fs, NOTES) == b""
    assert stored(store)["plain/notes.txt"] == b""


@pytest.mark.parametrize("is_read", [False, True])
def test_a_truncation_that_the_store_refuses_leaves_nothing_behind(
    faulty_fs: TreeFileSystem, faulty: Faulty, tmp_path: Path, *, is_read: bool
) -> None:
    """SEMANTICS O19: also where another program has the file open for reading."""
    handle = open_file(faulty_fs, NOTES, os.O_RDONLY) if is_read else None
    faulty.arm(Fault(0, AccessDenied, operations=WRITES, repeats=1000))
    with pytest.raises(AccessDenied):
        truncate(faulty_fs, NOTES, 100)
    faulty.arm()
    assert read(faulty_fs, NOTES) == b"hello"
    if handle is not None:
        assert bytes(faulty_fs.read(handle, 0, 1000)) == b"hello"
        close(faulty_fs, handle)
    assert not list(tmp_path.rglob("*.kept"))


@pytest.mark.parametrize("data", [b"HE", b""])
def test_a_truncation_that_the_store_refuses_keeps_what_another_file_wrote(
    faulty_fs: TreeFileSystem, faulty: Faulty, store: ZMap, data: bytes
) -> None:
    """SEMANTICS O19: its close has yet to answer for it."""
    handle = open_file(faulty_fs, NOTES)
    if data:
        faulty_fs.write(handle, 0, data)
    faulty.arm(Fault(0, Unavailable, operations=WRITES, repeats=1000))
    with pytest.raises(Unavailable):
        truncate(faulty_fs, NOTES, 4)
    faulty.arm()
    close(faulty_fs, handle)
    assert stored(store)["plain/notes.txt"] == data + b"hell"[len(data) :]


def test_a_truncation_that_the_store_refuses_keeps_what_a_released_file_left(
    faulty_fs: TreeFileSystem, faulty: Faulty, store: ZMap
) -> None:
    """SEMANTICS O19: its close failed, and who has the file open now stores it."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(operation: str, key: str) -> None:
        if operation in WRITES:
            begun.set()
            assert go_on.wait(120)

    handle = open_file(faulty_fs, NOTES)
    faulty_fs.write(handle, 0, b"HE")
    faulty.arm(Fault(0, Unavailable, operations=WRITES, repeats=2))
    with pytest.raises(Unavailable):
        faulty_fs.flush(handle)
    faulty._before_call = hold
    with ThreadPoolExecutor(1) as pool:
        truncated = pool.submit(truncate, faulty_fs, NOTES, 4)
        assert begun.wait(120)
        faulty_fs.release(handle)
        go_on.set()
        with pytest.raises(Unavailable):
            truncated.result(120)
    assert stored(store)["plain/notes.txt"] == b"HEll"


def test_what_is_left_in_the_spool_is_told(
    fs: TreeFileSystem, store: ZMap, tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O17."""
    expected_warnings.add("(was not stored|not stored \\()")
    handle = open_file(fs, NOTES)
    fs.write(handle, 0, b"HELLO")
    store.write(parse_key("plain/notes.txt"), b"theirs")
    with pytest.raises(StaleHandle):
        close(fs, handle)
    status = json.loads(read(fs, ".nczfs/status.json"))
    assert (status["unsaved_files"], status["spooled"], status["spool_used_bytes"]) == (0, 1, 5)
    (kept,) = tmp_path.rglob("*.kept")
    kept.unlink()
    assert json.loads(read(fs, ".nczfs/status.json"))["spooled"] == 0


def test_an_open_file_that_is_removed_lives_until_it_is_closed(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS O10."""
    reader = open_file(fs, NOTES, os.O_RDONLY)
    writer = open_file(fs, "objects/plain/new", os.O_CREAT | os.O_RDWR)
    fs.write(writer, 0, b"abc")
    ino, notes = find(fs, "objects/plain/new").ino, find(fs, NOTES).ino
    assert fs.getattr(ino).nlink == fs.getattr(notes).nlink == 1
    unlink(fs, NOTES)
    unlink(fs, "objects/plain/new")
    assert stored(store) == {}
    assert listing(fs, "objects/plain") == {}
    fs.write(writer, 3, b"def")
    assert fs.getattr(ino).size == 6
    assert fs.getattr(ino).nlink == fs.getattr(notes).nlink == 0
    assert fs.read(writer, 0, 10) == b"abcdef"
    assert fs.read(reader, 0, 10) == b"hello"
    close(fs, writer)
    close(fs, reader)
    assert stored(store) == {}
    assert exists(fs, "objects/plain")


def test_a_name_removed_and_made_again_is_another_file(fs: TreeFileSystem, store: ZMap) -> None:
    old = open_file(fs, NOTES)
    ino = find(fs, NOTES).ino
    unlink(fs, NOTES)
    write(fs, NOTES, b"new")
    fs.write(old, 0, b"old")
    assert find(fs, NOTES).ino != ino
    close(fs, old)
    assert stored(store) == {"plain/notes.txt": b"new"}


def test_renaming_moves_bytes_and_replaces(fs: TreeFileSystem, store: ZMap) -> None:
    ino = find(fs, NOTES).ino
    rename(fs, NOTES, "objects/moved")
    assert stored(store) == {"moved": b"hello"}
    assert find(fs, "objects/moved").ino == ino
    assert not exists(fs, NOTES)
    write(fs, "objects/other", b"other")
    rename(fs, "objects/moved", "objects/other")
    assert stored(store) == {"other": b"hello"}
    rename(fs, "objects/other", "objects/other")
    assert read(fs, "objects/other") == b"hello"


def test_renaming_without_replacing_spares_what_is_there(fs: TreeFileSystem, store: ZMap) -> None:
    write(fs, "objects/other", b"other")
    with pytest.raises(PathExists):
        rename(fs, NOTES, "objects/other", replace=False)
    rename(fs, NOTES, "objects/free", replace=False)
    assert stored(store) == {"other": b"other", "free": b"hello"}


def test_a_large_object_is_renamed_through_the_spool(
    fs: TreeFileSystem, store: ZMap, tmp_path: Path
) -> None:
    data = os.urandom(9 << 20)
    store.write(parse_key("big"), data)
    rename(fs, "objects/big", "objects/plain/large")
    assert stored(store)["plain/large"] == data
    assert "big" not in stored(store)


def test_an_open_file_follows_its_name(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O24."""
    new = open_file(fs, "objects/new", os.O_CREAT | os.O_RDWR)
    fs.write(new, 0, b"new")
    rename(fs, "objects/new", "objects/new2")
    assert stored(store) == {"plain/notes.txt": b"hello", "new2": b"new"}
    fs.write(new, 3, b"er")
    changed = open_file(fs, NOTES)
    fs.write(changed, 0, b"J")
    rename(fs, NOTES, "objects/changed")
    assert stored(store) == {"changed": b"Jello", "new2": b"new"}
    fs.write(changed, 5, b"!")
    reader = open_file(fs, "objects/changed", os.O_RDONLY)
    close(fs, changed)
    rename(fs, "objects/changed", "objects/again")
    assert fs.read(reader, 0, 10) == b"Jello!"
    close(fs, reader)
    close(fs, new)
    assert stored(store) == {"again": b"Jello!", "new2": b"newer"}


def test_a_file_renamed_over_an_open_one_leaves_it_alone(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O10, O11."""
    old = open_file(fs, NOTES)
    fs.write(old, 0, b"J")
    new = open_file(fs, "objects/plain/tmp", os.O_CREAT | os.O_WRONLY)
    fs.write(new, 0, b"saved")
    rename(fs, "objects/plain/tmp", NOTES)
    assert read(fs, NOTES) == b"saved"
    assert fs.read(old, 0, 10) == b"Jello"
    close(fs, new)
    close(fs, old)
    assert stored(store) == {"plain/notes.txt": b"saved"}


def test_who_has_a_replaced_file_open_is_told_where_its_bytes_could_not_be_saved(
    faulty_fs: TreeFileSystem, faulty: Faulty, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O10."""
    expected_warnings.add("plain/notes.txt: cannot be kept for the programs that have it open: ")
    write(faulty_fs, "objects/plain/tmp", b"saved")
    old = open_file(faulty_fs, NOTES, os.O_RDONLY)
    faulty.arm(Fault(0, AccessDenied, operations=frozenset({"read"})))
    rename(faulty_fs, "objects/plain/tmp", NOTES)
    assert faulty.fired
    faulty.arm()
    with pytest.raises(StaleHandle):
        faulty_fs.read(old, 0, 10)
    assert read(faulty_fs, NOTES) == b"saved"
    close(faulty_fs, old)


@pytest.mark.parametrize(
    "change",
    [
        lambda fs: unlink(fs, NOTES),
        lambda fs: rename(fs, "objects/plain/tmp", NOTES),
    ],
    ids=["removed", "replaced"],
)
def test_a_file_that_is_closed_while_its_object_goes_leaves_nothing_behind(
    fs: TreeFileSystem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[TreeFileSystem], None],
) -> None:
    """The kernel lets go of a file some time after it was closed."""
    write(fs, "objects/plain/tmp", b"saved")
    handles = [open_file(fs, NOTES, os.O_RDONLY)]
    stage = ObjectStore.stage

    def close_first(store: ObjectStore, key: Key, base: Stat | None) -> StagedFile:
        for handle in handles:
            close(fs, handle)
        handles.clear()
        return stage(store, key, base)

    monkeypatch.setattr(ObjectStore, "stage", close_first)
    change(fs)
    assert handles == []
    assert json.loads(read(fs, ".nczfs/status.json"))["spool_used_bytes"] == 0
    assert [path.name for path in (tmp_path / "spool").rglob("*") if not path.is_dir()] == [
        "lock",
        "log.1",
    ]


def test_directories_are_made_emptied_and_removed(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O37."""
    attributes = mkdir(fs, "objects/d")
    assert attributes.kind is FileKind.DIRECTORY
    mkdir(fs, "objects/d/e")
    with pytest.raises(PathExists):
        mkdir(fs, "objects/d/e")
    with pytest.raises(DirectoryNotEmpty):
        rmdir(fs, "objects/d")
    assert set(listing(fs, "objects")) == {"plain", "d"}
    assert set(listing(fs, "objects/d")) == {"e"}
    write(fs, "objects/d/e/f", b"x")
    with pytest.raises(DirectoryNotEmpty):
        rmdir(fs, "objects/d/e")
    unlink(fs, "objects/d/e/f")
    rmdir(fs, "objects/d/e")
    rmdir(fs, "objects/d")
    with pytest.raises(DirectoryNotEmpty):
        rmdir(fs, "objects/plain")
    assert not exists(fs, "objects/d")
    assert set(stored(store)) == {"plain/notes.txt"}


def test_a_directory_holds_files_that_are_not_stored_yet(fs: TreeFileSystem) -> None:
    mkdir(fs, "objects/d")
    handle = open_file(fs, "objects/d/f", os.O_CREAT | os.O_WRONLY)
    assert set(listing(fs, "objects/d")) == {"f"}
    with pytest.raises(DirectoryNotEmpty):
        rmdir(fs, "objects/d")
    close(fs, handle)


def test_a_directory_is_renamed_with_all_below(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O11."""
    store.write(parse_key("plain/deep/er"), b"er")
    mkdir(fs, "objects/plain/empty")
    new = open_file(fs, "objects/plain/deep/new", os.O_CREAT | os.O_RDWR)
    fs.write(new, 0, b"new")
    reader = open_file(fs, NOTES, os.O_RDONLY)
    ino = find(fs, "objects/plain/deep/er").ino
    rename(fs, "objects/plain", "objects/moved")
    assert not exists(fs, "objects/plain")
    names = {"moved/notes.txt": b"hello", "moved/deep/er": b"er", "moved/deep/new": b"new"}
    assert stored(store) == names
    assert set(listing(fs, "objects/moved")) == {"notes.txt", "deep", "empty"}
    assert find(fs, "objects/moved/deep/er").ino == ino
    assert fs.read(reader, 0, 10) == b"hello"
    close(fs, reader)
    close(fs, new)
    assert stored(store)["moved/deep/new"] == b"new"


def test_a_directory_replaces_an_empty_one_only(fs: TreeFileSystem, store: ZMap) -> None:
    mkdir(fs, "objects/empty")
    write(fs, "objects/full/f", b"") if exists(fs, "objects/full") else mkdir(fs, "objects/full")
    write(fs, "objects/full/f", b"f")
    with pytest.raises(DirectoryNotEmpty):
        rename(fs, "objects/plain", "objects/full")
    with pytest.raises(NotADirectory):
        rename(fs, "objects/plain", "objects/full/f")
    with pytest.raises(IsADirectory):
        rename(fs, NOTES, "objects/full")
    with pytest.raises(BadArgument):
        rename(fs, "objects/plain", "objects/plain/below")
    rename(fs, "objects/plain", "objects/empty")
    assert stored(store) == {"empty/notes.txt": b"hello", "full/f": b"f"}


def test_what_is_not_there_or_of_the_other_kind_is_told_apart(fs: TreeFileSystem) -> None:
    with pytest.raises(NoSuchPath):
        unlink(fs, "objects/plain/absent")
    with pytest.raises(NoSuchPath):
        rmdir(fs, "objects/absent")
    with pytest.raises(NotADirectory):
        rmdir(fs, NOTES)
    mkdir(fs, "objects/d")
    with pytest.raises(IsADirectory):
        unlink(fs, "objects/d")
    with pytest.raises(NoSuchPath):
        rename(fs, "objects/absent", "objects/b")


@pytest.mark.parametrize("name", [b".nczfs-tmp-1", b"x" * 256, b"nul\0"])
def test_names_that_cannot_be_keys_are_refused(fs: TreeFileSystem, name: bytes) -> None:
    """SEMANTICS L3."""
    parent = find(fs, "objects/plain").ino
    with pytest.raises((BadKey, NameTooLong)):
        fs.create(parent, name, os.O_WRONLY, 0o644)
    with pytest.raises((BadKey, NameTooLong)):
        fs.mkdir(parent, name, 0o755)
    with pytest.raises((BadKey, NameTooLong)):
        fs.rename(parent, b"notes.txt", parent, name, replace=True)


def test_trees_cannot_be_mixed(fs: TreeFileSystem) -> None:
    """SEMANTICS O29."""
    with pytest.raises(CrossesTrees):
        rename(fs, NOTES, "datasets/plain/notes.txt")
    with pytest.raises((NotPermitted, CrossesTrees)):
        rename(fs, "objects", "elsewhere")
    with pytest.raises(NotPermitted):
        mkdir(fs, "elsewhere")


def test_modes_owners_and_times_are_kept_and_move_with_the_name(fs: TreeFileSystem) -> None:
    """SEMANTICS O12."""
    ino = find(fs, NOTES).ino
    assert find(fs, NOTES).mode == 0o644
    fs.setattr(ino, AttributeChanges(mode=0o755, uid=7, gid=8, mtime_ns=123_456_789), None)
    rename(fs, NOTES, "objects/moved")
    found = find(fs, "objects/moved")
    assert (found.mode, found.uid, found.gid, found.mtime_ns) == (0o755, 7, 8, 123_456_789)
    write(fs, "objects/moved", b"new")
    found = find(fs, "objects/moved")
    assert found.mode == 0o755
    assert found.mtime_ns > 123_456_789
    directory = find(fs, "objects/plain").ino
    assert fs.setattr(directory, AttributeChanges(mode=0o700, mtime_ns=5), None).mtime_ns == 5
    assert find(fs, "objects/plain").mode == 0o700


def test_the_mode_given_at_creation_is_shown(fs: TreeFileSystem) -> None:
    """SEMANTICS O12."""
    close(fs, open_file(fs, "objects/script", os.O_CREAT | os.O_WRONLY, 0o750))
    assert find(fs, "objects/script").mode == 0o750


def test_a_time_set_while_writing_stays_and_closing_changes_none(fs: TreeFileSystem) -> None:
    """SEMANTICS O33."""
    handle = open_file(fs, NOTES)
    fs.write(handle, 0, b"J")
    written = find(fs, NOTES)
    fs.flush(handle)
    assert find(fs, NOTES).mtime_ns == written.mtime_ns
    fs.write(handle, 0, b"H")
    fs.setattr(written.ino, AttributeChanges(mtime_ns=99), handle)
    close(fs, handle)
    assert find(fs, NOTES).mtime_ns == 99


def test_a_change_has_a_later_time_than_the_one_before_whatever_the_clock_says(
    fs: TreeFileSystem,
) -> None:
    """SEMANTICS O33. Programs that compare times, as make does, see each change."""
    handle = open_file(fs, NOTES)
    fs.write(handle, 0, b"J")
    ahead = time.time_ns() + 10**12
    fs.setattr(find(fs, NOTES).ino, AttributeChanges(mtime_ns=ahead), handle)
    fs.write(handle, 0, b"H")
    assert find(fs, NOTES).mtime_ns > ahead
    close(fs, handle)


def test_what_another_client_stores_has_its_own_time(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS O33."""
    fs.setattr(find(fs, NOTES).ino, AttributeChanges(mtime_ns=99), None)
    store.write(parse_key("plain/notes.txt"), b"newer")
    assert find(fs, NOTES).mtime_ns > 99


def test_a_time_of_zero_is_one_like_all_others(fs: TreeFileSystem) -> None:
    """SEMANTICS O33."""
    ino = find(fs, NOTES).ino
    for time_ns in (0, -1, 5):
        assert fs.setattr(ino, AttributeChanges(mtime_ns=time_ns), None).mtime_ns == time_ns
        assert find(fs, NOTES).mtime_ns == time_ns
    handle = open_file(fs, NOTES)
    fs.write(handle, 0, b"J")
    assert fs.setattr(ino, AttributeChanges(mtime_ns=0), handle).mtime_ns == 0
    close(fs, handle)
    assert find(fs, NOTES).mtime_ns == 0
    rename(fs, NOTES, "objects/moved")
    assert find(fs, "objects/moved").mtime_ns == 0


def test_a_time_of_zero_that_the_store_tells_is_shown(tmp_path: Path) -> None:
    """SEMANTICS O33."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store/old").write_bytes(b"old")
    os.utime(tmp_path / "store/old", ns=(0, 0))
    fs = mount_tree(str(tmp_path / "store"), None, VfsOptions(spool_dir=tmp_path / "spool"))
    assert find(fs, "objects/old").mtime_ns == listing(fs, "objects")["old"].mtime_ns == 0
    fs.close()


def test_the_time_of_the_last_access_is_what_it_was_set_to(fs: TreeFileSystem) -> None:
    """SEMANTICS O34."""
    assert find(fs, NOTES).atime_ns is None
    ino = find(fs, NOTES).ino
    before = find(fs, NOTES).mtime_ns
    found = fs.setattr(ino, AttributeChanges(atime_ns=0), None)
    assert (found.atime_ns, found.mtime_ns) == (0, before)
    handle = open_file(fs, NOTES)
    fs.write(handle, 0, b"J")
    fs.setattr(ino, AttributeChanges(atime_ns=7, mtime_ns=8), handle)
    close(fs, handle)
    rename(fs, "objects/plain", "objects/moved")
    found = find(fs, "objects/moved/notes.txt")
    assert (found.atime_ns, found.mtime_ns) == (7, 8)
    directory = find(fs, "objects/moved").ino
    assert fs.setattr(directory, AttributeChanges(atime_ns=9), None).atime_ns == 9


def test_a_new_directory_has_the_time_of_its_making(fs: TreeFileSystem) -> None:
    """SEMANTICS O35."""
    before = time.time_ns()
    assert mkdir(fs, "objects/d").mtime_ns >= before
    made = find(fs, "objects/d").mtime_ns
    assert find(fs, "objects").mtime_ns >= made
    write(fs, "objects/d/file", b"1")
    assert find(fs, "objects/d").mtime_ns > made


def test_a_full_spool_is_told_to_who_writes(store: ZMap, url: str, tmp_path: Path) -> None:
    """SEMANTICS O13."""
    options = VfsOptions(read_only=False, spool_dir=tmp_path, spool_bytes_max=100)
    fs = mount_tree(url, None, options)
    handle = open_file(fs, NOTES)
    with pytest.raises(NoSpace):
        fs.write(handle, 0, b"x" * 101)
    fs.write(handle, 0, b"x" * 90)
    close(fs, handle)
    assert stored(store)["plain/notes.txt"] == b"x" * 90
    assert read(fs, ".nczfs/status.json")
    fs.close()


def test_a_handle_for_reading_takes_no_writes(fs: TreeFileSystem) -> None:
    handle = open_file(fs, NOTES, os.O_RDONLY)
    with pytest.raises(BadHandle):
        fs.write(handle, 0, b"x")
    close(fs, handle)


def test_closing_the_file_system_stores_what_is_open(store: ZMap, url: str, tmp_path: Path) -> None:
    """SEMANTICS O6."""
    fs = mount_tree(url, None, VfsOptions(read_only=False, spool_dir=tmp_path))
    handle = open_file(fs, "objects/new", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, b"abc")
    fs.sync()
    fs.close()
    assert stored(store)["new"] == b"abc"


def test_a_read_only_mount_refuses_everything(store: ZMap, url: str) -> None:
    """SEMANTICS L1."""
    fs = mount_tree(url, None, VfsOptions(read_only=True))
    ino = find(fs, NOTES).ino
    assert find(fs, NOTES).mode == 0o444
    for attempt in (
        lambda: write(fs, NOTES, b""),
        lambda: truncate(fs, NOTES, 0),
        lambda: unlink(fs, NOTES),
        lambda: mkdir(fs, "objects/d"),
        lambda: rmdir(fs, "objects/plain"),
        lambda: rename(fs, NOTES, "objects/b"),
        lambda: fs.setattr(ino, AttributeChanges(mode=0o777), None),
        lambda: write(fs, "objects/new", b"x"),
    ):
        with pytest.raises(ReadOnlyMount):
            attempt()
    assert stored(store) == {"plain/notes.txt": b"hello"}
    fs.close()


def test_a_write_to_the_control_file_has_everything_stored(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS N5."""
    handle = open_file(fs, "objects/new", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, b"abc")
    assert json.loads(read(fs, ".nczfs/status.json"))["unsaved_files"] == 1
    lever = open_file(fs, ".nczfs/flush", os.O_WRONLY)
    fs.write(lever, 0, b"\n")
    assert stored(store)["new"] == b"abc"
    assert json.loads(read(fs, ".nczfs/status.json"))["unsaved_files"] == 0
    close(fs, lever)
    close(fs, handle)
