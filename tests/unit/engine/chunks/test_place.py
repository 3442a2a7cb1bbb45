"""The gate that a rename closes for the time in which nothing may be stored at a place."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting

import pytest

from nczfs.engine.chunks.place import Gate

WAIT_S = 120.0
BLOCKED_S = 0.05


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def enter(gate: Gate, place: str) -> None:
    with gate.inside(lambda: place):
        pass


def is_waiting(future: Future[None]) -> bool:
    try:
        future.result(BLOCKED_S)
    except StillWaiting:
        return True
    return False


@pytest.mark.parametrize("place", ["d/v", "d/v/0", "d", ""])
def test_a_closed_gate_holds_who_stores_at_below_or_above_the_place(
    threads: ThreadPoolExecutor, place: str
) -> None:
    gate = Gate()
    with gate.closed("d/v"):
        entering = threads.submit(enter, gate, place)
        assert is_waiting(entering)
    entering.result(WAIT_S)


@pytest.mark.parametrize("place", ["d/w", "d/vv", "e"])
def test_a_closed_gate_lets_others_in(threads: ThreadPoolExecutor, place: str) -> None:
    gate = Gate()
    with gate.closed("d/v"):
        threads.submit(enter, gate, place).result(WAIT_S)


def test_a_gate_is_closed_when_those_inside_have_left(threads: ThreadPoolExecutor) -> None:
    gate = Gate()

    def close() -> None:
        with gate.closed("d"):
            pass

    with gate.inside(lambda: "d/v"), gate.inside(lambda: "e"):
        closing = threads.submit(close)
        assert is_waiting(closing)
    closing.result(WAIT_S)


def test_two_renames_of_one_place_come_one_after_the_other(threads: ThreadPoolExecutor) -> None:
    gate = Gate()

    def close(place: str) -> None:
        with gate.closed(place):
            pass

    with gate.closed("d/v", "d/w"):
        threads.submit(close, "d/x").result(WAIT_S)
        second = threads.submit(close, "d/w/x")
        assert is_waiting(second)
    second.result(WAIT_S)


def test_who_waits_enters_at_the_new_place(threads: ThreadPoolExecutor) -> None:
    gate = Gate()
    places = ["d/v"]

    def enter_latest() -> None:
        with gate.inside(lambda: places[-1]):
            pass

    with gate.closed("d/v"):
        entering = threads.submit(enter_latest)
        assert is_waiting(entering)
        places.append("d/w")
    with gate.closed("d/v"):
        entering.result(WAIT_S)


def test_a_gate_is_opened_but_for_one_place(threads: ThreadPoolExecutor) -> None:
    gate = Gate()
    with gate.closed("d") as narrow:
        narrow("d/v")
        threads.submit(enter, gate, "d/w").result(WAIT_S)
        entering = threads.submit(enter, gate, "d/v/0")
        assert is_waiting(entering)
    entering.result(WAIT_S)
    with gate.closed("d"):
        pass
