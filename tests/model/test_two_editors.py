"""Two clients that edit one dataset, over a store that fails: no acknowledged change is lost, and
none is made in a variable that has taken the place of another one."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nczfs.engine.options import EngineOptions
from nczfs.errors import DatasetError, StoreError
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.memory import MemoryZMap

OPTIONS = EngineOptions(
    memory_limit_bytes=1 << 16, cache_bytes_max=0, store_threads=2, decode_threads=2
)
NODES = ("", "v", "g", "g/w")
NAMES = ("units", "a", "b")


class TwoEditors(RuleBasedStateMachine):
    """Two clients change attributes and make members; the store of the first one fails sometimes.

    Attributes
    ----------
    stored : of each node, the attributes that the store must have; several values where nobody
        knows which one it has.
    pending : what the first client changed and was not told is stored.
    lost : what it changed in a variable that the second one has replaced since.
    is_replaced : the first client may not know yet of the newest replacement.
    """

    @initialize(
        layout=st.sampled_from(("nczarr-L3", "nczarr-L2l", "zarr2")),
        copied=st.booleans(),
        is_fresh=st.booleans(),
    )
    def create(self, layout: str, copied: bool, is_fresh: bool) -> None:
        self.memory = MemoryZMap()
        with open_zmap(self.memory, "w", format=layout, consolidated=copied) as dataset:
            dataset.create_variable("v", (), "i4", fillvalue=None)
            dataset.create_group("g").create_variable("w", (), "i4", fillvalue=None)
        self.faulty = Faulty(self.memory)
        ours = replace(OPTIONS, metadata_ttl_s=0.0) if is_fresh else OPTIONS
        self.ours = open_zmap(self.faulty, "r+", options=ours)
        self.theirs = open_zmap(self.memory, "r+", options=OPTIONS)
        self.stored: dict[tuple[str, str], set[int | None]] = {
            (node, name): {None} for node in NODES for name in NAMES
        }
        self.pending: dict[tuple[str, str], int | None] = {}
        self.made: set[str] = {"v", "g"}
        self.making: set[str] = set()
        self.lost: set[tuple[str, str]] = set()
        self.is_replaced = False
        self.turn = 0

    def change(self, dataset: OpenDataset, node: str, name: str, value: int | None) -> None:
        attributes = (dataset[node] if node else dataset).attrs
        if value is None:
            attributes.pop(name, None)
        else:
            attributes[name] = value

    @rule(
        node=st.sampled_from(NODES),
        name=st.sampled_from(NAMES),
        value=st.none() | st.integers(0, 99),
    )
    def we_change(self, node: str, name: str, value: int | None) -> None:
        if value is None and name not in (self.ours[node] if node else self.ours).attrs:
            return
        self.change(self.ours, node, name, value)
        self.pending[node, name] = value
        self.lost.discard((node, name))

    @rule(node=st.sampled_from(NODES), name=st.sampled_from(NAMES), value=st.integers(0, 99))
    def they_change(self, node: str, name: str, value: int) -> None:
        self.change(self.theirs, node, name, value)
        self.theirs.sync()
        self.stored[node, name] = {value}

    @rule(turn=st.integers(0, 9))
    def they_replace(self, turn: int) -> None:
        """What we have changed and not stored is not of the new variable."""
        del self.theirs["v"]
        self.turn += 1
        self.theirs.create_variable("v", (), f"S{self.turn}", attributes={"a": turn})
        self.theirs.sync()
        for name in NAMES:
            self.stored["v", name] = {turn if name == "a" else None}
        self.lost |= {place for place in self.pending if place[0] == "v"}
        self.is_replaced = True

    @rule(number=st.integers(0, 9))
    def we_make(self, number: int) -> None:
        name = f"our{number}"
        if name not in self.made | self.making:
            self.ours.create_variable(name, (), "i4", data=number, attributes={"units": "m"})
            self.making.add(name)

    @rule(number=st.integers(0, 9))
    def they_make(self, number: int) -> None:
        name = f"their{number}"
        if name not in self.made:
            self.theirs.create_group(name, {"units": "m"})
            self.theirs.sync()
            self.made.add(name)

    @rule(
        fault=st.none()
        | st.builds(Fault, st.integers(0, 9), after=st.booleans(), repeats=st.integers(1, 3))
    )
    def sync(self, fault: Fault | None) -> None:
        self.faulty.arm(*([] if fault is None else [fault]))
        is_whole = False
        try:
            self.ours.sync()
            is_whole = True
        except StoreError:
            assert self.faulty.fired
        except DatasetError:
            assert self.is_replaced
        # All is stored where only the consolidated copy could not be looked at.
        is_stored = is_whole or not self.ours._dataset.edits.pending()
        for place, value in self.pending.items():
            if place not in self.lost:
                is_sure = is_stored and not (self.is_replaced and place[0] == "v")
                self.stored[place] = {value} if is_sure else self.stored[place] | {value}
        if is_stored:
            self.made |= self.making
            if is_whole and any(node == "v" for node, _ in self.pending):
                self.is_replaced = False  # or nobody has asked for it
            self.pending, self.making, self.lost = {}, set(), set()
        self.faulty.arm()

    @precondition(lambda self: hasattr(self, "making"))
    @invariant()
    def our_own_changes_are_seen(self) -> None:
        for (node, name), value in self.pending.items():
            if not (self.is_replaced and node == "v"):
                assert (self.ours[node] if node else self.ours).attrs.get(name) == value
        assert self.making <= set(self.ours.variables)

    @precondition(lambda self: hasattr(self, "making"))
    @invariant()
    def a_reader_finds_what_was_acknowledged(self) -> None:
        with open_zmap(self.memory, options=OPTIONS) as found:
            assert not found.problems
            members = {*found.variables, *found.groups}
            assert self.made <= members <= self.made | self.making
            for place, possible in self.stored.items():
                node, name = place
                value = (found[node] if node else found).attrs.get(name)
                assert value in possible, place
                self.stored[place] = {value}

    def teardown(self) -> None:
        if hasattr(self, "making"):
            try:
                self.ours.close()
            except DatasetError:
                assert self.is_replaced
            with open_zmap(self.memory, options=OPTIONS) as found:
                for (node, name), value in self.pending.items():
                    if not (self.is_replaced and node == "v"):
                        assert (found[node] if node else found).attrs.get(name) == value
                assert self.made | self.making == {*found.variables, *found.groups}
                assert found._dataset.stale() == []


TestTwoEditors = TwoEditors.TestCase
TestTwoEditors.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)
