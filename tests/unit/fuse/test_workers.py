"""Threads, limits and deadlines."""

from __future__ import annotations

import threading

import pytest
import trio
import trio.testing

from nczfs.engine.headway import Headway
from nczfs.engine.headway import make as make_headway
from nczfs.errors import DeadlinePassed, NoSpace
from nczfs.fuse.workers import Pool
from nczfs.vfs import effects


def test_a_call_gives_its_result() -> None:
    async def main() -> int:
        return await Pool(1, 5.0).run("read", lambda: 42)

    assert trio.run(main) == 42


def test_a_caller_does_not_wait_beyond_the_deadline() -> None:
    release = threading.Event()

    async def main() -> None:
        with pytest.raises(DeadlinePassed):
            await Pool(1, 0.05).run("read", release.wait)
        release.set()

    trio.run(main)


def test_a_call_that_was_given_up_counts_against_the_limit_until_it_ends() -> None:
    release = threading.Event()

    async def main() -> None:
        pool = Pool(1, 0.05)
        with pytest.raises(DeadlinePassed):
            await pool.run("read", release.wait)
        assert pool.busy == 1
        with pytest.raises(DeadlinePassed):
            await pool.run("read", lambda: 1)
        release.set()
        while pool.busy:  # noqa: ASYNC110 (there is no event: nobody waits for that thread)
            await trio.sleep(0.001)
        assert await pool.run("read", lambda: 1) == 1

    trio.run(main)


def test_a_result_that_comes_too_late_is_undone() -> None:
    release = threading.Event()
    undone = threading.Event()
    results = []

    def undo(result: str) -> None:
        results.append(result)
        undone.set()

    def slow() -> str:
        release.wait()
        return "handle"

    async def main() -> None:
        with pytest.raises(DeadlinePassed):
            await Pool(1, 0.05).run_or_undo("open", slow, undo)
        release.set()

    trio.run(main)
    assert undone.wait(120)
    assert results == ["handle"]


def test_a_result_that_was_delivered_is_not_undone() -> None:
    results: list[int] = []

    async def main() -> int:
        return await Pool(1, 5.0).run_or_undo("open", lambda: 7, results.append)

    assert trio.run(main) == 7
    assert results == []


def test_a_result_that_a_cancelled_caller_never_saw_is_undone_once() -> None:
    undone = threading.Event()
    results: list[int] = []

    def undo(result: int) -> None:
        results.append(result)
        undone.set()

    async def main() -> None:
        pool = Pool(4, 5.0)
        with trio.CancelScope() as scope:
            done = threading.Event()

            def quick() -> int:
                trio.from_thread.run_sync(scope.cancel)
                done.set()
                return 7

            await pool.run_or_undo("open", quick, undo)

    trio.run(main)
    assert undone.wait(120)
    assert results == [7]


def test_an_error_of_the_call_reaches_the_caller() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        await Pool(1, 5.0).run("read", fail)

    with pytest.raises(ZeroDivisionError):
        trio.run(main)


async def _release_late(
    begun: threading.Event, release: threading.Event, clock: trio.testing.MockClock
) -> None:
    """Let a call end that has begun, when its caller's deadline has passed."""
    await trio.to_thread.run_sync(begun.wait)
    clock.jump(1.0)
    await trio.testing.wait_all_tasks_blocked()
    release.set()


def test_a_call_that_has_begun_to_have_an_effect_is_waited_for() -> None:
    begun, release, clock = threading.Event(), threading.Event(), trio.testing.MockClock()

    def act() -> str:
        effects.begin()
        begun.set()
        release.wait()
        return "done"

    async def main() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_release_late, begun, release, clock)
            return await Pool(1, 0.5).run("write", act)

    assert trio.run(main, clock=clock) == "done"


def test_the_error_of_a_call_that_was_waited_for_is_told() -> None:
    begun, release, clock = threading.Event(), threading.Event(), trio.testing.MockClock()

    def fail() -> None:
        effects.begin()
        begun.set()
        release.wait()
        raise NoSpace("full")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_release_late, begun, release, clock)
            with pytest.raises(NoSpace, match="full"):
                await Pool(1, 0.5).run("write", fail)

    trio.run(main, clock=clock)


def test_a_call_that_waits_for_a_computation_is_waited_for_as_long_as_that_goes_on() -> None:
    headway, clock = Headway(), trio.testing.MockClock()
    waits, release = threading.Event(), threading.Event()

    def wait() -> str:
        with effects.waiting_for(headway), headway.noted():
            make_headway()
            headway.at += 600  # as if it went on until then
            waits.set()
            release.wait()
        return "done"

    async def main() -> str:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_release_late, waits, release, clock)
            return await Pool(1, 0.5).run("lookup", wait)

    assert trio.run(main, clock=clock) == "done"


def test_a_call_is_not_waited_for_when_a_computation_no_longer_goes_on() -> None:
    headway, release = Headway(), threading.Event()

    def hang() -> None:
        with effects.waiting_for(headway), headway.noted():
            make_headway()
            release.wait()

    def hang_later() -> None:
        with effects.waiting_for(headway), headway.noted():
            make_headway()
        release.wait()

    async def main() -> None:
        for each in (hang, hang_later):
            with pytest.raises(DeadlinePassed):
                await Pool(1, 0.05).run("lookup", each)
        release.set()

    trio.run(main)


def test_a_call_that_was_given_up_never_has_an_effect() -> None:
    release, ended = threading.Event(), threading.Event()
    happened: list[str] = []

    def act_late() -> None:
        release.wait()
        try:
            effects.begin()
            happened.append("effect")
        except DeadlinePassed:
            happened.append("withdrawn")
        finally:
            ended.set()

    async def main() -> None:
        with pytest.raises(DeadlinePassed):
            await Pool(1, 0.05).run("write", act_late)
        release.set()

    trio.run(main)
    assert ended.wait(120)
    assert happened == ["withdrawn"]
