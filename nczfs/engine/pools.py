"""Threads: that wait for stores, decode, put views together, write back, spill."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Self

from nczfs.engine.options import EngineOptions

_LIVING: weakref.WeakSet[Pools] = weakref.WeakSet()


class Pools:
    """Five pools, each started when first used, so that no thread exists before a fork.

    Fetching waits and decoding computes: in one pool either the network or the processors idle
    (docs/DESIGN.md, "Threads"). A task waits only for tasks of pools further to the right:
    assemble → decode | fetch; fetch hands its result to decode and does not wait for it. Writing
    encodes and stores in one go, and waits for none of them; nor does spilling.
    The lock guards the five slots.
    """

    def __init__(self, options: EngineOptions) -> None:
        self._sizes = {
            "fetch": options.fetch_threads,
            "decode": options.decode_threads,
            "assemble": options.decode_threads,
            "write": options.fetch_threads,
            "spill": 1,
        }
        self._lock = threading.Lock()
        self._pools: dict[str, ThreadPoolExecutor] = {}
        self._closed = False
        _LIVING.add(self)

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
    def write(self) -> ThreadPoolExecutor:
        return self._pool("write")

    @property
    def spill(self) -> ThreadPoolExecutor:
        return self._pool("spill")

    def close(self) -> None:
        """Drop what is queued, wait for what runs; submitting raises RuntimeError afterwards."""
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

    def _forget_threads(self) -> None:
        self._lock = threading.Lock()
        self._pools = {}


class UnderWay:
    """Tasks of which no more than `depth` wait or run at a time; the block ends with the last one.

    An error of one is raised in the block, at its end at the latest.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._futures: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def add(self, future: Future[None]) -> None:
        """Take a task on, and wait for the oldest one when there are too many."""
        self._futures.append(future)
        if len(self._futures) > self._depth:
            self._futures.popleft().result()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        wait(self._futures)
        if kind is None:
            for future in self._futures:
                future.result()


def _after_fork() -> None:
    for pools in list(_LIVING):
        pools._forget_threads()


os.register_at_fork(after_in_child=_after_fork)
