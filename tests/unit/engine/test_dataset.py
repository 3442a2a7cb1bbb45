"""Opening datasets, and the arrays behind their variables."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.testing.datasets import put_array, put_json
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
