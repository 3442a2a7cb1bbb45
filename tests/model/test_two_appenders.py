"""Two mounts that append to the same variables, while requests fail or take effect late: what fsync
or close said 0 to is in the store once, in the order of its writer, and nothing is torn."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nczfs.engine.options import EngineOptions
from nczfs.errors import AccessDenied, DeadlinePassed, StoreError, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.late import LateZMap
from tests.support.rawchunks import raw_array
from tests.support.trees import KnownPaths, tree_over
from tests.support.writing import close, open_file

FILL, WIDTH = -1, 3
RAW = {name: f"datasets/d.zarr/{name}/values.raw" for name in "rs"}
ENGINE = EngineOptions(
    memory_limit_bytes=1 << 20,
    cache_bytes_max=0,
    store_threads=2,
    decode_threads=2,
    fetch_threads=2,
)

mounts = st.integers(0, 1)
troubles = (
    st.none()
    | st.integers(1, 3)
    | st.builds(
        Fault,
        st.integers(0, 7),
        st.sampled_from((Unavailable, DeadlinePassed, AccessDenied)),
        after=st.booleans(),
        operations=st.sampled_from((frozenset({"write"}), frozenset({"read", "write", "stat"}))),
        repeats=st.sampled_from((1, 3, 1000)),
    )
)


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    for text in ("not stored at its last close", "tried again", "but kept in"):
        expected_warnings.add(text)


@dataclass(eq=False)
class Open:
    """A file that a program appends to."""

    mount: int
    name: str
    handle: HandleNo


class Appenders(RuleBasedStateMachine):
    """Each record holds numbers that no other one has.

    Attributes
    ----------
    given : by mount and variable, the records that it took, in their order.
    confirmed : how many of them it said are stored.
    """

    fs: list[TreeFileSystem]
    shards: ClassVar[tuple[int, ...] | None] = None

    @initialize(
        layout=st.sampled_from(("nczarr-L3", "nczarr-L2l")),
        consolidated=st.booleans(),
        names=st.sampled_from(("r", "rs")),
        ttl_s=st.sampled_from((0.0, 60.0)),
    )
    def begin(self, layout: str, consolidated: bool, names: str, ttl_s: float) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="nczfs-model-"))
        self.memory = LateZMap()
        self.names = names
        with self.client("w", format=layout, consolidated=consolidated) as root:
            root.create_dimension("t", None)
            root.create_dimension("w", WIDTH)
            for name in names:
                root.create_variable(
                    name,
                    ("t", "w"),
                    "i4",
                    chunks=(2, 2),
                    shards=self.shards,
                    fillvalue=FILL,
                    codecs=[],
                )
        self.faulty = [Faulty(self.memory) for _ in range(2)]
        self.fs = [self.mounted(number, ttl_s) for number in range(2)]
        self.known = [KnownPaths(fs) for fs in self.fs]
        self.handles: list[Open] = []
        self.given: dict[tuple[int, str], list[int]] = {
            (mount, name): [] for mount in range(2) for name in names
        }
        self.confirmed = dict.fromkeys(self.given, 0)
        self.count = 0
        for mount in range(2):
            self.open(mount, "r")

    def mounted(self, number: int, ttl_s: float) -> TreeFileSystem:
        options = VfsOptions(
            engine=replace(ENGINE, metadata_ttl_s=ttl_s),
            read_only=False,
            spool_dir=self.directory / str(number),
        )
        return tree_over(self.faulty[number], options)

    def client(self, mode: str, **options: Any) -> Any:
        """Another program that has the dataset open."""
        store = Prefixed(self.memory, parse_prefix("d.zarr"))
        return open_zmap(store, mode, options=ENGINE, **options)

    @contextmanager
    def failing(self, mount: int, trouble: Fault | int | None) -> Iterator[None]:
        """What the mount asks the store for in this context may fail, or take effect later."""
        self.faulty[mount].arm(*([trouble] if isinstance(trouble, Fault) else []))
        self.memory.delay(trouble if isinstance(trouble, int) else 0)
        try:
            yield
        except StoreError:
            assert self.faulty[mount].fired or self.memory.missed
            raise
        finally:
            self.faulty[mount].arm()
            self.memory.delay(0)

    @rule(mount=mounts, name=st.sampled_from("rs"))
    def open(self, mount: int, name: str) -> None:
        if name in self.names and len(self.handles) < 6:
            handle = open_file(self.fs[mount], RAW[name], os.O_RDWR | os.O_APPEND)
            self.handles.append(Open(mount, name, handle))

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), count=st.integers(1, 3), cut=st.integers(1, 4 * WIDTH))
    def append(self, data: st.DataObject, count: int, cut: int) -> None:
        """In two pieces."""
        found = data.draw(st.sampled_from(self.handles))
        numbers = [self.count + n for n in range(count)]
        self.count += count
        raw = np.concatenate([record(number) for number in numbers]).tobytes()
        fs = self.fs[found.mount]
        for piece in filter(None, (raw[:cut], raw[cut:])):
            end = self.known[found.mount].size(RAW[found.name])
            assert fs.write(found.handle, end, piece) == len(piece)
        self.given[found.mount, found.name] += numbers

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), trouble=troubles)
    def fsync(self, data: st.DataObject, trouble: Fault | int | None) -> None:
        found = data.draw(st.sampled_from(self.handles))
        try:
            with self.failing(found.mount, trouble):
                self.fs[found.mount].fsync(found.handle, data_only=False)
        except StoreError:
            return
        self.confirm(found.mount, found.name)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), trouble=troubles)
    def close(self, data: st.DataObject, trouble: Fault | int | None) -> None:
        found = data.draw(st.sampled_from(self.handles))
        self.handles.remove(found)
        try:
            with self.failing(found.mount, trouble):
                self.fs[found.mount].flush(found.handle)
            self.confirm(found.mount, found.name)
        except StoreError:
            pass
        self.fs[found.mount].release(found.handle)

    @rule(mount=mounts, trouble=troubles)
    def sync(self, mount: int, trouble: Fault | int | None) -> None:
        """As a word written to ``.nczfs/flush``."""
        try:
            with self.failing(mount, trouble):
                self.fs[mount].sync()
        except StoreError:
            return
        self.confirm(mount, *self.names)

    @rule(mount=mounts, path=st.sampled_from(("", "d.zarr", "d.zarr/r")))
    def refresh(self, mount: int, path: str) -> None:
        self.fs[mount].refresh(path)
        self.known[mount].forget()

    @rule()
    def late_requests_arrive(self) -> None:
        self.memory.land()

    def confirm(self, mount: int, *names: str) -> None:
        for name in names:
            self.confirmed[mount, name] = len(self.given[mount, name])

    @precondition(lambda self: hasattr(self, "fs"))
    @invariant()
    def what_was_confirmed_is_stored_once_and_in_order(self) -> None:
        """SEMANTICS W34."""
        for name in self.names:
            stored = self.records(self.stored(name), name)
            for mount in range(2):
                given = self.given[mount, name]
                own = [number for number in stored if number in given]
                confirmed = given[: self.confirmed[mount, name]]
                assert own[: len(confirmed)] == confirmed, (mount, name, stored)
                assert set(own) <= set(given)

    @precondition(lambda self: hasattr(self, "fs"))
    @invariant()
    def each_mount_shows_all_that_it_took(self) -> None:
        """SEMANTICS W2, W34."""
        for mount in range(2):
            for name in self.names:
                content = np.frombuffer(self.known[mount].read(RAW[name]), "<i4")
                shown = self.records(content.reshape(-1, WIDTH), name)
                given = self.given[mount, name]
                assert [number for number in shown if number in given] == given, (mount, shown)

    def records(self, rows: Any, name: str) -> list[int]:
        """The numbers of the records; each row is one, but for elements that are not there yet."""
        found = []
        for row in rows:
            numbers = {int(value) // WIDTH for value in row if value != FILL}
            assert len(numbers) <= 1, row
            for number in numbers:
                wanted = record(number)
                assert all(v in (FILL, w) for v, w in zip(row, wanted, strict=True)), row
                found.append(number)
        assert len(found) == len(set(found)), (name, found)
        return found

    def stored(self, name: str) -> Any:
        return raw_array(self.memory, f"d.zarr/{name}")

    def teardown(self) -> None:
        if not hasattr(self, "fs"):
            return
        for found in self.handles:
            close(self.fs[found.mount], found.handle)
        for mount in (0, 1):
            self.sync(mount, None)
        self.what_was_confirmed_is_stored_once_and_in_order()
        for name in self.names:
            rows = self.stored(name)
            own = [row.tolist() for row in rows if (row != FILL).any()]
            assert all(row == record(row[0] // WIDTH).tolist() for row in own)
            if self.names == name:
                assert len(own) == len(rows) == self.count
        for fs in self.fs:
            fs.close()
        left = [path for path in self.directory.rglob("*") if path.is_file()]
        shutil.rmtree(self.directory)
        assert left == []


def record(number: int) -> Any:
    """The elements of a record."""
    return np.arange(WIDTH, dtype="<i4") + WIDTH * number


TestAppenders = Appenders.TestCase
TestAppenders.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)


class AppendersToShards(Appenders):
    """The same, where records lie in chunks of a shard together with records that have a place."""

    shards = (4, 4)

    @initialize(
        consolidated=st.booleans(),
        names=st.sampled_from(("r", "rs")),
        ttl_s=st.sampled_from((0.0, 60.0)),
    )
    def begin(self, consolidated: bool, names: str, ttl_s: float) -> None:
        super().begin("zarr3", consolidated, names, ttl_s)

    def stored(self, name: str) -> Any:
        with self.client("r") as root:
            return root.variables[name][...]


TestAppendersToShards = AppendersToShards.TestCase
TestAppendersToShards.settings = settings(max_examples=8, stateful_step_count=30, deadline=None)


@dataclass(frozen=True)
class Chosen:
    """What hypothesis draws, chosen here."""

    value: object

    def draw(self, _: object) -> object:
        return self.value


@pytest.mark.parametrize("more", [0, 2])
def test_a_late_claim_leaves_no_record_of_fill(more: int) -> None:
    """SEMANTICS W57. Its answer was lost, and another mount appends behind it meanwhile."""
    machine = Appenders()
    machine.begin(layout="nczarr-L3", consolidated=False, names="r", ttl_s=60.0)
    ours, theirs = machine.handles
    machine.append(Chosen(theirs), 1, 1)
    machine.append(Chosen(ours), 1, 1)
    machine.sync(0, 2)
    machine.late_requests_arrive()
    machine.close(Chosen(theirs), None)
    if more:
        machine.append(Chosen(ours), more, 1)
        machine.each_mount_shows_all_that_it_took()
    machine.teardown()
