"""Two clients that make nodes of the same names, over a store that fails: what either was said to
have stored stays, and nothing is left of what was refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nczfs.engine.options import EngineOptions
from nczfs.errors import AccessDenied, DatasetError, NameTaken, StoreError
from nczfs.library.api import Group, OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.views.declaration import WantedVariable, wanted_node
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

OPTIONS: Final = EngineOptions(
    memory_limit_bytes=1 << 16,
    cache_bytes_max=0,
    metadata_ttl_s=0.0,
    store_threads=2,
    decode_threads=2,
)
NAMES: Final = st.sampled_from(("a", "b"))
VALUES: Final = st.integers(0, 9)
FAILURES: Final = st.builds(
    Fault, st.integers(0, 12), after=st.booleans(), repeats=st.integers(1, 3)
)
REFUSALS: Final = st.builds(
    Fault, st.integers(0, 3), st.just(AccessDenied), operations=st.just(frozenset({"write"}))
)
GROUP, OURS = "group", "int32"


@dataclass(frozen=True, slots=True)
class Shown:
    """A node as a reader sees it: its kind, and the attribute that each client gave it."""

    kind: str
    ours: int | None
    theirs: int | None


@dataclass(slots=True)
class Making:
    """What the first client makes or changes, and was not told is stored.

    Attributes
    ----------
    kinds : that the node has had meanwhile, the newest last.
    values : likewise of its attribute.
    is_raced : whether the other client has made or changed the node since.
    is_refused : whether something was refused since, because of that or by the store.
    """

    kinds: list[str] = field(default_factory=list)
    values: list[int | None] = field(default_factory=list)
    is_raced: bool = False
    is_refused: bool = False


def node_of(dataset: OpenDataset, name: str) -> Variable | Group | None:
    """Return a node by its path: the root's list may still call a variable a group."""
    try:
        return dataset[name]
    except KeyError:
        return None


class TwoMakers(RuleBasedStateMachine):
    """Two clients make nodes and change them; the store of the first one fails sometimes.

    Attributes
    ----------
    stored : the nodes that the store must have, as they must be.
    making : what the first client was not told is stored, by the name.
    """

    @initialize(layout=st.sampled_from(("zarr2", "nczarr-L3", "nczarr-L2l", "zarr3")))
    def create(self, layout: str) -> None:
        self.layout = layout
        self.memory = MemoryZMap()
        open_zmap(self.memory, "w", format=layout).close()
        self.faulty = Faulty(self.memory)
        self.ours = open_zmap(self.faulty, "r+", options=OPTIONS)
        self.theirs = open_zmap(self.memory, "r+", options=OPTIONS)
        self.stored: dict[str, Shown] = {}
        self.making: dict[str, Making] = {}
        self.turn = 0

    def shown(self, name: str) -> Shown | None:
        with open_zmap(self.memory, options=OPTIONS) as found:
            node = node_of(found, name)
            if node is None:
                return None
            kind = str(node.dtype) if isinstance(node, Variable) else GROUP
            return Shown(kind, node.attrs.get("ours"), node.attrs.get("theirs"))

    def note(self, name: str, *, kind: str | None = None, value: int | None = None) -> None:
        known = self.stored.get(name)
        made = self.making.get(name)
        if made is None:
            made = self.making[name] = Making(
                [known.kind] if known else [], [known.ours] if known else []
            )
        made.kinds += [kind] if kind is not None else []
        made.values += [value] if value is not None else []

    @rule(name=NAMES, value=VALUES, is_group=st.booleans())
    def we_make(self, name: str, value: int, is_group: bool) -> None:
        try:
            if is_group:
                self.ours.create_group(name, {"ours": value})
            else:
                self.ours.create_variable(name, (), "i4", attributes={"ours": value})
        except NameTaken:
            assert name in self.stored or name in self.making
        else:
            self.note(name, kind=GROUP if is_group else OURS, value=value)

    @rule(name=NAMES)
    def we_turn(self, name: str) -> None:
        """Make a variable of a group, which stores what is pending first."""
        if not self.is_done(self.ours.sync) or name not in self.ours.groups:
            return
        wanted = wanted_node(name, json.dumps({"shape": [], "dtype": "<i4"}).encode())
        assert isinstance(wanted, WantedVariable)
        if self.is_done(lambda: self.ours.editor.turn_into_variable(name, wanted.declaration)):
            self.note(name, kind=OURS)

    @rule(name=NAMES, value=VALUES)
    def we_change(self, name: str, value: int) -> None:
        node = node_of(self.ours, name)
        if node is not None:
            node.attrs["ours"] = value
            self.note(name, value=value)

    @rule(name=NAMES, is_group=st.booleans())
    def they_make(self, name: str, is_group: bool) -> None:
        """Groups have the same document in Zarr v2, by which nobody can tell whose it is."""
        self.turn += 1
        attributes = {"theirs": self.turn}
        try:
            if is_group and self.layout == "zarr3":
                self.theirs.create_group(name, attributes)
            else:
                self.theirs.create_variable(name, (), f"S{self.turn}", attributes=attributes)
            self.theirs.sync()
        except NameTaken:
            assert name in self.making or self.shown(name) is not None
        else:
            self.they_have_stored(name)

    @rule(name=NAMES)
    def they_change(self, name: str) -> None:
        node = node_of(self.theirs, name)
        if node is not None:
            self.turn += 1
            node.attrs["theirs"] = self.turn
            self.theirs.sync()
            self.they_have_stored(name)

    def they_have_stored(self, name: str) -> None:
        found = self.shown(name)
        assert found is not None
        assert found.theirs == self.turn
        self.stored[name] = found
        if name in self.making:
            self.making[name].is_raced = True

    @rule(fault=st.none() | FAILURES | REFUSALS)
    def sync(self, fault: Fault | None) -> None:
        self.faulty.arm(*([] if fault is None else [fault]))
        self.is_done(self.ours.sync)
        self.faulty.arm()

    def is_done(self, store: Callable[[], object]) -> bool:
        """Do something that stores what is pending. Returns whether all is stored."""
        is_done = False
        try:
            store()
        except AccessDenied:
            assert self.faulty.fired
            for made in self.making.values():
                made.is_refused = True
        except StoreError:
            assert self.faulty.fired
        except DatasetError:
            raced = [made for made in self.making.values() if made.is_raced]
            assert raced
            for made in raced:
                made.is_refused = True
        else:
            is_done = True
        pending = {path.partition("/")[0] for path in self.ours._dataset.edits.pending()}
        for name in self.making.keys() - pending:
            self.settle(name, self.making.pop(name))
        return is_done

    def settle(self, name: str, made: Making) -> None:
        """What is not pending any more is stored, or was refused."""
        before, found = self.stored.get(name), self.shown(name)
        if made.is_refused and found == before:
            return
        assert found is not None
        assert found.theirs == (before.theirs if before else None)
        if made.is_refused and before is not None and found.kind == before.kind:
            assert found.ours in (before.ours, *made.values)  # changed where the other one was seen
        else:
            assert (found.kind, found.ours) == (made.kinds[-1], made.values[-1])
        self.stored[name] = found

    @precondition(lambda self: hasattr(self, "making"))
    @invariant()
    def a_reader_finds_what_was_acknowledged(self) -> None:
        for name in ("a", "b"):
            found, stored, made = self.shown(name), self.stored.get(name), self.making.get(name)
            if made is None:
                assert found == stored
            elif stored is not None:
                assert found is not None
                assert found.theirs == stored.theirs
                assert found.kind in (stored.kind, *made.kinds)
                assert found.ours in (stored.ours, *made.values)
                if stored.kind != GROUP:
                    assert found.kind == stored.kind
            elif found is not None:
                assert found.kind in made.kinds
                assert found.ours in made.values

    @precondition(lambda self: hasattr(self, "making") and not self.making)
    @invariant()
    def nothing_else_is_left(self) -> None:
        with open_zmap(self.memory, options=OPTIONS) as found:
            assert not found.problems
            assert {*found.variables, *found.groups} == self.stored.keys()
            for name in self.stored:
                assert found[name].problems == ()
        roots = {str(stat.key).partition("/")[0] for stat in self.memory.list(ROOT)}
        assert {name for name in roots if not name.startswith((".", "zarr"))} == self.stored.keys()

    def teardown(self) -> None:
        if hasattr(self, "making"):
            self.sync(None)
            self.sync(None)
            assert not self.making
            self.a_reader_finds_what_was_acknowledged()
            self.nothing_else_is_left()
            self.ours.close()
            self.theirs.close()


TestTwoMakers = TwoMakers.TestCase
TestTwoMakers.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
