"""The ncstream of a group in a mount: every byte on demand, as readers of streams take it."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from siphon.cdmr import ncstream as siphon

import nczfs
from nczfs.errors import NotPermitted, ReadOnlyMount
from nczfs.ncstream import Header, assemble
from nczfs.ncstream import read as read_stream
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.copies import new_url
from tests.support.dependents import FLAT, VALUES, write_dependents_sample
from tests.support.trees import find, listing, read

TEMPERATURE = np.arange(15, dtype="<f4").reshape(3, 5)
NAMES = ["", "żółw", "c"]
STREAM = "datasets/d.zarr/d.ncs"


def mounted() -> TreeFileSystem:
    url = new_url()
    store = open_store(url)
    put_group(store, "d.zarr")
    xy = {"_ARRAY_DIMENSIONS": ["y", "x"]}
    put_array(store, "d.zarr/t", TEMPERATURE, (2, 2), attributes={**xy, "units": "K"})
    put_array(store, "d.zarr/big", TEMPERATURE.astype(">i8"), (3, 5), attributes=xy)
    put_array(store, "d.zarr/z", np.array([1 + 2j, 3j], "<c16"), (2,))
    put_array(store, "d.zarr/o", np.array([b"abc", b"de"], "V3"), (1,))
    put_array(store, "d.zarr/b", np.array([b"abc", b"de"], "S3"), (1,))
    put_array(store, "d.zarr/u", np.array(NAMES, "<U4"), (2,))
    put_array(store, "d.zarr/scalar", np.array(2.5), ())
    put_array(store, "d.zarr/empty", np.empty((0, 3), "<i2"), (1, 3))
    put_group(store, "d.zarr/g")
    put_array(store, "d.zarr/g/v.w", np.arange(3, dtype="|u1"), (2,))
    lists = {
        "zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "|O", "fill_value": None,
        "order": "C", "compressor": None, "filters": [{"id": "vlen-bytes"}],
    }  # fmt: skip
    store.write(parse_key("d.zarr/lists/.zarray"), json.dumps(lists).encode())
    return mount_tree(url, options=VfsOptions(read_only=False))


@pytest.fixture(scope="module")
def fs() -> TreeFileSystem:
    return mounted()


def test_its_values_are_those_of_the_group(fs: TreeFileSystem) -> None:
    """SEMANTICS D24."""
    data = read(fs, STREAM)
    found = assemble(read_stream(io.BytesIO(data), size=len(data)))
    assert (found["t"] == TEMPERATURE).all()
    assert (found["big"] == TEMPERATURE).all()
    assert found["z"].tolist() == [(1.0, 2.0), (0.0, 3.0)]
    assert found["o"].tolist() == [b"abc", b"de\0"]
    assert found["b"].tobytes() == b"abcde\0"
    assert found["u"].tolist() == NAMES
    assert found["scalar"] == 2.5
    assert found["empty"].shape == (0, 3)
    assert found["g/v.w"].tolist() == [0, 1, 2]


def test_it_has_shards_and_dependent_arrays_of_zarr3(tmp_path: Path) -> None:
    """SEMANTICS D24."""
    write_dependents_sample(tmp_path / "t.zarr")
    values = np.arange(48, dtype="f4").reshape(8, 6)
    with nczfs.open(str(tmp_path / "s.zarr"), "w", format="zarr3") as root:
        root.create_variable("v", (8, 6), "f4", values, chunks=(2, 3), shards=(4, 6))
        group = root.create_group("g")
        group.create_variable("half", (3,), "f2", values[0, :3], chunks=(2,))
    fs = mount_tree(f"file://{tmp_path}")
    sharded, dependent = (
        assemble(read_stream(io.BytesIO(read(fs, f"datasets/{name}.zarr/{name}.ncs"))))
        for name in "st"
    )
    fs.close()
    assert (sharded["v"] == values).all()
    assert sharded["g/half"].tolist() == [0, 1, 2]
    assert set(dependent) == {*FLAT.values(), "t.q"}
    for path, name in FLAT.items():
        assert np.array_equal(dependent[name], VALUES[path]), name


def test_its_size_is_known_and_any_range_is_a_part_of_the_whole(fs: TreeFileSystem) -> None:
    data = read(fs, STREAM)
    assert find(fs, STREAM).size == len(data)
    for offset in range(0, len(data), 7):
        assert read(fs, STREAM, offset, 50) == data[offset : offset + 50]


def test_it_is_the_same_in_every_mount(fs: TreeFileSystem) -> None:
    """SEMANTICS D24."""
    assert read(mounted(), STREAM) == read(fs, STREAM)


def test_siphon_reads_it(fs: TreeFileSystem, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(50)  # it logs the first and the last four bytes as unknown
    header, *arrays = siphon.read_ncstream_messages(io.BytesIO(read(fs, STREAM)))
    names = [v.name for v in (*header.root.vars, *header.root.structs, *header.root.groups)]
    assert sorted(names) == ["b", "big", "empty", "g", "o", "scalar", "t", "u", "z"]
    shapes = [(2, 3), (3, 5), (2,), (1,), (3, 5), (3,), (2,), (3,)]
    assert [found.shape for found in arrays] == shapes


def test_what_it_leaves_out_is_named(fs: TreeFileSystem) -> None:
    """SEMANTICS D24."""
    header, *_ = read_stream(io.BytesIO(read(fs, STREAM)))
    assert isinstance(header, Header)
    (omitted,) = [a for a in header.root.attributes if a.name == "nczfs_omitted"]
    assert omitted.values == ("/lists: is of type |O bytes",)


def test_a_listing_reads_no_values(fs: TreeFileSystem) -> None:
    entries = listing(mounted(), "datasets/d.zarr")
    assert "d.ncs" in entries


def test_it_cannot_be_written(fs: TreeFileSystem) -> None:
    """SEMANTICS D24."""
    assert find(fs, STREAM).mode & 0o222 == 0
    assert find(fs, "datasets/d.zarr/d.nc").mode & 0o222 == 0o200
    for flags in (os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        with pytest.raises((NotPermitted, ReadOnlyMount)):
            fs.open(find(fs, STREAM).ino, flags)


def test_a_member_of_that_name_is_shown_with_a_tilde() -> None:
    url = new_url()
    store = open_store(url)
    put_group(store, "d.zarr")
    put_array(store, "d.zarr/d.ncs", TEMPERATURE, (3, 5))
    entries = listing(mount_tree(url), "datasets/d.zarr")
    assert {"d.ncs", "d.ncs~"} <= set(entries)
