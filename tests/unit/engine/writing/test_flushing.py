"""The flush of a chunk: whoever writes or reads meanwhile, and whatever fails, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from nczfs.errors import StoreError, Unavailable
from nczfs.testing.faults import Fault
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.run import ListedRange
from tests.support.clients import CHUNK, FILL, WRITES, Client, another, created, held, stored
from tests.support.late import LateZMap

BEFORE = [0, 1, 2, 3, *[FILL] * 6]
AFTER = [0, 101, 2, 3, 104, FILL, FILL, 107, FILL, FILL]


@pytest.fixture
def memory() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture
def client(memory: MemoryZMap) -> Iterator[Client]:
    with created(memory) as client:
        yield client


@pytest.mark.parametrize("there", [False, True])
def test_a_write_of_another_client_between_reading_and_replacing_is_kept(
    memory: MemoryZMap, client: Client, there: bool
) -> None:
    if there:
        client.v[0:4] = 5
    with another(memory) as other:
        other.v[3] = 33
        intrusions: list[str] = []

        def intrude(operation: str, key: str) -> None:
            if operation == "write" and not intrusions:
                intrusions.append(key)
                other.dataset.sync()

        client.before = intrude
        client.v[0] = 30
        client.dataset.sync()
    base = 5 if there else FILL
    assert intrusions == ["v/0"]
    assert stored(memory)[:4] == [30, base, base, 33]
    assert client.v[0:4].tolist() == [30, base, base, 33]


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("there", [False, True])
def test_a_failed_flush_keeps_what_was_written_and_the_next_one_repairs_it(
    memory: MemoryZMap, client: Client, after: bool, there: bool
) -> None:
    if there:
        client.v[0:4] = 5
    client.v[1] = 21
    client.zmap.arm(Fault(0, after=after, operations=WRITES))
    with pytest.raises(Unavailable):
        client.dataset.sync()
    assert client.v[1] == 21
    assert client.writeback.dirty_bytes > 0
    client.v[2] = 22
    with another(memory) as other:
        other.v[3] = 23
    client.dataset.sync()
    assert client.writeback.dirty_bytes == 0
    base = 5 if there else FILL
    assert stored(memory)[:4] == [base, 21, 22, 23]


@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_whichever_call_of_a_flush_fails_nothing_is_lost_and_nothing_else_changes(
    memory: MemoryZMap, client: Client, call: int, after: bool
) -> None:
    client.v[0:4] = [0, 1, 2, 3]
    client.v[1:8:3] = [101, 104, 107]
    client.zmap.arm(Fault(call, after=after))
    try:
        client.dataset.sync()
    except StoreError:
        assert client.zmap.fired
    client.zmap.arm()
    found = stored(memory)
    assert all(new in {old, wrote} for new, old, wrote in zip(found, BEFORE, AFTER, strict=True))
    assert client.v[...].tolist() == AFTER
    client.dataset.sync()
    assert stored(memory) == AFTER


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_whole_chunks_that_the_store_does_not_take_are_kept_like_parts_of_chunks(
    memory: MemoryZMap, client: Client, after: bool
) -> None:
    values = np.full(8, 9, np.int32)
    client.zmap.arm(Fault(0, after=after, operations=WRITES, repeats=1000))
    client.v[0:8] = values
    assert client.writeback.unsaved == 2
    values[...] = 1
    with pytest.raises(Unavailable):
        client.dataset.sync()
    assert client.v[0:8].tolist() == [9] * 8
    client.zmap.arm()
    client.v[1] = 5
    client.dataset.sync()
    assert client.writeback.unsaved == 0
    assert stored(memory)[:8] == [9, 5, *[9] * 6]
    assert client.v[0:8].tolist() == [9, 5, *[9] * 6]


def test_what_is_written_during_a_flush_is_not_lost(memory: MemoryZMap, client: Client) -> None:
    client.v[0] = 1
    with ThreadPoolExecutor(1) as pool, held(client, "write") as (begun, go_on):
        flush = pool.submit(client.dataset.sync)
        assert begun.wait(120)
        client.v[0], client.v[1] = 2, 3
        assert client.v[0:2].tolist() == [2, 3]
        go_on.set()
        flush.result(120)
    assert stored(memory)[:2] == [1, FILL], "the flush is of what was written before it"
    assert client.v[0:2].tolist() == [2, 3]
    client.calls.clear()
    client.dataset.sync()
    assert stored(memory)[:2] == [2, 3]
    assert client.calls == [("write", "v/0")], "what was just stored need not be read again"


def test_a_second_flush_waits_for_the_first_one_of_the_same_chunk(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0] = 1
    with ThreadPoolExecutor(2) as pool, held(client, "write") as (begun, go_on):
        first = pool.submit(client.dataset.sync)
        assert begun.wait(120)
        client.v[1] = 2
        second = pool.submit(client.dataset.sync)
        assert not second.done()
        go_on.set()
        first.result(120)
        second.result(120)
    assert stored(memory)[:2] == [1, 2]


def test_who_waits_for_a_flush_that_fails_stores_it_itself(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0] = 1
    client.zmap.arm(Fault(0, operations=WRITES))
    with ThreadPoolExecutor(2) as pool, held(client, "write") as (begun, go_on):
        first = pool.submit(client.dataset.sync)
        assert begun.wait(120)
        second = pool.submit(client.writeback.flush)
        go_on.set()
        assert isinstance(first.exception(120), Unavailable)
        second.result(120)
    assert stored(memory)[0] == 1


def test_an_element_written_while_its_whole_chunk_is_stored_from_elsewhere_is_newer(
    memory: MemoryZMap, client: Client
) -> None:
    values = np.zeros(CHUNK, np.int32)
    with ThreadPoolExecutor(1) as pool, held(client, "write") as (begun, go_on):
        whole = pool.submit(client.v.__setitem__, slice(0, CHUNK), values)
        assert begun.wait(120)
        client.v[1] = 7
        assert values.tolist() == [0] * CHUNK
        assert client.writeback.dirty_bytes > 0, "it has memory of its own now, which counts"
        go_on.set()
        whole.result(120)
    assert client.v[0:4].tolist() == [0, 7, 0, 0]
    client.dataset.sync()
    assert stored(memory)[:4] == [0, 7, 0, 0]


def test_a_load_that_began_before_a_flush_does_not_bring_old_values_back(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0:4] = 1
    with another(memory) as fresh, ThreadPoolExecutor(1) as pool:
        original = fresh.zmap._zmap.read
        begun, go_on = threading.Event(), threading.Event()

        def late(*arguments: Any, **options: Any) -> Any:
            blob = original(*arguments, **options)
            begun.set()
            assert go_on.wait(120)
            return blob

        fresh.zmap._zmap.read = late  # type: ignore[method-assign]
        read = pool.submit(lambda: fresh.v[0:4])
        assert begun.wait(120)
        fresh.zmap._zmap.read = original  # type: ignore[method-assign]
        fresh.v[0:4] = 2
        go_on.set()
        assert set(read.result(120).tolist()) <= {1, 2}
        assert fresh.v[0:4].tolist() == [2] * 4


@pytest.mark.parametrize("known", ["made here", "read", "stored", "stored as fill"])
def test_a_whole_chunk_that_arrives_late_undoes_nothing(known: str) -> None:
    """SEMANTICS L7."""
    late = LateZMap()
    with created(late) as client:
        match known:
            case "read":
                assert client.v[0:4].tolist() == [FILL] * 4
            case "stored":
                client.v[0:4] = 5
            case "stored as fill":
                client.v[0:4] = 5
                client.v[0:4] = FILL
        client.dataset.sync()
        late.delay(1)
        client.v[0:4] = 6
        late.delay(0)
        client.v[1] = 7
        client.dataset.sync()
        assert stored(late)[:4] == [6, 7, 6, 6]
        assert late.land() == 1
        assert stored(late)[:4] == [6, 7, 6, 6]


@pytest.mark.parametrize("page", [1000, 1, 0], ids=["listed", "page by page", "not listed"])
@pytest.mark.parametrize("there", [False, True])
def test_a_whole_chunk_of_another_client_is_listed_before_it_is_replaced(
    there: bool, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS L7."""
    monkeypatch.setattr("nczfs.engine.chunks.unitio.RUN_UNITS", 1)
    late = LateZMap(page)
    with created(late) as other:
        if there:
            other.v[0:8] = 5
            other.dataset.sync()
        with another(late) as client:
            late.delay(2)
            client.v[0:8] = 6
            late.delay(0)
            client.v[1] = 7
            client.v[4:8] = 8
            client.dataset.sync()
            after = [6, 7, 6, 6, 8, 8, 8, 8]
            assert stored(late)[:8] == after
            assert late.land() == 2
            assert stored(late)[:8] == (after if page else [6] * 8)


def test_fill_is_stored_where_an_earlier_request_may_still_arrive() -> None:
    """SEMANTICS L7."""
    late = LateZMap()
    with created(late) as client:
        late.delay(1)
        client.v[0:4] = 6
        late.delay(0)
        client.v[0:4] = FILL
        client.dataset.sync()
        late.land()
        assert stored(late)[:4] == [FILL] * 4


def test_one_listing_tells_the_versions_of_all_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    late, listed = LateZMap(), []

    def run_from(prefix: Prefix, first: Key | None) -> ListedRange | None:
        listed.append(first)
        return LateZMap.run_from(late, prefix, first)

    monkeypatch.setattr(late, "run_from", run_from)
    with created(late) as other:
        other.v[0:4] = 5
        other.dataset.sync()
        assert listed == [], "all that the store can have of a new variable is known"
    with another(late) as client:
        for value in (6, 7):
            client.v[0:8] = value
            client.dataset.sync()
        assert {operation for operation, _ in client.calls} == {"write"}
    assert listed == [None]
    assert stored(late)[:8] == [7] * 8


def test_a_whole_chunk_replaces_what_another_client_stored_since_its_version_was_known(
    memory: MemoryZMap, client: Client
) -> None:
    """SEMANTICS W2: also where it is all fill."""
    for value in (6, FILL):
        client.v[0:4] = 5
        client.dataset.sync()
        with another(memory) as other:
            other.v[0:2] = 9
        client.v[0:4] = value
        client.dataset.sync()
        assert stored(memory)[:4] == [value] * 4
