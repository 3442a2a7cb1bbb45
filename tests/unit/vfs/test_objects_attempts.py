"""Objects that arrived in the store although nobody said so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from nczfs.errors import StaleHandle, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.writing import close, open_file, rename, unlink

KEY, PATH = Key("file"), "objects/file"
DOWN = Fault(0, operations=frozenset({"write"}))
LOST = Fault(0, after=True, operations=frozenset({"write"}))


@pytest.fixture
def store() -> Faulty:
    return Faulty(MemoryZMap("memory://attempts"))


@pytest.fixture
def fs(store: Faulty, tmp_path: Path) -> Iterator[TreeFileSystem]:
    with mock.patch("nczfs.vfs.tree.open_store", return_value=store):
        options = VfsOptions(read_only=False, spool_dir=tmp_path)
        tree = mount_tree("memory://attempts", options=options)
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
