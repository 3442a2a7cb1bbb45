"""What writing to S3 promises, on servers of two makers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from nczfs.errors import Conflict, StoreError
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions, open_store
from tests.support.servers import Faults, S3Server

MIB = 1 << 20
REPOSITORY = Path(__file__).parents[2]
SMALL_PARTS = StoreOptions(part_bytes=5 * MIB)


@pytest.fixture(params=["swift", "ceph"])
def server(request: pytest.FixtureRequest) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


# Conditions


def test_what_the_probe_finds_is_what_the_servers_are_known_for(
    swift: S3Server, ceph: S3Server
) -> None:
    for server, hold in ((swift, False), (ceph, True)):
        bucket = server.new_bucket()
        zmap = open_store(server.url(bucket, "data"))
        assert not zmap.features.conditional_writes
        assert zmap.prepare_writing().conditional_writes is hold
        assert objects(server, bucket) == []
        zmap.close()


INCREMENT = """
import sys
from nczfs.errors import Conflict
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import open_store
url, count = sys.argv[1], int(sys.argv[2])
zmap = open_store(url)
assert zmap.prepare_writing().conditional_writes
done = 0
while done < count:
    blob = zmap.read(Key("counter"))
    try:
        zmap.write(Key("counter"), b"%d" % (int(bytes(blob.data)) + 1), replaces=blob.version)
    except Conflict:
        continue
    done += 1
"""


@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_two_processes_lose_no_update(ceph: S3Server, count: int) -> None:
    bucket = ceph.new_bucket()
    zmap = open_store(ceph.url(bucket))
    zmap.write(Key("counter"), b"0")
    command = [sys.executable, "-c", INCREMENT, ceph.url(bucket), str(count // 2)]
    processes = [subprocess.Popen(command, cwd=REPOSITORY) for _ in range(2)]
    assert [process.wait(240) for process in processes] == [0, 0]
    assert bytes(zmap.read(Key("counter")).data) == b"%d" % count
    zmap.close()


def test_no_update_is_lost_or_counted_twice_when_answers_are_lost(ceph_with_faults: Faults) -> None:
    server = ceph_with_faults.server
    bucket = server.new_bucket()
    zmap = open_store(server.url(bucket))
    zmap.prepare_writing()
    zmap.write(Key("counter"), b"0")
    ceph_with_faults.set("lost PUT p=0.3 seed=1", "status:503 PUT p=0.1 seed=2")
    for _ in range(30):
        blob = zmap.read(Key("counter"))
        with contextlib.suppress(Conflict):
            zmap.write(Key("counter"), b"%d" % (int(bytes(blob.data)) + 1), replaces=blob.version)
    assert ceph_with_faults.log()
    ceph_with_faults.set()
    assert bytes(zmap.read(Key("counter")).data) == b"30"
    zmap.close()


# Parts


def test_a_large_object_goes_up_in_parts_and_comes_down_the_same(server: S3Server) -> None:
    bucket = server.new_bucket()
    zmap = open_store(server.url(bucket, "data"), SMALL_PARTS)
    data = os.urandom(MIB) * 80
    version = zmap.write(Key("large"), data)
    blob = zmap.read(Key("large"))
    assert blob.data == data
    assert blob.version == version
    assert objects(server, bucket) == ["data/large"]
    assert uploads(server, bucket) == []
    zmap.close()


def test_an_upload_that_fails_leaves_neither_parts_nor_an_object(ceph_with_faults: Faults) -> None:
    server = ceph_with_faults.server
    bucket = server.new_bucket()
    zmap = open_store(server.url(bucket), SMALL_PARTS)
    for fault in ("status:403 PUT query=partNumber=3", "status:403 POST query=uploadId"):
        ceph_with_faults.set(fault)
        with pytest.raises(StoreError, match="large"):
            zmap.write(Key("large"), bytes(24 * MIB))
        assert ceph_with_faults.log()
        ceph_with_faults.set()
        assert uploads(server, bucket) == []
        assert objects(server, bucket) == []
    zmap.close()


UPLOAD = """
import sys
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions, open_store
zmap = open_store(sys.argv[1], StoreOptions(part_bytes=5 << 20))
zmap.write(Key("large"), bytes(100 << 20))
"""


def test_what_a_killed_process_was_uploading_is_aborted_at_the_next_start(
    ceph_with_faults: Faults,
) -> None:
    server = ceph_with_faults.server
    bucket = server.new_bucket()
    somebody = server.client()
    theirs = somebody.create_multipart_upload(Bucket=bucket, Key="data/theirs")["UploadId"]
    ceph_with_faults.set("delay:3000 PUT query=partNumber")
    command = [sys.executable, "-c", UPLOAD, server.url(bucket, "data")]
    with subprocess.Popen(command, cwd=REPOSITORY) as process:
        end = time.monotonic() + 60
        while not objects(server, bucket):  # the note of the upload
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.05)
        zmap = open_store(server.url(bucket, "data"))
        zmap.prepare_writing()
        assert len(uploads(server, bucket)) == 2  # of somebody else, and of one who lives
        process.kill()
    ceph_with_faults.set()
    zmap.prepare_writing()
    assert uploads(server, bucket) == [theirs]
    assert objects(server, bucket) == []
    zmap.close()
    somebody.close()


# Deleting


def test_many_keys_are_deleted_whatever_they_are_called(server: S3Server) -> None:
    bucket = server.new_bucket()
    zmap = open_store(server.url(bucket, "data"))
    keys = [Key(f"many/{number}") for number in range(1050)]
    keys += [Key(text) for text in ("a&b<c>", "bell\a", "tab\tnew\nline", "\N{GRINNING FACE}", "é")]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: zmap.write(key, b""), [*keys, Key("stays")]))
    zmap.delete_many([*keys, Key("absent")])
    assert [stat.key for stat in zmap.list(ROOT)] == ["stays"]
    zmap.close()


def objects(server: S3Server, bucket: str) -> list[str]:
    """All keys of a bucket, those that a map hides among them."""
    with contextlib.closing(server.client()) as client:
        found = client.list_objects_v2(Bucket=bucket).get("Contents", ())
        return [item["Key"] for item in found]


def uploads(server: S3Server, bucket: str) -> list[Any]:
    """The ids of unfinished uploads."""
    with contextlib.closing(server.client()) as client:
        found = client.list_multipart_uploads(Bucket=bucket).get("Uploads", ())
        return [item["UploadId"] for item in found]


@pytest.fixture(autouse=True)
def no_faults_are_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test came to, the next one begins without faults."""
    yield
    if "ceph_with_faults" in request.fixturenames:
        request.getfixturevalue("ceph_with_faults").set()
