"""A refusal of a change, of which a rename of the node comes before its writer is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.refusedchanges import RefusedChanges
from nczfs.errors import AccessDenied
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import HandleNo
from nczfs.vfs.datasets import attributes
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.support.between import take_once
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, sync

ROOT = "datasets/d.zarr"


@pytest.fixture
def faulty() -> Faulty:
    memory = MemoryZMap()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w", format="zarr2") as root:
        root.create_group("g/h", {"units": "K"})
    return Faulty(memory)


@pytest.fixture
def fs(faulty: Faulty) -> Iterator[TreeFileSystem]:
    tree = tree_over(faulty, VfsOptions(read_only=False, allow_delete=True))
    yield tree
    tree.close()


@pytest.fixture
def handle(fs: TreeFileSystem) -> HandleNo:
    handle = open_file(fs, f"{ROOT}/g/h/attributes/units", os.O_WRONLY | os.O_TRUNC)
    fs.write(handle, 0, b"m\n")
    return handle


def refuse(faulty: Faulty) -> None:
    """Let the next write fail for good."""
    faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"})))


def rename(fs: TreeFileSystem) -> None:
    here = find(fs, ROOT).ino
    fs.rename(here, b"g", here, b"new", replace=False)


def test_a_writer_whose_node_is_renamed_before_it_is_told_is_told(
    fs: TreeFileSystem, faulty: Faulty, handle: HandleNo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W27, W32."""
    taken = take_once(monkeypatch, RefusedChanges, "report", lambda: rename(fs))
    refuse(faulty)
    with pytest.raises(AccessDenied):
        close(fs, handle)
    assert taken


def test_a_writer_whose_store_fails_before_its_node_is_renamed_is_told(
    fs: TreeFileSystem, faulty: Faulty, handle: HandleNo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W27, W32."""
    store, failed = Dataset.store, list[str]()

    def store_and_rename(dataset: Dataset, *asked: object) -> None:
        try:
            store(dataset, *asked)  # type: ignore[arg-type]
        except AccessDenied:
            failed.append("")
            monkeypatch.setattr(Dataset, "store", store)
            rename(fs)
            raise

    monkeypatch.setattr(Dataset, "store", store_and_rename)
    refuse(faulty)
    with pytest.raises(AccessDenied):
        close(fs, handle)
    assert failed


def test_a_writer_is_told_of_what_another_thread_was_refused_before_a_rename(
    fs: TreeFileSystem, faulty: Faulty, handle: HandleNo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W27, W32."""

    def store_and_rename() -> None:
        with suppress(AccessDenied):
            sync(fs, f"{ROOT}/g/h/attributes/")
        rename(fs)

    taken = take_once(monkeypatch, attributes, "change_as_seen", store_and_rename, after=True)
    refuse(faulty)
    with pytest.raises(AccessDenied):
        close(fs, handle)
    assert taken
