"""Thread pools that wait for stores, decode, assemble views, write back, and spill."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Self

from nczfs.codecs.buffers import Scratch
from nczfs.engine.options import EngineOptions
from nczfs.errors import Unavailable

_LIVING: weakref.WeakSet[Pools] = weakref.WeakSet()


class Pools:
    """Eight thread pools, each started at its first use, so that no thread exists before a fork.

    Fetching waits and decoding computes: in one pool either the network or the processors idle
    (docs/DESIGN.md, "Threads"). A task waits only for tasks of pools further to the right:
    assemble → decode | fetch; fetch hands its result to decode and does not wait for it. Writing
    encodes and stores in one go, and waits for none of them; nor does spilling. But it may wait for
    a rename (`Gate`), and a rename for those who store documents; so these, and who copies objects
    for a rename, have a pool of their own, edit. Copying reads and decodes in one go, and may wait
    for chunks that fetch and decode have under way: it has twice the threads, since a disk is
    waited for as well, if not for long; so decoding there goes by turns (`decoding`). The lock
    guards the slots.
    """

    def __init__(self, options: EngineOptions) -> None:
        self._sizes = {
            "ask": options.ask_threads,
            "fetch": options.fetch_threads,
            "decode": options.decode_threads,
            "assemble": options.decode_threads,
            "copy": 2 * options.decode_threads,
            "write": options.store_threads,
            "edit": options.store_threads,
            "spill": 1,
        }
        self._lock = threading.Lock()
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._closed = False
        self._turns = self._all_turns()
        _LIVING.add(self)

    @property
    def ask(self) -> ThreadPoolExecutor:
        return self._pool("ask")

    @property
    def fetch(self) -> ThreadPoolExecutor:
        return self._pool("fetch")

    @property
    def decode(self) -> ThreadPoolExecutor:
        return self._pool("decode")

    @property
    def assemble(self) -> ThreadPoolExecutor:
        return self._pool("assemble")

    @property
    def copy(self) -> ThreadPoolExecutor:
        return self._pool("copy")

    @property
    def write(self) -> ThreadPoolExecutor:
        return self._pool("write")

    @property
    def edit(self) -> ThreadPoolExecutor:
        return self._pool("edit")

    @property
    def spill(self) -> ThreadPoolExecutor:
        return self._pool("spill")

    @contextmanager
    def decoding(self) -> Iterator[Scratch]:
        """Take a turn at decoding, of as many as there are decode threads.

        The next thread with the turn overwrites what was decoded during the block. A thread with a
        turn must not wait for anything.
        """
        turns = self._turns
        scratch = turns.get()
        try:
            with scratch.reused():
                yield scratch
        finally:
            turns.put(scratch)

    def close(self) -> None:
        """Drop queued tasks, wait for running ones. Submitting then raises RuntimeError."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.shutdown(wait=True, cancel_futures=True)

    def _pool(self, name: str) -> ThreadPoolExecutor:
        pool = self._pools.get(name)
        if pool is None:
            with self._lock:
                if self._closed:
                    raise RuntimeError("the engine is closed")
                pool = self._pools.get(name)
                if pool is None:
                    pool = ThreadPoolExecutor(self._sizes[name], f"nczfs-{name}")
                    self._pools[name] = pool
        return pool

    def _all_turns(self) -> SimpleQueue[Scratch]:
        turns: SimpleQueue[Scratch] = SimpleQueue()
        for _ in range(self._sizes["decode"]):
            turns.put(Scratch())
        return turns

    def _forget_threads(self) -> None:
        self._lock = threading.Lock()
        self._pools = {}
        self._turns = self._all_turns()


class UnderWay:
    """Tasks of which at most `depth` wait or run at a time. The block ends with the last one.

    An error of a task is raised in the block, at its end at the latest; Unavailable: the pools were
    closed before it ran.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._futures: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def add(self, future: Future[None]) -> None:
        """Add a task, and wait for the oldest one if there are too many."""
        self._futures.append(future)
        if len(self._futures) > self._depth:
            _end(self._futures.popleft())

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for future in self._futures:
            with contextlib.suppress(CancelledError):  # `wait` would never see it
                future.exception()
        if kind is None:
            for future in self._futures:
                _end(future)


def _end(future: Future[None]) -> None:
    try:
        future.result()
    except CancelledError as error:
        raise Unavailable("the engine was closed in the meantime") from error


def _after_fork() -> None:
    for pools in list(_LIVING):
        pools._forget_threads()


os.register_at_fork(after_in_child=_after_fork)
