"""What opening a dataset in S3 costs: requests, counted on their way."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zarr

import nczfs
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.servers import Faults

VARIABLES = 20


@pytest.fixture
def counted(ceph_with_faults: Faults) -> Iterator[Callable[..., Counter[str]]]:
    """What is asked of the server during a call: "LIST", or a method and the key."""

    def count(act: Callable[[], object]) -> Counter[str]:
        ceph_with_faults.set("delay:1")  # which is logged
        act()
        asked = [json.loads(line) for line in ceph_with_faults.log()]
        return Counter(
            "LIST"
            if "list-type" in line["path"]
            else f"{line['method']} {line['path'].split('/', 2)[2]}"
            for line in asked
        )

    yield count
    ceph_with_faults.set()


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "ds.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2)
    for number in range(VARIABLES):
        array = group.create_array(f"v{number}", shape=(4,), chunks=(4,), dtype="i4")
        array[...] = number
    return path


def test_a_consolidated_dataset_is_opened_by_one_request(
    ceph_with_faults: Faults, counted: Callable[..., Counter[str]], local: Path
) -> None:
    zarr.consolidate_metadata(str(local), zarr_format=2)
    url = uploaded(ceph_with_faults, local)

    def read_one() -> None:
        with nczfs.open(url) as opened:
            variable = opened["v3"]
            assert isinstance(variable, nczfs.Variable)
            assert list(variable[...]) == [3] * 4

    assert counted(read_one) == {"GET ds.zarr/.zmetadata": 1, "GET ds.zarr/v3/0": 1}


def test_another_dataset_is_opened_by_one_listing_and_its_documents(
    ceph_with_faults: Faults, counted: Callable[..., Counter[str]], local: Path
) -> None:
    url = uploaded(ceph_with_faults, local)

    def look() -> None:
        with nczfs.open(url) as opened:
            assert len(opened.variables) == VARIABLES

    asked = counted(look)
    documents = [f"GET ds.zarr/v{number}/.zarray" for number in range(VARIABLES)]
    assert set(documents) <= asked.keys()
    assert max(asked.values()) == 1
    assert not any(what.startswith("HEAD") for what in asked)
    assert asked["LIST"] == 1
    of_the_root = [what for what in asked if what.count("/") == 1]
    assert len(of_the_root) <= 7  # a document of each format that it could be
    assert sum(asked.values()) <= 1 + len(of_the_root) + 3 * VARIABLES


def uploaded(faults: Faults, local: Path) -> str:
    bucket = faults.server.new_bucket()
    zmap = open_store(faults.server.url(bucket))
    for path in local.rglob("*"):
        if path.is_file():
            zmap.write(parse_key(str(path.relative_to(local.parent))), path.read_bytes())
    zmap.close()
    return faults.server.url(bucket, local.name)
