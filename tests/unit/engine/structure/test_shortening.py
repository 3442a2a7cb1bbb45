"""Arrays that are made shorter while others write to them, and by a store that fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np
import pytest

from nczfs.engine.arrays.array import Array
from nczfs.errors import AccessDenied, StoreError, StructureChanged, Unavailable
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.model.boxes import Box
from nczfs.testing.faults import OPERATIONS, Fault, Faulty
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from tests.support.counted import CountedStore
from tests.support.gated import GatedZMap
from tests.support.stopping import Work

FILL = -1
LENGTH, CHUNK = 10, 4


@pytest.fixture
def store() -> GatedZMap:
    return GatedZMap()


@pytest.fixture(params=["nczarr", "zarr2", "zarr3"])
def dataset(request: pytest.FixtureRequest, store: GatedZMap) -> Iterator[OpenDataset]:
    with open_zmap(store, "w", format=request.param) as dataset:
        dataset.create_dimension("t", None)
        variable = dataset.create_variable("v", ("t",), "i4", chunks=(CHUNK,), fillvalue=FILL)
        variable[0:LENGTH] = range(LENGTH)
        dataset.sync()
        yield dataset


def variable_of(dataset: OpenDataset) -> Variable:
    found = dataset["v"]
    assert isinstance(found, Variable)
    return found


def array_of(dataset: OpenDataset) -> Array:
    """The array as it is now, which a program that has it open goes on with."""
    return dataset.engine_dataset.array(variable_of(dataset).description)


def key_of(store: GatedZMap, chunk: int) -> str:
    return next(str(each.key) for each in store.list(ROOT) if each.key.endswith(f"/{chunk}"))


def put(array: Array, first: int, values: list[int]) -> None:
    array.write_box(Box((first,), (first + len(values),)), np.array(values, np.int32))


@contextmanager
def beside(store: GatedZMap, call: str, key: str, operation: Callable[[], None]) -> Iterator[None]:
    """An operation that waits at a call of the store during the block; what it raises."""
    with store.stopping(call, key) as gate:
        work = Work(operation)
        try:
            assert gate.reached.wait(10), "it does not come there"
            yield
        finally:
            gate.open()
        work.end()


def regrown(dataset: OpenDataset, store: GatedZMap) -> list[int]:
    """What all read when the variable is long again."""
    dataset.resize_dimension("t", LENGTH)
    dataset.sync()
    values = variable_of(dataset)[...].tolist()
    with open_zmap(store) as other:
        assert other.variables["v"][...].tolist() == values
    return list(values)


@pytest.mark.parametrize("first", [5, 8], ids=["in a chunk that stays", "in one that goes"])
@pytest.mark.parametrize("step", ["write", "delete"])
def test_what_is_written_beyond_the_new_end_meanwhile_is_refused(
    dataset: OpenDataset, store: GatedZMap, step: str, first: int
) -> None:
    array = array_of(dataset)
    document = dataset.engine_dataset.format.single.array_key("v")
    place = document if step == "write" else key_of(store, 2)
    with beside(store, step, place, lambda: dataset.resize_dimension("t", 5)):
        with pytest.raises(StructureChanged, match="v: was made shorter"):
            put(array, first, [70, 80])
        put(array, 0, [90])
    assert regrown(dataset, store) == [90, 1, 2, 3, 4, *[FILL] * 5]


@pytest.mark.parametrize("first", [4, 8])
def test_a_write_that_begins_before_an_array_is_made_shorter_is_judged_by_its_new_end(
    dataset: OpenDataset, store: GatedZMap, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    dirty = dataset.engine_dataset.engine.writeback._dirty
    known_version = dirty.known_version
    reached, may_go_on = Event(), Event()

    def slow(*arguments: Any) -> Any:
        reached.set()
        assert may_go_on.wait(60)
        return known_version(*arguments)

    array = array_of(dataset)
    monkeypatch.setattr(dirty, "known_version", slow)
    writing = Work(lambda: put(array, first + 1, [70]))
    assert reached.wait(60)
    monkeypatch.undo()
    try:
        dataset.resize_dimension("t", 5)
    finally:
        may_go_on.set()
    with pytest.raises(StructureChanged):
        writing.end()
    assert regrown(dataset, store) == [0, 1, 2, 3, 4, *[FILL] * 5]


def test_a_chunk_that_goes_is_deleted_after_its_last_write_has_arrived(
    dataset: OpenDataset, store: GatedZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirty = dataset.engine_dataset.engine.writeback._dirty
    wait_until_landed, is_waiting = dirty.wait_until_landed, Event()

    def wait(units: Any) -> None:
        is_waiting.set()
        wait_until_landed(units)

    put(array_of(dataset), 8, [80, 90])
    with beside(store, "write", key_of(store, 2), dataset.sync):
        monkeypatch.setattr(dirty, "wait_until_landed", wait)
        shortening = Work(lambda: dataset.resize_dimension("t", 5))
        assert is_waiting.wait(60)
    shortening.end()
    assert not [each.key for each in store.list(ROOT) if each.key.endswith("/2")]
    assert regrown(dataset, store) == [0, 1, 2, 3, 4, *[FILL] * 5]


def test_what_was_written_beyond_the_end_of_a_shorter_array_does_not_come_back(
    dataset: OpenDataset, store: GatedZMap
) -> None:
    array = array_of(dataset)
    dataset.resize_dimension("t", 5)
    for first, values in ((7, [70]), (4, [40, 50]), (4, [1, 2, 3, 4])):
        with pytest.raises(StructureChanged):
            put(array, first, values)
    assert regrown(dataset, store) == [0, 1, 2, 3, 4, *[FILL] * 5]


@pytest.mark.parametrize("at", [(7, 0), (0, 7), (7, 7)])
def test_what_was_written_beyond_either_end_of_a_shorter_square_does_not_come_back(
    dataset: OpenDataset, at: tuple[int, int]
) -> None:
    square = dataset.create_variable("w", ("t", "t"), "i4", chunks=(CHUNK, CHUNK), fillvalue=FILL)
    square[...] = wanted = np.arange(LENGTH**2).reshape(LENGTH, LENGTH)
    dataset.sync()
    array = dataset.engine_dataset.array(square.description)
    dataset.resize_dimension("t", 5)
    with pytest.raises(StructureChanged):
        array.write_box(Box(at, (at[0] + 1, at[1] + 1)), np.array([[70]], np.int32))
    dataset.resize_dimension("t", LENGTH)
    wanted[5:] = wanted[:, 5:] = FILL
    assert np.array_equal(dataset.variables["w"][...], wanted)


@pytest.mark.parametrize("is_other", [False, True], ids=["here", "by another client"])
def test_an_array_that_is_long_again_is_written_as_before(
    dataset: OpenDataset, store: GatedZMap, *, is_other: bool
) -> None:
    array = array_of(dataset)
    dataset.resize_dimension("t", 5)
    if is_other:
        with open_zmap(store, "r+") as other:
            other.resize_dimension("t", LENGTH)
        dataset.engine_dataset.forget_clean()
    else:
        dataset.resize_dimension("t", LENGTH)
    put(array, 4, [40, 50, 60, 70])
    put(array_of(dataset), 8, [80])
    assert regrown(dataset, store) == [0, 1, 2, 3, 40, 50, 60, 70, 80, FILL]


SHORT, LONG = 6, 20
LAYOUTS: dict[str, dict[str, Any]] = {
    "nczarr": {},
    "zarr2": {},
    "zarr3": {},
    "zarr3 in shards": {"shards": (2 * CHUNK,)},
}


def long_dataset(zmap: ZMap, layout: str) -> OpenDataset:
    """Two variables of one unlimited dimension, all stored."""
    dataset = open_zmap(zmap, "w", format=layout.partition(" ")[0])
    dataset.create_dimension("t", None)
    for name in ("v", "w"):
        variable = dataset.create_variable(
            name, ("t",), "i4", chunks=(CHUNK,), fillvalue=FILL, **LAYOUTS[layout]
        )
        variable[0:LONG] = range(LONG)
    dataset.sync()
    return dataset


def copy_of(zmap: ZMap) -> MemoryZMap:
    """A store with the same objects, as a kill leaves them."""
    copied = MemoryZMap()
    for stat in zmap.list(ROOT):
        copied.write(stat.key, bytes(zmap.read(stat.key).data))
    return copied


def check_nothing_comes_back(dataset: OpenDataset) -> None:
    """Make variables longer, if they are short: their values are then fill, in the store, too."""
    before = {name: each.shape[0] for name, each in dataset.variables.items()}
    assert set(before.values()) <= {SHORT, LONG}
    dataset.resize_dimension("t", LONG)
    dataset.sync()
    for name, length in before.items():
        values = dataset.variables[name][...].tolist()
        assert values[:SHORT] == [*range(SHORT)]
        assert values[length:] == [FILL] * (LONG - length)
        assert all(each in {index, FILL} for index, each in enumerate(values))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("error", [Unavailable, AccessDenied])
@pytest.mark.parametrize("is_after", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("operations", [OPERATIONS, {"write"}, {"delete"}], ids=["", "w", "d"])
def test_what_is_cut_off_does_not_come_back_wherever_the_store_begins_to_fail(
    layout: str, error: type[StoreError], operations: set[str], *, is_after: bool
) -> None:
    """SEMANTICS W107."""
    for call in itertools.count():
        memory = MemoryZMap()
        faulty = Faulty(memory)
        fault = Fault(call, error, is_after, frozenset(operations), repeats=1 << 30)
        with long_dataset(faulty, layout) as dataset:
            faulty.arm(fault)
            try:
                dataset.resize_dimension("t", SHORT)
            except error:
                assert faulty.fired
            is_done = not faulty.fired
            faulty.arm()
            with open_zmap(copy_of(memory), "r+") as killed:
                check_nothing_comes_back(killed)
            dataset.sync()
            with open_zmap(copy_of(memory), "r+") as other:
                assert other.variables["v"].shape == variable_of(dataset).shape
                check_nothing_comes_back(other)
            check_nothing_comes_back(dataset)
            dataset.resize_dimension("t", SHORT)
            assert variable_of(dataset).shape == (SHORT,)
            check_nothing_comes_back(dataset)
        if is_done:
            assert call
            return


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_changes_if_the_store_lets_nobody_delete(layout: str) -> None:
    memory = MemoryZMap()
    faulty = Faulty(memory)
    with long_dataset(faulty, layout) as dataset:
        before = {stat.key: stat.version for stat in memory.list(ROOT)}
        faulty.arm(Fault(0, AccessDenied, operations=frozenset({"delete"}), repeats=1 << 30))
        with pytest.raises(AccessDenied):
            dataset.resize_dimension("t", SHORT)
        dataset.sync()
        assert variable_of(dataset)[...].tolist() == [*range(LONG)]
        assert {stat.key: stat.version for stat in memory.list(ROOT)} == before
        faulty.arm()
        variable_of(dataset)[LONG - 1 :] = [70, 80]
        dataset.sync()
        assert variable_of(dataset)[...].tolist() == [*range(LONG - 1), 70, 80]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_variable_that_another_client_has_put_in_its_place_keeps_its_values(layout: str) -> None:
    memory = CountedStore(near=False)  # of which documents are believed for a while
    with long_dataset(memory, layout) as dataset:
        assert variable_of(dataset)[...].tolist() == [*range(LONG)]
        with open_zmap(memory, "r+") as other:
            other.editor.remove("v")
            new = other.create_variable("v", ("t",), "i2", chunks=(LONG // 4,))
            new[...] = range(LONG)
        before = {stat.key: stat.version for stat in memory.list(ROOT)}
        with pytest.raises(StructureChanged):
            dataset.resize_dimension("t", SHORT)
        assert {stat.key: stat.version for stat in memory.list(ROOT)} == before
