"""The lease of a dataset: one process writes at a time, where the store has no conditional writes.

With conditional writes, or if the user vouches for being the only writer, no lease is needed, and
nothing here makes a request or starts a thread. `contention` decides who gets the lease.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from enum import Enum, auto
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

from nczfs.engine.lease.contention import Claim, Clock, Contender, LeaseTerms
from nczfs.errors import AccessDenied, LeaseNotHeld, NczfsError, StoreError, Unavailable
from nczfs.plaindata import frozen
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix

log = logging.getLogger(__name__)

BEATS = 5  # checks of held leases per renewal period


class LeaseUser(Protocol):
    """A user of a lease: an open dataset."""

    def has_unsaved(self) -> bool:
        """Return whether anything that was written is not stored yet. Makes no request."""

    def forget_clean(self) -> None:
        """Forget everything without unsaved changes, because others may have changed it."""


@frozen
class HeldLease:
    """A lease that this process holds. Times are seconds since 1970."""

    dataset: str
    since: float
    expiry: float


class Leases:
    """The leases of an engine, and the thread that renews them and hands them over.

    The thread starts with the first lease that is taken and ends with the last. `_lock` guards the
    dicts and the thread, and is not held during requests to a store or calls of a lease.

    Parameters
    ----------
    trusts : whether the user vouches that nothing else writes, so that no lease is needed.
    """

    def __init__(
        self, *, trusts: bool = False, terms: LeaseTerms | None = None, clock: Clock | None = None
    ) -> None:
        self.trusts = trusts
        self.terms = terms or LeaseTerms()
        self.clock = clock or Clock()
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._known: WeakValueDictionary[tuple[int, Prefix], Lease] = WeakValueDictionary()
        self._held: set[Lease] = set()
        self._thread: threading.Thread | None = None
        self._takers: WeakSet[threading.Thread] = WeakSet()
        self.is_closed = False

    def of(self, zmap: ZMap, root: Prefix) -> Lease:
        """Return the lease of the dataset at a prefix of a store, always the same object."""
        with self._lock:
            lease = self._known.get((id(zmap), root))
            if lease is None:
                lease = self._known[id(zmap), root] = Lease(self, zmap, root)
            return lease

    def exclusive(self, zmap: ZMap, place: Prefix) -> Lease:
        """Return the lease of a place where one process at a time changes anything.

        It is needed in stores with conditional writes, too; always the same object.
        """
        with self._lock:
            lease = self._known.get((id(zmap), place))
            if lease is None:
                lease = self._known[id(zmap), place] = Lease(
                    self, zmap, place, needed=not self.trusts
                )
            return lease

    def held(self) -> list[HeldLease]:
        """Return the leases that are held now, by dataset."""
        with self._lock:
            leases = list(self._held)
        found = (lease.held() for lease in leases)
        return sorted((held for held in found if held is not None), key=lambda h: h.dataset)

    def beat(self) -> None:
        """Renew leases that are due, and hand over those that were not used for a while."""
        with self._lock:
            leases = list(self._held)
        for lease in leases:
            lease.beat()

    def close(self) -> None:
        """Hand over all leases, without waiting for unsaved writes."""
        with self._lock:
            self.is_closed = True
            thread = self._thread
            self._wake.notify()
            takers = list(self._takers)
        for each in (thread, *takers):
            if each is not None:
                each.join()
        with self._lock:
            leases = list(self._held)
        for lease in leases:
            lease.hand_over()

    def note_taker(self, thread: threading.Thread) -> None:
        """Note a thread that takes a lease, and has to end before this is closed."""
        with self._lock:
            self._takers.add(thread)

    def taken(self, lease: Lease) -> None:
        """Note that a lease is held."""
        with self._lock:
            self._held.add(lease)
            if self._thread is None and not self.is_closed:
                self._thread = threading.Thread(target=self._run, name="nczfs-lease", daemon=True)
                self._thread.start()

    def given_up(self, lease: Lease) -> None:
        """Note that a lease is no longer held."""
        with self._lock:
            self._held.discard(lease)
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(self._is_over, self.terms.renew_s / BEATS)
                if self._is_over():
                    self._thread = None
                    return
            self.beat()

    def _is_over(self) -> bool:
        return self.is_closed or not self._held


class _State(Enum):
    FREE = auto()
    CHANGING = auto()  # one thread is taking it from the store, or handing it over
    HELD = auto()
    RENEWING = auto()  # held, while one thread makes a request


class Lease:
    """The lease of one dataset. Every method may be called from any thread.

    `_lock` guards the state and the counts, and is not held during requests to the store. A thread
    that finds another one taking the lease, or handing it over, waits for it.

    Parameters
    ----------
    needed : None: where the store has no conditional writes.

    Attributes
    ----------
    turn : for users of which one thread at a time uses the lease.
    """

    def __init__(
        self, leases: Leases, zmap: ZMap, root: Prefix, *, needed: bool | None = None
    ) -> None:
        self.turn = threading.Lock()
        self._leases = leases
        self._zmap = zmap
        self._root = root
        self._place = "/".join(part for part in (zmap.name, root) if part)
        self._clock = leases.clock
        self._terms = leases.terms
        self._contender = Contender(zmap, root, self._terms, self._clock)
        self._users: WeakSet[LeaseUser] = WeakSet()
        self._lock = threading.Condition()
        self._state = _State.FREE
        self._open = 0  # files that can write, and calls under way
        self._writing = 0  # of these, calls under way
        self._taken = 0  # how often
        self._used_at = 0.0
        self._needed = needed
        self._trial: Future[None] | None = None
        self._taker: threading.Thread | None = None

    def add_user(self, user: LeaseUser) -> None:
        """Add a user, to be consulted before the lease is handed over and informed after it."""
        with self._lock:
            self._users.add(user)

    def require(self) -> None:
        """Take the lease, waiting for other processes. Does nothing where no lease is needed.

        Raises
        ------
        LeaseNotHeld : another process keeps holding it. StoreError.
        """
        if not self._is_needed():
            return
        give_up = self._clock.uptime() + self._terms.wait_s
        if self._begin_taking():
            try:
                self._take(give_up)
            except BaseException:
                self._settle(_State.FREE)
                raise
            self._settle(_State.HELD)

    def begin(self) -> None:
        """Take the lease as `require`, in another thread if nobody else holds it or waits for it.

        What is written meanwhile is sent when the lease is held (`writing`). Raises as `require`.
        """
        if self.is_being_taken:
            return
        if self._is_known or self._has_rivals():
            self.require()
            return
        with self._lock:
            if self._taker is None:
                self._taker = threading.Thread(target=self._take_beside, name="nczfs-lease-first")
                self._leases.note_taker(self._taker)
                self._taker.start()

    @property
    def is_being_taken(self) -> bool:
        """Whether the thread that `begin` has started is under way."""
        return self._taker is not None

    def prepare(self) -> None:
        """Find out whether the store has conditional writes, if that takes a trial."""
        self._is_needed()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lease while the block changes the store.

        Raises
        ------
        Unavailable : the lease was lost during the block. What another process has stored since may
            be on top of what the block has, or of what was there before, so it has to be repeated.
        as `require` : the block was not entered.
        """
        self.require()
        if not self._needed:
            yield
            return
        while (taken := self._begin_writing()) is None:
            self.require()
        try:
            yield
            self._check_held_since(taken)
        finally:
            with self._lock:
                self._writing -= 1
            self.closed()

    def opened(self) -> None:
        """Count one more writable file; the lease is not handed over until it is closed."""
        with self._lock:
            self._open += 1

    def closed(self) -> None:
        """Count one writable file less."""
        with self._lock:
            self._open -= 1
            self._used_at = self._clock.uptime()

    def held(self) -> HeldLease | None:
        """Return how the lease is held; None: it is not."""
        claim = self._contender.claim
        if claim is None or not self._contender.is_valid:
            return None
        return HeldLease(self._place, claim.start, claim.expiry)

    def beat(self) -> None:
        """Renew the lease when that is due, or hand it over if it was not used for a while."""
        if self._is_idle() and not self._has_unsaved():
            self.hand_over(only_idle=True)
        elif self._contender.is_due:
            self._renew()

    def hand_over(self, *, only_idle: bool = False) -> None:
        """Give the lease to other processes. While a call is under way it is left to expire.

        Parameters
        ----------
        only_idle : do nothing if the lease was used just now.
        """
        with self._lock:
            self._lock.wait_for(self._is_settled, self._terms.wait_s)
            if self._state is not _State.HELD or (only_idle and not self._is_idle()):
                return
            if self._writing:
                if self._leases.is_closed:
                    log.warning("%s: its lease is left to expire: writing continues", self._place)
                return
            self._state = _State.CHANGING
        try:
            self._forget_clean()
            self._contender.withdraw()
        finally:
            self._settle(_State.FREE)

    @property
    def _is_known(self) -> bool:
        """Whether this process holds the lease, or knows without a request that none is needed."""
        features = self._zmap.features
        is_free = features.conditional_writes or not features.writable or self._needed is False
        return is_free or self._is_ours()

    def _has_rivals(self) -> bool:
        contender = Contender(self._zmap, self._root, self._terms, self._clock)
        return not self._leases.trusts and contender.has_rivals()

    def _take_beside(self) -> None:
        try:
            self.require()
        except NczfsError as error:
            log.info("%s: its lease could not be taken at the first write: %s", self._place, error)
        finally:
            with self._lock:
                self._taker = None

    def _is_needed(self) -> bool:
        """Return whether a lease is needed. One thread makes the trial, and others wait for it."""
        while self._needed is None:
            with self._lock:
                trial = self._trial
                if trial is None:
                    ours = self._trial = Future()
            if trial is not None:
                trial.result()
                continue
            try:
                self._needed = self._tried()
            except BaseException as error:
                ours.set_exception(error)
                raise
            finally:
                with self._lock:
                    self._trial = None
                if not ours.done():
                    ours.set_result(None)
        return self._needed

    def _tried(self) -> bool:
        features = self._zmap.features
        if features.writable and not features.conditional_writes:
            features = self._zmap.prepare_writing()
        holds = features.conditional_writes or not features.writable
        return not (holds or self._leases.trusts)

    def _begin_taking(self) -> bool:
        """Return whether this thread has to take the lease; False: it is held already."""
        with self._lock:
            if not self._lock.wait_for(
                lambda: self._is_settled() or self._is_ours(), self._terms.wait_s
            ):
                raise self._refused()
            if self._is_ours():
                self._used_at = self._clock.uptime()
                return False
            if self._leases.is_closed:
                raise self._closed()
            self._state = _State.CHANGING
            return True

    def _begin_writing(self) -> int | None:
        """Count a call under way. Returns how often the lease was taken; None: it is not held."""
        with self._lock:
            if not self._is_ours():
                return None
            self._open += 1
            self._writing += 1
            return self._taken

    def _check_held_since(self, taken: int) -> None:
        with self._lock:
            if self._is_ours() and self._taken == taken:
                return
        raise Unavailable(f"{self._place}: its lease was lost while something was being stored")

    def _take(self, give_up: float) -> None:
        if self._clock.uptime() >= give_up:
            raise self._refused()  # another thread has been trying all the time
        try:
            while (pause := self._contender.advance()) is not None:
                left = give_up - self._clock.uptime()
                if self._leases.is_closed:
                    raise self._closed()
                if left <= 0:
                    raise self._refused()
                self._clock.sleep(min(pause, left))
        except AccessDenied as error:
            self._contender.withdraw()
            raise AccessDenied(
                f"{error}: no lease can be taken here, and the store has no conditional writes; "
                "if nothing else writes, use --single-writer trust"
            ) from error
        except BaseException:
            self._contender.withdraw()
            raise
        self._forget_clean()
        self._taken += 1
        self._used_at = self._clock.uptime()

    def _settle(self, state: _State) -> None:
        # Done before other threads see the state, so that a later holder is announced after this.
        if state is _State.HELD:
            self._leases.taken(self)
        elif state is _State.FREE:
            self._leases.given_up(self)
        with self._lock:
            self._state = state
            self._lock.notify_all()

    def _renew(self) -> None:
        with self._lock:
            if self._state is not _State.HELD:
                return
            self._state = _State.RENEWING
        is_ours = True
        try:
            is_ours = self._contender.renew()
        except StoreError as error:
            log.info("%s: its lease could not be renewed; trying again: %s", self._place, error)
        self._settle(_State.HELD if is_ours else _State.FREE)
        if not is_ours:
            log.warning(
                "%s: its lease is lost: it could not be renewed, or was removed; it is taken again "
                "before anything else is written",
                self._place,
            )

    def _refused(self) -> LeaseNotHeld:
        first: Claim | None = self._contender.first
        waited = f"{self._place}: waited {self._terms.wait_s:g} s for its lease"
        if first is None:
            return LeaseNotHeld(
                f"{waited}: the store is too slow, or does not list what was written"
            )
        left = max(1, math.ceil(self._contender.remaining_s(first)))
        return LeaseNotHeld(
            f"{waited}: process {first.pid} on {first.host} is writing; try again later: if that "
            f"process is gone, its lease ends in {left} s"
        )

    def _closed(self) -> Unavailable:
        return Unavailable(f"{self._place}: the dataset was closed in the meantime")

    def _is_settled(self) -> bool:
        return self._state in (_State.FREE, _State.HELD)

    def _is_ours(self) -> bool:
        return self._state in (_State.HELD, _State.RENEWING) and self._contender.is_valid

    def _is_idle(self) -> bool:
        since = self._clock.uptime() - self._used_at
        return not self._open and since >= self._terms.idle_s

    def _has_unsaved(self) -> bool:
        return any(user.has_unsaved() for user in self._current_users())

    def _forget_clean(self) -> None:
        for user in self._current_users():
            user.forget_clean()

    def _current_users(self) -> list[LeaseUser]:
        with self._lock:
            return list(self._users)
