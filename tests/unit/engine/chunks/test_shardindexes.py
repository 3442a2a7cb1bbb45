"""The indexes of shards: one request for all who want one, whatever happens to it."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.shardindexes import IndexId, KnownIndex, ShardIndexes
from nczfs.engine.metadata.ledger import Ledger, Shelf
from nczfs.errors import Unavailable
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT

ID: IndexId = (ArrayPlace(ROOT), (0,), ())
WAIT_S = 60.0


def index() -> KnownIndex:
    return KnownIndex(Version("v"), 0, 16, np.empty((1, 2), np.uint64))


@pytest.fixture
def indexes() -> ShardIndexes:
    return ShardIndexes(Shelf(Ledger(1 << 20)))


def both(indexes: ShardIndexes, error: BaseException | None) -> tuple[Future[Any], Future[Any]]:
    """The results of two who want an index, of whom the first one asks for it while both wait."""
    asked, asks = threading.Event(), threading.Event()

    def ask() -> KnownIndex:
        asked.set()
        assert asks.wait(WAIT_S)
        if error is not None:
            raise error
        return index()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(indexes.once, ID, ask)
        assert asked.wait(WAIT_S)
        second = pool.submit(indexes.once, ID, index)
        asks.set()
        return first, second


def test_who_asks_shares_the_answer_and_keeps_it(indexes: ShardIndexes) -> None:
    first, second = both(indexes, None)
    assert first.result(WAIT_S)[1]
    assert second.result(WAIT_S)[0].version == first.result(WAIT_S)[0].version
    assert indexes.get(ID) is not None


def test_a_failure_is_that_of_all_who_wait_and_is_not_kept(indexes: ShardIndexes) -> None:
    first, second = both(indexes, Unavailable("no route"))
    with pytest.raises(Unavailable):
        first.result(WAIT_S)
    error = second.exception(WAIT_S)  # unless it came later
    assert error is None or isinstance(error, Unavailable)
    assert indexes.once(ID, index)[1]


def test_who_waits_for_one_that_is_interrupted_asks_for_the_index(indexes: ShardIndexes) -> None:
    first, second = both(indexes, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        first.result(WAIT_S)
    assert second.result(WAIT_S)[1]
    assert indexes.once(ID, index)[1]
