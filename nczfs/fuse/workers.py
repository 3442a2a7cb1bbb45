"""Threads for calls that may block, with a limit for each kind, and deadlines."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Generic, NoReturn, TypeVar

import trio

from nczfs.errors import DeadlinePassed
from nczfs.metrics import FUSE_SECONDS
from nczfs.plaindata import frozen
from nczfs.vfs.effects import TimedRequest

T = TypeVar("T")


class _Pending(Generic[T]):
    """A call in a thread whose caller may give up. It decides who owns the result.

    A caller that gave up never sees an open handle or a raised lookup count, so the later of the
    two, thread or caller, undoes it.
    """

    def __init__(self, function: Callable[[], T], undo: Callable[[T], object]) -> None:
        self._function = function
        self._undo = undo
        self._lock = threading.Lock()  # guards the three attributes below
        self._abandoned = False
        self._done = False
        self._result: T | None = None

    def call(self) -> T:
        result = self._function()
        with self._lock:
            self._done = True
            self._result = result
            abandoned = self._abandoned
        if abandoned:
            self._undo(result)
        return result

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            result = self._result if self._done else None
        if result is not None:
            # Undoing may block (a release), so it gets a thread; this happens once in a blue moon.
            threading.Thread(target=self._undo, args=(result,), daemon=True).start()


class _Outcome(Generic[T]):
    """The end of a call in a thread, for a caller that waits on the event loop."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._loop = trio.lowlevel.current_trio_token()
        self._ended = trio.Event()
        self._result: Callable[[], T] | None = None
        self.request = TimedRequest()

    def call(self) -> T:
        try:
            with self.request.under_way():
                result = self._function()
        except BaseException as error:
            self._end(partial(_raise, error))
            raise
        self._end(lambda: result)
        return result

    async def wait(self) -> T:
        await self._ended.wait()
        assert self._result is not None
        return self._result()

    def _end(self, result: Callable[[], T]) -> None:
        self._result = result
        with contextlib.suppress(trio.RunFinishedError):
            self._loop.run_sync_soon(self._ended.set)


class Pool:
    """A runner of blocking calls in at most `limit` threads; callers wait at most `timeout_s`.

    A call that has begun to have an effect by the deadline is waited for, because its caller must
    not take it for failed; so is one that waits for a computation, as long as that goes on. Any
    other call will have no effect; it keeps its thread until it ends, and counts against the limit,
    so that a hanging store cannot create ever more threads.
    """

    def __init__(self, limit: int, timeout_s: float) -> None:
        self._limiter = trio.CapacityLimiter(limit)
        self._timeout_s = timeout_s

    async def run(self, operation: str, function: Callable[[], T]) -> T:
        """Call `function` in a thread.

        Raises
        ------
        DeadlinePassed : the deadline passed, including the wait for a thread.
        """
        start = time.monotonic()
        outcome = _Outcome(function)
        try:
            with trio.move_on_after(self._timeout_s):
                return await trio.to_thread.run_sync(
                    outcome.call, abandon_on_cancel=True, limiter=self._limiter
                )
            while (left_s := outcome.request.time_left_s(self._timeout_s)) > 0:
                with trio.move_on_after(left_s):
                    return await outcome.wait()
            if outcome.request.withdraw():
                raise DeadlinePassed(f"no answer within {self._timeout_s:g} s")
            return await outcome.wait()
        finally:
            FUSE_SECONDS.labels(operation).observe(time.monotonic() - start)

    async def run_or_undo(
        self, operation: str, function: Callable[[], T], undo: Callable[[T], object]
    ) -> T:
        """Call `function` as `run` does, and pass a result after the deadline to `undo`."""
        pending = _Pending(function, undo)
        try:
            return await self.run(operation, pending.call)
        except BaseException:
            pending.abandon()
            raise

    @property
    def busy(self) -> int:
        """The number of busy threads, including abandoned ones."""
        return self._limiter.borrowed_tokens


@frozen
class Workers:
    """The pools. No call in a pool waits for work that is queued to the same pool.

    Attributes
    ----------
    timeout_s : the deadline of a request.
    flush_timeout_s : the deadline of requests that wait until written data is stored.
    """

    timeout_s: float
    flush_timeout_s: float
    metadata: Pool = field(init=False)
    readers: Pool = field(init=False)
    slow_readers: Pool = field(init=False)
    writers: Pool = field(init=False)
    flushers: Pool = field(init=False)

    def __post_init__(self) -> None:
        # Most readers wait for a chunk that the engine's pools fetch and decode, so there may be
        # many; a listing or an open must get through while all of them wait.
        object.__setattr__(self, "metadata", Pool(32, self.timeout_s))
        object.__setattr__(self, "readers", Pool(64, self.timeout_s))
        # These compute: more of them at a time would only wait for each other.
        object.__setattr__(self, "slow_readers", Pool(4, self.timeout_s))
        object.__setattr__(self, "writers", Pool(16, self.timeout_s))
        object.__setattr__(self, "flushers", Pool(16, self.flush_timeout_s))


def _raise(error: BaseException) -> NoReturn:
    raise error
