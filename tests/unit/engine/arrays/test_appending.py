"""Records that several clients append: each has a place of its own, whoever stores first."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nczfs.engine.arrays.array import now
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.claims import NOTE, with_claim, without_covered
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, Tally
from nczfs.engine.process import ProcessIdentity, current_process
from nczfs.engine.spool.journal import Journal
from nczfs.engine.spool.log import Log
from nczfs.engine.spool.space import Spool, Survives
from nczfs.engine.structure.editor import Editor
from nczfs.engine.writing.dirty import DirtyChunk
from nczfs.engine.writing.dirtymap import DirtyMap
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import NczfsError, NoSpace, SpoolError, Unavailable
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from tests.support.killed import Kept, copied, left_by

LAYOUTS = ("nczarr-L3", "nczarr-L2l")
WIDTH = 3


@pytest.fixture(params=LAYOUTS)
def store(request: pytest.FixtureRequest) -> MemoryZMap:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=request.param) as root:
        root.create_dimension("t", None)
        root.create_dimension("x", WIDTH)
        for name in "rs":
            variable = root.create_variable(name, ("t", "x"), "<i4", chunks=(2, 2), fillvalue=-1)
            if name == "r":
                variable[:2] = 0
    return zmap


class Client:
    """One that appends to a store, with memory of its own."""

    def __init__(self, zmap: ZMap, spool: Spool | None = None) -> None:
        self.refused = ""  # the key that cannot be written
        self.meanwhile: tuple[str, Callable[[], None]] | None = None  # before a key is read
        self.zmap = Faulty(zmap, before_call=self._refuse)
        self.engine = Engine(EngineOptions(memory_limit_bytes=1 << 20), spool)
        metadata = MetadataCache(self.zmap, self.engine.options, self.engine.pools)
        found = open_dataset(self.engine, metadata, ROOT, FormatOptions(), writable=True)
        assert found is not None
        metadata.ttl_s = 0.0
        self.metadata = metadata
        self.dataset: Dataset = found
        self._editor = Editor(found, ".")

    def believe(self) -> None:
        """Take the variables for what they are now, for a while."""
        self.dataset.documents()
        self.metadata.ttl_s = 60.0
        self._variable("r")

    def append(self, *numbers: int, name: str = "r") -> int:
        rows = np.repeat(np.array(numbers, "<i4"), WIDTH).reshape(-1, WIDTH)
        array = self.dataset.array(self._variable(name)).stored

        def grow(length: int) -> None:
            self._editor.grow(self._variable(name), (length, WIDTH))

        return self.dataset.append(array, rows, grow)

    def write(self, at: int, number: int, name: str = "r") -> None:
        """A record with a place of its own."""
        self._editor.grow(self._variable(name), (at + 1, WIDTH))
        array = self.dataset.array(self._variable(name))
        array.write_run(at * WIDTH, np.full(WIDTH, number, "<i4"))

    def shorten(self, length: int) -> None:
        self._editor.resize(self._variable("r").dimensions[0], length)

    def shown(self, name: str = "r") -> list[int]:
        array = self.dataset.array(self._variable(name))
        out = np.empty(array.description.shape, "<i4")
        array.read_run(0, out.reshape(-1), Tally(), now())
        assert (out == out[:, :1]).all()
        return [int(number) for number in out[:, 0]]

    def _refuse(self, operation: str, key: str) -> None:
        if operation == "write" and key == self.refused:
            raise Unavailable(f"{key}: refused")
        if self.meanwhile is not None and (operation, key) == ("read", self.meanwhile[0]):
            (_, happens), self.meanwhile = self.meanwhile, None
            happens()

    def _variable(self, name: str) -> Variable:
        node = self.dataset.node(name)
        assert isinstance(node, Variable)
        return node


@pytest.fixture
def clients(store: MemoryZMap) -> Iterator[tuple[Client, Client]]:
    found = Client(store), Client(store)
    yield found
    for client in found:
        client.engine.close()


def stored(store: MemoryZMap, name: str = "r") -> list[int]:
    with open_zmap(store) as root:
        found = np.asarray(root.variables[name][...])
    assert (found == found[:, :1]).all()
    return [int(number) for number in found[:, 0]]


def columns(store: MemoryZMap, number: int) -> list[int]:
    with open_zmap(store) as root:
        return [int(value) for value in root.variables["r"][...][:, number]]


def shape_document(store: MemoryZMap) -> dict[str, object]:
    found: dict[str, object] = json.loads(bytes(store.read(parse_key("r/.zarray")).data))
    return found


def test_who_stores_second_finds_his_records_behind(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, other = clients
    assert one.append(1) == other.append(11) == 2
    assert one.append(2, 3) == other.append(12, 13) == 3
    one.dataset.store()
    assert stored(store) == [0, 0, 1, 2, 3]
    other.dataset.store()
    assert stored(store) == other.shown() == [0, 0, 1, 2, 3, 11, 12, 13]
    assert other.append(14) == 8
    other.dataset.store()
    one.append(4)
    one.dataset.store()
    assert stored(store) == one.shown() == [0, 0, 1, 2, 3, 11, 12, 13, 14, 4]
    assert NOTE not in shape_document(store)
    assert [client.dataset.engine.writeback.dirty_bytes for client in clients] == [0, 0]


def test_what_is_claimed_is_left_free_until_it_is_stored(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    """SEMANTICS W57."""
    one, other = clients
    one.append(1, 2)
    assert one.dataset.appends.claim(one.dataset.appends.paths) == {}
    other.append(11)
    other.dataset.store()
    assert stored(store) == [0, 0, -1, -1, 11]
    one.dataset.store()
    assert stored(store) == [0, 0, 1, 2, 11]
    assert NOTE not in shape_document(store)


def test_records_at_an_index_keep_their_place(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    """SEMANTICS W55."""
    one, other = clients
    one.write(3, 1)
    other.append(11)
    other.dataset.store()
    one.dataset.store()
    assert stored(store) == [0, 0, 11, 1]


def test_an_array_that_another_client_makes_longer_while_a_record_is_added_keeps_its_records(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, other = clients

    def others_append() -> None:
        other.append(11, 12, 13, name="s")
        other.dataset.store()

    one.meanwhile = ("r/.zarray", others_append)  # read for those that have the dimension as well
    one.append(1, name="s")
    assert one.meanwhile is None
    one.append(2, name="s")
    one.dataset.store()
    wanted = [-1, -1, 11, 12, 13, 1, 2]
    assert stored(store, "s") == one.shown("s") == other.shown("s") == wanted


def test_a_shape_that_is_ahead_of_its_dimension_is_not_made_shorter(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, other = clients
    one.append(1, 2, 3)
    one.refused = ".zgroup" if "L2" in one.dataset.format.name else ".zattrs"
    with pytest.raises(Unavailable):
        one.dataset.store()
    assert shape_document(store)["shape"] == [5, WIDTH]
    other.write(2, 11, name="r")
    other.dataset.store()
    assert shape_document(store)["shape"] == [5, WIDTH]
    other.append(12)
    other.dataset.store()
    one.refused = ""
    one.dataset.store()
    assert stored(store) == [0, 0, 11, 2, 3, 12]


def test_what_waits_for_a_place_is_stored_by_nothing_else(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, _ = clients
    one.append(1, 2, 3)
    one.engine.writeback.flush()
    assert parse_key("r/1.0") not in {stat.key for stat in store.list(ROOT)}
    assert one.shown() == [0, 0, 1, 2, 3]
    one.dataset.store()
    assert stored(store) == [0, 0, 1, 2, 3]
    assert not one.dataset.has_unsaved()


def test_more_records_than_memory_has_room_for_are_stored_as_they_come(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, _ = clients
    for start in range(0, 6000, 500):
        one.append(*range(start, start + 500))
        assert one.engine.writeback.memory_bytes < 1 << 20
    one.dataset.store()
    assert stored(store) == [0, 0, *range(6000)]


def test_a_place_that_cannot_be_claimed_leaves_all_as_it_is(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, other = clients
    one.append(1)
    one.write(0, 7)
    one.refused = "r/.zarray"
    with pytest.raises(Unavailable):
        one.dataset.store()
    assert stored(store) == [7, 0]
    assert one.shown() == [7, 0, 1]
    one.refused = ""
    other.append(11)
    other.dataset.store()
    one.dataset.store()
    assert stored(store) == one.shown() == [7, 0, 11, 1]


def test_values_that_cannot_be_stored_keep_their_place_and_no_reader_sees_it_before(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, other = clients
    one.append(1)
    one.refused = "r/1.0"
    with pytest.raises(Unavailable):
        one.dataset.store()
    assert stored(store) == [0, 0]
    other.append(11)
    other.dataset.store()
    one.refused = ""
    one.append(2)
    one.dataset.store()
    assert stored(store) == one.shown() == [0, 0, 1, 11, 2]


def test_one_client_appends_to_two_variables_of_a_dimension(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, other = clients
    one.append(1)
    other.append(11)
    assert one.append(5, name="s") == 3
    one.dataset.store()
    other.dataset.store()
    assert stored(store) == [0, 0, 1, -1, 11]
    assert stored(store, "s")[:4] == [-1, -1, -1, 5]


def test_a_variable_that_another_client_removed_takes_no_record(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, _ = clients
    one.append(1)
    for stat in list(store.list(ROOT)):
        if stat.key.startswith("r/"):
            store.delete(stat.key)
    with pytest.raises(NczfsError):
        one.dataset.store()
    assert not one.dataset.appends.is_any


def test_a_claim_that_was_stored_although_nobody_heard_of_it_leaves_no_gap(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, _ = clients
    one.append(1)
    one.zmap.arm(Fault(0, after=True, operations=frozenset({"write"})))
    with pytest.raises(Unavailable):
        one.dataset.store()
    assert NOTE in shape_document(store)
    one.append(2)
    one.dataset.store()
    assert stored(store) == [0, 0, 1, 2]
    assert NOTE not in shape_document(store)


def test_after_a_kill_the_journal_has_what_was_moved_and_what_stayed(
    store: MemoryZMap, clients: tuple[Client, Client], tmp_path: Path
) -> None:
    _, other = clients
    spool = Spool(tmp_path / "spool", "memory://store", survives=Survives.KILL)
    one = Client(store, spool)
    one.write(2, 5)
    assert one.append(6) == 3
    other.append(11, 12)
    other.dataset.store()
    assert one.dataset.appends.claim(one.dataset.appends.paths) == {}
    left = left_by(tmp_path / "spool", tmp_path / "killed")
    found = [entry.describe().partition(" ")[2] for entry in recovery.entries(left)]
    assert sorted(found) == ["r[2:3, 0:2]", "r[2:3, 2:3]", "r[4:5, 0:2]", "r[4:5, 2:3]"]
    one.dataset.store()
    assert stored(store) == [0, 0, 5, 12, 6]
    one.engine.close()
    spool.close()
    assert recovery.entries(tmp_path / "spool") == []


def test_killed_while_records_are_moved_the_journal_has_what_shares_a_chunk_with_them(
    store: MemoryZMap,
    journaling: Client,
    clients: tuple[Client, Client],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS W21: at each step between taking them out of a chunk and the end."""
    journaling.write(2, 5)
    journaling.append(6)
    clients[1].append(11, 12)
    clients[1].dataset.store()
    retract, note = DirtyMap.retract, Log.note
    copies: list[tuple[Path, MemoryZMap]] = []

    def kill() -> None:
        here = left_by(tmp_path / "spool", tmp_path / f"killed{len(copies)}")
        copies.append((here, copied(store)))

    def noting(log: Log, *documents: Any) -> None:
        note(log, *documents)
        kill()

    def retracting(dirty: DirtyMap, chunk_id: Any, io: Any, box: Box) -> DirtyChunk | None:
        with monkeypatch.context() as patch:
            patch.setattr(Log, "note", noting)
            found = retract(dirty, chunk_id, io, box)
        kill()
        return found

    monkeypatch.setattr(DirtyMap, "retract", retracting)
    assert journaling.dataset.appends.claim(journaling.dataset.appends.paths) == {}
    assert len(copies) > 2
    for left, copy in copies:
        recover(left, copy, force=True)
        found = (columns(copy, 0), columns(copy, 2))
        assert [each[2] for each in found] == [5, 5]
        assert [each[4] for each in found] == [6, 6]


@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL])
def test_records_that_could_not_be_moved_keep_the_place_that_was_claimed(
    store: MemoryZMap, clients: tuple[Client, Client], tmp_path: Path, survives: Survives
) -> None:
    """SEMANTICS W57: whichever write fails, because the disk of the journal is full."""
    spool = Spool(tmp_path / "spool", "memory://store", survives=survives)
    one, other = Client(store, spool), clients[1]
    wanted = [0, 0]
    write = WriteBack.write
    for failing in range(100):
        calls = iter(range(1000))

        def fail(*arguments: Any, calls: Iterator[int] = calls, at: int = failing) -> None:
            if next(calls) == at:
                raise NoSpace("the disk is full")
            write(*arguments)

        one.append(5, 6, 7, 8)
        other.append(11)
        other.dataset.store()
        with mock.patch.object(WriteBack, "write", fail), suppress(NoSpace):
            one.dataset.store()
        has_failed = next(calls) > failing
        if has_failed and survives is Survives.KILL:
            left = left_by(tmp_path / "spool", tmp_path / f"killed{failing}")
            copy = copied(store)
            recover(left, copy, force=True)
            assert {5, 6, 7, 8} <= {*columns(copy, 0)[len(wanted) :]}
            assert {5, 6, 7, 8} <= {*columns(copy, 2)[len(wanted) :]}
        other.append(12)
        other.dataset.store()
        one.append(9)
        one.dataset.store()
        wanted += [11, 5, 6, 7, 8, 12, 9]
        assert stored(store) == wanted
        if not has_failed:
            break
    assert failing > 3
    one.engine.close()
    spool.close()


def recover(spool_dir: Path, zmap: ZMap, *, force: bool = False, count: int = 1000) -> list[str]:
    """As ``nczfs recover``, of some entries: what was refused."""
    store = recovery.Store(Kept(zmap), parse_url("memory://store"))
    refused = []
    for group in recovery.together(recovery.entries(spool_dir)[:count]):
        for found, problem in zip(group, store.put_back(group, force=force), strict=True):
            if problem is None:
                found.remove()
            else:
                assert isinstance(problem, SpoolError)
                refused.append(str(problem))
    store.close()
    return refused


@pytest.fixture
def journaling(store: MemoryZMap, tmp_path: Path) -> Iterator[Client]:
    """A client with a journal."""
    spool = Spool(tmp_path / "spool", "memory://store", survives=Survives.KILL)
    one = Client(store, spool)
    yield one
    one.dataset.store()
    one.engine.close()
    spool.close()


@pytest.mark.parametrize("is_claimed", [False, True])
@pytest.mark.parametrize("count", [1, 1000])
def test_records_that_a_kill_left_without_a_place_are_put_where_they_were(
    store: MemoryZMap, journaling: Client, tmp_path: Path, *, is_claimed: bool, count: int
) -> None:
    """SEMANTICS W21, W52: also when recover is interrupted after the first entry."""
    journaling.append(5, 6, 7)
    if is_claimed:
        assert journaling.dataset.appends.claim(journaling.dataset.appends.paths) == {}
    left = left_by(tmp_path / "spool", tmp_path / "killed")
    copy = copied(store)
    assert recover(left, copy, count=count) == []
    assert recover(left, copy) == []
    assert stored(copy) == [0, 0, 5, 6, 7]
    assert list(left.iterdir()) == []


def test_records_that_were_moved_when_they_were_killed_are_behind_the_others(
    store: MemoryZMap, journaling: Client, clients: tuple[Client, Client], tmp_path: Path
) -> None:
    """SEMANTICS W21, W34."""
    journaling.append(5, 6)
    clients[1].append(11)
    clients[1].dataset.store()
    assert journaling.dataset.appends.claim(journaling.dataset.appends.paths) == {}
    left = left_by(tmp_path / "spool", tmp_path / "killed")
    copy = copied(store)
    assert recover(left, copy) == []
    assert stored(copy) == [0, 0, 11, 5, 6]


@pytest.mark.parametrize("is_before", [True, False])
def test_records_without_a_place_are_not_put_over_those_of_others(
    store: MemoryZMap,
    journaling: Client,
    clients: tuple[Client, Client],
    tmp_path: Path,
    *,
    is_before: bool,
) -> None:
    """SEMANTICS W52: whether those were stored before they were written, or since."""
    journaling.write(1, 9)  # which keeps its place

    def others_append() -> None:
        clients[1].append(11)
        clients[1].dataset.store()

    if is_before:
        journaling.believe()
        others_append()
    assert journaling.append(5, 6, 7) == 2
    if not is_before:
        others_append()
    left = left_by(tmp_path / "spool", tmp_path / "killed")
    copy = copied(store)
    refused = recover(left, copy)
    assert refused
    assert all("record 2 and those behind it were appended where" in each for each in refused)
    assert stored(copy) == [0, 9, 11]
    assert recover(left, copy, force=True) == []
    assert stored(copy) == [0, 9, 5, 6, 7]


def test_records_whose_length_is_not_stored_yet_stay_when_others_are_put_back(
    store: MemoryZMap, journaling: Client, clients: tuple[Client, Client], tmp_path: Path
) -> None:
    """SEMANTICS W69. Values are stored before the length, which hid them from `recover`."""
    other = clients[1]
    other.write(3, 7)
    other.refused = "r/.zarray"
    with pytest.raises(Unavailable):
        other.dataset.store()
    journaling.write(2, 9)
    left = left_by(tmp_path / "spool", tmp_path / "killed")
    assert recover(left, store) == []
    other.refused = ""
    other.dataset.store()
    assert stored(store) == [0, 0, 9, 7]


def test_records_without_a_place_are_not_put_where_a_living_mount_will_store_its_own(
    store: MemoryZMap, journaling: Client, clients: tuple[Client, Client], tmp_path: Path
) -> None:
    """SEMANTICS W52."""
    assert journaling.append(5, 6) == 2
    left = left_by(tmp_path / "spool", tmp_path / "killed")
    clients[1].append(11)
    elsewhere = ProcessIdentity("another machine", 1, 1)
    with mock.patch("nczfs.engine.metadata.claims.this_process", return_value=elsewhere):
        assert clients[1].dataset.appends.claim(["r"]) == {}
    refused = recover(left, store)
    assert len(refused) == 2
    assert all("record 2 and those behind it were appended where" in each for each in refused)
    clients[1].dataset.store()
    assert stored(store) == [0, 0, 11]


@pytest.mark.parametrize("write", range(6))
def test_records_that_are_put_back_and_those_that_are_appended_meanwhile_have_places_of_their_own(
    store: MemoryZMap,
    journaling: Client,
    clients: tuple[Client, Client],
    tmp_path: Path,
    write: int,
) -> None:
    """SEMANTICS W52."""
    assert journaling.append(5, 6) == 2
    left = left_by(tmp_path / "spool", tmp_path / "killed")
    writes = iter(range(100))

    def append(operation: str, key: str) -> None:
        if operation == "write" and next(writes) == write:
            clients[1].append(11)
            clients[1].dataset.store()

    refused = recover(left, Faulty(store, before_call=append))
    if next(writes) > write:
        assert stored(store) == ([0, 0, 11] if refused else [0, 0, 5, 6, 11])


@pytest.fixture(params=[Survives.NOTHING, Survives.KILL])
def failing(
    request: pytest.FixtureRequest, store: MemoryZMap, tmp_path: Path
) -> Iterator[tuple[Client, Path]]:
    """A client with a spool, and where that is."""
    spool = Spool(tmp_path / "spool", "memory://store", survives=request.param)
    one = Client(store, spool)
    yield one, tmp_path / "spool"
    one.engine.close()
    spool.close()


def failed_append(client: Client, at: int, *, is_written: bool) -> bool:
    """Append a record of which one write fails, before or after it. Returns whether it failed."""
    write, calls = WriteBack.write, iter(range(100))

    def fail(*arguments: Any) -> None:
        is_last = next(calls) == at
        if is_written or not is_last:
            write(*arguments)
        if is_last:
            raise NoSpace("the disk is full")

    with mock.patch.object(WriteBack, "write", fail):
        try:
            client.append(99)
        except NoSpace:
            return True
    return False


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("at", [0, 1])
def test_a_record_that_failed_leaves_nothing_and_the_next_one_takes_its_place(
    store: MemoryZMap, failing: tuple[Client, Path], tmp_path: Path, *, at: int, is_written: bool
) -> None:
    """SEMANTICS W34: whichever of its chunks fails."""
    one, spool = failing
    wanted = [0, 0]
    for number in range(1, 4):  # alone in its chunk, and together with others
        assert failed_append(one, at, is_written=is_written)
        assert one.shown() == wanted
        assert one.append(number) == len(wanted)
        wanted.append(number)
    assert failed_append(one, at, is_written=is_written)
    if one.engine.journal is not None:
        left, copy = left_by(spool, tmp_path / "killed"), copied(store)
        assert recover(left, copy) == []
        assert stored(copy) == wanted
    one.dataset.store()
    assert stored(store) == one.shown() == wanted
    assert shape_document(store)["shape"] == [5, WIDTH]
    assert failed_append(one, at, is_written=is_written)
    one.dataset.store()
    assert stored(store) == wanted
    assert not one.dataset.has_unsaved()


def test_a_record_that_failed_leaves_nothing_between_those_of_other_clients(
    store: MemoryZMap, failing: tuple[Client, Path], clients: tuple[Client, Client]
) -> None:
    one, other = failing[0], clients[1]
    one.append(1)
    assert failed_append(one, 1, is_written=False)
    other.append(11, 12)
    other.dataset.store()
    assert failed_append(one, 1, is_written=True)
    one.append(2)
    one.dataset.store()
    assert failed_append(one, 0, is_written=True)
    other.append(13)
    other.dataset.store()
    one.dataset.store()
    assert stored(store) == one.shown() == [0, 0, 11, 12, 1, 2, 13]


def test_a_record_that_failed_leaves_the_other_variables_of_its_dimension_as_they_are(
    store: MemoryZMap, failing: tuple[Client, Path]
) -> None:
    one, _ = failing
    one.append(5, 6, name="s")
    assert failed_append(one, 1, is_written=True)
    one.dataset.store()
    assert stored(store) == [0, 0, -1, -1]
    assert stored(store, "s") == [-1, -1, 5, 6]


def test_a_journal_without_room_for_the_length_gets_no_record(
    store: MemoryZMap, journaling: Client, tmp_path: Path
) -> None:
    assert journaling.append(1) == 2
    with mock.patch.object(Journal, "grown", side_effect=NoSpace("the disk is full")):
        with pytest.raises(NoSpace):
            journaling.append(2)
        with pytest.raises(NoSpace):
            journaling.append(2, name="s")
    left, copy = left_by(tmp_path / "spool", tmp_path / "killed"), copied(store)
    assert recover(left, copy) == []
    assert stored(copy) == journaling.shown() == [0, 0, 1]
    assert journaling.append(3) == 3
    journaling.dataset.store()
    assert stored(store) == [0, 0, 1, 3]


def test_records_are_appended_until_the_spool_is_full(store: MemoryZMap, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", "memory://store", 4000, survives=Survives.KILL)
    one, acknowledged = Client(store, spool), [0, 0]
    for number in range(1, 13):
        with suppress(NoSpace):
            one.append(number)
            acknowledged.append(number)
    one.dataset.store()
    assert stored(store) == acknowledged
    assert 2 < len(acknowledged) < 14
    one.append(20)
    one.dataset.store()
    assert stored(store) == [*acknowledged, 20]
    one.engine.close()
    spool.close()


def test_after_it_was_made_shorter_records_are_appended_behind_its_end(
    store: MemoryZMap, clients: tuple[Client, Client]
) -> None:
    one, _ = clients
    one.append(1, 2, 3)
    one.dataset.store()
    one.shorten(3)
    assert one.append(4) == 3
    one.dataset.store()
    assert stored(store) == one.shown() == [0, 0, 1, 4]


ZARR2 = FORMATS.named("zarr2", FormatOptions())


def document(shape: int, *claims: object) -> bytes:
    return json.dumps({"shape": [shape, 3], "x": 1, NOTE: list(claims)}).encode()


def free_from(data: bytes) -> int:
    return with_claim(ZARR2, data, "r/.zarray", "ours", 0, 1)[0]


def test_a_claim_counts_as_long_as_its_process_lives() -> None:
    first, ours = with_claim(ZARR2, b'{"shape": [4, 3]}', "r/.zarray", "one", 4, 2)
    assert first == 4
    assert free_from(ours) == 6
    assert with_claim(ZARR2, ours, "r/.zarray", "one", 4, 3)[0] == 4
    assert with_claim(ZARR2, ours, "r/.zarray", "one", 4, 2) == (4, ours)
    process = current_process()
    assert process is not None
    claim = json.loads(ours)[NOTE][0]
    assert (claim["pid"], claim["machine"]) == (os.getpid(), process.machine)
    ended = document(4, {**claim, "started": claim["started"] + 1})
    assert free_from(ended) == 4
    elsewhere = document(4, {**claim, "machine": "another"})
    assert free_from(elsewhere) == 6
    assert left_of(elsewhere) == json.loads(elsewhere)
    assert left_of(document(6, claim), "one") == {"shape": [6, 3], "x": 1}


def left_of(data: bytes, *own: str) -> object:
    return json.loads(without_covered(ZARR2, data, "r/.zarray", own)[0])


def test_a_claim_stays_until_its_owner_stores_a_shape_that_covers_it() -> None:
    """The owner may not know yet that its claim was stored."""
    _, first = with_claim(ZARR2, b'{"shape": [4, 3]}', "r/.zarray", "one", 4, 2)
    _, both = with_claim(ZARR2, first, "r/.zarray", "two", 4, 3)
    grown = json.dumps(json.loads(both) | {"shape": [9, 3]}).encode()
    left = left_of(grown, "two")
    assert isinstance(left, dict)
    assert [claim["name"] for claim in left[NOTE]] == ["one"]
    assert with_claim(ZARR2, json.dumps(left).encode(), "r/.zarray", "one", 4, 2)[0] == 4
    assert left_of(grown, "one", "two") == {"shape": [9, 3]}


def test_claims_of_clients_that_never_come_back_do_not_pile_up() -> None:
    claims = [{**CLAIM, "name": str(number), "machine": "another"} for number in range(50)]
    left = left_of(document(9, *claims))
    assert isinstance(left, dict)
    assert [claim["name"] for claim in left[NOTE]] == [str(number) for number in range(34, 50)]


CLAIM = {"name": "n", "first": 4, "stop": 9, "machine": "", "pid": 1, "started": 0}


@pytest.mark.parametrize(
    "claims",
    [
        7,
        [7],
        [{}],
        [{**CLAIM, "stop": 3}],
        [{**CLAIM, "first": -1}],
        [{**CLAIM, "stop": 10**30}],
        [{**CLAIM, "pid": -1}],
        [{**CLAIM, "machine": 1}],
        [{**CLAIM, "name": None}],
    ],
)
def test_what_is_no_claim_is_not_heeded(claims: object) -> None:
    data = json.dumps({"shape": [4, 3], NOTE: claims}).encode()
    assert free_from(data) == 4
    assert left_of(data) == {"shape": [4, 3]}
