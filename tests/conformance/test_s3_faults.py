"""What an S3 server and the way to it do wrong ends in the right data or the right error."""

from __future__ import annotations

import itertools
import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from nczfs.errors import (
    AccessDenied,
    Conflict,
    DeadlinePassed,
    NczfsError,
    NoSuchObject,
    StoreError,
    Unavailable,
)
from nczfs.zmap.base import ABSENT, ByteRange, Part, Version, ZMap
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.web.attempts import ATTEMPTS
from tests.support.servers import Faults, S3Server

KEY = Key("group/variable/0.0")
DATA = bytes(range(256)) * 1000
# Short, so that a fault that lasts is over soon; patient enough for a busy machine.
OPTIONS = StoreOptions(request_timeout_s=60.0, attempt_timeout_s=3.0)


@pytest.fixture(scope="module")
def bucket(swift_with_faults: Faults) -> str:
    bucket = swift_with_faults.server.new_bucket()
    zmap = open_store(swift_with_faults.server.url(bucket))
    zmap.write(KEY, DATA)
    zmap.close()
    return bucket


@pytest.fixture
def zmap(swift_with_faults: Faults, bucket: str) -> Iterator[ZMap]:
    zmap = open_store(swift_with_faults.server.url(bucket), OPTIONS)
    yield zmap
    zmap.close()
    swift_with_faults.set()


@pytest.mark.parametrize(
    "fault",
    [
        "status:503",
        "status:500",
        "status:429",
        "close",
        "lost",
        "truncate:1000",
        "stall:1000",
        "empty",
        "short:77",
        "etag:00000000000000000000000000000000",
        "flip",
    ],
)
def test_a_read_outlasts_a_fault_that_passes(
    swift_with_faults: Faults, zmap: ZMap, fault: str
) -> None:
    swift_with_faults.set(f"{fault} GET first=2")
    assert bytes(zmap.read(KEY).data) == DATA
    assert len(swift_with_faults.log()) == 2


@pytest.mark.parametrize("fault", ["status:503", "close", "truncate:100", "stall:50", "empty"])
def test_a_listing_outlasts_a_fault_that_passes(
    swift_with_faults: Faults, zmap: ZMap, fault: str
) -> None:
    swift_with_faults.set(f"{fault} GET first=2")
    assert [entry.name for entry in zmap.search(ROOT)] == ["group"]
    assert len(swift_with_faults.log()) == 2


@pytest.mark.parametrize("fault", ["status:503", "close", "lost"])
def test_a_write_and_a_stat_outlast_a_fault_that_passes(
    swift_with_faults: Faults, zmap: ZMap, fault: str
) -> None:
    swift_with_faults.set(f"{fault} PUT first=2", f"{fault} HEAD first=2")
    version = zmap.write(Key("written"), DATA)
    assert zmap.stat(Key("written")).version == version
    zmap.delete(Key("written"))
    assert len(swift_with_faults.log()) == 4


@pytest.mark.parametrize(
    ("fault", "errors"),
    [
        ("status:503", (Unavailable, DeadlinePassed)),
        ("status:429", (Unavailable, DeadlinePassed)),
        ("close", (Unavailable, DeadlinePassed)),
        ("truncate:1000", (Unavailable, DeadlinePassed)),
        ("short:77", (Unavailable, DeadlinePassed)),
        ("flip", (Unavailable, DeadlinePassed)),
        ("empty", (Unavailable, DeadlinePassed)),
        ("stall:1000", (DeadlinePassed,)),
        ("status:403", (AccessDenied,)),
        ("status:404", (NoSuchObject,)),
    ],
)
def test_a_fault_that_lasts_is_the_right_error_after_some_attempts(
    swift_with_faults: Faults,
    bucket: str,
    zmap: ZMap,
    fault: str,
    errors: tuple[type[StoreError], ...],
) -> None:
    patience_s = 2.0 if DeadlinePassed in errors else OPTIONS.request_timeout_s
    options = replace(OPTIONS, request_timeout_s=patience_s)
    impatient = open_store(swift_with_faults.server.url(bucket), options)
    swift_with_faults.set(rf"{fault} GET path=/0\.0$")
    with pytest.raises(errors, match=KEY):
        impatient.read(KEY)
    impatient.close()
    assert 1 <= len(swift_with_faults.log()) <= ATTEMPTS
    swift_with_faults.set()
    assert bytes(zmap.read(KEY, 5, 9).data) == DATA[5:9]


def test_a_server_that_sends_no_etag_with_objects_is_readable(
    swift_with_faults: Faults, bucket: str, zmap: ZMap
) -> None:
    [listed] = zmap.list(ROOT)
    swift_with_faults.set("noetag GET", "noetag HEAD")
    blob = zmap.read(KEY)
    assert blob.data == DATA
    assert zmap.read(KEY, 5, 9, version=blob.version).version == blob.version
    assert zmap.stat(KEY)[:4] == (KEY, len(DATA), blob.version, blob.mtime_ns)
    assert zmap.read(KEY, 5, 9, version=listed.version).data == DATA[5:9]
    writer = open_store(swift_with_faults.server.url(bucket))
    writer.write(KEY, DATA[1:])
    with pytest.raises(Conflict, match=KEY):
        zmap.read(KEY, 5, 9, version=blob.version)
    with pytest.raises(Conflict, match=KEY):
        zmap.read(KEY, 5, 9, version=listed.version)
    writer.write(KEY, DATA)
    writer.close()


# Every request of every operation


def _write(zmap: ZMap, look: ZMap) -> None:
    version = zmap.write(NEW, DATA)
    assert _stored(look) == (DATA, version)


def _create(zmap: ZMap, look: ZMap) -> None:
    version = zmap.write(NEW, DATA, replaces=ABSENT)
    assert _stored(look) == (DATA, version)


def _replace(zmap: ZMap, look: ZMap) -> None:
    version = zmap.write(KEPT, b"newer", replaces=look.stat(KEPT).version)
    assert _stored(look, KEPT) == (b"newer", version)


def _write_in_parts(zmap: ZMap, look: ZMap) -> None:
    data = bytes(range(256)) * (21 * 4096)
    version = zmap.write(NEW, data)
    assert _stored(look) == (data, version)


def _copy(zmap: ZMap, look: ZMap) -> None:
    version = zmap.copy(look.stat(KEPT), NEW)
    assert _stored(look) == (b"kept", version)


def _create_a_copy(zmap: ZMap, look: ZMap) -> None:
    version = zmap.copy(look.stat(KEPT), NEW, replaces=ABSENT)
    assert _stored(look) == (b"kept", version)


def _put_together(zmap: ZMap, look: ZMap) -> None:
    large = look.stat(LARGE)
    parts: list[Part] = [
        ByteRange(large, 0, 7 << 20),
        b"new",
        ByteRange(large, 9 << 20, large.size),
    ]
    version = zmap.write_parts(NEW, parts)
    data, found = _stored(look)
    assert (len(data), found) == (large.size - (2 << 20) + 3, version)
    assert data[(7 << 20) - 1 : (7 << 20) + 4] == b"\xffnew\0"


def _read(zmap: ZMap, look: ZMap) -> None:
    stat = look.stat(KEPT)
    assert zmap.stat(KEPT) == stat
    assert _stored(zmap, KEPT) == (b"kept", stat.version)


def _delete(zmap: ZMap, look: ZMap) -> None:
    zmap.delete(KEPT)
    with pytest.raises(NoSuchObject):
        look.stat(KEPT)


def _delete_many(zmap: ZMap, look: ZMap) -> None:
    zmap.delete_many([KEPT, Key("other")])
    assert list(look.search(ROOT)) == []


def _find(zmap: ZMap, look: ZMap) -> None:
    assert {entry.name for entry in zmap.search(ROOT)} == {"kept", "other"}
    assert {stat.key for stat in zmap.list(ROOT)} == {"kept", "other"}
    with pytest.raises(NoSuchObject):
        zmap.read(Key("absent"))


def _prepare(zmap: ZMap, look: ZMap) -> None:
    zmap.prepare_writing()


def _stored(zmap: ZMap, key: Key | None = None) -> tuple[bytes, Version]:
    blob = zmap.read(key or NEW)
    return bytes(blob.data), blob.version


NEW, KEPT, LARGE = Key("new"), Key("kept"), Key("apart/large")
PATIENT = StoreOptions(request_timeout_s=100.0, attempt_timeout_s=30.0, part_bytes=5 << 20)


ON_CEPH = (_write, _create, _replace, _write_in_parts, _read, _delete, _delete_many, _find)
ON_BOTH = (_copy, _create_a_copy, _put_together)


@pytest.mark.parametrize(
    ("server", "operation", "fault"),
    [
        *itertools.product(["ceph"], ON_CEPH + ON_BOTH, ["lost"]),
        *itertools.product(["swift"], ON_BOTH, ["lost"]),
        *(
            pytest.param("ceph", operation, fault, marks=pytest.mark.long)
            for operation in ON_CEPH + ON_BOTH
            for fault in ("close", "status:500")
        ),
    ],
)
def test_an_operation_outlasts_the_failure_of_any_of_its_requests(
    request: pytest.FixtureRequest,
    server: str,
    operation: Callable[[ZMap, ZMap], None],
    fault: str,
) -> None:
    faults: Faults = request.getfixturevalue(f"{server}_with_faults")
    direct: S3Server = request.getfixturevalue(server)
    bucket = direct.new_bucket()
    zmap = open_store(faults.server.url(bucket), PATIENT)
    look = open_store(direct.url(bucket), PATIENT)
    zmap.prepare_writing()
    if operation is _put_together:
        look.write(LARGE, bytes(range(256)) * (12 << 12))
    for failing in itertools.count():
        look.delete_many([NEW])
        look.write(KEPT, b"kept")
        look.write(Key("other"), b"other")
        faults.set(f"{fault} skip={failing} first=1")
        operation(zmap, look)
        if not faults.log():
            break
    faults.set()
    assert failing > 0
    zmap.close()
    look.close()


def test_nothing_secret_is_in_errors_or_logs_whatever_fails(
    ceph_with_faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    server = ceph_with_faults.server
    bucket = server.new_bucket()
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="nczfs")
    zmap = open_store(server.url(bucket), replace(OPTIONS, request_timeout_s=0.3))
    texts = [repr(zmap), zmap.name]
    for fault in ("status:403", "status:500", "close", "empty", "truncate:10"):
        ceph_with_faults.set(fault)
        for ask in (*ON_CEPH, *ON_BOTH, _prepare):
            try:
                ask(zmap, zmap)
            except (NczfsError, AssertionError) as error:
                texts.append("".join(traceback.format_exception(error)))
    ceph_with_faults.set()
    zmap.close()
    logged = "\n".join(texts) + caplog.text
    assert "attempt 1" in logged
    assert server.secret_key not in logged
    assert "Signature=" not in logged


def test_a_server_that_cannot_be_reached_is_unavailable(swift_with_faults: Faults) -> None:
    nowhere = swift_with_faults.server.at("http://127.0.0.1:1")
    options = replace(OPTIONS, request_timeout_s=2.0)
    with pytest.raises((Unavailable, DeadlinePassed), match="refused"):
        open_store(nowhere.url("bucket"), options).read(KEY)
