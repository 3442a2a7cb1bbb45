"""Chunks that share an object are stored together: whoever else writes it, and whatever fails."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import Tally
from nczfs.engine.spool.space import Spool, Survives
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import NczfsError, StoreError, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from tests.conftest import ExpectedWarnings
from tests.support import spooling
from tests.support.clients import FILL, LENGTH, WRITES, Client, another, chunk_keys, created, stored
from tests.support.killed import Kept, copied, left_by, recovered
from tests.support.paired import all_paired
from tests.support.sharded import all_sharded
from tests.support.spooling import (
    CHUNK,
    DOWN,
    TIGHT,
    Mount,
    mounted,
    new_memory,
    put_all_back,
    recover,
)

# The array of a client has ten elements, in chunks of four: v/0 holds the first eight, v/1 two.


@pytest.fixture(
    autouse=True,
    params=[
        all_paired,
        all_sharded,
        partial(all_sharded, index_at_end=False),
        partial(all_sharded, (1,), (2,)),
    ],
    ids=["pairs", "shards", "shards with the index in front", "nested shards"],
)
def shared(request: pytest.FixtureRequest) -> Iterator[None]:
    with request.param():
        yield


@pytest.fixture
def memory() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture
def client(memory: MemoryZMap) -> Iterator[Client]:
    with created(memory) as client:
        yield client


def test_what_was_written_to_both_chunks_of_an_object_is_stored_by_one_write(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[1:7] = np.arange(1, 7)
    client.dataset.sync()
    assert [call for call in client.calls if call[0] == "write"] == [("write", "v/0")]
    assert stored(memory) == [FILL, 1, 2, 3, 4, 5, 6, FILL, FILL, FILL]


def test_an_object_that_is_written_whole_is_never_read(memory: MemoryZMap, client: Client) -> None:
    """SEMANTICS W94."""
    for start in range(0, LENGTH, 2):
        client.v[start : start + 2] = start
    client.dataset.sync()
    of_objects = {operation for operation, key in client.calls if key != "v/zarr.json"}
    assert of_objects <= {"write", "run_from"}
    assert sorted(key for operation, key in client.calls if operation == "write") == ["v/0", "v/1"]
    assert stored(memory) == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]


def test_an_object_that_is_written_whole_is_in_the_store_when_the_write_returns(
    memory: MemoryZMap, client: Client
) -> None:
    """SEMANTICS W94. Nothing of it is copied into memory, and other chunks are kept as before."""
    client.calls.clear()
    client.v[0:9] = np.arange(9)
    assert [call for call in client.calls if call[0] == "write"] == [("write", "v/0")]
    assert stored(memory)[:8] == list(range(8))
    assert client.writeback.unsaved == 1
    client.dataset.sync()
    assert stored(memory) == [*range(9), FILL]
    client.v[1] = 7  # a dirty chunk of the object
    client.v[0:8] = np.arange(10, 18)
    assert client.writeback.unsaved == 2
    client.dataset.sync()
    assert stored(memory) == [*range(10, 18), 8, FILL]


def test_values_that_the_store_did_not_take_are_kept_and_the_array_is_the_callers_again(
    memory: MemoryZMap, client: Client
) -> None:
    def refuse(operation: str, key: str) -> None:
        if operation == "write":
            raise Unavailable("down")

    client.before = refuse
    values = np.arange(8, dtype="i4")
    client.v[0:8] = values
    values[:] = 0
    assert client.writeback.unsaved == 2
    assert list(client.v[0:8]) == list(range(8))
    client.before = lambda operation, key: None
    client.dataset.sync()
    assert stored(memory)[:8] == list(range(8))


def test_what_a_reader_got_on_its_way_stays_when_the_caller_changes_the_array(
    client: Client,
) -> None:
    array = client.dataset._dataset.array(client.v.description)
    got: list[Any] = []

    def look(operation: str, key: str) -> None:
        if operation == "write":
            got.append(array.peek_chunk((0,), 0.0))

    client.before = look
    values = np.arange(8, dtype="i4")
    client.v[0:8] = values
    values[:] = 0
    assert [found.tolist() for found in got] == [[0, 1, 2, 3]]


def test_an_object_larger_than_half_of_the_memory_is_not_sent_from_the_callers(
    memory: MemoryZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There would be no room for a copy of it if the store did not take it."""
    monkeypatch.setattr(WriteBack, "send", lambda *_: pytest.fail("was sent"))
    with created(memory, client={"budget": 3 * 4 * 4}) as client:  # three chunks
        client.v[0:8] = np.arange(8)
        client.dataset.sync()
    assert stored(memory)[:8] == list(range(8))


def test_what_half_of_the_memory_does_not_hold_of_an_object_is_stored_several_times(
    memory: MemoryZMap,
) -> None:
    """SEMANTICS W95."""
    with created(memory, client={"budget": 3 * 4 * 4}) as client:  # half is less than two chunks
        client.calls.clear()
        client.v[0:3] = [1, 2, 3]
        client.v[4:7] = [5, 6, 7]
        client.dataset.sync()
        assert [key for operation, key in client.calls if operation == "write"] == ["v/0", "v/0"]
    assert stored(memory)[:8] == [1, 2, 3, FILL, 5, 6, 7, FILL]


@pytest.mark.parametrize("index", [slice(4, 8), slice(5, 6)], ids=["whole", "in part"])
def test_the_other_chunk_of_an_object_stays_as_it_is(
    memory: MemoryZMap, client: Client, index: slice
) -> None:
    client.v[...] = np.arange(LENGTH)
    client.dataset.sync()
    client.v[index] = 77
    client.dataset.sync()
    wanted = np.arange(LENGTH)
    wanted[index] = 77
    assert stored(memory) == wanted.tolist()
    assert client.v[...].tolist() == wanted.tolist()


def test_two_clients_that_write_the_chunks_of_one_object_lose_nothing(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[0] = 0
    client.dataset.sync()
    with another(memory) as other:
        for number in range(1, 20):
            client.v[0:4] = number
            other.v[4:8] = -number
            both = [threading.Thread(target=each.dataset.sync) for each in (client, other)]
            for thread in both:
                thread.start()
            for thread in both:
                thread.join()
            assert stored(memory)[:8] == [number] * 4 + [-number] * 4


@pytest.mark.parametrize("there", [False, True])
def test_a_write_of_another_client_between_reading_and_replacing_is_kept(
    memory: MemoryZMap, client: Client, there: bool
) -> None:
    if there:
        client.v[...] = 5
        client.dataset.sync()
    with another(memory) as other:
        other.v[3:5] = 33
        intrusions: list[str] = []

        def intrude(operation: str, key: str) -> None:
            if operation == "write" and not intrusions:
                intrusions.append(key)
                other.dataset.sync()

        client.before = intrude
        client.v[0] = 30
        client.v[7] = 70
        client.dataset.sync()
    base = 5 if there else FILL
    assert intrusions == ["v/0"]
    assert stored(memory)[:8] == [30, base, base, 33, 33, base, base, 70]


def test_what_is_written_while_its_object_is_on_its_way_is_stored_afterwards(
    memory: MemoryZMap, client: Client
) -> None:
    written: list[str] = []

    def write(operation: str, key: str) -> None:
        if operation == "write" and not written:
            written.append(key)
            client.v[1] = 11
            client.v[6] = 66

    client.before = write
    client.v[0:2] = 1
    client.dataset.sync()
    assert client.writeback.unsaved == 2
    assert client.v[0:8].tolist() == [1, 11, FILL, FILL, FILL, FILL, 66, FILL]
    client.dataset.sync()
    assert client.writeback.unsaved == 0
    assert stored(memory)[:8] == [1, 11, FILL, FILL, FILL, FILL, 66, FILL]


@pytest.mark.parametrize("call", range(6))
@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_whichever_call_fails_nothing_is_lost_and_nothing_else_changes(
    memory: MemoryZMap, client: Client, call: int, after: bool
) -> None:
    client.v[...] = np.arange(LENGTH)
    client.dataset.sync()
    client.v[2:6] = [12, 13, 14, 15]
    client.v[9] = 19
    client.zmap.arm(Fault(call, after=after))
    try:
        client.dataset.sync()
    except StoreError:
        assert client.zmap.fired
    client.zmap.arm()
    wanted = [0, 1, 12, 13, 14, 15, 6, 7, 8, 19]
    found = stored(memory)
    assert all(new in {old, to} for new, old, to in zip(found, range(LENGTH), wanted, strict=True))
    assert client.v[...].tolist() == wanted
    client.dataset.sync()
    assert stored(memory) == wanted


def test_an_object_of_fill_is_not_stored_where_there_is_none(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[...] = FILL
    client.dataset.sync()
    assert chunk_keys(memory) == set()
    client.v[0:4] = 1
    client.dataset.sync()
    client.v[0:4] = FILL
    client.dataset.sync()
    assert chunk_keys(memory) == {"v/0"}
    assert stored(memory) == [FILL] * LENGTH


def test_the_index_of_an_object_is_read_once_and_neighbours_by_one_request(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[...] = np.arange(LENGTH)
    client.dataset.sync()
    with another(memory) as reader:
        assert reader.v[0:8].tolist() == list(range(8))
        assert [call for call in reader.calls if call[1] == "v/0"] in (
            [("read", "v/0"), ("read_ranges", "v/0")],
            [("read", "v/0"), ("read", "v/0")],
            [("read", "v/0")],  # a small shard of which most is needed
        )


def test_chunks_of_an_object_that_the_store_does_not_take_are_spooled_and_recovered(
    tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("nczfs recover")
    memory = new_memory()
    with mounted(memory, tmp_path) as mount:
        mount.write(0, *range(4 * CHUNK))
        mount.v.flush()
    mount = Mount(memory, tmp_path)
    mount.zmap.arm(DOWN)
    mount.write(CHUNK - 2, 1, 2, 3, 4)
    with pytest.raises(Unavailable):
        mount.v.flush()
    mount.close()
    wanted = list(range(4 * CHUNK))
    assert spooling.stored(memory)[: 4 * CHUNK] == wanted
    recover(memory, tmp_path)
    wanted[CHUNK - 2 : CHUNK + 2] = 1, 2, 3, 4
    assert spooling.stored(memory)[: 4 * CHUNK] == wanted
    assert list(tmp_path.iterdir()) == []


def died(memory: MemoryZMap, living: Path, left: Path, first: int, *values: int) -> None:
    """Let a mount end that has written elements, and stored none of them.

    Parameters
    ----------
    living : where its spool is; `left`: where it is afterwards.
    """
    has_journal = living.name == "journal"
    spool = Spool(
        living, "memory://store", survives=Survives.KILL if has_journal else Survives.NOTHING
    )
    mount = Mount(memory, living, spool=spool)
    mount.zmap.arm(DOWN)
    mount.write(first, *values)
    if has_journal:
        shutil.copytree(spool.directory, left / spool.directory.name)
    mount.close()
    if not has_journal:
        shutil.move(spool.directory, left / spool.directory.name)


@pytest.fixture(params=["journal", "entries"])
def left(
    request: pytest.FixtureRequest, tmp_path: Path, expected_warnings: ExpectedWarnings
) -> tuple[MemoryZMap, Path, list[int]]:
    """A store, what two mounts have left of one object, and what belongs there."""
    expected_warnings.add("nczfs recover")
    memory, wanted = new_memory(), list(range(4 * CHUNK))
    left = tmp_path / "spool"
    left.mkdir()
    with mounted(memory, left) as mount:
        mount.write(0, *wanted)
        mount.v.flush()
    for first, values in ((CHUNK - 2, (1, 2, 3, 4)), (CHUNK - 1, (5, 6, 7, 8))):
        died(memory, tmp_path / request.param, left, first, *values)
        wanted[first : first + 4] = values
    return memory, left, wanted


def test_what_several_mounts_left_of_an_object_is_put_back_by_one_write(
    left: tuple[MemoryZMap, Path, list[int]],
) -> None:
    """SEMANTICS W59."""
    memory, directory, wanted = left
    calls: list[tuple[str, str]] = []
    zmap = Faulty(memory, before_call=lambda *call: calls.append(call))
    store = recovery.Store(Kept(zmap), parse_url("memory://store"))
    put_all_back(store, recovery.entries(directory))
    store.close()
    assert [call for call in calls if call == ("write", "v/0")] == [("write", "v/0")]
    assert spooling.stored(memory)[: 4 * CHUNK] == wanted


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("removed", range(5))
@pytest.mark.parametrize("call", range(0, 12, 2))
def test_wherever_it_ends_putting_back_what_mounts_left_of_an_object_can_be_done_again(
    left: tuple[MemoryZMap, Path, list[int]], call: int, removed: int, after: bool
) -> None:
    memory, directory, wanted = left
    zmap = Faulty(memory, Fault(call, after=after, repeats=10**9))
    with suppress(NczfsError):
        store = recovery.Store(Kept(zmap), parse_url("memory://store"))
        groups = recovery.together(recovery.entries(directory))
        assert list(map(len, groups)) == [4]
        for found, problem in list(zip(groups[0], store.put_back(groups[0]), strict=True))[
            :removed
        ]:
            if problem is None:
                found.remove()
    recover(memory, directory)
    assert spooling.stored(memory)[: 4 * CHUNK] == wanted


def test_an_object_is_put_back_whole_or_not_at_all_where_the_store_fails_for_a_moment(
    tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W59. Else what is left would seem older than what was just put there."""
    expected_warnings.add("nczfs recover")
    empty, spool_dir = new_memory(), tmp_path / "spool"
    mount = Mount(empty, spool_dir)
    mount.zmap.arm(DOWN)
    mount.write(CHUNK - 2, 1, 2, 3, 4)
    mount.close()
    call, has_failed = 0, True
    while has_failed:
        memory, left = copied(empty), tmp_path / str(call)
        shutil.copytree(spool_dir, left)
        failing = Faulty(memory, Fault(call))
        store = recovery.Store(Kept(failing), parse_url("memory://store"))
        for group in recovery.together(recovery.entries(left)):
            problems = store.put_back(group)
            for found, problem in zip(group, problems, strict=True):
                if problem is None:
                    found.remove()
        store.close()
        recover(memory, left)
        assert spooling.stored(memory)[CHUNK - 2 : CHUNK + 2] == [1, 2, 3, 4]
        call, has_failed = call + 1, bool(failing.fired)
    assert call > 5


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """End the block at a use of the disk, counted from 0: nothing has an effect afterwards."""
    left = step

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def use(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return call(*arguments, **options)

        return use

    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        for name in (
            "open",
            "fsync",
            "fdatasync",
            "ftruncate",
            "rename",
            "rmdir",
            "unlink",
            "writev",
        ):
            patch.setattr(os, name, counted(getattr(os, name)))
        yield


def test_at_whichever_use_of_the_disk_putting_back_is_killed_it_can_be_done_again(
    left: tuple[MemoryZMap, Path, list[int]],
) -> None:
    """SEMANTICS W59."""
    before, directory, wanted = left
    for step in range(1000):
        memory, trial = copied(before), directory.with_name(f"trial{step}")
        shutil.copytree(directory, trial)
        with killed_at(step):
            recover(memory, trial)
        is_whole = not list(trial.iterdir())
        recover(memory, trial)
        assert spooling.stored(memory)[: 4 * CHUNK] == wanted, step
        assert list(trial.iterdir()) == []
        if is_whole:
            break
    assert step > 15


@pytest.mark.parametrize("when", ["before", "answer lost", "while it is on its way"])
def test_what_the_journal_has_of_an_object_is_put_back_after_a_kill(
    tmp_path: Path, when: str
) -> None:
    memory, left = new_memory(), tmp_path / "killed"
    spool = Spool(tmp_path / "spool", "memory://store", survives=Survives.KILL)
    mount = Mount(memory, tmp_path, spool=spool)
    mount.write(0, *range(4 * CHUNK))
    mount.v.flush()
    mount.write(CHUNK - 2, 1, 2, 3, 4)
    if when == "answer lost":
        mount.zmap.arm(Fault(0, after=True, operations=WRITES))
        with pytest.raises(Unavailable):
            mount.v.flush()
        mount.write(CHUNK - 1, 20, 30)
    elif when == "while it is on its way":
        written: list[str] = []

        def write(operation: str, key: str) -> None:
            if operation == "write" and not written:
                written.append(key)
                mount.write(0, 9)

        mount.before = write
        mount.v.flush()
    left_by(spool.directory.parent, left)
    recovered(left, memory)
    wanted = list(range(4 * CHUNK))
    wanted[CHUNK - 2 : CHUNK + 2] = 1, 2, 3, 4
    if when == "answer lost":
        wanted[CHUNK - 1 : CHUNK + 1] = 20, 30
    if when == "while it is on its way":
        wanted[0] = 9
    assert spooling.stored(memory)[: 4 * CHUNK] == wanted
    mount.zmap.arm()
    mount.v.flush()
    mount.close()


@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL], ids=["entries", "journal"])
def test_what_was_written_after_another_client_had_stored_the_object_is_put_over_that(
    tmp_path: Path, survives: Survives, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W51. Something else that waits for the same object was written before."""
    expected_warnings.add("nczfs recover")
    memory, left = new_memory(), tmp_path / "left"
    with mounted(memory, tmp_path) as mount:
        mount.write(0, *range(4 * CHUNK))
        mount.v.flush()
    spool = Spool(tmp_path / "spool", "memory://store", survives=survives)
    mount = Mount(memory, tmp_path, spool=spool)
    mount.zmap.arm(DOWN)
    mount.write(0, 100)
    with open_zmap(memory, "r+") as theirs:
        theirs.variables["v"][[0, CHUNK]] = 50, 51
    mount.write(CHUNK + 1, 200)
    if survives is Survives.KILL:
        left_by(spool.directory.parent, left)
    mount.close()
    refused = recovered(left if left.exists() else spool.directory.parent, memory, refusing=True)
    assert refused == ["v[0:1]"]
    wanted = list(range(4 * CHUNK))
    wanted[0], wanted[CHUNK], wanted[CHUNK + 1] = 50, 51, 200
    assert spooling.stored(memory)[: 4 * CHUNK] == wanted


def test_a_spooled_chunk_that_has_no_place_yet_follows_the_object_that_the_mount_stores(
    tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W51, W52. Only the mount itself has stored it since."""
    expected_warnings.add("nczfs recover")
    memory = new_memory()
    with mounted(memory, tmp_path) as mount:
        mount.write(0, *range(2 * CHUNK))
        mount.v.flush()
    mount = Mount(memory, tmp_path, budget=TIGHT)
    mount.v.stored.held_from = CHUNK  # as if what comes from there on were appended
    mount.zmap.arm(DOWN)
    mount.write(0, 99)
    for number in range(1, 10):
        mount.write(number * CHUNK, number)
    assert (chunk := mount.chunk(1)) is not None
    assert chunk.is_saved
    mount.zmap.arm()
    mount.write(0, 100)
    mount.v.flush()
    assert mount.chunk(0) is None
    assert mount.chunk(1) is chunk
    mount.zmap.arm(DOWN)
    mount.close()
    assert len(recovered(tmp_path, memory)) == 9
    wanted = list(range(2 * CHUNK))
    wanted[0], wanted[CHUNK] = 100, 1
    assert spooling.stored(memory)[: 2 * CHUNK] == wanted


@pytest.mark.parametrize("is_read", [False, True])
def test_a_chunk_whose_first_write_fails_while_its_object_is_stored_leaves_nothing(
    tmp_path: Path, is_read: bool
) -> None:
    with mounted(new_memory(), tmp_path) as mount:
        dirty, here = mount.writeback._dirty, (mount.v.stored, (1,))
        begun: list[Any] = []

        def begin(operation: str, key: str) -> None:
            if operation == "write":
                begun.append(dirty.entry(here, mount.v.writer(), Box((0,), (CHUNK,))))

        mount.before = begin
        mount.write(0, 1)
        mount.v.flush()
        assert mount.writeback.unsaved == 1
        if is_read:
            assert mount.read(CHUNK - 1, CHUNK + 1) == [spooling.FILL] * 2
        dirty.remove_unwritten(here, begun[0])
        assert mount.writeback.unsaved == 0


def test_chunks_of_variable_length_share_an_object_too(memory: MemoryZMap) -> None:
    with created(memory, dtype=str, fillvalue=None, codecs=None) as client:
        client.v[2:6] = ["a", "bb", "ccc", "d"]
        client.dataset.sync()
        with another(memory) as other:
            assert other.v[...].tolist() == ["", "", "a", "bb", "ccc", "d", "", "", "", ""]


def test_elements_read_ahead_are_those_of_their_chunks(memory: MemoryZMap, client: Client) -> None:
    client.v[...] = np.arange(LENGTH)
    client.dataset.sync()
    with another(memory) as reader:
        array = reader.dataset._dataset.array(reader.v.description)
        array.request_run(0, LENGTH, Tally(), 0.0)
        out = np.empty(LENGTH, np.int32)
        array.read_run(0, out, Tally())
        assert out.tolist() == list(range(LENGTH))
