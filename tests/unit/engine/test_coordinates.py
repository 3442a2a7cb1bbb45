"""Coordinates that are read ahead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import zarr

from nczfs.engine.coordinates import fetch_coordinates
from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.zmap.keys import parse_key
from tests.support.counted import CountedStore, new_store, opened, values, variable
from tests.support.sample import keys_of


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


def test_coordinates_in_shards_are_asked_for_shard_by_shard(tmp_path: Path, engine: Engine) -> None:
    times = np.arange(2000.0)
    root = zarr.create_group(tmp_path, zarr_format=3)
    for name in ("v", "time"):
        array = root.create_array(
            name, shape=2000, dtype="f8", chunks=(10,), shards=(1000,), dimension_names=["time"]
        )
        array[:] = times
    store = CountedStore()
    for key, path in keys_of(tmp_path).items():
        store.write(parse_key(key), path.read_bytes())
    dataset = opened(store, engine)
    assert fetch_coordinates(dataset, variable(dataset, "v")) == 200
    np.testing.assert_array_equal(values(dataset, "time"), times)
    chunks = {key: count for key, count in store.reads.items() if "/c/" in key}
    assert chunks == {"time/c/0": 1, "time/c/1": 1}
