"""The leases of an engine: taken when something is written, renewed, handed over, lost."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable

import numpy as np
import pytest

from nczfs.engine.lease.contention import LeaseTerms
from nczfs.engine.lease.lease import Lease, Leases
from nczfs.engine.options import EngineOptions
from nczfs.errors import AccessDenied, LeaseNotHeld, StoreBusy, Unavailable
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.zmap.keys import ROOT, Prefix
from tests.conftest import ExpectedWarnings
from tests.support.leases import (
    LONG,
    Conditional,
    Time,
    Unconditional,
    User,
    lease_threads,
    other,
)


def test_where_conditions_hold_nothing_is_asked_and_no_thread_started(leases: Leases) -> None:
    zmap = Conditional()
    lease = leases.of(zmap, ROOT)
    lease.require()
    with lease.writing():
        assert lease_threads() == []
    assert zmap.asked == []
    assert leases.held() == []


def test_who_is_trusted_to_be_alone_takes_none(zmap: Unconditional, time: Time) -> None:
    """SEMANTICS W45."""
    trusting = Leases(trusts=True, terms=LONG, clock=time.clock())
    with trusting.of(zmap, ROOT).writing():
        assert zmap.claims() == []
    trusting.close()
    assert set(zmap.asked) == {"prepare_writing"}


def test_a_lease_is_taken_once_and_told_of(
    lease: Lease, leases: Leases, zmap: Unconditional, user: User
) -> None:
    lease.require()
    assert user.forgotten == 1
    asked = len(zmap.asked)
    lease.require()
    with lease.writing():
        assert leases.of(zmap, ROOT) is lease
    assert len(zmap.asked) == asked
    (held,) = leases.held()
    assert held.dataset == zmap.name
    assert held.expiry > held.since
    assert len(zmap.claims()) == 1
    assert len(lease_threads()) == 1


def test_two_leases_share_one_thread(leases: Leases, zmap: Unconditional) -> None:
    for root in ("a", "b"):
        leases.of(zmap, Prefix(root)).require()
    assert len(lease_threads()) == 1
    assert [held.dataset.rpartition("/")[2] for held in leases.held()] == ["a", "b"]


def test_who_waits_in_vain_is_told_whose_it_is_and_leaves_nothing(
    lease: Lease, zmap: Unconditional, time: Time
) -> None:
    """SEMANTICS W44. And how long the wait is at most."""
    holder = other(zmap, time)
    begun = time.now
    with pytest.raises(LeaseNotHeld, match=r"process \d+ on .* is writing; try again") as told:
        lease.require()
    assert isinstance(told.value, StoreBusy)
    message = re.search(
        r"waited (\d+) s .*if that process is gone, its lease ends in (\d+) s$", str(told.value)
    )
    assert message is not None, told.value
    waited, left = map(int, message.groups())
    assert waited == LONG.wait_s
    # Of its term, and of the time by which clocks may differ, what is left.
    assert left == pytest.approx(LONG.term_s + LONG.settle_s - (time.now - begun), abs=1)
    assert told.value.transient
    assert LONG.wait_s <= time.now - begun <= LONG.wait_s + 1
    assert zmap.claims() == [holder.key]
    holder.withdraw()
    lease.require()


@pytest.mark.parametrize("left_s", [0.0, 0.5, 1.0])
def test_a_lease_that_is_about_to_end_does_so_in_a_second(
    lease: Lease, zmap: Unconditional, time: Time, left_s: float
) -> None:
    """SEMANTICS W44: who is told to wait never waits for no time at all."""
    killed = other(zmap, time)
    assert killed.claim is not None
    time.sleep(killed.remaining_s(killed.claim) - LONG.wait_s - left_s)
    with pytest.raises(LeaseNotHeld, match=r"its lease ends in 1 s$"):
        lease.require()


def test_a_store_that_does_not_list_what_was_written_is_named(
    lease: Lease, zmap: Unconditional, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmap, "search", lambda _: iter(()))
    with pytest.raises(LeaseNotHeld, match="too slow, or does not list what was written"):
        lease.require()


def test_it_is_handed_over_when_nobody_used_it_for_a_while(
    lease: Lease, leases: Leases, zmap: Unconditional, user: User, time: Time
) -> None:
    lease.require()
    leases.beat()
    assert len(zmap.claims()) == 1
    time.sleep(LONG.idle_s)
    leases.beat()
    assert zmap.claims() == []
    assert user.forgotten == 2
    assert leases.held() == []
    lease.require()
    assert len(zmap.claims()) == 1


def test_it_is_kept_if_a_file_is_opened_while_it_is_found_unused(
    lease: Lease,
    leases: Leases,
    zmap: Unconditional,
    user: User,
    time: Time,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS W19."""

    def open_meanwhile() -> bool:
        lease.opened()
        return False

    lease.require()
    time.sleep(LONG.idle_s)
    monkeypatch.setattr(user, "has_unsaved", open_meanwhile)
    leases.beat()
    assert len(zmap.claims()) == 1


def test_it_is_kept_as_long_as_something_is_open_or_not_stored(
    lease: Lease, leases: Leases, zmap: Unconditional, user: User, time: Time
) -> None:
    lease.require()
    lease.opened()
    user.unsaved = True
    for end in (lease.closed, lambda: setattr(user, "unsaved", False)):
        time.sleep(2 * LONG.idle_s)
        leases.beat()
        assert len(zmap.claims()) == 1
        end()
        time.sleep(LONG.idle_s / 2)
    time.sleep(LONG.idle_s)
    leases.beat()
    assert zmap.claims() == []


def test_what_is_stored_meanwhile_does_not_close_an_open_file(
    lease: Lease, leases: Leases, zmap: Unconditional, time: Time
) -> None:
    lease.opened()
    with lease.writing():
        pass
    time.sleep(2 * LONG.idle_s)
    leases.beat()
    assert len(zmap.claims()) == 1
    lease.closed()
    time.sleep(LONG.idle_s)
    leases.beat()
    assert zmap.claims() == []


def test_it_is_not_handed_over_while_the_store_is_written(
    lease: Lease, leases: Leases, zmap: Unconditional, time: Time
) -> None:
    with lease.writing():
        time.sleep(LONG.idle_s)
        leases.beat()
        assert len(zmap.claims()) == 1
    leases.beat()
    assert len(zmap.claims()) == 1
    time.sleep(LONG.idle_s)
    leases.beat()
    assert zmap.claims() == []


def test_a_renewal_that_fails_is_tried_again(
    lease: Lease, leases: Leases, zmap: Unconditional, user: User, time: Time
) -> None:
    lease.require()
    user.unsaved = True
    (before,) = leases.held()
    time.sleep(LONG.renew_s)
    zmap.before = failing
    leases.beat()
    assert leases.held() == [before]
    zmap.before = lambda _: None
    leases.beat()
    (after,) = leases.held()
    assert after.expiry > before.expiry


def failing(_: str) -> None:
    raise Unavailable("the store is down")


def test_a_lease_that_could_not_be_renewed_in_time_is_lost_until_it_is_taken_again(
    lease: Lease,
    leases: Leases,
    zmap: Unconditional,
    user: User,
    time: Time,
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("its lease is lost")
    lease.require()
    user.unsaved = True
    zmap.before = failing
    time.sleep(LONG.term_s)
    leases.beat()
    assert leases.held() == []
    for thread in lease_threads():
        thread.join(120)
        assert not thread.is_alive()
    with pytest.raises(Unavailable), lease.writing():
        pytest.fail("written without a lease")
    zmap.before = lambda _: None
    holder = other(zmap, time)
    with pytest.raises(LeaseNotHeld), lease.writing():
        pytest.fail("written without a lease")
    holder.withdraw()
    with lease.writing():
        assert len(leases.held()) == 1
    assert user.forgotten == 2


@pytest.mark.parametrize("is_taken_again", [False, True])
def test_what_is_stored_while_the_lease_is_lost_is_not_confirmed(
    lease: Lease,
    leases: Leases,
    zmap: Unconditional,
    time: Time,
    expected_warnings: ExpectedWarnings,
    *,
    is_taken_again: bool,
) -> None:
    """SEMANTICS W19: another process may have stored something upon what was there before."""
    expected_warnings.add("its lease is lost")

    def lose() -> None:
        time.sleep(LONG.term_s)  # the process was stopped, or no renewal arrived
        if is_taken_again:
            other(zmap, time).withdraw()
            leases.beat()
            lease.require()

    with pytest.raises(Unavailable, match="lease was lost"), lease.writing():
        lose()
    with lease.writing():
        assert len(zmap.claims()) == 1


def test_a_lease_that_is_renewed_while_something_is_stored_is_not_lost(
    lease: Lease, leases: Leases, time: Time
) -> None:
    with lease.writing():
        for _ in range(4):
            time.sleep(LONG.renew_s)
            leases.beat()


def test_who_writes_does_not_wait_for_a_renewal(
    lease: Lease, leases: Leases, zmap: Unconditional, time: Time
) -> None:
    begun, written = threading.Event(), threading.Event()

    def hold_up(_: str) -> None:
        zmap.before = lambda _: None
        begun.set()
        assert written.wait(120)

    lease.require()
    lease.opened()
    time.sleep(LONG.renew_s)
    zmap.before = hold_up
    renewal = threading.Thread(target=leases.beat)
    renewal.start()
    assert begun.wait(120)
    with lease.writing():
        assert renewal.is_alive()
    written.set()
    renewal.join(120)
    assert not renewal.is_alive()


def test_a_lease_that_has_expired_is_not_told_of(
    lease: Lease, leases: Leases, user: User, time: Time
) -> None:
    lease.require()
    user.unsaved = True
    time.sleep(LONG.term_s)
    assert leases.held() == []


def test_a_lease_that_was_removed_by_somebody_is_lost(
    lease: Lease,
    leases: Leases,
    zmap: Unconditional,
    user: User,
    time: Time,
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("its lease is lost")
    lease.require()
    user.unsaved = True
    (key,) = zmap.claims()
    zmap.delete(key)
    time.sleep(LONG.renew_s)
    leases.beat()
    assert leases.held() == []
    assert zmap.claims() == []


def test_the_lease_of_a_killed_process_is_had_when_it_expired(
    lease: Lease, zmap: Unconditional, time: Time
) -> None:
    """SEMANTICS W44."""
    killed = other(zmap, time)
    time.sleep(LONG.term_s - 2 * LONG.wait_s)
    with pytest.raises(LeaseNotHeld):
        lease.require()
    time.sleep(LONG.wait_s)
    lease.require()
    assert killed.key not in zmap.claims()


def test_the_lease_of_a_dead_process_of_this_machine_is_had_though_hours_of_it_are_left(
    lease: Lease, zmap: Unconditional, time: Time
) -> None:
    """SEMANTICS W44."""
    dead = other(zmap, time)
    claim = json.loads(bytes(zmap.read(dead.key).data))
    hour_s = 3600
    assert claim["pid"] == os.getpid()
    changes = {"started": 1, "expiry": time.now + hour_s}  # of an earlier process of that number
    zmap.write(dead.key, json.dumps(claim | changes).encode())
    begun = time.now
    lease.require()
    assert time.now - begun < LONG.wait_s
    assert dead.key not in zmap.claims()


def test_one_thread_takes_it_and_the_others_wait_for_that(
    lease: Lease, zmap: Unconditional
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold_up(asked: str) -> None:
        if asked == "write":
            zmap.before = lambda _: None
            begun.set()
            assert go_on.wait(120)

    zmap.before = hold_up
    threads = [threading.Thread(target=lease.require) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(120)
    go_on.set()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert zmap.asked.count("write") == 2  # the claim, and that it holds


def test_what_may_not_be_written_is_told_with_the_remedy(lease: Lease, zmap: Unconditional) -> None:
    def refuse(asked: str) -> None:
        if asked == "write":
            raise AccessDenied("memory:///x: AccessDenied")

    zmap.before = refuse
    with pytest.raises(AccessDenied, match="--single-writer trust"):
        lease.require()


def test_closing_hands_everything_over_and_ends_the_thread(
    lease: Lease, leases: Leases, zmap: Unconditional
) -> None:
    lease.require()
    lease.opened()
    leases.close()
    assert zmap.claims() == []
    assert lease_threads() == []
    with pytest.raises(Unavailable, match="closed"):
        lease.require()


def test_a_lease_under_which_something_is_written_is_left_to_expire(
    lease: Lease, leases: Leases, zmap: Unconditional, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("its lease is left to expire")
    with lease.writing():
        leases.close()
        assert len(zmap.claims()) == 1


def change_value(root: OpenDataset, place: int) -> None:
    root.variables["v"][place] = place


def change_attribute(root: OpenDataset, place: int) -> None:
    root.attrs[str(place)] = place


@pytest.mark.parametrize("change", [change_value, change_attribute])
def test_what_another_wrote_since_it_was_read_is_not_written_over(
    change: Callable[[OpenDataset, int], None], zmap: Unconditional
) -> None:
    """A lease may be lost, and taken again, between the reading of an object and its writing."""
    trusting = EngineOptions(is_single_writer=True)

    def overtake(asked: str) -> None:
        if asked == "write":
            zmap.before = lambda _: None
            with open_zmap(zmap, "r+", options=trusting) as theirs:
                change(theirs, 2)

    with open_zmap(zmap, "w", options=trusting) as dataset:
        dataset.create_variable("v", [4], "i4", fillvalue=-1)[...] = np.zeros(4, "i4")
    with open_zmap(zmap, "r+", options=trusting) as ours:
        change(ours, 1)
        zmap.before = overtake
    with open_zmap(zmap) as found:
        told = list(found.variables["v"][...]), dict(found.attrs)
    assert told in [([0, 1, 2, 0], {}), ([0, 0, 0, 0], {"1": 1, "2": 2})]


def test_the_thread_renews_and_hands_over_by_itself_and_ends(zmap: Unconditional) -> None:
    terms = LeaseTerms(renew_s=0.05, settle_s=0.05, poll_s=0.01, idle_s=0.2)
    leases, user = Leases(terms=terms), User()
    user.unsaved = True
    lease = leases.of(zmap, ROOT)
    lease.add_user(user)
    renewed, handed_over = threading.Event(), threading.Event()
    seen = {"stat": renewed, "delete": handed_over}
    lease.require()
    zmap.before = lambda asked: seen[asked].set() if asked in seen else None
    assert renewed.wait(120)
    (thread,) = lease_threads()
    user.unsaved = False
    assert handed_over.wait(120)
    thread.join(120)
    assert not thread.is_alive()
    assert zmap.claims() == []
    lease.require()
    leases.close()
