"""Opening datasets, and the arrays behind their variables."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.options import EngineOptions, Tally
from nczfs.errors import StructureChanged
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import Variable
from nczfs.testing.datasets import put_array, put_json
from nczfs.testing.faults import Faulty
from nczfs.zmap.base import Blob
from nczfs.zmap.keys import ROOT, Key, parse_key
from tests.conftest import ExpectedWarnings
from tests.support.counted import (
    FIELD,
    CountedStore,
    consolidate,
    new_store,
    opened,
    values,
    variable,
)
from tests.support.dependents import DECLARED, GROUP, array_document
from tests.support.stopping import Work


@pytest.fixture
def store() -> CountedStore:
    return new_store()


@pytest.fixture
def engine() -> Engine:
    return Engine(EngineOptions(memory_limit_bytes=1 << 20))


def test_a_far_dataset_with_consolidated_metadata_opens_with_two_requests_at_once(
    store: CountedStore, engine: Engine
) -> None:
    consolidate(store)
    dataset = opened(store, engine)
    assert dataset.group("").variables
    assert variable(dataset, "v").dimensions[0].name == "y"
    assert store.reads == {".zmetadata": 1, "zarr.json": 1}


def test_a_variable_that_the_consolidated_metadata_do_not_know_is_found(
    store: CountedStore, engine: Engine
) -> None:
    consolidate(store)
    put_array(store, "late", FIELD, (4, 6))
    dataset = opened(store, engine)
    np.testing.assert_array_equal(values(dataset, "late"), FIELD)


def test_broken_consolidated_metadata_are_passed_over(
    store: CountedStore, engine: Engine, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add(r"\.zmetadata.*single documents are read")
    store.write(parse_key(".zmetadata"), b"{}")
    np.testing.assert_array_equal(values(opened(store, engine), "v"), FIELD)


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


@pytest.mark.parametrize(
    ("format_name", "own", "others"),
    [
        ("nczarr", {"v/.zarray", "v/.zattrs", "v/.zgroup"}, {"v/zarr.json"}),
        ("zarr3", {"v/zarr.json"}, {"v/.zarray", "v/.zgroup"}),
    ],
)
def test_documents_of_another_version_are_requested_with_those_of_a_new_variable(
    format_name: str, own: set[str], others: set[str]
) -> None:
    one_by_one: list[str] = []
    together: list[str] = []

    def note(operation: str, key: str) -> None:
        if operation == "read" and key.startswith("v/"):
            is_alone = threading.current_thread() is threading.main_thread()
            (one_by_one if is_alone else together).append(key)

    far = Faulty(CountedStore(), before_call=note)
    with open_zmap(far, "w", format=format_name) as dataset:
        dataset.create_variable("v", (4,), "i4", chunks=(4,))
        assert one_by_one == []
        assert sorted(together) == sorted(own | others)


def test_chunks_of_an_array_that_has_ended_go_though_another_one_is_described_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file that was open read some of them as if nothing had happened."""
    dataset = opened(new_store(), Engine(EngineOptions()))
    node = variable(dataset, "v")
    array = dataset.array(node)
    out = np.empty(24, "f4")
    array.read_run(0, out, Tally())
    undescribe = Dataset._undescribe

    def meanwhile(self: Dataset, path: str) -> None:
        undescribe(self, path)
        assert dataset.array(node).stored is not array.stored

    monkeypatch.setattr(Dataset, "_undescribe", meanwhile)
    dataset.lose(array.stored, StructureChanged("replaced by another client"))
    with pytest.raises(StructureChanged):
        array.read_run(0, out, Tally())


class SilentStore(CountedStore):
    """One that gives no documents of arrays while `answers` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = threading.Event(), threading.Event()
        self.answers.set()

    def read(self, key: Key, *arguments: Any, **options: Any) -> Blob:
        if key == "t/zarr.json" and not self.answers.is_set():
            self.asked.set()
            assert self.answers.wait(60)
        return super().read(key, *arguments, **options)


def dependents_in(store: CountedStore) -> None:
    put_json(store, "zarr.json", GROUP)
    put_json(store, "other/zarr.json", array_document())
    document = array_document() | {"attributes": {"dependent-arrays": DECLARED}}
    put_json(store, "t/zarr.json", document)


def _describe(dataset: Dataset, variable: Variable) -> None:
    dataset.array(variable)


def test_others_have_their_arrays_while_the_store_is_asked_for_a_primary() -> None:
    store, engine = SilentStore(), Engine(EngineOptions(writes_dependents=True))
    dependents_in(store)
    dataset = opened(store, engine)
    mask, other = variable(dataset, "t/mask"), variable(dataset, "other")
    dataset.forget_documents("t")
    store.answers.clear()
    slow = Work(lambda: _describe(dataset, mask), store.answers.set)
    assert store.asked.wait(60)
    quick = Work(lambda: _describe(dataset, other))
    quick.end()
    assert not store.answers.is_set()
    store.answers.set()
    slow.end()
    assert dataset.array(mask).is_writable
    engine.close()


def test_a_primary_is_warned_of_once_by_its_name(
    engine: Engine, caplog: pytest.LogCaptureFixture, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("may no longer match")
    store = CountedStore()
    dependents_in(store)
    dataset = opened(store, engine)
    for _ in range(2):
        dataset.array(variable(dataset, "t")).writer()
        dataset.forget("t")
        gc.collect()
    (said,) = [each.message for each in caplog.records if "dependent arrays" in each.message]
    assert said == (
        "memory://counted/t: is written to; its dependent arrays may no longer match it: "
        "mask, q, twin (logged once)"
    )
    engine.close()
