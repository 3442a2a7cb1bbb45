"""Contenders for one lease, on clocks of the test's own: never two of them hold it."""

from __future__ import annotations

import contextlib

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nczfs.engine.lease.contention import Contender, LeaseTerms
from nczfs.errors import Unavailable
from nczfs.zmap.keys import ROOT
from tests.support.leases import Time, Unconditional

TERMS = LeaseTerms()
COUNT = 3
ERRORS = st.sampled_from([0.0, TERMS.settle_s / 4, TERMS.settle_s / 2])  # of the clocks
INDEXES = st.integers(0, COUNT - 1)
LATENCIES = st.sampled_from([0.0, 0.0, 0.3, 0.9, 1.1, 2.5, 27.0])
PAUSES = st.sampled_from([0.0, 0.3, 0.9, 1.1, 2.0, 2.5])
SEVERAL = st.lists(st.tuples(INDEXES, PAUSES), max_size=5)
REQUESTS = st.sampled_from(["write", "write", "search", "read", "stat"])
OUTCOMES = st.sampled_from(["done", "done", "done", "failed", "unknown"])


class Contention(RuleBasedStateMachine):
    """Contenders that come, wait, hold, stall, fail, leave and are killed.

    A request of one takes its time, and others go on meanwhile, before it reaches the store.
    """

    @initialize(errors=st.lists(ERRORS, min_size=COUNT, max_size=COUNT))
    def begin(self, errors: list[float]) -> None:
        self.time = Time()
        self.zmap = Unconditional()
        self.clocks = [self.time.clock(error) for error in errors]
        self.contenders = [self.contender(i) for i in range(COUNT)]
        self.busy: set[int] = set()

    def contender(self, index: int) -> Contender:
        return Contender(self.zmap, ROOT, TERMS, self.clocks[index])

    @rule(steps=SEVERAL)
    def go_on(self, steps: list[tuple[int, float]]) -> None:
        """Some take their next step, one after the other."""
        for index, pause in steps:
            self.time.sleep(pause)
            self.advance(index)
            self.at_most_one_holds_it()

    @rule(
        index=INDEXES,
        request=REQUESTS,
        latency=LATENCIES,
        others=SEVERAL,
        late=LATENCIES,
        outcome=OUTCOMES,
    )
    def go_on_slowly(
        self,
        index: int,
        request: str,
        latency: float,
        others: list[tuple[int, float]],
        late: float,
        outcome: str,
    ) -> None:
        """One takes its next step; a request of it takes long, and others go on meanwhile."""

        def before(asked: str) -> None:
            if asked != request:
                return
            self.zmap.before = lambda _: None
            self.time.sleep(latency)
            self.go_on(others)
            if outcome == "failed":
                raise Unavailable("not done")

        def after(asked: str) -> None:
            if asked != request:
                return
            self.zmap.after = lambda _: None
            self.time.sleep(late)
            if outcome == "unknown":
                raise Unavailable("the answer was lost")

        self.zmap.before, self.zmap.after = before, after
        self.advance(index)
        self.zmap.before = self.zmap.after = lambda _: None

    def advance(self, index: int) -> None:
        """The next step of a contender, unless it is in the middle of one."""
        contender = self.contenders[index]
        if index in self.busy:
            return
        self.busy.add(index)
        with contextlib.suppress(Unavailable):
            if not contender.is_valid:
                contender.advance()
            elif contender.is_due:
                contender.renew()
        self.busy.discard(index)

    @rule(seconds=st.sampled_from([2.0, 7.0, 29.0, 33.0]))
    def wait(self, seconds: float) -> None:
        self.time.sleep(seconds)

    @rule(index=INDEXES, is_killed=st.booleans())
    def end(self, index: int, is_killed: bool) -> None:
        """A process ends, with a last word or without, and another one comes on its machine."""
        if not is_killed:
            self.contenders[index].withdraw()
        self.contenders[index] = self.contender(index)

    @invariant()
    def at_most_one_holds_it(self) -> None:
        assert sum(contender.is_valid for contender in self.contenders) <= 1

    def teardown(self) -> None:
        """Whoever is left alone has it in the end, and nothing is left of the others."""
        if not hasattr(self, "contenders"):
            return
        self.time.sleep(TERMS.term_s + 2 * TERMS.settle_s)
        last = self.contenders[0]
        for _ in range(3):
            self.time.sleep(last.advance() or 0.0)
        assert last.is_valid
        assert self.zmap.claims() == [last.key]


Contention.TestCase.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
TestContention = Contention.TestCase
