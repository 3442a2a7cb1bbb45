"""A mount with little memory and a spool, a store that fails, kills: what was acknowledged or
spooled is there in the end, and nothing else changed."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nczfs.engine.arrays.array import Array
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, Tally, format_options
from nczfs.engine.spool.chunks import KeptChunk
from nczfs.engine.spool.space import Spool
from nczfs.engine.writing.dirty import DirtyChunk
from nczfs.errors import (
    AccessDenied,
    DeadlinePassed,
    NoSpace,
    SpoolError,
    StoreError,
    Unavailable,
)
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from tests.support.sharded import all_sharded

CHUNK, CHUNKS, FILL = 4, 5, -1
LENGTH = CHUNK * CHUNKS - 1
ROOMY, FEW_CHUNKS = 1 << 20, 4 * 600
ENTRY = 16 + 1 + 1024  # what one takes of the budget of the spool

positions = st.integers(0, LENGTH - 1)
values = st.integers(0, 10**6)
REFUSALS = [
    Fault(0, AccessDenied, after=after, operations=frozenset({"write"}), repeats=1000)
    for after in (False, True)
]
faults = (
    st.none()
    | st.sampled_from(REFUSALS)
    | st.builds(
        Fault,
        st.integers(0, 4),
        st.sampled_from((Unavailable, DeadlinePassed, AccessDenied)),
        after=st.booleans(),
        operations=st.sampled_from((frozenset({"write"}), frozenset({"read", "write", "stat"}))),
        repeats=st.sampled_from((1, 2, 1000)),
    )
)


@pytest.fixture(autouse=True)
def warned(expected_warnings: Any) -> None:
    for text in ("not stored, but kept in", "tried again", "kept in memory only: .*/nczfs-"):
        expected_warnings.add(text)


class Mortal(RuleBasedStateMachine):
    """One mount after the other on one store, with another client beside them.

    Attributes
    ----------
    possible : what the store may hold of each element.
    ever : what it may have held since the mount last stored the element.
    dirty : what the mount took and did not say is stored.
    older : what of these elements it took before, and may have put into the spool.
    foreign : the chunks that the other client stored while the mount had something for them.
    newer : what the other client wrote over that, where the mount has stored nothing since.
    """

    engine: Engine

    @initialize(
        budget=st.sampled_from((0, FEW_CHUNKS, ROOMY)),
        spool_bytes=st.sampled_from((0, 2 * ENTRY, None)),
    )
    def begin(self, budget: int, spool_bytes: int | None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="nczfs-model-"))
        self.budget, self.spool_bytes = budget, spool_bytes
        self.memory = MemoryZMap()
        with open_zmap(self.memory, "w") as dataset:
            dataset.create_variable(
                "v", (LENGTH,), "i4", chunks=(CHUNK,), fillvalue=FILL, codecs=[]
            )
        self.theirs = open_zmap(self.memory, "r+")
        self.possible: list[set[int]] = [{FILL} for _ in range(LENGTH)]
        self.ever: list[set[int]] = [{FILL} for _ in range(LENGTH)]
        self.older: list[set[int]] = [set() for _ in range(LENGTH)]
        self.dirty: dict[int, int] = {}
        self.mount()

    def mount(self) -> None:
        self.meanwhile: tuple[int, int] | None = None
        self.foreign: set[int] = set()
        self.newer: dict[int, int] = {}
        self.lock = threading.Lock()
        self.faulty = Faulty(self.memory, before_call=self.note)
        options = EngineOptions(
            memory_limit_bytes=self.budget, cache_bytes_max=0, store_threads=2, decode_threads=2
        )
        self.spool = Spool(self.directory, "memory://store", self.spool_bytes)
        self.engine = Engine(options, self.spool)
        metadata = MetadataCache(self.faulty, options, self.engine.pools)
        dataset = open_dataset(
            self.engine, metadata, ROOT, format_options(frozenset(), options), writable=True
        )
        assert isinstance(dataset, Dataset)
        node = dataset.node("v")
        assert isinstance(node, Variable)
        self.v: Array = dataset.array(node)

    def note(self, operation: str, key: str) -> None:
        """Before a call of the mount: an element may be written while a chunk flies."""
        with self.lock:
            if operation == "write":
                self.newer = {}
            if self.meanwhile is None or operation != "write":
                return
            (position, value), self.meanwhile = self.meanwhile, None
        self.put(position, value)

    def put(self, position: int, *found: int) -> None:
        box = Box((position,), (position + len(found),))
        self.v.write_box(box, np.array(found, np.int32))

    def found(self) -> list[int]:
        out = np.empty(LENGTH, np.int32)
        self.v.read_box(Box((0,), (LENGTH,)), out, Tally())
        return [int(value) for value in out]

    @staticmethod
    def stored_with(position: int) -> range:
        """The chunks in the object of an element."""
        return range(position // CHUNK, position // CHUNK + 1)

    def chunk(self, position: int) -> DirtyChunk | None:
        return self.engine.writeback.find((self.v.stored, (position // CHUNK,)))

    def arm(self, fault: Fault | None) -> None:
        self.faulty.arm(*([] if fault is None else [fault]))

    # What the mount does

    @rule(position=positions, value=values, fault=faults)
    def write_an_element(self, position: int, value: int, fault: Fault | None) -> None:
        self.arm(fault)
        try:
            self.put(position, value)
        except NoSpace:  # no other error: it is the spool that sets a limit
            assert self.spool_bytes is not None
            self.arm(None)
            if self.found()[position] == value:
                self.take(position, value)
        else:
            self.take(position, value)
            assert self.engine.writeback.memory_bytes <= self.budget // 2
        self.arm(None)
        self.look()

    @rule(chunk=st.integers(0, CHUNKS - 2), value=values, fault=faults)
    def write_a_whole_chunk(self, chunk: int, value: int, fault: Fault | None) -> None:
        where = range(chunk * CHUNK, (chunk + 1) * CHUNK)
        self.arm(fault)
        is_taken = True
        try:
            self.put(where.start, *[value] * CHUNK)
        except NoSpace:
            assert self.spool_bytes is not None
            self.arm(None)
            is_taken = self.found()[where.start : where.stop] == [value] * CHUNK
        if is_taken:
            for position in where:
                self.take(position, value)
        self.arm(None)
        self.look()

    @rule(fault=faults, meanwhile=st.none() | st.tuples(positions, values))
    def flush(self, fault: Fault | None, meanwhile: tuple[int, int] | None) -> None:
        if self.budget != ROOMY:
            meanwhile = None  # whoever writes then may wait for what flies
        self.arm(fault)
        self.meanwhile = meanwhile
        contested = dict(self.dirty)
        failed: StoreError | None = None
        try:
            self.engine.writeback.flush()
        except StoreError as error:
            assert self.faulty.fired
            failed = error
        has_come = meanwhile is not None and self.meanwhile is None
        self.meanwhile = None
        self.arm(None)
        if failed is None:
            self.stored(contested)
            self.dirty = {}
        if meanwhile is not None and has_come:
            self.take(*meanwhile)
        self.look()
        if isinstance(failed, AccessDenied) and fault in REFUSALS and self.spool_bytes is None:
            for position in set(contested) & set(self.dirty):
                if meanwhile is None or position // CHUNK not in self.stored_with(meanwhile[0]):
                    assert self.is_saved(position), "it was refused for good"

    @rule(fault=faults)
    def store_in_the_background(self, fault: Fault | None) -> None:
        self.arm(fault)
        is_left = self.engine.writeback._store_aged(time.monotonic())
        assert is_left == bool(self.engine.writeback.unsaved)
        self.arm(None)
        self.look()

    @rule()
    def time_passes(self) -> None:
        self.engine.writeback._health.retry.at = 0
        for position in range(0, LENGTH, CHUNK):
            if (chunk := self.chunk(position)) is not None:
                chunk.unit.retry.at = 0

    @rule(fault=faults)
    def read(self, fault: Fault | None) -> None:
        self.arm(fault)
        try:
            found = self.found()
        except StoreError:
            assert self.faulty.fired
        else:
            for position, value in enumerate(found):
                if position in self.dirty:
                    assert value == self.dirty[position]
                else:
                    assert value in self.ever[position]
        self.arm(None)

    @rule(position=positions, value=values)
    def another_client_writes(self, position: int, value: int) -> None:
        self.theirs.variables["v"][position] = value
        self.theirs.sync()
        self.possible[position] = {value}
        self.ever[position] |= {value}
        self.foreign |= {
            number
            for number in self.stored_with(position)
            if self.chunk(number * CHUNK) is not None
        }
        if self.is_saved(position):
            self.newer[position] = value

    @rule()
    def forget(self) -> None:
        self.engine.cache.discard(self.v.stored)

    # How it ends

    @rule(fault=faults, force=st.booleans())
    def kill_and_recover(self, fault: Fault | None, force: bool) -> None:
        safe = {p: value for p, value in self.dirty.items() if self.is_saved(p)}
        for position in self.dirty.keys() - safe.keys():
            self.possible[position] |= {self.dirty[position], *self.older[position]}
        if self.spool._lock_fd is not None:
            os.close(self.spool._lock_fd)  # the system does that
        self.engine.pools.close()
        self.stored(self.recovered(safe, fault, force))
        self.dirty = {}
        self.forget_all()
        self.mount()

    @rule(fault=faults, force=st.booleans())
    def unmount_and_recover(self, fault: Fault | None, force: bool) -> None:
        self.arm(Fault(0, repeats=1000))
        self.engine.close()
        self.spool.close()
        safe = self.dirty
        if self.spool_bytes is not None:
            safe = {p: value for p, value in self.dirty.items() if self.is_saved(p)}
            for position in self.dirty.keys() - safe.keys():
                self.possible[position] |= {self.dirty[position], *self.older[position]}
        if not self.dirty:
            assert not self.spool.directory.exists()
        self.stored(self.recovered(safe, fault, force))
        self.dirty = {}
        self.forget_all()
        self.mount()

    def recovered(self, safe: dict[int, int], fault: Fault | None, force: bool) -> dict[int, int]:
        """Put everything back, but for what is refused because there is something newer."""
        refused = set()
        for faulty in (Faulty(self.memory, *([] if fault is None else [fault])), self.memory):
            store = recovery.Store(Faulty(faulty), parse_url("memory://store"))
            for group in recovery.together(recovery.entries(self.directory)):
                problems = store.put_back(group, force=force)
                for found, problem in zip(group, problems, strict=True):
                    assert isinstance(found.entry, KeptChunk)
                    (index,) = found.entry.details.index
                    if problem is None:
                        found.remove()
                    elif isinstance(problem, SpoolError):
                        assert not force
                        assert index in self.foreign
                        if faulty is self.memory:
                            refused.add(index)
                            found.remove()
                    else:
                        assert faulty is not self.memory
            store.close()
        assert recovery.entries(self.directory) == []
        if not force:
            with open_zmap(self.memory) as reader:
                found = reader.variables["v"][...].tolist()
            assert {p: found[p] for p in self.newer} == self.newer
        return {p: value for p, value in safe.items() if p // CHUNK not in refused}

    def forget_all(self) -> None:
        """A new mount knows what the store holds, and nothing from before."""
        with open_zmap(self.memory) as reader:
            found = reader.variables["v"][...].tolist()
        for position, value in enumerate(found):
            assert value in self.possible[position], (position, value, self.possible[position])
            self.possible[position] = self.ever[position] = {value}
            self.ever[position] = {value}
            self.older[position] = set()

    # What holds after each step

    @precondition(lambda self: hasattr(self, "v"))
    @invariant()
    def the_store_holds_what_it_may_hold(self) -> None:
        with open_zmap(self.memory) as reader:
            found = reader.variables["v"][...].tolist()
        for position, value in enumerate(found):
            assert value in self.possible[position], (position, value, self.possible[position])

    @precondition(lambda self: hasattr(self, "v"))
    @invariant()
    def the_spool_has_an_entry_for_each_saved_chunk_and_no_other(self) -> None:
        chunks = [self.chunk(position) for position in range(0, LENGTH, CHUNK)]
        saved = {c.saved.path for c in chunks if c is not None and c.saved is not None}
        assert {found.path for found in recovery.entries(self.directory)} == saved
        sizes = [c.saved.nbytes for c in chunks if c is not None and c.saved is not None]
        assert self.spool.bytes_used == sum(sizes)
        if not any(chunks):
            assert self.engine.writeback.dirty_bytes == 0

    def take(self, position: int, value: int) -> None:
        if position in self.dirty:
            self.older[position] |= {self.dirty[position]}
        self.dirty[position] = value

    def look(self) -> None:
        """What is not in the map of dirty chunks is stored; the rest may be."""
        done = {p: v for p, v in self.dirty.items() if self.chunk(p) is None}
        self.stored(done)
        self.dirty = {p: v for p, v in self.dirty.items() if p not in done}
        for position, value in self.dirty.items():
            self.possible[position] = {*self.possible[position], value, *self.older[position]}
            self.ever[position] = {*self.ever[position], value, *self.older[position]}

    def is_saved(self, position: int) -> bool:
        chunk = self.chunk(position)
        return chunk is not None and chunk.is_saved

    def stored(self, found: dict[int, int]) -> None:
        for position, value in found.items():
            self.possible[position] = {value}
            self.ever[position] = {value}
            self.older[position] = set()

    def teardown(self) -> None:
        if hasattr(self, "v"):
            self.arm(None)
            self.engine.writeback.flush()
            assert self.engine.writeback.unsaved == 0
            self.stored(self.dirty)
            self.the_store_holds_what_it_may_hold()
            self.engine.close()
            self.spool.close()
            self.theirs.close()
            assert not self.spool.directory.exists()
            shutil.rmtree(self.directory)


class MortalOfShards(Mortal):
    """The same mounts, with two chunks in each object."""

    @initialize(
        budget=st.sampled_from((0, FEW_CHUNKS, ROOMY)),
        spool_bytes=st.sampled_from((0, 2 * ENTRY, None)),
    )
    def begin(self, budget: int, spool_bytes: int | None) -> None:
        self.shared = ExitStack()
        self.shared.enter_context(all_sharded())
        super().begin(budget, spool_bytes)

    @staticmethod
    def stored_with(position: int) -> range:
        first = position // CHUNK // 2 * 2
        return range(first, min(first + 2, CHUNKS))

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "shared"):
            self.shared.close()


TestMortal = Mortal.TestCase
TestMortal.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)

TestMortalOfShards = MortalOfShards.TestCase
TestMortalOfShards.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
