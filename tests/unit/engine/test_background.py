"""The thread that stores in the background: it hears of every write, and ends when told to."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Iterator

import pytest

from nczfs.engine.background import Background


class Work:
    """What waits to be stored, and a thread that stores it.

    Attributes
    ----------
    turns : how many things waited, at each turn of the thread.
    """

    def __init__(self, age_s: float) -> None:
        self.waiting: list[str] = []
        self.turns: queue.Queue[tuple[int, float]] = queue.Queue()
        self.keep = False
        self.background = Background(self.store_aged, age_s)

    def write(self, *, at_once: bool = False) -> None:
        self.waiting.append("something")
        self.background.expect(at_once=at_once)

    def store_aged(self, before: float) -> bool:
        self.turns.put((len(self.waiting), before))
        if not self.keep:
            self.waiting.clear()
        return bool(self.waiting)


@pytest.fixture
def work() -> Iterator[Work]:
    work = Work(age_s=0.01)
    yield work
    work.background.close()
    work.background.join()


def test_no_thread_exists_before_something_is_written(work: Work) -> None:
    before = threading.active_count()
    assert work.background._thread is None
    work.write()
    assert threading.active_count() == before + 1


def test_every_write_is_heard_of_also_after_all_was_stored(work: Work) -> None:
    for _ in range(3):
        work.write()
        assert work.turns.get(timeout=120)[0] == 1
        while work.waiting:
            time.sleep(0.001)


def test_what_is_left_is_tried_again_until_it_is_stored(work: Work) -> None:
    work.keep = True
    work.write()
    for _ in range(3):
        assert work.turns.get(timeout=120)[0] == 1
    work.keep = False
    while work.waiting:
        time.sleep(0.001)


def test_it_sleeps_while_nothing_waits(work: Work) -> None:
    work.write()
    work.turns.get(timeout=120)
    with pytest.raises(queue.Empty):
        work.turns.get(timeout=0.3)


def test_what_is_young_waits_and_much_of_it_does_not() -> None:
    work = Work(age_s=3600)
    work.write()
    with pytest.raises(queue.Empty):
        work.turns.get(timeout=0.1)
    work.write(at_once=True)
    count, before = work.turns.get(timeout=120)
    assert count == 2
    assert before <= time.monotonic() - 3599
    work.background.close()
    work.background.join()


def test_closing_ends_it_at_once_and_it_is_not_started_again() -> None:
    work = Work(age_s=3600)
    work.write()
    work.background.close()
    work.background.join()
    work.write(at_once=True)
    assert work.turns.empty()


def test_a_child_of_a_fork_has_a_thread_of_its_own(work: Work) -> None:
    work.write()
    work.turns.get(timeout=120)
    pid = os.fork()
    if pid == 0:
        work.turns = queue.Queue()
        work.write()
        try:
            os._exit(0 if work.turns.get(timeout=120)[0] else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
