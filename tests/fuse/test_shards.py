"""Arrays in shards on a mount: few requests for what is read, one object for what is written."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.codecs.shardindex import Places, index_codec
from nczfs.metrics import STORE_BYTES_READ
from tests.support.httpd import WebServer
from tests.support.mounts import Served
from tests.support.places import DATASET, Place, requested_place
from tests.support.settled import settled
from tests.support.sharded import INDEX_CODECS

SIDE = 1 << 15  # of a shard of 1 GiB
CHUNK = 1 << 10


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


class Source(NamedTuple):
    """A store that is read.

    Attributes
    ----------
    made : the URL by which its dataset is made; mounted : by which the store is mounted.
    name : of the dataset in the mount.
    """

    made: str
    mounted: str
    name: str = DATASET


@pytest.fixture(params=["directory", "zip", "ceph", "nginx", "zip on nginx"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    if request.param == "zip":
        archive = str(tmp_path / "d.zip")
        return Source(archive, archive, "d.zip")
    if "nginx" not in request.param:
        place = requested_place(request, tmp_path)
        return Source(place.url_of(DATASET), place.url)
    server: WebServer = request.getfixturevalue("nginx")
    directory = server.new_directory()
    if request.param == "nginx":
        return Source(str(directory / DATASET), f"{server.url}/json/{directory.name}/")
    served = f"{server.url}/json/{directory.name}/d.zip"
    return Source(str(directory / "d.zip"), served, "d.zip")


def counted(mount: Served, name: str, label: str = "") -> int:
    """The sum of a metric of the mount over all stores."""
    text = (mount.path / ".nczfs/metrics").read_text()
    pattern = rf"^{name}{{[^}}]*{label}[^}}]*}} (\S+)$"
    found = re.findall(pattern, text, re.MULTILINE)
    assert found, f"no metric is called {name}"
    return int(sum(map(float, found)))


def calls(mount: Served, operation: str) -> int:
    """How often the mount has asked its store for something."""
    return counted(mount, "nczfs_store_requests_total", f'operation="{operation}"')


def test_an_element_of_a_shard_of_1_gib_costs_two_requests_and_the_next_one_one(
    source: Source, tmp_path: Path
) -> None:
    with nczfs.open(source.made, "w", format="zarr3") as root:
        v = root.create_variable(
            "v", (SIDE, SIDE), "u1", chunks=(CHUNK, CHUNK), shards=(SIDE, SIDE), fillvalue=0
        )
        for row in (0, 7, 20):
            v[row * CHUNK + 5, 3 * CHUNK + 8] = row + 1
    with settled(source.mounted, tmp_path / "spool") as mount:
        fd = os.open(mount.path / "datasets" / source.name / "v/values.raw", os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            costs = []
            for row in (7, 0, 20):
                before = calls(mount, "read")
                found = os.pread(fd, 1, (row * CHUNK + 5) * SIDE + 3 * CHUNK + 8)
                assert found == bytes([row + 1])
                costs.append(calls(mount, "read") - before)
        finally:
            os.close(fd)
    assert costs == [2, 1, 1]


def places_of(data: bytes, count: int) -> tuple[Places, list[bytes]]:
    codec = index_codec(INDEX_CODECS, count)
    places = codec.decode(data[-codec.nbytes :])
    return places, [data[int(start) : int(start + size)] for start, size in places]


def test_a_shard_is_stored_once_and_what_is_not_written_stays_as_it_is(
    place: Place, tmp_path: Path
) -> None:
    """SEMANTICS W66, W94."""
    values = np.arange(400 * 600, dtype="<f4").reshape(400, 600)
    with nczfs.open(place.url_of(DATASET), "w", format="zarr3") as root:
        root.create_variable(
            "v", (400, 600), "f4", chunks=(100, 100), shards=(200, 300), fillvalue=-1.0
        )
    with settled(place.url, tmp_path / "spool", "--flush-age", "1h") as mount:
        v = mount.path / "datasets" / DATASET / "v"
        writes, read = calls(mount, "write"), counted(mount, "nczfs_store_read_bytes_total")
        with (v / "values.raw").open("r+b", buffering=0) as file:
            for row in values:
                file.write(row.tobytes())
        assert calls(mount, "write") - writes == 4
        read = counted(mount, "nczfs_store_read_bytes_total") - read
        assert read < 30_000  # documents, and no chunk of 40,000 bytes
        before = place.objects(DATASET)
        assert sorted(os.listdir(v / "chunks")) == [f"{i}.{j}" for i in range(4) for j in range(6)]
        with (v / "chunks/1.2").open("r+b", buffering=0) as file:
            assert file.read() == values[100:200, 200:300].tobytes()
            file.seek(0)
            file.write(np.full((50, 100), 7, "<f4").tobytes())
        after = place.objects(DATASET)
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {"v/c/0/0"}
    _, old = places_of(before["v/c/0/0"], 6)
    places, new = places_of(after["v/c/0/0"], 6)
    assert [number for number in range(6) if old[number] != new[number]] == [5]
    assert np.all(np.diff(places[:, 0].astype(int)) > 0)
    values[100:150, 200:300] = 7
    local = tmp_path / "copy"
    for key, data in after.items():
        (local / key).parent.mkdir(parents=True, exist_ok=True)
        (local / key).write_bytes(data)
    assert np.array_equal(np.asarray(zarr.open_array(local / "v", mode="r")[...]), values)


def bytes_read() -> float:
    """By this process, of all stores."""
    return sum(
        sample.value
        for metric in STORE_BYTES_READ.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


def test_a_change_of_a_large_shard_sends_little_of_it(place: Place) -> None:
    mib = 1 << 20
    values = np.random.default_rng(3).integers(1, 256, (64, mib), np.uint8)
    with nczfs.open(place.url_of(DATASET), "w", format="zarr3") as root:
        v = root.create_variable(
            "v", values.shape, "u1", chunks=(1, mib), shards=values.shape, fillvalue=0, codecs=[]
        )
        v[...] = values
    with nczfs.open(place.url_of(DATASET), "r+") as root:
        root.variables["v"][20, 5:9] = values[20, 5:9] = 0
        before = bytes_read()
        root.sync()
        assert 0 < bytes_read() - before < 20 * mib
    with nczfs.open(place.url_of(DATASET)) as root:
        assert np.array_equal(root.variables["v"][...], values)
