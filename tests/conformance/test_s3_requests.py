"""What opening a dataset in S3 costs: requests, counted on their way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.servers import Faults
from tests.support.trees import read
from tests.support.watching import requests_of
from tests.support.writing import close, mkdir, open_file, size, write

VARIABLES = 20


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "ds.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    for number in range(VARIABLES):
        array = group.create_array(f"v{number}", shape=(4,), chunks=(4,), dtype="i4")
        array[...] = number
    return path


def test_a_consolidated_dataset_is_opened_by_two_requests_at_once(
    ceph_with_faults: Faults, local: Path
) -> None:
    zarr.consolidate_metadata(str(local), zarr_format=2)
    url = uploaded(ceph_with_faults, local)

    def read_one() -> None:
        with nczfs.open(url) as opened:
            variable = opened["v3"]
            assert isinstance(variable, nczfs.Variable)
            assert list(variable[...]) == [3] * 4

    assert requests_of(ceph_with_faults, read_one) == {
        "GET ds.zarr/zarr.json": 1,
        "GET ds.zarr/.zmetadata": 1,
        "GET ds.zarr/v3/0": 1,
    }


def test_another_dataset_is_opened_by_one_listing_and_its_documents(
    ceph_with_faults: Faults, local: Path
) -> None:
    url = uploaded(ceph_with_faults, local)

    def look() -> None:
        with nczfs.open(url) as opened:
            assert len(opened.variables) == VARIABLES

    asked = requests_of(ceph_with_faults, look)
    documents = [f"GET ds.zarr/v{number}/.zarray" for number in range(VARIABLES)]
    assert set(documents) <= asked.keys()
    assert max(asked.values()) == 1
    assert not any(what.startswith("HEAD") for what in asked)
    assert asked["LIST"] == 1
    of_the_root = [what for what in asked if what.count("/") == 1]
    assert len(of_the_root) <= 7  # a document of each format that it could be
    assert sum(asked.values()) <= 1 + len(of_the_root) + 3 * VARIABLES


def test_a_file_in_a_directory_that_was_made_here_costs_one_request(
    ceph_with_faults: Faults, tmp_path: Path
) -> None:
    url = ceph_with_faults.server.url(ceph_with_faults.server.new_bucket())
    fs = mount_tree(url, None, VfsOptions(read_only=False, spool_dir=tmp_path))
    mkdir(fs, "objects/d")
    write(fs, "objects/d/first", b"now the server is known")

    def create() -> None:
        for number in range(5):
            write(fs, f"objects/d/{number}", b"some")
        assert size(fs, "objects/d/3") == 4

    asked = requests_of(ceph_with_faults, create)
    fs.close()
    assert asked == {f"PUT d/{number}": 1 for number in range(5)}


def test_chunks_of_others_that_are_written_whole_cost_one_listing(
    ceph_with_faults: Faults, tmp_path: Path
) -> None:
    """SEMANTICS L7."""
    group = zarr.open_group(tmp_path / "ds.zarr", mode="w", zarr_format=2)
    array = group.create_array("v", shape=(64, 100), chunks=(2, 100), dtype="f4")
    array[:32] = np.random.default_rng(1).random((32, 100), "f4")
    url = uploaded(ceph_with_faults, tmp_path / "ds.zarr").replace("/ds.zarr#", "#")
    fs = mount_tree(url, None, VfsOptions(read_only=False, spool_dir=tmp_path / "spool"))
    path = "datasets/ds.zarr/v/values.raw"
    values = np.random.default_rng(2).random((64, 100), "f4")
    handle = open_file(fs, path)
    fs.read(handle, 0, 4)  # the documents, and one chunk

    def write_whole() -> None:
        fs.write(handle, 0, values.tobytes())
        fs.fsync(handle, data_only=False)

    asked = requests_of(ceph_with_faults, write_whole)
    # Once a second, as long as chunks are stored.
    documents = {name for name in asked if name.startswith("GET ds.zarr/v/.z")}
    puts = {f"PUT ds.zarr/v/{number}.0": 1 for number in range(32)}
    others = {what: count for what, count in asked.items() if what not in documents}
    assert others == {**puts, "LIST": 1}
    assert requests_of(ceph_with_faults, write_whole).keys() >= puts.keys()
    assert "LIST" not in requests_of(ceph_with_faults, write_whole)
    close(fs, handle)
    assert read(fs, path) == values.tobytes()
    fs.close()


def uploaded(faults: Faults, local: Path) -> str:
    bucket = faults.server.new_bucket()
    zmap = open_store(faults.server.url(bucket))
    for path in local.rglob("*"):
        if path.is_file():
            zmap.write(parse_key(str(path.relative_to(local.parent))), path.read_bytes())
    zmap.close()
    return faults.server.url(bucket, local.name)
