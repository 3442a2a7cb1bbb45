"""Removing the attributes of dependent arrays, and those that declare them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import nczfs
from nczfs.vfs.datasets import removing
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.dependents import write_dependents_sample
from tests.support.trees import exists, listing
from tests.support.writing import rm_r, unlink

T = "datasets/d.zarr/t"
HIDDEN = ("attributes/dependent-arrays", "mask/attributes/flag_meanings", "q/attributes/units")


@pytest.fixture
def fs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TreeFileSystem]:
    # Whatever stores removed attributes, it is not the clock.
    monkeypatch.setattr(removing, "ATTRIBUTES_WAIT_S", 3600.0)
    write_dependents_sample(tmp_path / "d.zarr")
    fs = mount_tree(str(tmp_path), None, VfsOptions(read_only=False, allow_delete=True))
    yield fs
    fs.close()


def test_a_primary_goes_whatever_is_stored_meanwhile(fs: TreeFileSystem, tmp_path: Path) -> None:
    """SEMANTICS D27, W16."""
    rm_r(fs, T, fs.sync)
    assert not exists(fs, T)
    assert not (tmp_path / "d.zarr/t").exists()
    with nczfs.open(str(tmp_path / "d.zarr")) as root:
        assert list(root.variables) == ["t.q"]


@pytest.mark.parametrize("name", HIDDEN)
def test_such_an_attribute_is_only_hidden(fs: TreeFileSystem, tmp_path: Path, name: str) -> None:
    """SEMANTICS D27."""
    document = tmp_path / "d.zarr/t/zarr.json"
    before = document.read_bytes()
    unlink(fs, f"{T}/{name}")
    assert not exists(fs, f"{T}/{name}")
    assert name.rpartition("/")[2] not in listing(fs, f"{T}/{name}".rpartition("/")[0])
    fs.sync()
    assert not exists(fs, f"{T}/{name}")
    assert document.read_bytes() == before
    fs.refresh(f"/{T}")
    assert exists(fs, f"{T}/{name}")
