"""Hierarchies of NCZarr datasets: what NCZarr adds is kept as it is stored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.errors import NotPermitted
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zom import create, dumps, from_store, loads, to_v3
from tests.support.trees import read
from tests.support.writing import mkdir, write

FORMATS = ["nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1"]


def make(url: str, format: str) -> None:
    has_unlimited = format in ("nczarr-L3", "nczarr-L2l")
    with nczfs.open(url, "w", format=format) as root:
        root.attrs["title"] = "a text"
        root.attrs["n"] = np.array([1, 2], "i2")
        root.create_dimension("time", None if has_unlimited else 2)
        g = root.create_group("g")
        g.create_dimension("y", 2)
        g.create_variable("z", ("time", "y"), "u1", np.ones((2, 2), "u1"), attributes={"k": 1.5})


def described(url: str) -> list[str]:
    """What the dataset is, without values."""
    with nczfs.open(url) as root:
        return [repr(root.engine_dataset.node(path)) for path in ("", "g", "g/z")]


@pytest.mark.parametrize("format", FORMATS[:-1])
def test_what_is_shown_makes_the_same_dataset_of_nczarr(tmp_path: Path, format: str) -> None:
    old, new = str(tmp_path / "old.zarr"), str(tmp_path / "new.zarr")
    make(old, format)
    node = from_store(old).node
    create(new, loads(dumps(node)))
    assert from_store(new).node == node
    assert described(new) == described(old)


def test_documents_that_zarr_does_not_know_are_left_out(tmp_path: Path) -> None:
    """Those of netcdf-c 4.8.0: what is made is Zarr, with the same arrays."""
    old, new = str(tmp_path / "old.zarr"), str(tmp_path / "new.zarr")
    make(old, "nczarr-L1")
    node = from_store(old).node
    create(new, node)
    assert from_store(new).node == node
    assert "format='zarr2'" in described(new)[0]


def test_a_zom_json_of_nczarr_declares_the_same_in_a_mount(tmp_path: Path) -> None:
    """SEMANTICS D33."""
    make(str(tmp_path / "old.zarr"), "nczarr-L3")
    make(str(tmp_path / "older.zarr"), "nczarr-L2l")
    fs = mount_tree(str(tmp_path), None, VfsOptions(read_only=False))
    mkdir(fs, "datasets/new.zarr")
    with pytest.raises(NotPermitted, match="'/_nczarr_superblock', '/_nczarr_group': only attr"):
        write(fs, "datasets/new.zarr/zom.json", read(fs, "datasets/older.zarr/zom.json"))
    text = read(fs, "datasets/old.zarr/zom.json")
    for _ in ("declared", "no change"):
        write(fs, "datasets/new.zarr/zom.json", text)
        assert read(fs, "datasets/new.zarr/zom.json") == text
    write(fs, "datasets/older.zarr/zom.json", read(fs, "datasets/older.zarr/zom.json"))
    with pytest.raises(NotPermitted, match="the dataset is NCZarr"):
        write(fs, "datasets/new.zarr/zom.json", text.replace(b"a text", b"another"))
    fs.close()
    assert described(str(tmp_path / "new.zarr")) == described(str(tmp_path / "old.zarr"))


@pytest.mark.parametrize("format", FORMATS)
def test_what_nczarr_means_is_said_in_zarr_v3(tmp_path: Path, format: str) -> None:
    url = str(tmp_path / "old.zarr")
    make(url, format)
    text = dumps(to_v3(from_store(url).node))
    found = json.loads(text)
    assert "nczarr" not in text.lower()
    assert "_NCProperties" not in found["attributes"]
    z = found["members"]["g"]["members"]["z"]
    assert (z["dimension_names"], z["attributes"]) == (["time", "y"], {"k": 1.5})
