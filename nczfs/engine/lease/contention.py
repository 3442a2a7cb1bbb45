"""The choice of a writer on a store without atomic operations: claims; the oldest one wins.

Each contender writes its own object below ``.nczfs-lease/`` of the dataset, and lists all of them a
while later. The oldest claim that has not expired holds the lease, and states so in its object, so
that a contender with a slow clock cannot overtake it. A claim also expires when its process has
visibly ended.

Two contenders never hold the lease: a claim is visible at most half of the settle time after the
start that it states; one that took longer is repeated. A contender decides after it has waited for
the whole settle time since its own claim was visible. So it has seen every older one, as long as
clocks differ by less than the other half. The store must list what was written.
"""

from __future__ import annotations

import json
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace

from nczfs.engine.process import ProcessIdentity, current_process
from nczfs.errors import NoSuchObject, StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version, ZMap
from nczfs.zmap.keys import OWN_FILES, Key, Prefix, join

log = logging.getLogger(__name__)

LEASE = f"{OWN_FILES}lease"
CLAIM_BYTES_MAX = 4096
PID_MAX = 1 << 22  # proc_sys_kernel(5)

# The monotonic clock stands still while a machine is suspended, and its lease expires.
_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@frozen
class LeaseTerms:
    """The times of a lease, which must be the same for all contenders for a dataset.

    Attributes
    ----------
    term_s : a lease that is not renewed for so long has expired: its holder was killed.
    renew_s : time between renewals.
    settle_s : see above; clocks may differ by half of it.
    poll_s : time between two looks of a waiting contender.
    idle_s : a lease that is not used for so long is handed over.
    wait_s : a contender that waits for so long gets an error.
    """

    term_s: float = 30.0
    renew_s: float = 10.0
    settle_s: float = 2.0
    poll_s: float = 0.5
    idle_s: float = 5.0
    wait_s: float = 12.0


@frozen
class Clock:
    """The time.

    Attributes
    ----------
    wall : seconds since 1970, comparable with other machines.
    uptime : seconds that also pass while the machine is suspended, and are never set.
    """

    wall: Callable[[], float] = time.time
    uptime: Callable[[], float] = lambda: time.clock_gettime(_UPTIME)
    sleep: Callable[[float], None] = time.sleep


@frozen
class Claim:
    """The contents of a contender's object.

    Attributes
    ----------
    random : the name of the object.
    machine, started : of the process, see `ProcessIdentity`; empty and 0 if unknown.
    start, expiry : seconds since 1970.
    holds : whether it has the lease; otherwise it waits for it.
    """

    host: str
    pid: int
    machine: str
    started: int
    random: str
    start: float
    expiry: float
    holds: bool

    def has_ended(self) -> bool:
        """Return whether its process is certainly gone, as seen from this one."""
        is_here = self.host == socket.gethostname()
        return is_here and ProcessIdentity(self.machine, self.pid, self.started).has_ended()

    @property
    def order(self) -> tuple[bool, float, str]:
        """The sort key of claims: the first one has the lease."""
        return not self.holds, self.start, self.random


class Contender:
    """A process that wants the lease of a dataset, has it, or had it.

    For one thread at a time. Every method asks the store and raises StoreError; properties do not.

    Parameters
    ----------
    root : of the dataset.
    """

    def __init__(self, zmap: ZMap, root: Prefix, terms: LeaseTerms, clock: Clock) -> None:
        self._zmap = zmap
        self._directory = Prefix(join(root, LEASE))
        self._terms = terms
        self._clock = clock
        self._random = secrets.token_hex(8)
        self._claim: Claim | None = None
        self._valid_until = -math.inf
        self._ready_at = math.inf
        self._renew_at = math.inf
        self._read: dict[str, tuple[Version, Claim | None]] = {}
        self._ended: dict[str, float] = {}
        self.first: Claim | None = None

    @property
    def key(self) -> Key:
        """The key of this process's claim."""
        return self.key_of(self._random)

    def key_of(self, random: str) -> Key:
        """Return the key of a claim."""
        return join(self._directory, random)

    @property
    def claim(self) -> Claim | None:
        """The claim as it was last written."""
        return self._claim

    @property
    def is_valid(self) -> bool:
        """Whether this process holds the lease, and no other can take it for expired."""
        claim = self._claim
        return claim is not None and claim.holds and self._is_alive(self._clock.uptime())

    @property
    def is_due(self) -> bool:
        """Whether it is time to renew the lease."""
        return self._clock.uptime() >= self._renew_at

    def advance(self) -> float | None:
        """Take the next step towards the lease.

        Returns
        -------
        seconds until the next step; None: this process holds the lease.
        """
        now = self._clock.uptime()
        if self._claim is None or not self._is_alive(now):
            return self._enter()
        if now < self._ready_at:
            return self._ready_at - now
        if now >= self._renew_at and not self._write_in_time(self._claim):
            return self._enter()
        listed_at = self._clock.uptime()
        claims = list(self._claims())
        self.first = min(filter(self._is_live, claims), key=lambda c: c.order, default=None)
        if self.first is None or self.first.random != self._random:
            return self._terms.poll_s
        self._write(replace(self._claim, holds=True))
        if self._clock.uptime() - listed_at > self._terms.settle_s:
            return self._enter()  # other contenders may have reached another result meanwhile
        self._sweep(claims)
        return None

    def has_rivals(self) -> bool:
        """Return whether another process holds the lease or waits for it."""
        return any(self._is_live(each) for each in self._claims() if each.random != self._random)

    def remaining_s(self, claim: Claim) -> float:
        """Return the seconds until a claim has expired on all clocks, if it is not renewed."""
        return claim.expiry + self._terms.settle_s - self._clock.wall()

    def renew(self) -> bool:
        """Renew the lease for another term. Returns False if it is lost."""
        if self._claim is None or not self.is_valid:
            return False
        try:
            self._zmap.stat(self.key)
        except NoSuchObject:
            self._claim = None
            return False
        alive_until = self._alive_until
        self._write(self._claim)
        if self._clock.uptime() >= alive_until:
            self.withdraw()  # before it was written, others may have taken the old one for expired
            return False
        return True

    def withdraw(self) -> None:
        """Give the lease back, or stop waiting for it. A claim that cannot be removed expires."""
        self._claim = None
        self._remove(self._random)

    def _enter(self) -> float:
        """Make a claim, or replace it; without one if that fails."""
        self._claim = None
        wall = self._clock.wall()
        process = current_process() or ProcessIdentity("", os.getpid(), 0)
        claim = Claim(
            socket.gethostname(),
            process.pid,
            process.machine,
            process.started,
            self._random,
            wall,
            wall,
            holds=False,
        )
        if not self._write_in_time(claim):
            self._claim = None
            return 0.0
        self._ready_at = self._clock.uptime() + self._terms.settle_s
        return self._terms.settle_s

    def _write_in_time(self, claim: Claim) -> bool:
        """Write a waiting claim. Returns False if it took too long for others to see it."""
        began = self._clock.uptime()
        self._write(claim)
        return self._clock.uptime() - began <= self._terms.settle_s / 2

    def _write(self, claim: Claim) -> None:
        began = self._clock.uptime()
        claim = replace(claim, expiry=self._clock.wall() + self._terms.term_s)
        self._zmap.write(self.key, json.dumps(asdict(claim)).encode())
        self._claim = claim
        self._valid_until = began + self._terms.term_s
        self._renew_at = began + self._terms.renew_s

    def _is_alive(self, now: float) -> bool:
        """Return whether this process's claim is valid on every clock, and not about to expire."""
        return now < self._alive_until

    @property
    def _alive_until(self) -> float:
        return self._valid_until - self._terms.settle_s

    def _is_live(self, claim: Claim) -> bool:
        """Return whether a claim counts: there is a clock on which it has not expired.

        The claim of a process that has visibly ended counts only as long as its last requests may
        still be on their way.
        """
        if self.remaining_s(claim) < 0:
            return False
        if not claim.has_ended():
            return True
        now = self._clock.uptime()
        return now - self._ended.setdefault(claim.random, now) < self._terms.settle_s

    def _claims(self) -> Iterator[Claim]:
        """List all claims; only those that are new or changed are read."""
        known, self._read = self._read, {}
        for entry in self._zmap.search(self._directory):
            if entry.stat is None:
                continue
            name, version = entry.name, entry.stat.version
            found = known.get(name)
            if found is None or found[0] != version:
                try:
                    blob = self._zmap.read(self.key_of(name), 0, CLAIM_BYTES_MAX)
                except NoSuchObject:
                    continue
                found = blob.version, parsed_claim(name, bytes(blob.data))
                if found[1] is None:
                    log.warning(
                        "%s/%s: is not a lease; ignored", self._zmap.name, self.key_of(name)
                    )
            self._read[name] = found
            if found[1] is not None:
                yield found[1]

    def _sweep(self, claims: list[Claim]) -> None:
        """Remove the claims of processes that ended without doing so."""
        for claim in claims:
            if not self._is_live(claim):
                self._remove(claim.random)

    def _remove(self, random: str) -> None:
        try:
            self._zmap.delete(self.key_of(random))
        except NoSuchObject:
            return
        except StoreError as error:
            log.info("%s/%s: is left to expire: %s", self._zmap.name, self.key_of(random), error)


def parsed_claim(name: str, data: bytes) -> Claim | None:
    """Parse the claim in an object of that name; None if it is not a claim."""
    try:
        content = json.loads(data)
        claim = Claim(
            host=content["host"],
            pid=content["pid"],
            machine=content.get("machine", ""),
            started=content.get("started", 0),
            random=content["random"],
            start=float(content["start"]),
            expiry=float(content["expiry"]),
            holds=content["holds"] is True,
        )
        is_whole = (
            isinstance(claim.host, str)
            and claim.host.isprintable()
            and isinstance(claim.pid, int)
            and 0 < claim.pid <= PID_MAX
            and isinstance(claim.machine, str)
            and isinstance(claim.started, int)
            and claim.random == name
            and math.isfinite(claim.start)
            and math.isfinite(claim.expiry)
        )
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return None
    return claim if is_whole else None
