"""Programs that have a dataset open, which see what they ask of the store and can spoil it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from nczfs.engine.options import EngineOptions
from nczfs.engine.writing.writeback import WriteBack
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.testing.faults import Faulty
from nczfs.zmap.base import Features
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap

CHUNK = 4
LENGTH = 10  # two whole chunks, and a half one at the edge
FILL = -1
WRITES = frozenset({"write"})


class _FarStore(Faulty):
    """A store of which nothing is asked that is not needed."""

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)


class Client:
    """One program that has the dataset open; sees what it asks of the store, and can spoil it.

    Attributes
    ----------
    calls : operation and key of every call about a chunk.
    before : called before each such call.
    """

    def __init__(self, memory: MemoryZMap, mode: str = "r+", budget: int = 1 << 20) -> None:
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.zmap = _FarStore(memory, before_call=self._note)
        options = EngineOptions(
            memory_limit_bytes=budget, cache_bytes_max=0, fetch_threads=3, decode_threads=2
        )
        self.dataset = open_zmap(self.zmap, mode, options=options)

    def _note(self, operation: str, key: str) -> None:
        if key.startswith("v/") and not key.startswith("v/."):
            self.calls.append((operation, key))
            self.before(operation, key)

    @property
    def v(self) -> Variable:
        return self.dataset.variables["v"]

    @property
    def writeback(self) -> WriteBack:
        return self.dataset._opened.engine.writeback


@contextmanager
def created(memory: MemoryZMap, **options: Any) -> Iterator[Client]:
    client = Client(memory, "w", **options.pop("client", {}))
    with client.dataset:
        variable = {"dimensions": (LENGTH,), "dtype": "i4", "chunks": (CHUNK,), "fillvalue": FILL}
        client.dataset.create_variable("v", **{**variable, "codecs": [], **options})
        client.dataset.sync()
        yield client


@contextmanager
def another(memory: MemoryZMap) -> Iterator[Client]:
    client = Client(memory)
    with client.dataset:
        yield client


def stored(memory: MemoryZMap) -> list[int]:
    """The values that somebody else finds in the store."""
    with open_zmap(memory) as dataset:
        return list(map(int, dataset.variables["v"][...]))


def chunk_keys(memory: MemoryZMap) -> set[str]:
    return {str(stat.key) for stat in memory.list(parse_prefix("v")) if "/." not in stat.key}


@contextmanager
def held(client: Client, operation: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first such call about a chunk waits: (it has begun, let it go on)."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(called: str, key: str) -> None:
        if called == operation and not begun.is_set():
            begun.set()
            assert go_on.wait(120)

    client.before = hold
    try:
        yield begun, go_on
    finally:
        go_on.set()
