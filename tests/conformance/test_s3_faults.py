"""What an S3 server and the way to it do wrong ends in the right data or the right error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import pytest

from nczfs.errors import (
    AccessDenied,
    DeadlinePassed,
    NoSuchObject,
    StoreError,
    Unavailable,
)
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions, open_store
from tests.support.servers import Faults

KEY = Key("group/variable/0.0")
DATA = bytes(range(256)) * 1000
# Short, so that a fault that lasts is over soon; patient enough for a busy machine.
OPTIONS = StoreOptions(request_timeout_s=6.0, attempt_timeout_s=1.0)


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
        "noetag",
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
        ("stall:1000", (DeadlinePassed,)),
        ("status:403", (AccessDenied,)),
        ("status:404", (NoSuchObject,)),
    ],
)
def test_a_fault_that_lasts_is_the_right_error_in_time(
    swift_with_faults: Faults,
    bucket: str,
    zmap: ZMap,
    fault: str,
    errors: tuple[type[StoreError], ...],
) -> None:
    options = replace(OPTIONS, request_timeout_s=2.0)
    impatient = open_store(swift_with_faults.server.url(bucket), options)
    swift_with_faults.set(f"{fault} GET path=0.0")
    begin = monotonic()
    with pytest.raises(errors, match=KEY):
        impatient.read(KEY)
    assert monotonic() - begin < options.request_timeout_s + 1
    impatient.close()
    assert swift_with_faults.log()
    swift_with_faults.set()
    assert bytes(zmap.read(KEY, 5, 9).data) == DATA[5:9]


def test_a_server_that_cannot_be_reached_is_unavailable(swift_with_faults: Faults) -> None:
    nowhere = swift_with_faults.server.at("http://127.0.0.1:1")
    options = replace(OPTIONS, request_timeout_s=0.5)
    with pytest.raises((Unavailable, DeadlinePassed), match="refused"):
        open_store(nowhere.url("bucket"), options).read(KEY)
