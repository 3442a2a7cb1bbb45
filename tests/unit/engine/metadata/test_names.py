"""The right to change names and lengths."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from nczfs.engine.metadata.names import PathLocks

WAIT_S = 120.0


def change(names: PathLocks, place: str) -> None:
    with names.changing(lambda: place):
        pass


def hold(names: PathLocks, *paths: str) -> None:
    with names.held(*paths):
        pass


def begun(pool: ThreadPoolExecutor, *arguments: object) -> Future[None]:
    """Return a call that a thread has begun."""
    is_begun = threading.Event()

    def call() -> None:
        is_begun.set()
        function, *rest = arguments
        function(*rest)  # type: ignore[operator]

    future = pool.submit(call)
    assert is_begun.wait(WAIT_S)
    return future


@pytest.mark.parametrize("place", ["g", "g/v", "g/v/w"])
def test_changes_at_and_below_a_held_path_wait(place: str) -> None:
    names = PathLocks()
    with ThreadPoolExecutor(1) as pool:
        with names.held("g"):
            waiting = begun(pool, change, names, place)
            assert not waiting.done()
        waiting.result(WAIT_S)


def test_changes_beside_and_above_a_held_path_go_on() -> None:
    names = PathLocks()
    with ThreadPoolExecutor(1) as pool, names.held("g/v"):
        for place in ("", "g", "g/w", "g/vv"):
            pool.submit(change, names, place).result(WAIT_S)


@pytest.mark.parametrize("path", ["", "g", "g/v"])
def test_a_path_is_held_by_one_thread(path: str) -> None:
    names = PathLocks()
    with ThreadPoolExecutor(1) as pool:
        with names.held("g"):
            waiting = begun(pool, hold, names, path)
            assert not waiting.done()
            hold_beside(names)
        waiting.result(WAIT_S)


def hold_beside(names: PathLocks) -> None:
    """Hold another path, in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold, names, "h").result(WAIT_S)


def test_the_thread_that_holds_a_path_may_hold_and_change_it_again() -> None:
    names = PathLocks()
    with names.held(""), names.held("g", "h"), names.changing(lambda: "g"):
        change(names, "h")
    hold(names, "g")


def test_a_path_is_looked_up_again_after_the_wait() -> None:
    names, place = PathLocks(), ["g"]
    seen: list[str] = []

    def look() -> str:
        seen.append(place[0])
        return place[0]

    def changing() -> None:
        with names.changing(look):
            pass

    with ThreadPoolExecutor(1) as pool:
        with names.held("g"):
            waiting = begun(pool, changing)
            place[0] = "h"
        waiting.result(WAIT_S)
    assert seen[-1] == "h"
