"""Chunks of which many share an object: what a reader needs of an object is fetched at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.library.opening import open_zmap
from nczfs.zmap.keys import ROOT
from tests.support.counted import CountedStore
from tests.support.paired import all_paired

SIDE = 64
CHUNK = 8  # elements of a chunk along a dimension
SHARED = 4  # chunks of an object along a dimension
VALUES = np.arange(SIDE * SIDE, dtype="i4").reshape(SIDE, SIDE)
OBJECTS = {f"v/{i}.{j}" for i in range(2) for j in range(2)}


@pytest.fixture(autouse=True)
def shared() -> Iterator[None]:
    with all_paired((SHARED, SHARED)):
        yield


@pytest.fixture
def store() -> CountedStore:
    store = CountedStore()
    with open_zmap(store, "w", format="zarr2") as root:
        root.create_variable("v", (SIDE, SIDE), "i4", chunks=(CHUNK, CHUNK), codecs=[], data=VALUES)
    assert {key for key in keys(store) if "/." not in key and key[0] != "."} == OBJECTS
    return store


def keys(store: CountedStore) -> list[str]:
    return [str(stat.key) for stat in store.list(ROOT)]


def reads_of(store: CountedStore, *indices: Any, limit_bytes: int = 8 << 20) -> dict[str, int]:
    """Read parts one after the other. Gives how often each object was read."""
    options = EngineOptions(memory_limit_bytes=limit_bytes, cache_bytes_max=0)
    with open_zmap(store, options=options) as root:
        variable = root.variables["v"]
        store.reads.clear()
        for index in indices:
            assert variable[index].tolist() == VALUES[index].tolist()
    return {key: count for key, count in store.reads.items() if key in OBJECTS}


@pytest.mark.parametrize(
    ("index", "objects"),
    [
        (np.s_[:, :], OBJECTS),
        (np.s_[10:30, 5:60], {"v/0.0", "v/0.1"}),
        (np.s_[::16, ::16], OBJECTS),
        (np.s_[::-1, 40:41], {"v/0.1", "v/1.1"}),
        (np.s_[20:40, 20:40], OBJECTS),
    ],
    ids=["all", "rows", "every second chunk", "a column, backwards", "across the corners"],
)
def test_each_object_costs_its_index_and_one_more_request(
    store: CountedStore, index: Any, objects: set[str]
) -> None:
    assert reads_of(store, index) == dict.fromkeys(objects, 2)


def test_positions_in_any_order_cost_no_more(store: CountedStore) -> None:
    options = EngineOptions(cache_bytes_max=0)
    rows, columns = [60, 3, 30, 10], [1, 50, 9]
    with open_zmap(store, options=options) as root:
        store.reads.clear()
        found = root.variables["v"][rows, columns]
    assert found.tolist() == VALUES[np.ix_(rows, columns)].tolist()
    assert {store.reads[key] for key in OBJECTS} == {2}


def test_the_index_is_known_to_the_next_reader(store: CountedStore) -> None:
    assert reads_of(store, np.s_[0, 0]) == {"v/0.0": 2}
    assert reads_of(store, np.s_[0, 0], np.s_[0, 9], np.s_[1, 1]) == {"v/0.0": 3}


def test_an_object_that_is_larger_than_the_budget_is_read_in_parts(store: CountedStore) -> None:
    chunk_bytes = CHUNK * CHUNK * 4
    found = reads_of(store, np.s_[:, :], limit_bytes=16 * chunk_bytes + (4 << 10))
    assert found.keys() == OBJECTS
    assert max(found.values()) <= 1 + SHARED * SHARED
