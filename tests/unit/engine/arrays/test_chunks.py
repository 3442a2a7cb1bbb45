"""The chunks of an array: what is in memory is checked, and not loaded without need."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.engine.arrays.array import now
from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions, Tally
from nczfs.model.boxes import whole
from nczfs.zmap.keys import parse_key
from tests.support.counted import CountedStore, new_store, opened, variable


@pytest.fixture
def store() -> CountedStore:
    return new_store()


@pytest.fixture
def engine() -> Engine:
    return Engine(EngineOptions(memory_limit_bytes=1 << 20))


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
