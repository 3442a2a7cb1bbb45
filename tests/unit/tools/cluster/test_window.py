"""Pieces in other processes: how many are under way, and what becomes of those that fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest

from nczfs.errors import CorruptChunk
from nczfs.tools.cluster.window import ATTEMPTS_MAX, FAILED_MAX, Refused, attempted, outcomes


def nothing() -> None:
    pass


def at_once(function: Callable[[int], object]) -> Callable[[int], Future[object]]:
    """Do a piece before `submit` returns."""

    def submit(piece: int) -> Future[object]:
        future: Future[object] = Future()
        try:
            future.set_result(function(piece))
        except OSError as error:
            future.set_exception(error)
        return future

    return submit


def test_pieces_are_made_as_there_is_room_for_them() -> None:
    made: list[int] = []

    def pieces() -> Iterator[int]:
        for piece in range(1000):
            made.append(piece)
            yield piece

    results: list[int] = []
    most = 0
    with ThreadPoolExecutor(3) as pool:
        for outcome in outcomes(pieces(), lambda p: pool.submit(abs, p), lambda: 5, nothing):
            results.append(outcome.piece)
            most = max(most, len(made) - len(results))
    assert sorted(results) == made == list(range(1000))
    assert most <= 5


@pytest.mark.long
def test_a_million_pieces_take_no_more_memory_than_a_thousand() -> None:
    import tracemalloc

    tracemalloc.start()
    assert (
        sum(1 for _ in outcomes(iter(range(1 << 20)), at_once(abs), lambda: 64, nothing)) == 1 << 20
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_piece_that_fails_is_tried_again_and_given_up_at_last() -> None:
    tries: Counter[int] = Counter()

    def work(piece: int) -> int:
        tries[piece] += 1
        if piece == 3 or (piece == 1 and tries[piece] < ATTEMPTS_MAX):
            raise OSError("no luck")
        return piece

    found = {o.piece: o for o in outcomes(iter(range(5)), at_once(work), lambda: 2, nothing)}
    assert [found[piece].result for piece in range(5)] == [0, 1, 2, None, 4]
    assert [found[piece].trouble for piece in range(5)] == ["", "", "", "OSError: no luck", ""]
    assert tries == {0: 1, 1: ATTEMPTS_MAX, 2: 1, 3: ATTEMPTS_MAX, 4: 1}


def test_an_error_of_the_data_comes_as_its_message() -> None:
    def work(_job: object, _piece: object) -> object:
        raise CorruptChunk("t2m/0.0: is cut short")

    assert attempted(work, None, None) == Refused("t2m/0.0: is cut short")
    (found,) = outcomes(iter([0]), at_once(lambda p: attempted(work, None, p)), lambda: 1, nothing)
    assert found.trouble == "t2m/0.0: is cut short"


def test_work_of_which_all_fails_is_given_up() -> None:
    def work(_piece: int) -> object:
        raise OSError("the disk is gone")

    found = list(outcomes(count(), at_once(work), lambda: 8, nothing))
    assert FAILED_MAX <= len(found) <= FAILED_MAX + 8


def test_what_is_under_way_is_cancelled_when_the_user_ends_the_work() -> None:
    futures: list[Future[Any]] = []

    def submit(_piece: int) -> Future[Any]:
        futures.append(Future())
        return futures[-1]

    def tick() -> None:
        raise KeyboardInterrupt

    pieces: Iterator[int] = count()
    with pytest.raises(KeyboardInterrupt):
        list(outcomes(pieces, submit, lambda: 4, tick))
    assert len(futures) == 4
    assert all(future.cancelled() for future in futures)
