"""Coordinates that are read ahead."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.engine.coordinates import fetch_coordinates
from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from tests.support.counted import CountedStore, new_store, opened, values, variable


@pytest.fixture
def store() -> CountedStore:
    return new_store()


@pytest.fixture
def engine() -> Engine:
    return Engine(EngineOptions(memory_limit_bytes=1 << 20))


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
