"""One after the other of the rules by which two contenders never both have a lease."""

from __future__ import annotations

import json
import os
import socket

import pytest

from nczfs.engine.lease import contention
from nczfs.engine.lease.contention import LEASE, Contender, LeaseTerms, parsed_claim
from nczfs.engine.process import current_process
from nczfs.errors import Unavailable
from nczfs.zmap.keys import Key, Prefix
from tests.conftest import ExpectedWarnings
from tests.support.leases import Time, Unconditional, contender, take

TERMS = LeaseTerms()
CLOCKS_DIFFER_S = TERMS.settle_s / 2


def test_the_claim_says_who_and_for_how_long(zmap: Unconditional, time: Time) -> None:
    ours = contender(zmap, time)
    process = current_process()
    assert process is not None
    claim = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "machine": process.machine,
        "started": process.started,
        "random": ours.key.rpartition("/")[2],
        "start": time.now,
        "expiry": time.now + TERMS.term_s,
        "holds": False,
    }
    ours.advance()
    assert json.loads(bytes(zmap.read(ours.key).data)) == claim
    assert take(ours, time)
    claim |= {"expiry": time.now + TERMS.term_s, "holds": True}
    assert json.loads(bytes(zmap.read(ours.key).data)) == claim
    assert zmap.claims() == [ours.key]


def test_the_oldest_claim_wins_and_the_next_one_follows(zmap: Unconditional, time: Time) -> None:
    first, second = contender(zmap, time), contender(zmap, time)
    first.advance()
    time.sleep(0.5)
    second.advance()
    time.sleep(TERMS.settle_s)
    assert second.advance() is not None
    assert first.advance() is None
    assert second.advance() is not None
    assert second.first is not None
    assert second.first.random == first.key.rpartition("/")[2]
    first.withdraw()
    assert second.advance() is None


def test_nobody_decides_before_others_can_be_seen(zmap: Unconditional, time: Time) -> None:
    """Whose clock is slow comes later, and has the older claim."""
    hasty, slow = contender(zmap, time, CLOCKS_DIFFER_S), contender(zmap, time)
    hasty.advance()
    assert hasty.advance() is not None
    time.sleep(0.5)
    slow.advance()
    time.sleep(TERMS.settle_s)
    assert hasty.advance() is not None
    assert slow.advance() is None


def test_a_contender_says_how_long_it_waits_for_others_to_be_seen(
    zmap: Unconditional, time: Time
) -> None:
    ours = contender(zmap, time)
    assert ours.advance() == TERMS.settle_s
    time.sleep(0.5)
    assert ours.advance() == pytest.approx(TERMS.settle_s - 0.5)


def test_a_claim_that_did_not_change_is_read_once(zmap: Unconditional, time: Time) -> None:
    holder, waiting = contender(zmap, time), contender(zmap, time)
    assert take(holder, time)
    assert not take(waiting, time)
    zmap.asked.clear()
    assert waiting.advance() == TERMS.poll_s
    assert zmap.asked == ["search"]
    assert holder.renew()
    zmap.asked.clear()
    assert waiting.advance() == TERMS.poll_s
    assert zmap.asked == ["search", "read"]


def test_a_claim_that_took_long_to_be_stored_is_made_anew(zmap: Unconditional, time: Time) -> None:
    late, quick = contender(zmap, time), contender(zmap, time)

    def meanwhile(_: str) -> None:
        zmap.before = lambda _: None
        time.sleep(0.5)
        assert take(quick, time)
        quick.withdraw()
        time.sleep(TERMS.settle_s)

    zmap.before = meanwhile
    assert late.advance() == 0
    # The claim that it made first is older than that of whoever comes now, and was not seen.
    assert not late.is_valid
    begun = time.now
    assert take(late, time)
    assert late.claim is not None
    assert late.claim.start >= begun


@pytest.mark.parametrize(("took_s", "counts"), [(0.9, True), (1.1, False)])
def test_a_claim_counts_if_others_saw_it_within_half_of_the_settle_time(
    zmap: Unconditional, time: Time, took_s: float, counts: bool
) -> None:
    ours = contender(zmap, time)
    zmap.after = lambda asked: time.sleep(took_s) if asked == "write" else None
    assert ours.advance() == (TERMS.settle_s if counts else 0)
    assert (ours.claim is not None) is counts


def test_a_claim_that_cannot_be_made_anew_does_not_stand_in_the_way(
    zmap: Unconditional, time: Time
) -> None:
    holder, ours = contender(zmap, time), contender(zmap, time)
    assert take(holder, time)
    assert not take(ours, time)
    time.sleep(TERMS.renew_s)
    assert holder.renew()
    fails = iter([False, True])

    def late_and_then_failing(asked: str) -> None:
        if asked == "write":
            time.sleep(TERMS.settle_s)
            if next(fails):
                raise Unavailable("on purpose")

    zmap.before = late_and_then_failing
    with pytest.raises(Unavailable):
        ours.advance()
    zmap.before = lambda _: None
    assert not ours.is_valid
    assert ours.advance() == TERMS.settle_s


def test_a_claim_that_somebody_removed_is_there_again_at_its_renewal(
    zmap: Unconditional, time: Time
) -> None:
    ours = contender(zmap, time)
    time.sleep(ours.advance() or 0.0)
    zmap.delete(ours.key)
    assert ours.advance() == TERMS.poll_s
    assert ours.first is None
    time.sleep(TERMS.renew_s)
    assert ours.advance() is None
    assert zmap.claims() == [ours.key]


def test_who_was_stopped_between_looking_and_taking_looks_again(
    zmap: Unconditional, time: Time
) -> None:
    stopped, other = contender(zmap, time), contender(zmap, time)
    time.sleep(stopped.advance() or 0.0)

    def stop(asked: str) -> None:
        if asked == "write":
            zmap.before = lambda _: None
            time.sleep(TERMS.term_s + TERMS.settle_s)
            assert take(other, time)

    zmap.before = stop
    assert stopped.advance() is not None
    assert not stopped.is_valid
    assert other.is_valid


def test_a_holder_is_not_overtaken_by_whose_clock_is_far_behind(
    zmap: Unconditional, time: Time
) -> None:
    holder, slow = contender(zmap, time), contender(zmap, time, -20.0)
    assert take(holder, time)
    assert not take(slow, time)


def test_a_lease_ends_for_its_holder_before_it_does_for_others(
    zmap: Unconditional, time: Time
) -> None:
    for error_s in (-CLOCKS_DIFFER_S, 0.0, CLOCKS_DIFFER_S):
        holder, other = contender(zmap, time), contender(zmap, time, error_s)
        assert take(holder, time)
        while not take(other, time, tries=1):
            time.sleep(0.1)
        assert not holder.is_valid
        assert zmap.claims() == [other.key]
        other.withdraw()


def test_a_renewed_lease_lasts(zmap: Unconditional, time: Time) -> None:
    holder, other = contender(zmap, time), contender(zmap, time)
    assert take(holder, time)
    for _ in range(10):
        time.sleep(TERMS.renew_s)
        assert holder.is_due
        assert holder.renew()
        assert not holder.is_due
        assert not take(other, time, tries=2)


def test_a_term_begins_when_the_claim_is_sent(zmap: Unconditional, time: Time) -> None:
    """Others count from the time in it: the holder would be the second one at the end."""
    ours, delay_s = contender(zmap, time), TERMS.renew_s
    assert take(ours, time)

    def slow(asked: str) -> None:
        if asked == "write":
            time.sleep(delay_s)

    zmap.before = slow
    assert ours.renew()
    zmap.before = lambda _: None
    assert ours.is_due
    time.sleep(TERMS.term_s - TERMS.settle_s - delay_s - 0.1)
    assert ours.is_valid
    time.sleep(0.1)
    assert not ours.is_valid


def test_a_lease_that_expired_or_was_removed_is_not_renewed(
    zmap: Unconditional, time: Time
) -> None:
    holder = contender(zmap, time)
    assert take(holder, time)
    time.sleep(TERMS.term_s - TERMS.settle_s)
    assert not holder.is_valid
    zmap.asked.clear()
    assert not holder.renew()
    assert zmap.asked == []  # others may hold it by now
    assert take(holder, time)
    zmap.delete(holder.key)
    assert not holder.renew()
    assert not holder.is_valid


def test_a_lease_that_expired_while_it_was_renewed_is_lost(zmap: Unconditional, time: Time) -> None:
    holder, other = contender(zmap, time), contender(zmap, time)
    assert take(holder, time)

    def others_go_on(asked: str) -> None:
        if asked == "write":
            zmap.before = lambda _: None
            time.sleep(TERMS.term_s)
            assert take(other, time, tries=10)

    zmap.before = others_go_on
    assert not holder.renew()
    assert (holder.is_valid, other.is_valid) == (False, True)
    assert zmap.claims() == [other.key]


@pytest.mark.parametrize(("early_s", "is_kept"), [(0.5, True), (0.0, False)])
def test_a_renewal_has_to_arrive_before_the_lease_ends_for_its_holder(
    zmap: Unconditional, time: Time, early_s: float, *, is_kept: bool
) -> None:
    ours = contender(zmap, time)
    assert take(ours, time)
    began = time.now
    zmap.before = lambda asked: (
        time.sleep(began + TERMS.term_s - TERMS.settle_s - early_s - time.now)
        if asked == "write"
        else None
    )
    assert ours.renew() is is_kept
    assert ours.is_valid is is_kept


def test_a_lease_counts_until_it_has_expired_on_all_clocks(zmap: Unconditional, time: Time) -> None:
    holder, other = contender(zmap, time), contender(zmap, time)
    assert take(holder, time)
    assert holder.claim is not None
    time.sleep(other.remaining_s(holder.claim) - TERMS.settle_s - 0.5)
    time.sleep(other.advance() or 0.0)
    assert other.advance() is not None
    time.sleep(0.6)
    assert other.advance() is None


def test_who_has_not_contended_has_nothing_to_renew(zmap: Unconditional, time: Time) -> None:
    ours = contender(zmap, time)
    assert (ours.claim, ours.first, ours.is_valid, ours.is_due) == (None, None, False, False)
    assert not ours.renew()
    assert zmap.asked == []


@pytest.mark.parametrize("strange", ["a directory", "gone when it is read"])
def test_what_is_beside_the_claims_does_not_hide_them(
    zmap: Unconditional, time: Time, strange: str, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add(r"\.nczfs-lease/0: is not a lease; ignored")
    holder, other = contender(zmap, time), contender(zmap, time)
    beside = Key(f"{LEASE}/0/x" if strange == "a directory" else f"{LEASE}/0")
    zmap.write(beside, b"")  # it is listed first
    assert take(holder, time)

    def remove(asked: str) -> None:
        if asked == "read" and beside == f"{LEASE}/0":
            zmap.before = lambda _: None
            zmap.delete(beside)

    zmap.before = remove
    assert not take(other, time, tries=2)
    assert other.first == holder.claim


def test_who_waits_renews_its_claim_as_soon_as_that_is_due(zmap: Unconditional, time: Time) -> None:
    holder, waiting = contender(zmap, time), contender(zmap, time)
    assert take(holder, time)
    waiting.advance()
    time.sleep(TERMS.renew_s)
    assert waiting.is_due
    assert waiting.advance() == TERMS.poll_s
    assert not waiting.is_due


def test_rivals_are_others_who_hold_the_lease_or_wait_for_it(
    zmap: Unconditional, time: Time
) -> None:
    """SEMANTICS W47."""
    ours, rival = contender(zmap, time), contender(zmap, time)
    assert take(ours, time)
    assert not ours.has_rivals()
    rival.advance()
    assert ours.has_rivals()
    assert rival.has_rivals()
    rival.withdraw()
    assert not ours.has_rivals()
    time.sleep(TERMS.term_s + TERMS.settle_s + 1)
    assert not rival.has_rivals()


def test_who_waits_for_long_stays_in_the_queue(zmap: Unconditional, time: Time) -> None:
    holder, waiting = contender(zmap, time), contender(zmap, time)
    assert take(holder, time)
    begun = time.now
    for _ in range(100):
        time.sleep(waiting.advance() or 0.0)
        if holder.is_due:
            holder.renew()
    assert time.now - begun > TERMS.term_s
    assert waiting.claim is not None
    assert waiting.claim.start == begun
    holder.withdraw()
    assert waiting.advance() is None


def test_whose_claim_expired_queues_anew(zmap: Unconditional, time: Time) -> None:
    stopped, other = contender(zmap, time), contender(zmap, time)
    stopped.advance()
    time.sleep(2 * TERMS.term_s)
    assert take(other, time)
    other.withdraw()
    begun = time.now
    assert take(stopped, time)
    assert stopped.claim is not None
    assert stopped.claim.start >= begun


def test_datasets_of_one_store_have_leases_of_their_own(zmap: Unconditional, time: Time) -> None:
    for root in ("a", "b/c"):
        assert take(Contender(zmap, Prefix(root), TERMS, time.clock()), time)
        assert len(zmap.claims(root)) == 1


def _leave_claim(zmap: Unconditional, time: Time, **changes: object) -> Key:
    """A claim that holds the lease, as a process that has ended left it."""
    left = contender(zmap, time)
    assert take(left, time)
    (key,) = zmap.claims()
    claim = json.loads(bytes(zmap.read(key).data))
    zmap.write(key, json.dumps(claim | changes).encode())
    return key


def test_the_lease_of_a_process_that_was_seen_to_have_ended_is_taken_over(
    zmap: Unconditional, time: Time
) -> None:
    """SEMANTICS W44. Another process, which started at another time, has its number."""
    left = _leave_claim(zmap, time, started=1)
    begun = time.now
    ours = contender(zmap, time)
    assert take(ours, time, tries=20)
    # Once for others to see our claim, once for what the other one had sent to arrive.
    assert 2 * TERMS.settle_s <= time.now - begun < TERMS.term_s / 2
    assert left not in zmap.claims()


def test_each_process_that_has_ended_is_given_the_time_of_its_last_requests(
    zmap: Unconditional, time: Time
) -> None:
    ours = contender(zmap, time)
    for turn in range(2):
        left = _leave_claim(zmap, time, started=1)
        begun = time.now
        assert take(ours, time, tries=20), turn
        assert time.now - begun >= 2 * TERMS.settle_s
        assert left not in zmap.claims()
        ours.withdraw()


def test_a_process_that_cannot_be_told_from_later_ones_is_known_by_its_number(
    zmap: Unconditional, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no /proc."""
    monkeypatch.setattr(contention, "current_process", lambda: None)
    ours = contender(zmap, time)
    assert take(ours, time)
    (key,) = zmap.claims()
    claim = parsed_claim(key.rpartition("/")[2], bytes(zmap.read(key).data))
    assert claim is not None
    assert (claim.machine, claim.pid, claim.started) == ("", os.getpid(), 0)
    assert not claim.has_ended()


@pytest.mark.parametrize(
    "changes",
    [
        {"started": 1, "machine": ""},
        {"started": 1, "machine": "another boot"},
        {"started": 1, "host": "elsewhere"},
        {},
    ],
)
def test_a_process_that_cannot_be_seen_from_here_keeps_its_term(
    changes: dict[str, object], zmap: Unconditional, time: Time
) -> None:
    """SEMANTICS W44."""
    left = _leave_claim(zmap, time, **changes)
    ours = contender(zmap, time)
    assert not take(ours, time, tries=20)
    assert left in zmap.claims()
    assert ours.first is not None
    time.sleep(ours.remaining_s(ours.first) + 1)
    assert take(ours, time, tries=20)
