"""What is under way while the lease of a dataset changes hands."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nczfs.engine.arrays.array import Array
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, Tally
from nczfs.formats.base import FormatOptions
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import Variable
from nczfs.zmap.base import Blob, Version
from nczfs.zmap.keys import ROOT, Key
from tests.support.leases import QUICK, Unconditional

PATIENCE_S = 120.0
CHUNK = Key("v/0")


class Slow(Unconditional):
    """A store that can hold back the answer to one read of the chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.is_armed = False
        self.has_read, self.go_on = threading.Event(), threading.Event()

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        blob = super().read(key, start, stop, version=version)
        if self.is_armed and key == CHUNK:
            self.is_armed = False
            self.has_read.set()
            assert self.go_on.wait(PATIENCE_S)
        return blob


class Client:
    """One that has the dataset open, with memory of its own."""

    def __init__(self, zmap: Slow) -> None:
        self.engine = Engine(EngineOptions(lease=QUICK, cache_bytes_max=0))
        metadata = MetadataCache(zmap, self.engine.options, self.engine.pools)
        found = open_dataset(self.engine, metadata, ROOT, FormatOptions(), writable=True)
        assert found is not None
        self.dataset: Dataset = found

    @property
    def array(self) -> Array:
        node = self.dataset.node("v")
        assert isinstance(node, Variable)
        return self.dataset.array(node)

    def read(self) -> list[int]:
        """What it believes without asking again for what is in memory."""
        out = np.empty(4, "<i4")
        self.array.read_run(0, out, Tally(), -math.inf)
        return [int(value) for value in out]

    def write(self, at: int, value: int) -> None:
        self.array.write_run(at, np.array([value], "<i4"))
        self.dataset.store()


@pytest.fixture
def store() -> Slow:
    store = Slow()
    with open_zmap(store, "w", format="zarr2", options=EngineOptions(lease=QUICK)) as root:
        root.create_variable("v", (4,), "<i4", chunks=(4,), fillvalue=-1)[:] = [1, 2, 3, 4]
    return store


@pytest.fixture
def clients(store: Slow) -> Iterator[tuple[Client, Client]]:
    found = Client(store), Client(store)
    yield found
    for client in found:
        client.engine.close()


def test_a_load_that_was_under_way_is_not_kept(store: Slow, clients: tuple[Client, Client]) -> None:
    """SEMANTICS W19."""
    one, other = clients
    one.dataset.lease.require()
    store.is_armed = True
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(one.read)
        try:
            assert store.has_read.wait(PATIENCE_S)
            one.dataset.lease.hand_over()
            other.write(0, 11)
            other.dataset.lease.hand_over()
            one.dataset.lease.require()
        finally:
            store.go_on.set()
        assert reading.result() in ([1, 2, 3, 4], [11, 2, 3, 4])
    assert one.read() == [11, 2, 3, 4]


def test_a_part_of_a_chunk_goes_over_what_another_stored_while_it_was_loaded(
    store: Slow, clients: tuple[Client, Client]
) -> None:
    """SEMANTICS W69, W19. The program read the chunk before the lease was lost."""
    one, other = clients
    store.is_armed = True
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(one.read)
        try:
            assert store.has_read.wait(PATIENCE_S)
            other.write(0, 11)
            other.dataset.lease.hand_over()
        finally:
            store.go_on.set()
        reading.result()
        one.write(3, 14)
    assert one.read() == other.read() == [11, 2, 3, 14]
