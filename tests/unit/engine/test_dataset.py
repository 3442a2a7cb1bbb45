"""Opening datasets, and the arrays behind their variables."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_json
from nczfs.testing.faults import Faulty
from nczfs.zmap.keys import ROOT, parse_key
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
