"""What copying and putting together cost on servers of two makers, and what they promise."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from nczfs.errors import Conflict
from nczfs.zmap.base import ByteRange, Part, ZMap
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.wrappers import Metered
from tests.support.servers import Faults
from tests.support.watching import requests_of

MIB = 1 << 20
KEY, GOAL = Key("group/large"), Key("group/goal")
SIZE = 47 * MIB


@pytest.fixture(params=["swift", "ceph"])
def faults(request: pytest.FixtureRequest) -> Iterator[Faults]:
    found: Faults = request.getfixturevalue(f"{request.param}_with_faults")
    yield found
    found.set()


@pytest.fixture
def zmap(faults: Faults) -> Iterator[ZMap]:
    url = faults.server.url(faults.server.new_bucket(), "data")
    zmap = open_store(url, StoreOptions(part_bytes=5 * MIB))
    zmap.prepare_writing()
    yield zmap
    zmap.close()


@pytest.fixture
def content(zmap: ZMap) -> bytes:
    """Of the object that is copied; it was uploaded in parts."""
    data = os.urandom(MIB) * (SIZE // MIB)
    zmap.write(KEY, data)
    zmap.copy(zmap.stat(KEY), GOAL)  # from here on it is known what the server can
    return data


def test_a_copy_is_one_request_and_no_bytes(faults: Faults, zmap: ZMap, content: bytes) -> None:
    stat = zmap.stat(KEY)
    asked = requests_of(faults, lambda: zmap.copy(stat, GOAL))
    assert asked == {"PUT data/group/goal": 1}
    assert zmap.read(GOAL).data == content


def test_a_changed_part_of_a_large_object_is_all_that_is_sent(
    faults: Faults, zmap: ZMap, content: bytes
) -> None:
    stat = zmap.stat(KEY)
    parts: list[Part] = [
        ByteRange(stat, 0, 20 * MIB + 7),
        b"changed" * MIB,
        ByteRange(stat, 27 * MIB + 7, SIZE),
    ]
    asked = requests_of(faults, lambda: zmap.write_parts(KEY, parts))
    assert asked["GET data/group/large"] == 0
    blob = zmap.read(KEY)
    assert blob.data == content[: 20 * MIB + 7] + b"changed" * MIB + content[27 * MIB + 7 :]
    assert blob.version == zmap.stat(KEY).version
    assert {found.key for found in zmap.list(ROOT)} == {KEY, GOAL}


@pytest.mark.parametrize("faults", ["swift"], indirect=True)
def test_a_byte_of_a_large_object_costs_a_part_each_way_and_nothing_is_compared_twice(
    faults: Faults, zmap: ZMap, content: bytes
) -> None:
    stat = zmap.stat(KEY)
    at = 20 * MIB
    parts: list[Part] = [ByteRange(stat, 0, at), b"z", ByteRange(stat, at + 1, SIZE)]
    asked = requests_of(faults, lambda: zmap.write_parts(KEY, parts, replaces=stat.version))
    notes = sum(count for what, count in asked.items() if ".nczfs-upload-" in what)
    assert notes == 2
    # The server keeps no conditions: it is compared at the beginning, and after the parts.
    assert asked["HEAD data/group/large"] == 2
    assert asked["GET data/group/large"] == 1
    assert asked["PUT data/group/large"] == 3
    assert asked["POST data/group/large"] == 2
    assert asked.total() == notes + 8
    assert zmap.read(KEY).data == content[:at] + b"z" + content[at + 1 :]


def test_parts_of_a_version_that_is_gone_are_a_conflict_and_leave_nothing(
    faults: Faults, zmap: ZMap, content: bytes
) -> None:
    stat = zmap.stat(KEY)
    zmap.delete(GOAL)
    for other in (content[::-1], b"short"):
        zmap.write(KEY, other)
        with pytest.raises(Conflict, match=KEY):
            zmap.write_parts(GOAL, [b"new", ByteRange(stat, MIB, SIZE)])
        with pytest.raises(Conflict, match=KEY):
            zmap.copy(stat, GOAL)
    assert {found.key for found in zmap.list(ROOT)} == {KEY}
    bucket = zmap.name.split("/")[3]
    with contextlib.closing(faults.server.client()) as client:
        assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")


def test_a_changed_large_object_replaces_only_the_version_that_was_seen(
    zmap: ZMap, content: bytes
) -> None:
    stat = zmap.stat(KEY)
    parts: list[Part] = [b"new", ByteRange(stat, 3, SIZE)]
    seen = zmap.write_parts(KEY, parts, replaces=stat.version)
    assert bytes(zmap.read(KEY, 0, 9).data) == b"new" + content[3:9]
    parts = [ByteRange(zmap.stat(KEY), 0, SIZE)]
    zmap.write(GOAL, b"of another")
    with pytest.raises(Conflict):
        zmap.write_parts(GOAL, parts, replaces=seen)
    assert bytes(zmap.read(GOAL).data) == b"of another"


def test_between_buckets_of_a_server_no_bytes_come_through_here(faults: Faults) -> None:
    origin = open_store(faults.server.url(faults.server.new_bucket(), "from"))
    goal = open_store(faults.server.url(faults.server.new_bucket(), "to"))
    origin.write(KEY, b"data")
    asked = requests_of(faults, lambda: goal.copy_from(Metered(origin, "test"), KEY, GOAL))
    assert asked == {"PUT to/group/goal": 1}
    assert goal.read(GOAL).data == b"data"
    for zmap in (origin, goal):
        zmap.close()


def test_where_the_server_does_not_copy_the_bytes_come_through_here(faults: Faults) -> None:
    server = faults.server
    origin = open_store(server.url(server.new_bucket()))
    goal = open_store(server.url(server.new_bucket()))
    for key in (KEY, GOAL):
        origin.write(key, b"data")
    faults.set("status:403 PUT first=1 code=AccessDenied")
    goal.copy_from(origin, KEY, KEY)
    asked = requests_of(faults, lambda: goal.copy_from(origin, GOAL, GOAL))
    assert asked == {"GET group/goal": 1, "PUT group/goal": 1}  # it is not asked for that again
    assert goal.read(KEY).data == goal.read(GOAL).data == b"data"
    for zmap in (origin, goal):
        zmap.close()
