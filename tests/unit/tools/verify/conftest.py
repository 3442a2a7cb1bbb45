"""What the tests of verifying share: a sound dataset, near and far, and an engine to read it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from tests.support.verifying import CountedStore, fill


@pytest.fixture(params=[True, False], ids=["near", "far"])
def store(request: pytest.FixtureRequest) -> CountedStore:
    store = CountedStore(near=request.param)
    fill(store)
    store.chunks_read.clear()
    return store


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(EngineOptions(memory_limit_bytes=1 << 20))
    yield engine
    engine.close()
