"""Opening datasets: what is asked of a store, what is believed, what breaks alone."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from nczfs.engine.array import now
from nczfs.engine.coordinates import fetch_coordinates
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata import MetadataCache
from nczfs.engine.options import EngineOptions, Tally
from nczfs.errors import BadMetadata, NoSuchNode, Unavailable
from nczfs.formats.base import FormatOptions
from nczfs.model.boxes import whole
from nczfs.model.hierarchy import Variable
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.zmap.base import Blob, Entry, Features, Stat, Version
from nczfs.zmap.keys import ROOT, Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)


class CountedStore(MemoryZMap):
    """A store in memory that counts what is asked, claims to be far, and fails when told to."""

    def __init__(self, *, near: bool = False) -> None:
        super().__init__("memory://counted")
        self.reads: Counter[str] = Counter()
        self.searches = 0
        self.failing = False
        self._near = near

    @property
    def features(self) -> Features:
        return replace(super().features, near=self._near)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self.reads[key] += 1
        if self.failing:
            raise Unavailable("no route")
        return super().read(key, start, stop, version=version)

    def stat(self, key: Key) -> Stat:
        if self.failing:
            raise Unavailable("no route")
        return super().stat(key)

    def search(self, prefix: Prefix) -> list[Entry]:  # type: ignore[override]
        self.searches += 1
        return list(super().search(prefix))


@pytest.fixture
def store() -> CountedStore:
    store = CountedStore()
    put_group(store, "", {"title": "t"})
    put_array(store, "v", FIELD, (2, 4), dimensions=("y", "x"))
    put_array(store, "y", np.arange(4, dtype="<i4"), (1,), dimensions=("y",))
    put_array(store, "x", np.arange(6, dtype="<i4"), (6,), dimensions=("x",))
    return store


@pytest.fixture
def engine() -> Engine:
    return Engine(EngineOptions(memory_limit_bytes=1 << 20))


def opened(store: CountedStore, engine: Engine) -> Dataset:
    cache = MetadataCache(store, engine.options, engine.pools)
    found = open_dataset(engine, cache, ROOT, FormatOptions())
    assert found is not None
    return found


def variable(dataset: Dataset, path: str) -> Variable:
    node = dataset.node(path)
    assert isinstance(node, Variable)
    return node


def values(dataset: Dataset, path: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    found = variable(dataset, path)
    out = np.empty(found.array.shape, found.array.dtype.native)
    dataset.array(found).read_box(whole(found.array.shape), out, Tally())
    return out


def test_each_document_is_asked_for_once(store: CountedStore, engine: Engine) -> None:
    dataset = opened(store, engine)
    for _ in range(3):
        dataset.group("")
    assert set(store.reads.values()) == {1}
    assert store.searches == 1


def test_one_variable_needs_no_listing(store: CountedStore, engine: Engine) -> None:
    dataset = opened(store, engine)
    store.reads.clear()
    np.testing.assert_array_equal(values(dataset, "v"), FIELD)
    documents = {key for key in store.reads if "/." in key}
    assert documents == {"v/.zarray", "v/.zgroup", "v/.zattrs"}
    assert store.searches == 0


def consolidate(store: CountedStore) -> None:
    keys = [".zgroup", ".zattrs", *(f"{n}/{d}" for n in "vyx" for d in (".zarray", ".zattrs"))]
    documents = {key: json.loads(bytes(store.read(parse_key(key)).data)) for key in keys}
    put_json(store, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": documents})
    store.reads.clear()


def test_a_far_dataset_with_consolidated_metadata_opens_with_one_request(
    store: CountedStore, engine: Engine
) -> None:
    consolidate(store)
    dataset = opened(store, engine)
    assert dataset.group("").variables
    assert variable(dataset, "v").dimensions[0].name == "y"
    assert store.reads == {".zmetadata": 1}


def test_a_variable_that_the_consolidated_metadata_do_not_know_is_found(
    store: CountedStore, engine: Engine
) -> None:
    consolidate(store)
    put_array(store, "late", FIELD, (4, 6))
    dataset = opened(store, engine)
    np.testing.assert_array_equal(values(dataset, "late"), FIELD)


def test_near_documents_win_over_a_stale_consolidated_copy_which_is_named(
    engine: Engine,
) -> None:
    store = CountedStore(near=True)
    put_group(store, "", {"title": "t"})
    for name in "vyx":
        put_array(store, name, FIELD, (2, 4), attributes={"old": 1})
    consolidate(store)
    put_array(store, "v", np.ones((8, 6), "<f4"), (2, 4), attributes={"old": 1})
    dataset = opened(store, engine)
    assert variable(dataset, "v").array.shape == (8, 6)
    (problem,) = dataset.group("").header.problems
    assert ".zmetadata" in problem
    assert "v/.zarray" in problem


def test_broken_consolidated_metadata_are_passed_over(
    store: CountedStore, engine: Engine, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add(r"\.zmetadata.*single documents are read")
    store.write(parse_key(".zmetadata"), b"{}")
    np.testing.assert_array_equal(values(opened(store, engine), "v"), FIELD)


def test_what_could_not_be_asked_is_an_error_each_time_and_never_remembered(
    store: CountedStore, engine: Engine
) -> None:
    """SEMANTICS A3."""
    dataset = opened(store, engine)
    store.failing = True
    for _ in range(2):
        with pytest.raises(Unavailable):
            dataset.load("v")
    store.failing = False
    np.testing.assert_array_equal(values(dataset, "v"), FIELD)
    store.failing = True
    dataset.forget("")
    with pytest.raises(Unavailable):
        values(dataset, "y")
    store.failing = False
    np.testing.assert_array_equal(values(dataset, "y"), np.arange(4))


def test_a_document_above_the_limit_is_refused_by_name(engine: Engine) -> None:
    store = CountedStore()
    put_group(store, "", {"big": "x" * 1000})
    cache = MetadataCache(store, engine.options, engine.pools)
    with pytest.raises(BadMetadata, match=r"\.zattrs: a document of 1\d\d\d bytes"):
        cache.get(parse_key(".zattrs"), 500)


def test_one_broken_member_hides_no_other(store: CountedStore, engine: Engine) -> None:
    store.write(parse_key("bad/.zarray"), b"[]")
    group = opened(store, engine).group("")
    assert {found.name for found in group.variables} == {"v", "x", "y"}
    ((name, why),) = group.broken
    assert name == "bad"
    assert "bad/.zarray" in why


def test_a_variable_keeps_its_array_until_its_description_changes(
    store: CountedStore, engine: Engine
) -> None:
    dataset = opened(store, engine)
    first = dataset.array(variable(dataset, "v"))
    put_json(store, "v/.zattrs", {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"})
    dataset._metadata.forget(ROOT)
    renewed = variable(dataset, "v")
    assert renewed.attributes[0].value == "K"
    assert dataset.array(renewed) is first
    put_array(store, "v", np.ones((2, 2), "<f4"), (2, 2))
    dataset._metadata.forget(ROOT)
    assert dataset.array(variable(dataset, "v")) is not first


def test_a_chunk_that_was_replaced_is_noticed_when_it_is_checked_again(
    store: CountedStore, engine: Engine
) -> None:
    dataset = opened(store, engine)
    array = dataset.array(variable(dataset, "v"))
    out = np.empty((4, 6), "<f4")
    array.read_box(whole((4, 6)), out, Tally())
    store.write(parse_key("v/0.0"), np.full((2, 4), 9, "<f4").tobytes())
    array.read_box(whole((4, 6)), out, Tally(), fresh_since=0.0)
    assert out[0, 0] == 0
    tally = Tally()
    array.read_box(whole((4, 6)), out, tally, fresh_since=now())
    assert out[0, 0] == 9
    assert tally.chunks_loaded == 1  # the other three were confirmed, not loaded


def test_coordinates_are_asked_for_in_one_bounded_burst(
    store: CountedStore, engine: Engine
) -> None:
    dataset = opened(store, engine)
    assert fetch_coordinates(dataset, variable(dataset, "v")) == 4 + 1
    # Whoever wants them meanwhile waits for the burst, and asks for nothing twice.
    np.testing.assert_array_equal(values(dataset, "y"), np.arange(4))
    np.testing.assert_array_equal(values(dataset, "x"), np.arange(6))
    chunks = {key: count for key, count in store.reads.items() if key[0] in "xy" and "." not in key}
    assert chunks == {"y/0": 1, "y/1": 1, "y/2": 1, "y/3": 1, "x/0": 1}


def test_a_path_without_a_node_is_named(store: CountedStore, engine: Engine) -> None:
    with pytest.raises(NoSuchNode, match="memory://counted/nothing"):
        opened(store, engine).node("nothing")
