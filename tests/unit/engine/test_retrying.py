"""Whether a store still describes an array: asked again after a second, or a doubt."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from nczfs.engine.retrying import CONFIRMED_S, Confirmation
from nczfs.errors import StructureChanged

WAIT_S = 120.0


class Asked:
    """A store that is asked."""

    def __init__(self) -> None:
        self.times = 0
        self.doubts = 0
        self.now = 0.0
        self.error: Exception | None = None
        self.confirmation = Confirmation(self.ask, lambda: self.doubts, clock=lambda: self.now)

    def ask(self) -> None:
        self.times += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def test_an_answer_is_believed_for_a_second() -> None:
    asked = Asked()
    for now, times in ((0.0, 1), (CONFIRMED_S / 2, 1), (CONFIRMED_S, 2)):
        asked.now = now
        asked.confirmation()
        assert asked.times == times


def test_a_new_doubt_asks_again_at_once() -> None:
    asked = Asked()
    asked.confirmation()
    asked.doubts += 1
    asked.confirmation()
    asked.confirmation()
    assert asked.times == 2


def test_an_error_is_not_believed() -> None:
    asked = Asked()
    asked.error = StructureChanged("another one")
    for _ in range(2):
        with pytest.raises(StructureChanged):
            asked.confirmation()
    asked.error = None
    asked.confirmation()
    assert asked.times == 3


def test_an_answer_that_was_asked_for_before_a_doubt_is_not_believed_after_it(
    threads: ThreadPoolExecutor,
) -> None:
    asking, may_answer = threading.Event(), threading.Event()
    doubts, times = [0], []

    def ask() -> None:
        times.append(doubts[0])
        if doubts[0] == 0:
            asking.set()
            assert may_answer.wait(WAIT_S)

    confirmation = Confirmation(ask, lambda: doubts[0], clock=lambda: 0.0)
    first = threads.submit(confirmation)
    assert asking.wait(WAIT_S)
    doubts[0] = 1
    threads.submit(confirmation).result(WAIT_S)
    may_answer.set()
    first.result(WAIT_S)
    confirmation()
    assert times == [0, 1]


def test_a_far_store_is_not_looked_at() -> None:
    asked = Asked()
    asked.confirmation()
    asked.now += 10.0
    asked.confirmation.look()
    assert asked.times == 1


def test_a_near_store_is_asked_as_soon_as_a_look_shows_a_change() -> None:
    stored, confirmed, times = [1], [0], []

    def ask() -> None:
        times.append(stored[0])
        confirmed[0] = stored[0]

    confirmation = Confirmation(ask, is_unchanged=lambda: stored == confirmed, clock=lambda: 0.0)
    for _ in range(2):
        confirmation()
        confirmation.look()
    assert times == [1]
    stored[0] = 2
    confirmation.look(believed_s=1.0)
    assert times == [1], "the clock stands still"
    confirmation.look()
    assert times == [1, 2]


def test_a_look_that_shows_a_change_shares_no_answer_from_before(
    threads: ThreadPoolExecutor,
) -> None:
    stored, confirmed = [1], [0]
    asking, may_answer = threading.Event(), threading.Event()

    def ask() -> None:
        seen = stored[0]
        if seen == 2:
            raise StructureChanged("gone")
        asking.set()
        assert may_answer.wait(WAIT_S)
        confirmed[0] = seen

    confirmation = Confirmation(ask, is_unchanged=lambda: stored == confirmed)
    first = threads.submit(confirmation)
    assert asking.wait(WAIT_S)
    stored[0] = 2
    with pytest.raises(StructureChanged):
        threads.submit(confirmation.look).result(WAIT_S)
    may_answer.set()
    first.result(WAIT_S)
