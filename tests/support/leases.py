"""What tests of leases share: a store without conditions, and clocks that the test sets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Unpack

from nczfs.buffers import Buffer
from nczfs.engine.lease.contention import LEASE, Clock, Contender, LeaseTerms
from nczfs.zmap.base import Blob, Entry, Features, Stat, Version, WriteOptions
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.memory import MemoryZMap

QUICK = LeaseTerms(renew_s=0.5, settle_s=0.4, poll_s=0.05, idle_s=0.3, wait_s=30.0)
"""Terms for tests on the real clock; the term stays what it is."""

LONG = LeaseTerms(renew_s=1000.0, term_s=3000.0)
"""So long that the thread, which goes by the real clock, does nothing: the tests call `beat`."""


class Unconditional(MemoryZMap):
    """A store in memory whose conditions do not hold, and which notes what it is asked.

    Attributes
    ----------
    asked : the names of the methods that were called, in order.
    before, after : called before and after each of them, with its name; may raise.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        self.after: Callable[[str], None] = lambda _: None

    @property
    def features(self) -> Features:
        return replace(super().features, conditional_writes=False)

    def prepare_writing(self) -> Features:
        with self._noted("prepare_writing"):
            return self.features

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        with self._noted("read"):
            return super().read(key, start, stop, version=version)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        with self._noted("write"):
            return super().write(key, data, **options)

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        with self._noted("delete"):
            super().delete(key, version=version)

    def stat(self, key: Key) -> Stat:
        with self._noted("stat"):
            return super().stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        with self._noted("search"):
            return super().search(prefix)

    def claims(self, root: str = "") -> list[Key]:
        """The objects of contenders below a prefix, asked for behind everybody's back."""
        directory = Prefix(f"{root}/{LEASE}".lstrip("/"))
        return sorted(stat.key for stat in self.list(directory))

    @contextmanager
    def _noted(self, method: str) -> Iterator[None]:
        self.asked.append(method)
        self.before(method)
        yield
        self.after(method)


class Conditional(Unconditional):
    """The same with conditions that hold."""

    @property
    def features(self) -> Features:
        return Features()


class Time:
    """The time of a test, and clocks that show it, each with an error of its own."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def sleep(self, seconds: float) -> None:
        """Have time pass."""
        self.now += seconds

    def clock(self, error_s: float = 0.0) -> Clock:
        """A clock of one machine."""
        return Clock(lambda: self.now + error_s, lambda: self.now, self.sleep)


class User:
    """A dataset, as a lease sees it."""

    def __init__(self) -> None:
        self.unsaved = False
        self.forgotten = 0

    def has_unsaved(self) -> bool:
        return self.unsaved

    def forget_clean(self) -> None:
        self.forgotten += 1


class ShortenedTime:
    """The time of this machine, in which nobody sleeps: it passes for all clocks at once.

    Not for contenders in several threads: what one of them slept is what the request of another
    one took.
    """

    def __init__(self) -> None:
        self._slept_s = 0.0

    def sleep(self, seconds: float) -> None:
        """Have time pass."""
        self._slept_s += seconds

    def clock(self) -> Clock:
        """The clock of all processes."""
        return Clock(
            lambda: time.time() + self._slept_s,
            lambda: time.monotonic() + self._slept_s,
            self.sleep,
        )


def lease_threads() -> list[threading.Thread]:
    """The threads that renew leases."""
    return [thread for thread in threading.enumerate() if thread.name == "nczfs-lease"]


def other(zmap: Unconditional, time: Time) -> Contender:
    """Another process that has the lease."""
    found = Contender(zmap, ROOT, LONG, time.clock())
    while (pause := found.advance()) is not None:
        time.sleep(pause)
    return found


def contender(zmap: MemoryZMap, time: Time, error_s: float = 0.0) -> Contender:
    """A process that may try for the lease, on the usual terms."""
    return Contender(zmap, ROOT, LeaseTerms(), time.clock(error_s))


def take(contender: Contender, time: Time, tries: int = 3) -> bool:
    """Try for the lease, and say whether it was had."""
    for _ in range(tries):
        pause = contender.advance()
        if pause is None:
            break
        time.sleep(pause)
    return contender.is_valid
