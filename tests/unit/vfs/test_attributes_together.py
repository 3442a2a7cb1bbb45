"""Changes of one attribute that come between two steps of each other."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

import nczfs
from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.edits import Edits
from nczfs.engine.metadata.refusedchanges import RefusedChanges
from nczfs.errors import AccessDenied, NczfsError, NoSuchPath, PathExists, StaleHandle
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.registry import open_store
from tests.support.between import take_once
from tests.support.copies import new_url
from tests.support.gated import WAIT_S
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file

ATTRIBUTES = "datasets/d.zarr/v/attributes"
ASIDE_S = 0.5


@pytest.fixture(params=["nczarr-L3", "zarr2", "zarr3"])
def url(request: pytest.FixtureRequest) -> str:
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w", format=request.param) as root:
        root.create_dimension("x", 1)
        root.create_variable("v", ("x",), "<i4", attributes={"units": "K"})
    return url


@pytest.fixture
def fs(url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False, allow_delete=True))
    yield tree
    tree.close()


def put(fs: TreeFileSystem, name: str, text: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    handle = open_file(fs, f"{ATTRIBUTES}/{name}", flags)
    fs.write(handle, 0, text)
    close(fs, handle)


def remove(fs: TreeFileSystem, name: bytes) -> None:
    fs.unlink(find(fs, ATTRIBUTES).ino, name)


def rename(fs: TreeFileSystem, old: bytes, new: bytes, *, replace: bool = True) -> None:
    here = find(fs, ATTRIBUTES).ino
    fs.rename(here, old, here, new, replace=replace)


def stored(fs: TreeFileSystem, url: str) -> dict[str, object]:
    fs.sync()
    with nczfs.open(f"{url}/d.zarr") as root:
        return dict(root.variables["v"].attrs)


@pytest.mark.parametrize("is_over", [False, True])
def test_what_is_written_to_an_attribute_during_its_rename_has_the_new_name(
    fs: TreeFileSystem, url: str, monkeypatch: pytest.MonkeyPatch, is_over: bool
) -> None:
    """SEMANTICS W10."""
    if is_over:
        put(fs, "unit", b"old\n")
    taken = take_once(monkeypatch, Edits, "check", lambda: put(fs, "units", b"m\n"))
    rename(fs, b"units", b"unit")
    assert taken
    assert stored(fs, url) == {"unit": "m"}


def test_an_attribute_that_is_removed_during_its_rename_has_no_new_name(
    fs: TreeFileSystem, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W15."""
    taken = take_once(monkeypatch, Edits, "check", lambda: remove(fs, b"units"))
    with pytest.raises(NoSuchPath):
        rename(fs, b"units", b"unit")
    assert taken
    assert stored(fs, url) == {}


def test_an_attribute_that_is_made_during_a_rename_is_not_replaced_unless_that_is_wanted(
    fs: TreeFileSystem, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W10."""
    taken = take_once(monkeypatch, Edits, "check", lambda: put(fs, "unit", b"m\n"))
    with pytest.raises(PathExists):
        rename(fs, b"units", b"unit", replace=False)
    assert taken
    assert stored(fs, url) == {"units": "K", "unit": "m"}


def test_a_write_does_not_bring_back_an_attribute_that_is_removed_meanwhile(
    fs: TreeFileSystem, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W15."""
    handle = open_file(fs, f"{ATTRIBUTES}/units", os.O_WRONLY | os.O_TRUNC)
    fs.write(handle, 0, b"m\n")
    taken = take_once(monkeypatch, Edits, "check", lambda: remove(fs, b"units"))
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert taken
    assert stored(fs, url) == {}


def test_a_write_does_not_bring_back_an_attribute_that_is_renamed_meanwhile(
    fs: TreeFileSystem, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W10."""
    handle = open_file(fs, f"{ATTRIBUTES}/units", os.O_WRONLY | os.O_TRUNC)
    fs.write(handle, 0, b"m\n")
    taken = take_once(monkeypatch, Edits, "check", lambda: rename(fs, b"units", b"unit"))
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert taken
    assert stored(fs, url) == {"unit": "K"}


def test_an_attribute_that_is_there_until_its_refusal_is_noted_is_not_taken_for_stored(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W27: the same text, written again at that moment."""
    faulty = Faulty(open_store(url))
    fs = tree_over(faulty, VfsOptions(read_only=False, allow_delete=True))
    here, is_about_to_store = threading.get_ident(), threading.Event()
    found: list[Future[None]] = []
    note, store = RefusedChanges.note, Dataset.store

    def note_and_write(refusals: RefusedChanges, path: str, error: NczfsError) -> None:
        note(refusals, path, error)
        if not found:
            found.append(pool.submit(put, fs, "units", b"m\n"))
            is_about_to_store.wait(ASIDE_S)

    def store_or_tell(dataset: Dataset, *given: Any) -> None:
        if threading.get_ident() != here:
            is_about_to_store.set()
        store(dataset, *given)

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(RefusedChanges, "note", note_and_write)
        monkeypatch.setattr(Dataset, "store", store_or_tell)
        faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"})))
        with pytest.raises(AccessDenied):
            put(fs, "units", b"m\n")
        is_refused = found[0].exception(WAIT_S) is not None
    fs.close()
    with nczfs.open(f"{url}/d.zarr") as root:
        assert is_refused or root.variables["v"].attrs == {"units": "m"}
