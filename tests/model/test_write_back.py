"""Two clients and a store that fails: what was acknowledged is there, and nothing else changed."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nczfs.engine.options import EngineOptions
from nczfs.errors import StoreError
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.memory import MemoryZMap
from tests.support.paired import all_paired
from tests.support.sharded import all_sharded

LENGTH, CHUNK, FILL = 10, 4, -1
OPTIONS = EngineOptions(
    memory_limit_bytes=1 << 20, cache_bytes_max=0, store_threads=2, decode_threads=2
)

positions = st.integers(0, LENGTH - 1)
values = st.integers(0, 10**6)
faults = st.builds(
    Fault,
    st.integers(0, 7),
    after=st.booleans(),
    operations=st.sampled_from((frozenset({"write"}), frozenset({"read", "write", "stat"}))),
    repeats=st.integers(1, 3),
)


class TwoClients(RuleBasedStateMachine):
    """The first client's store fails now and then; the second one's never does.

    Attributes
    ----------
    possible : what the store may hold of each element.
    ever : what it may have held since the first client last stored the element.
    dirty : what the first client wrote and was not told is stored.
    """

    ours: OpenDataset

    @initialize(separate=st.booleans())
    def open(self, separate: bool) -> None:
        self.memory = MemoryZMap()
        self.intrusion: tuple[int, int, int] | None = None
        self.lock = threading.Lock()
        self.faulty = Faulty(self.memory, before_call=self.note)
        self.ours = open_zmap(self.faulty, "w", options=OPTIONS)
        self.ours.create_variable(
            "v", (LENGTH,), "i4", chunks=(CHUNK,), fillvalue=FILL, codecs=[] if separate else None
        )
        self.ours.sync()
        self.theirs = open_zmap(self.memory, "r+", options=OPTIONS)
        self.v, self.w = self.ours.variables["v"], self.theirs.variables["v"]
        self.array = self.ours._dataset.array(self.v.description).stored
        self.possible: list[set[int]] = [{FILL} for _ in range(LENGTH)]
        self.ever: list[set[int]] = [{FILL} for _ in range(LENGTH)]
        self.dirty: dict[int, int] = {}

    def note(self, operation: str, key: str) -> None:
        """Before a call of our client: the other one may come in between."""
        with self.lock:
            if self.intrusion is None or not key.startswith("v/") or "/." in key:
                return
            calls, position, value = self.intrusion
            self.intrusion = (calls - 1, position, value) if calls else None
            if not calls:
                self.w[position] = value
                self.theirs.sync()

    @rule(found=st.dictionaries(positions, values, min_size=1, max_size=5))
    def write_elements(self, found: dict[int, int]) -> None:
        self.v[list(found)] = list(found.values())
        self.dirty |= found

    @rule(chunk=st.integers(0, 1), value=values, fault=st.none() | faults)
    def write_a_whole_chunk(self, chunk: int, value: int, fault: Fault | None) -> None:
        where = range(chunk * CHUNK, (chunk + 1) * CHUNK)
        self.faulty.arm(*([] if fault is None else [fault]))
        self.v[where.start : where.stop] = value
        if self.is_dirty(where.start):
            self.dirty |= dict.fromkeys(where, value)
            self.reach(dict.fromkeys(where, value))
        else:
            self.stored(dict.fromkeys(where, value))
        self.faulty.arm()

    @rule(
        fault=st.none() | faults,
        intrusion=st.none() | st.tuples(st.integers(0, 5), positions, values),
    )
    def flush(self, fault: Fault | None, intrusion: tuple[int, int, int] | None) -> None:
        self.faulty.arm(*([] if fault is None else [fault]))
        self.intrusion = intrusion
        contested = dict(self.dirty)
        try:
            self.ours.sync()
        except StoreError:
            assert self.faulty.fired
            rest = {p: value for p, value in self.dirty.items() if self.is_dirty(p)}
            self.stored({p: value for p, value in self.dirty.items() if p not in rest})
            self.reach(rest)
            self.dirty = rest
        else:
            self.stored(self.dirty)
            self.dirty = {}
        has_come = intrusion is not None and self.intrusion is None
        self.intrusion = None
        self.faulty.arm()
        if intrusion is not None and has_come:
            _, position, value = intrusion
            self.possible[position] = {value, contested.get(position, value)}
            self.ever[position] |= {value}

    @rule(position=positions, value=values)
    def another_client_writes(self, position: int, value: int) -> None:
        self.w[position] = value
        self.theirs.sync()
        self.possible[position] = {value}
        self.ever[position] |= {value}

    @rule(fault=st.none() | faults)
    def read(self, fault: Fault | None) -> None:
        self.faulty.arm(*([] if fault is None else [fault]))
        try:
            found = self.v[...].tolist()
        except StoreError:
            assert self.faulty.fired
        else:
            for position, value in enumerate(found):
                if position in self.dirty:
                    assert value == self.dirty[position]
                else:
                    assert value in self.ever[position]
        self.faulty.arm()

    @precondition(lambda self: hasattr(self, "dirty"))
    @invariant()
    def the_store_holds_what_it_may_hold(self) -> None:
        with open_zmap(self.memory, options=OPTIONS) as reader:
            found = reader.variables["v"][...].tolist()
        for position, value in enumerate(found):
            assert value in self.possible[position], (position, value, self.possible[position])
            self.possible[position] = {value}

    def is_dirty(self, position: int) -> bool:
        writeback = self.ours._opened.engine.writeback
        return writeback.find((self.array, (position // CHUNK,))) is not None

    def stored(self, found: dict[int, int]) -> None:
        for position, value in found.items():
            self.possible[position] = {value}
            self.ever[position] = {value}

    def reach(self, found: dict[int, int]) -> None:
        """What may have reached the store, or not."""
        for position, value in found.items():
            self.possible[position] = self.possible[position] | {value}
            self.ever[position] = self.ever[position] | {value}

    def teardown(self) -> None:
        if hasattr(self, "dirty"):
            self.ours.close()
            self.theirs.close()
            with open_zmap(self.memory, options=OPTIONS) as reader:
                found: np.ndarray[Any, np.dtype[Any]] = reader.variables["v"][...]
            for position, value in self.dirty.items():
                assert found[position] == value


TestTwoClients = TwoClients.TestCase
TestTwoClients.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


class TwoClientsOfPairs(TwoClients):
    """The same, where two chunks share an object."""

    @initialize(separate=st.booleans())
    def open(self, separate: bool) -> None:
        self.shared = ExitStack()
        self.shared.enter_context(self.sharing())
        super().open(separate)

    def sharing(self) -> AbstractContextManager[None]:
        return all_paired()

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "shared"):
            self.shared.close()


class TwoClientsOfShards(TwoClientsOfPairs):
    """The same clients, with shards of two chunks in shards of two."""

    def sharing(self) -> AbstractContextManager[None]:
        return all_sharded((2,), (2,))


TestTwoClientsOfPairs = TwoClientsOfPairs.TestCase
TestTwoClientsOfPairs.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)

TestTwoClientsOfShards = TwoClientsOfShards.TestCase
TestTwoClientsOfShards.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
