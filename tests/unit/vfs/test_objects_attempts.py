"""Objects that arrived in the store although nobody said so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from nczfs.engine.spool.space import Survives
from nczfs.errors import NoSpace, StaleHandle, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.staging import StagedFile
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import Blob
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.killed import copied, left_by, recovered
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, rename, unlink

KEY, PATH = Key("file"), "objects/file"
WRITES = frozenset({"write", "write_parts"})
DOWN = Fault(0, operations=WRITES)
LOST = Fault(0, after=True, operations=WRITES)
LARGE = bytes(range(256)) * 4096  # no handle fetches so much to change a byte


@pytest.fixture
def store() -> Faulty:
    return Faulty(MemoryZMap("memory://attempts"))


@pytest.fixture
def fs(store: Faulty, tmp_path: Path) -> Iterator[TreeFileSystem]:
    options = VfsOptions(read_only=False, spool_dir=tmp_path)
    tree = tree_over(store, options, "memory://attempts")
    yield tree
    tree.close()


@pytest.mark.parametrize("is_new", [True, False])
def test_an_object_whose_answer_was_lost_is_replaced_by_what_was_written_since(
    fs: TreeFileSystem, store: Faulty, *, is_new: bool
) -> None:
    """SEMANTICS O6."""
    if not is_new:
        store.write(KEY, b"old")
    handle = open_file(fs, PATH, os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"first")
    store.arm(LOST)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    assert bytes(store.read(KEY).data) == b"first"
    fs.write(handle, 0, b"S")
    fs.fsync(handle, data_only=False)
    assert bytes(store.read(KEY).data) == b"Sirst"
    close(fs, handle)


def test_any_of_several_attempts_may_have_arrived(fs: TreeFileSystem, store: Faulty) -> None:
    """SEMANTICS O9."""
    handle = open_file(fs, PATH, os.O_RDWR | os.O_CREAT)
    for content, fault in ((b"first", LOST), (b"second", DOWN)):
        fs.write(handle, 0, content)
        store.arm(fault)
        with pytest.raises(Unavailable):
            fs.fsync(handle, data_only=False)
    store.arm()
    assert bytes(store.read(KEY).data) == b"first"
    close(fs, handle)
    assert bytes(store.read(KEY).data) == b"second"


def cut(fs: TreeFileSystem, handle: HandleNo, size: int) -> None:
    """As ftruncate(2)."""
    fs.setattr(find(fs, PATH).ino, AttributeChanges(size=size), handle)


def half_stored(fs: TreeFileSystem, store: Faulty, key: Key = KEY) -> HandleNo:
    """A large file of which a byte was changed, and stored by an upload whose answer was lost."""
    store.write(key, LARGE)
    handle = open_file(fs, f"objects/{key}", os.O_RDWR)
    fs.write(handle, 0, b"1")
    store.arm(LOST)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    store.arm()
    assert bytes(store.read(key).data) == b"1" + LARGE[1:]
    return handle


def test_a_part_whose_answer_was_lost_is_ours_when_the_next_is_stored(
    fs: TreeFileSystem, store: Faulty
) -> None:
    """SEMANTICS O6, O9."""
    handle = half_stored(fs, store)
    fs.write(handle, 1, b"2")
    fs.fsync(handle, data_only=False)
    assert bytes(store.read(KEY).data) == b"12" + LARGE[2:]
    close(fs, handle)


def test_the_rest_of_a_file_can_be_read_after_the_answer_of_a_part_was_lost(
    fs: TreeFileSystem, store: Faulty
) -> None:
    """SEMANTICS A2."""
    handle = half_stored(fs, store)
    middle = len(LARGE) // 2
    assert bytes(fs.read(handle, middle, 300)) == LARGE[middle : middle + 300]
    close(fs, handle)
    assert bytes(store.read(KEY).data) == b"1" + LARGE[1:]


@pytest.mark.parametrize("is_logged", [False, True])
def test_a_file_that_only_became_shorter_goes_on_after_the_answer_was_lost(
    store: Faulty, tmp_path: Path, *, is_logged: bool
) -> None:
    """SEMANTICS O6, O9: nothing of what is sent came from here."""
    survives = Survives.KILL if is_logged else Survives.NOTHING
    options = VfsOptions(read_only=False, spool_dir=tmp_path, survives=survives)
    fs = tree_over(store, options, "memory://attempts")
    store.write(KEY, LARGE)
    handle = open_file(fs, PATH, os.O_RDWR)
    cut(fs, handle, len(LARGE) - 5)
    store.arm(LOST)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    assert bytes(store.read(KEY).data) == LARGE[:-5]
    cut(fs, handle, len(LARGE) - 10)
    close(fs, handle)
    assert bytes(store.read(KEY).data) == LARGE[:-10]
    fs.close()


def test_a_shorter_file_is_not_put_over_another_one_of_its_size(
    fs: TreeFileSystem, store: Faulty, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O9."""
    expected_warnings.add("file: ")
    store.write(KEY, LARGE)
    handle = open_file(fs, PATH, os.O_RDWR)
    cut(fs, handle, len(LARGE) - 5)
    store.arm(DOWN)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    store.write(KEY, LARGE[5:])
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert bytes(store.read(KEY).data) == LARGE[5:]


@pytest.mark.parametrize("change", ["file", "directory", "unlink"])
def test_a_name_is_changed_after_the_answer_of_a_part_was_lost(
    fs: TreeFileSystem, store: Faulty, change: str
) -> None:
    """SEMANTICS O10, O11."""
    handle = half_stored(fs, store, Key("d/file"))
    reader = open_file(fs, "objects/d/file", os.O_RDONLY)
    if change == "file":
        rename(fs, "objects/d/file", "objects/other")
    elif change == "directory":
        rename(fs, "objects/d", "objects/e")
    else:
        unlink(fs, "objects/d/file")
    assert bytes(fs.read(reader, 0, 300)) == b"1" + LARGE[1:300]
    middle = len(LARGE) // 2
    assert bytes(fs.read(reader, middle, 300)) == LARGE[middle : middle + 300]
    close(fs, handle)
    fs.release(reader)
    wanted = {"file": "other", "directory": "e/file", "unlink": None}[change]
    found = {stat.key: bytes(store.read(stat.key).data) for stat in store.list(ROOT)}
    assert found == ({} if wanted is None else {wanted: b"1" + LARGE[1:]})


def test_a_part_is_not_put_over_what_another_client_stored_after_the_answer_was_lost(
    fs: TreeFileSystem, store: Faulty, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O9."""
    expected_warnings.add("file: ")
    handle = half_stored(fs, store)
    store.write(KEY, b"them" + LARGE[4:])
    fs.write(handle, 1, b"2")
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert bytes(store.read(KEY).data) == b"them" + LARGE[4:]


@pytest.mark.parametrize("change", ["unlink", "rename"])
def test_an_object_whose_answer_was_lost_goes_with_its_name(
    fs: TreeFileSystem, store: Faulty, change: str
) -> None:
    """SEMANTICS O10, O11."""
    handle = open_file(fs, PATH, os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"first")
    store.arm(LOST)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    if change == "unlink":
        unlink(fs, PATH)
    else:
        rename(fs, PATH, "objects/other")
    close(fs, handle)
    wanted = {} if change == "unlink" else {"other": b"first"}
    assert {stat.key: bytes(store.read(stat.key).data) for stat in store.list(ROOT)} == wanted


def test_what_another_client_stored_meanwhile_stays(
    fs: TreeFileSystem, store: Faulty, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O9."""
    expected_warnings.add("file: ")
    handle = open_file(fs, PATH, os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"ours")
    store.arm(LOST)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    store.write(KEY, b"them")
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert bytes(store.read(KEY).data) == b"them"


def test_what_another_client_stores_once_ours_was_found_stays(
    fs: TreeFileSystem,
    store: Faulty,
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
) -> None:
    """SEMANTICS O9: just before the mount replaces its own object."""
    expected_warnings.add("file: ")
    handle = open_file(fs, PATH, os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"first")
    store.arm(LOST)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    fs.write(handle, 0, b"S")
    read = MemoryZMap.read

    def found(zmap: MemoryZMap, *place: Any, **version: Any) -> Blob:
        ours = read(zmap, *place, **version)
        zmap.write(KEY, b"theirs")
        return ours

    with monkeypatch.context() as patched:
        patched.setattr(MemoryZMap, "read", found)
        with pytest.raises(StaleHandle):
            fs.fsync(handle, data_only=False)
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert bytes(store.read(KEY).data) == b"theirs"


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "stored"])
@pytest.mark.parametrize("source", ["stored", "written"])
def test_a_file_goes_on_over_a_rename_onto_it_whose_answer_was_lost(
    fs: TreeFileSystem, store: Faulty, source: str, *, is_written: bool
) -> None:
    """SEMANTICS O9, O28: `mv b a` fails, and a is open and written."""
    store.write(KEY, b"a, as it was")
    store.write(Key("b"), b"b, as it was")
    handle = open_file(fs, PATH, os.O_RDWR)
    if is_written:
        fs.write(handle, 0, b"A")
    other = open_file(fs, "objects/b", os.O_RDWR)
    if source == "written":
        fs.write(other, 0, b"B")
    store.arm(Fault(0, after=True, operations=WRITES | {"copy"}))
    with pytest.raises(Unavailable):
        rename(fs, "objects/b", PATH)
    store.arm()
    assert bytes(store.read(KEY).data)[1:] == b", as it was"
    assert bytes(fs.read(handle, 0, 20)) == (b"A" if is_written else b"a") + b", as it was"
    fs.write(handle, 1, b":")
    close(fs, handle)
    assert bytes(store.read(KEY).data) == (b"A" if is_written else b"a") + b": as it was"
    close(fs, other)
    assert bytes(store.read(Key("b")).data) == (b"B" if source == "written" else b"b") + (
        b", as it was"
    )


def test_a_rename_whose_answer_was_lost_is_made_again(fs: TreeFileSystem, store: Faulty) -> None:
    """SEMANTICS O10, O11."""
    store.write(KEY, b"a")
    store.write(Key("b"), b"b")
    handle = open_file(fs, PATH, os.O_RDWR)
    store.arm(Fault(0, after=True, operations=WRITES | {"copy"}))
    with pytest.raises(Unavailable):
        rename(fs, "objects/b", PATH)
    store.arm()
    rename(fs, "objects/b", PATH)
    fs.write(handle, 0, b"discarded")
    close(fs, handle)
    assert {stat.key: bytes(store.read(stat.key).data) for stat in store.list(ROOT)} == {KEY: b"b"}


def test_a_file_is_not_put_over_what_is_no_copy_of_the_renamed_one(
    fs: TreeFileSystem, store: Faulty, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O9."""
    expected_warnings.add("file: ")
    store.write(KEY, b"a")
    store.write(Key("b"), b"b")
    handle = open_file(fs, PATH, os.O_RDWR)
    store.arm(Fault(0, operations=WRITES | {"copy"}))
    with pytest.raises(Unavailable):
        rename(fs, "objects/b", PATH)
    store.write(KEY, b"t")
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert bytes(store.read(KEY).data) == b"t"


def test_a_file_of_which_a_part_is_not_here_is_not_mixed_with_what_was_renamed_onto_it(
    fs: TreeFileSystem,
    store: Faulty,
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
) -> None:
    """SEMANTICS O2, O10, O28: there was no room for the rest of the file."""
    expected_warnings.add("file: ")
    store.write(KEY, b"a, as it was")
    store.write(Key("b"), b"b, as it was")
    handle, other = open_file(fs, PATH, os.O_RDWR), open_file(fs, PATH, os.O_RDONLY)
    fs.write(handle, 1, b"; as it was")
    fs.fsync(handle, data_only=False)
    store.arm(Fault(0, after=True, operations=frozenset({"copy"})))
    with monkeypatch.context() as patched:
        patched.setattr(StagedFile, "take", mock.Mock(side_effect=NoSpace("on purpose")))
        with pytest.raises(Unavailable):
            rename(fs, "objects/b", PATH)
    fs.write(handle, 1, b":")
    with pytest.raises(StaleHandle):
        close(fs, handle)
    fs.release(other)
    assert bytes(store.read(KEY).data) == b"b, as it was"


def test_a_rename_onto_an_open_file_tells_its_own_failure_where_the_store_is_away(
    fs: TreeFileSystem, store: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS O28: what is there instead of the file cannot be asked."""
    store.write(KEY, b"a")
    store.write(Key("b"), b"b")
    handle = open_file(fs, PATH, os.O_RDWR)
    with monkeypatch.context() as patched:

        def copy(*_: object, **__: object) -> None:
            patched.setattr(MemoryZMap, "stat", mock.Mock(side_effect=Unavailable("the look")))
            raise Unavailable("the copy")

        patched.setattr(MemoryZMap, "copy", copy)
        with pytest.raises(Unavailable, match="the copy"):
            rename(fs, "objects/b", PATH)
    fs.write(handle, 1, b":")
    close(fs, handle)
    assert bytes(store.read(KEY).data) == b"a:"


def test_a_file_that_was_written_is_put_back_over_a_rename_whose_answer_was_lost(
    tmp_path: Path,
) -> None:
    """SEMANTICS O28, W21: by `nczfs recover`, after a kill."""
    spool_dir, memory = tmp_path / "spool", MemoryZMap()
    options = VfsOptions(read_only=False, spool_dir=spool_dir, survives=Survives.KILL)
    store = Faulty(memory)
    fs = tree_over(store, options, "memory://attempts")
    store.write(KEY, b"a")
    store.write(Key("b"), b"b")
    handle = open_file(fs, PATH, os.O_RDWR)
    fs.write(handle, 1, b":")
    store.arm(Fault(0, after=True, operations=frozenset({"copy"})))
    with pytest.raises(Unavailable):
        rename(fs, "objects/b", PATH)
    assert bytes(store.read(KEY).data) == b"b"
    left, copy = left_by(spool_dir, tmp_path / "killed"), copied(memory)
    recovered(left, copy)
    assert bytes(copy.read(KEY).data) == b"a:"
    close(fs, handle)
    fs.close()
