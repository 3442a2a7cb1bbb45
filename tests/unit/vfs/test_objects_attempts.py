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
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.writing import close, open_file

KEY, PATH = Key("file"), "objects/file"
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
