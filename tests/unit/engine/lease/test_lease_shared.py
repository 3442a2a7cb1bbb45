"""Several files, calls and threads that use one lease."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import ClassVar

import pytest

from nczfs.engine.lease import lease as lease_module
from nczfs.engine.lease.lease import Lease, Leases
from nczfs.errors import LeaseNotHeld, Unavailable
from nczfs.zmap.keys import ROOT
from tests.conftest import ExpectedWarnings
from tests.support.leases import LONG, Time, Unconditional, User, lease_threads

PATIENCE_S = 120.0


@pytest.fixture
def held_up(zmap: Unconditional) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first write of a claim has begun, and may end."""
    begun, go_on = threading.Event(), threading.Event()

    def hold_up(asked: str) -> None:
        if asked == "write":
            zmap.before = lambda _: None
            begun.set()
            assert go_on.wait(PATIENCE_S)

    zmap.before = hold_up
    yield begun, go_on
    go_on.set()


def test_it_is_kept_until_the_last_of_several_files_is_closed(
    lease: Lease, leases: Leases, zmap: Unconditional, time: Time
) -> None:
    """SEMANTICS W19."""
    lease.require()
    for _ in range(2):
        lease.opened()
    for claims in (1, 0):
        lease.closed()
        time.sleep(LONG.idle_s)
        leases.beat()
        assert len(zmap.claims()) == claims


def test_it_is_kept_until_the_last_of_several_writes_has_ended(
    lease: Lease, leases: Leases, zmap: Unconditional, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W19."""
    expected_warnings.add("its lease is left to expire")
    with lease.writing():
        with lease.writing():
            pass
        leases.close()
        assert len(zmap.claims()) == 1


def test_who_needs_it_again_uses_it(
    lease: Lease, leases: Leases, zmap: Unconditional, time: Time
) -> None:
    for _ in range(3):
        lease.require()
        time.sleep(LONG.idle_s - 1)
        leases.beat()
        assert len(zmap.claims()) == 1
    time.sleep(1)
    leases.beat()
    assert zmap.claims() == []


def test_nobody_waits_longer_than_the_terms_say_for_a_thread_that_takes_it(
    zmap: Unconditional, time: Time, held_up: tuple[threading.Event, threading.Event]
) -> None:
    """SEMANTICS W43: though the store does not answer that thread."""
    begun, go_on = held_up
    terms = replace(LONG, wait_s=0.05, settle_s=0.01)
    leases = Leases(terms=terms, clock=time.clock())
    lease = leases.of(zmap, ROOT)
    taking = threading.Thread(target=lease.require, daemon=True)
    taking.start()
    assert begun.wait(PATIENCE_S)
    with pytest.raises(LeaseNotHeld, match="the store is too slow"):
        lease.require()
    lease.hand_over()
    assert taking.is_alive()
    go_on.set()
    taking.join(PATIENCE_S)
    assert len(zmap.claims()) == 1
    leases.close()


class Awaited(Future[None]):
    """The result of a trial; counts those who wait for it."""

    waiting: ClassVar[threading.Semaphore]

    def result(self, timeout: float | None = None) -> None:
        self.waiting.release()
        return super().result(timeout)


@pytest.mark.parametrize("fails", [False, True])
def test_those_who_wait_for_one_trial_of_the_store_share_how_it_ends(
    lease: Lease, zmap: Unconditional, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    begun, go_on, ends = threading.Event(), threading.Event(), set[str]()
    Awaited.waiting = threading.Semaphore(0)
    monkeypatch.setattr(lease_module, "Future", Awaited)

    def hold_up(asked: str) -> None:
        if asked == "prepare_writing":
            begun.set()
            assert go_on.wait(PATIENCE_S)
            if fails:
                raise Unavailable("on purpose")

    def prepare() -> None:
        try:
            lease.prepare()
        except Unavailable as error:
            ends.add(str(error))

    zmap.before = hold_up
    first, *others = [threading.Thread(target=prepare, daemon=True) for _ in range(3)]
    first.start()
    assert begun.wait(PATIENCE_S)
    for each in others:
        each.start()
        assert Awaited.waiting.acquire(timeout=PATIENCE_S)
    go_on.set()
    for each in (first, *others):
        each.join(PATIENCE_S)
        assert not each.is_alive()
    assert zmap.asked.count("prepare_writing") == 1
    assert ends == ({"on purpose"} if fails else set())
    zmap.before = lambda _: None
    lease.prepare()
    assert zmap.asked.count("prepare_writing") == (2 if fails else 1)


def test_the_thread_looks_after_it_several_times_between_two_renewals(
    lease: Lease, zmap: Unconditional, user: User, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_module, "BEATS", 100_000)
    user.unsaved = True
    lease.require()
    renewed = threading.Event()
    zmap.before = lambda asked: renewed.set() if asked == "stat" else None
    time.sleep(LONG.renew_s)
    assert renewed.wait(PATIENCE_S)
    zmap.before = lambda _: None


def test_a_program_that_does_not_close_the_dataset_can_end(lease: Lease) -> None:
    lease.require()
    assert [thread.daemon for thread in lease_threads()] == [True]
