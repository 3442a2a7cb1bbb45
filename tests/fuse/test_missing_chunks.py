"""A region of a far store in which nothing was ever written costs hardly a request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nczfs
from nczfs.engine.chunks.absences import ASK_AFTER
from tests.support.mounts import Served
from tests.support.places import DATASET, bucket_of
from tests.support.servers import S3Server
from tests.support.settled import settled

CHUNK = 100
CHUNKS = [20_000, pytest.param(300_000, marks=pytest.mark.long)]
FILL = b"\x07"
STORED_EVERY = 97


def requests(mount: Served) -> int:
    """How often the mount has asked its store for something."""
    text = (mount.path / ".nczfs/metrics").read_text()
    found = re.findall(r"^nczfs_store_requests_total\{.*\} (\S+)$", text, re.MULTILINE)
    return int(sum(map(float, found)))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("per_shard", [1, 50])
@pytest.mark.parametrize("chunks", CHUNKS)
def test_missing_chunks_cost_a_small_part_of_a_request_each(
    ceph: S3Server, tmp_path: Path, chunks: int, per_shard: int
) -> None:
    """SEMANTICS D26."""
    place = bucket_of(ceph)
    unit = CHUNK * per_shard
    with nczfs.open(place.url_of(DATASET), "w", format="zarr3") as root:
        shards = (unit,) if per_shard > 1 else None
        v = root.create_variable(
            "v", (chunks * CHUNK,), "u1", chunks=(CHUNK,), shards=shards, fillvalue=FILL[0]
        )
        written = range(0, min(chunks * CHUNK // unit, 100 * STORED_EVERY), STORED_EVERY)
        for number in written:
            v[number * unit] = 1
    wanted = bytearray(FILL * (chunks * CHUNK))
    for number in written:
        wanted[number * unit] = 1
    with settled(place.url, tmp_path / "spool", "--request-timeout", "2m") as mount:
        before = requests(mount)
        found = (mount.path / "datasets" / DATASET / "v/values.raw").read_bytes()
        cost = requests(mount) - before
    assert found == wanted
    # A unit that is there costs a few; those that are missing do not.
    assert cost < 4 * len(written) + 6 * ASK_AFTER
