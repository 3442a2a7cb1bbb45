"""An engine with a spool, as a mount has it, or without, on a store that can be spoiled."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nczfs.engine.arrays.array import Array
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, Tally, format_options
from nczfs.engine.spool.found import Found
from nczfs.engine.spool.space import Spool
from nczfs.engine.writing.dirty import DirtyChunk
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import AccessDenied, DeadlinePassed
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url

CHUNK, CHUNKS, FILL = 64, 40, -1
LENGTH = CHUNK * CHUNKS
CHUNK_BYTES = 4 * CHUNK
WRITES = frozenset({"write"})
DOWN = Fault(0, operations=WRITES, repeats=10**9)
HANGS = Fault(0, DeadlinePassed, operations=WRITES, repeats=10**9)
REFUSED = Fault(0, AccessDenied, operations=WRITES, repeats=10**9)
ROOMY, TIGHT = 1 << 20, 8 * 512  # the half of it holds some four chunks


class Mount:
    """An engine with a spool, as a mount has it, and the variable ``v``."""

    def __init__(
        self,
        memory: MemoryZMap,
        spool_dir: Path,
        budget: int = ROOMY,
        spool_bytes: int | None = None,
        age_s: float | None = None,
        name: str = "v",
        threads: int = 3,
        spool: Spool | None = None,
        *,
        has_spool: bool = True,
    ) -> None:
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.zmap = Faulty(memory, before_call=lambda *call: self.before(*call))
        self.spool = spool or Spool(spool_dir, "memory://store", spool_bytes)
        options = EngineOptions(
            memory_limit_bytes=budget,
            cache_bytes_max=0,
            store_threads=threads,
            decode_threads=2,
            flush_age_s=age_s,
        )
        self.engine = Engine(options, self.spool if has_spool else None)
        metadata = MetadataCache(self.zmap, options, self.engine.pools)
        dataset = open_dataset(
            self.engine, metadata, ROOT, format_options(frozenset(), options), writable=True
        )
        assert isinstance(dataset, Dataset)
        node = dataset.node(name)
        assert isinstance(node, Variable)
        self.v: Array = dataset.array(node)

    @property
    def writeback(self) -> WriteBack:
        return self.engine.writeback

    def write(self, first: int, *values: Any) -> None:
        dtype = self.v.description.dtype.native
        self.v.write_box(Box((first,), (first + len(values),)), np.array(values, dtype))

    def read(self, start: int = 0, stop: int | None = None) -> list[Any]:
        box = Box((start,), (self.v.description.shape[0] if stop is None else stop,))
        out = np.empty(box.shape, self.v.description.dtype.native)
        self.v.read_box(box, out, Tally())
        found: list[Any] = out.tolist()
        return found

    def chunk(self, index: int) -> DirtyChunk | None:
        return self.writeback.find((self.v.stored, (index,)))

    def entries(self) -> list[Found]:
        return recovery.entries(self.spool.directory.parent)

    def close(self) -> None:
        self.engine.close()
        self.spool.close()


def new_memory() -> MemoryZMap:
    """A store with the variables ``v``, ``tiny`` and ``text``."""
    memory = MemoryZMap()
    with open_zmap(memory, "w", format="zarr2") as dataset:
        options: dict[str, Any] = {"chunks": (CHUNK,), "codecs": []}
        dataset.create_variable("v", (LENGTH,), "i4", fillvalue=FILL, **options)
        dataset.create_variable("tiny", (LENGTH,), "i1", fillvalue=FILL, **options)
        dataset.create_variable("text", (LENGTH,), str, fillvalue=None, chunks=(CHUNK,))
    return memory


@contextmanager
def mounted(memory: MemoryZMap, directory: Path, **options: Any) -> Iterator[Mount]:
    mount = Mount(memory, directory, **options)
    try:
        yield mount
    finally:
        mount.zmap.arm()
        mount.writeback.flush()
        assert mount.writeback.dirty_bytes == 0
        assert mount.writeback.unsaved == 0
        assert mount.spool.bytes_used == 0
        mount.close()
        assert os.listdir(directory) == []


def stored(memory: MemoryZMap, name: str = "v") -> list[Any]:
    with open_zmap(memory) as dataset:
        found: list[Any] = dataset.variables[name][...].tolist()
        return found


def recover(memory: MemoryZMap, directory: Path) -> None:
    """What ``nczfs recover`` does, in the order in which it does it."""
    store = recovery.Store(Kept(memory), parse_url("memory://store"))
    put_all_back(store, recovery.entries(directory))
    store.close()


def put_all_back(store: recovery.Store, entries: Iterable[Found], *, force: bool = False) -> None:
    """Put entries back and remove them. Raises the first problem; what comes after it is left."""
    for group in recovery.together(entries):
        problems = store.put_back(group, force=force)
        for found, problem in zip(group, problems, strict=True):
            if problem is not None:
                raise problem
            found.remove()


class Kept(Faulty):
    """A store that outlives those who close it."""

    def close(self) -> None:
        return


@contextmanager
def held(mount: Mount, wanted: str) -> Iterator[tuple[threading.Event, threading.Event]]:
    """The first such call waits: (it has begun, let it go on)."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(operation: str, key: str) -> None:
        if operation == wanted and not begun.is_set():
            begun.set()
            assert go_on.wait(120)

    mount.before = hold
    try:
        yield begun, go_on
    finally:
        go_on.set()
        mount.before = lambda operation, key: None


def writes(mount: Mount) -> list[str]:
    """The keys that are written from now on, as they are."""
    calls: list[str] = []
    mount.before = lambda operation, key: calls.append(key) if operation == "write" else None
    return calls
