"""Two mounts of a dataset, each with several handles and mappings of its files, and another client:
what fsync or close said 0 to is in the store, whatever happens beside and fails on the way."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nczfs.engine.options import EngineOptions
from nczfs.errors import AccessDenied, DeadlinePassed, StoreError, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import Key, parse_prefix
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.late import LateZMap
from tests.support.rawchunks import raw_array
from tests.support.trees import KnownPaths, read, tree_over
from tests.support.writing import close, open_file, write

ITEM = 4
LENGTH, CHUNK, FILL = 22, 4, -1
PAGE = 8  # elements: two chunks share one, and the last one is cut at the end of the file
WIDTH = 3  # elements of a record
RAW = {name: f"datasets/d.zarr/{name}/values.raw" for name in "vr"}
VIEWS = ("values.raw", "values.npy", "values.txt")
OPTIONS = EngineOptions(
    memory_limit_bytes=1 << 20,
    cache_bytes_max=0,
    metadata_ttl_s=0.0,
    store_threads=2,
    decode_threads=2,
    fetch_threads=2,
)

mounts = st.integers(0, 1)
values = st.integers(0, 10**6)
Trouble: TypeAlias = "Fault | int | None"
"""What fails, or how many writes take effect after their deadline."""

troubles = (
    st.none()
    | st.integers(1, 3)
    | st.builds(
        Fault,
        st.integers(0, 7),
        st.sampled_from((Unavailable, DeadlinePassed, AccessDenied)),
        after=st.booleans(),
        operations=st.sampled_from(
            (
                frozenset({"write"}),
                frozenset({"read", "write", "stat"}),
                frozenset({"list", "search"}),
            )
        ),
        repeats=st.sampled_from((1, 3, 1000)),
    )
)


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    for text in ("not stored at its last close", "tried again", "but kept in"):
        expected_warnings.add(text)


@dataclass(eq=False)
class Open:
    """An open file of a mount, as a program or a mapping holds it."""

    mount: int
    name: str
    handle: HandleNo
    flags: int

    @property
    def writes(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_RDONLY


class Mounts(RuleBasedStateMachine):
    """One fixed variable that all write, and one with records that the first mount appends to.

    Attributes
    ----------
    possible : what the store may hold of each element besides what is being written.
    ever : what the store has held of it.
    latest : by mount, what it shows of each element that it was not said is stored.
    written : by mount, all values that it took of an element since the last one was confirmed.
    landed : by mount, the elements whose latest value the store has had: others may replace it.
    pages : by mount, pages of mappings that were changed, and not written back.
    records : what the first mount shows.
    """

    fs: list[TreeFileSystem]

    @initialize(consolidated=st.booleans())
    def begin(self, consolidated: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="nczfs-model-"))
        self.memory = LateZMap(page=3)
        with self.client("w", consolidated=consolidated) as root:
            root.create_dimension("x", LENGTH)
            root.create_dimension("t", None)
            root.create_dimension("w", WIDTH)
            options: dict[str, Any] = {"fillvalue": FILL, "codecs": []}
            root.create_variable("v", ("x",), "i4", chunks=(CHUNK,), **options)
            root.create_variable("r", ("t", "w"), "i4", chunks=(2, WIDTH), **options)
        self.faulty = [Faulty(self.memory) for _ in range(2)]
        self.fs = [self.mounted(number) for number in range(2)]
        self.known = [KnownPaths(fs) for fs in self.fs]
        self.handles: list[Open] = []
        self.possible: list[set[int]] = [{FILL} for _ in range(LENGTH)]
        self.ever: list[set[int]] = [set() for _ in range(LENGTH)]
        self.latest: list[dict[int, int]] = [{}, {}]
        self.written: list[dict[int, set[int]]] = [{}, {}]
        self.landed: list[set[int]] = [set(), set()]
        self.pages: list[dict[int, list[int]]] = [{}, {}]
        self.records: list[int] = []
        self.others = 0
        for number in range(2):
            self.open(number, "v", os.O_RDWR)

    def mounted(self, number: int) -> TreeFileSystem:
        options = VfsOptions(
            engine=OPTIONS, read_only=False, spool_dir=self.directory / str(number)
        )
        return tree_over(self.faulty[number], options)

    def client(self, mode: str, **options: Any) -> Any:
        """Another program that has the dataset open."""
        store = Prefixed(self.memory, parse_prefix("d.zarr"))
        return open_zmap(store, mode, options=OPTIONS, **options)

    @contextmanager
    def failing(self, mount: int, trouble: Trouble) -> Iterator[None]:
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

    # Files

    @rule(
        mount=mounts,
        name=st.sampled_from("vr"),
        flags=st.sampled_from((os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND)),
    )
    def open(self, mount: int, name: str, flags: int) -> None:
        if name == "r":
            mount = 0
        if len(self.handles) < 8:
            handle = open_file(self.fs[mount], RAW[name], flags)
            self.handles.append(Open(mount, name, handle, flags))

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), trouble=troubles)
    def close(self, data: st.DataObject, trouble: Trouble) -> None:
        """Pages of the last writing handle are written back before it goes."""
        found = data.draw(st.sampled_from(self.handles))
        if found.name == "v" and self.writers(found.mount, "v") == [found]:
            self.write_pages(found.mount, found)
        self.handles.remove(found)
        self.confirm(found, trouble, lambda: self.fs[found.mount].flush(found.handle))
        self.fs[found.mount].release(found.handle)

    @precondition(lambda self: self.handles)
    @rule(data=st.data(), trouble=troubles, msync=st.booleans())
    def fsync(self, data: st.DataObject, trouble: Trouble, msync: bool) -> None:
        """The kernel writes pages of mappings back through any handle that can write."""
        found = data.draw(st.sampled_from(self.handles))
        writers = self.writers(found.mount, "v")
        if found.name == "v" and writers:
            self.write_pages(found.mount, data.draw(st.sampled_from(writers)))
        fs = self.fs[found.mount]
        self.confirm(found, trouble, lambda: fs.fsync(found.handle, data_only=msync))

    @rule(mount=mounts, trouble=troubles)
    def sync(self, mount: int, trouble: Trouble) -> None:
        """As a word written to ``.nczfs/flush``."""
        try:
            with self.failing(mount, trouble):
                self.fs[mount].sync()
        except StoreError:
            return
        self.elements_confirmed(mount)
        if mount == 0:
            self.records_confirmed()

    def confirm(self, found: Open, trouble: Trouble, ask: Any) -> None:
        try:
            with self.failing(found.mount, trouble):
                ask()
        except StoreError:
            return
        if not found.writes:
            return
        if found.name == "v":
            self.elements_confirmed(found.mount)
        else:
            self.records_confirmed()

    # Elements

    @precondition(lambda self: self.writers(0, "v") or self.writers(1, "v"))
    @rule(
        data=st.data(),
        start=st.integers(0, LENGTH - 1),
        given=st.lists(values, min_size=1, max_size=2 * CHUNK + 1),
        trouble=troubles,
    )
    def write(self, data: st.DataObject, start: int, given: list[int], trouble: Trouble) -> None:
        found = data.draw(st.sampled_from(self.writers(0, "v") + self.writers(1, "v")))
        if not found.flags & os.O_APPEND:
            self.put(found, start, given[: LENGTH - start], trouble)

    @precondition(lambda self: self.writers(0, "v") or self.writers(1, "v"))
    @rule(data=st.data(), position=st.integers(0, LENGTH - 1), value=values)
    def write_through_a_mapping(self, data: st.DataObject, position: int, value: int) -> None:
        found = data.draw(st.sampled_from(self.writers(0, "v") + self.writers(1, "v")))
        number = position // PAGE
        pages = self.pages[found.mount]
        if number not in pages:
            pages[number] = self.shown(found.mount)[number * PAGE : (number + 1) * PAGE]
        pages[number][position % PAGE] = value

    @precondition(lambda self: self.writers(0, "v") or self.writers(1, "v"))
    @rule(data=st.data())
    def pages_are_written_back(self, data: st.DataObject) -> None:
        found = data.draw(st.sampled_from(self.writers(0, "v") + self.writers(1, "v")))
        self.write_pages(found.mount, found)

    @rule(position=st.integers(0, LENGTH - 1), value=values)
    def another_client_writes(self, position: int, value: int) -> None:
        with self.client("r+") as root:
            root["v"][position] = value
        self.possible[position] = {value}

    def put(self, found: Open, start: int, given: list[int], trouble: Trouble = None) -> None:
        fs = self.fs[found.mount]
        try:
            with self.failing(found.mount, trouble):
                fs.write(found.handle, start * ITEM, np.array(given, "<i4").tobytes())
        except StoreError:
            taken = self.shown(found.mount)
        else:
            taken = [*[FILL] * start, *given]
        for position, value in enumerate(given, start):
            self.written[found.mount].setdefault(position, set()).add(value)
            if taken[position] == value:
                self.latest[found.mount][position] = value
                self.landed[found.mount].discard(position)
            page = self.pages[found.mount].get(position // PAGE)
            if page is not None:
                page[position % PAGE] = value
        self.note_landed(self.stored())  # a whole chunk is stored at once

    def note_landed(self, stored: list[int]) -> None:
        for latest, landed in zip(self.latest, self.landed, strict=True):
            landed |= {p for p, value in enumerate(stored) if latest.get(p) == value}

    def write_pages(self, mount: int, through: Open) -> None:
        for number, page in sorted(self.pages[mount].items()):
            self.put(through, number * PAGE, page)
        self.pages[mount].clear()

    def elements_confirmed(self, mount: int) -> None:
        for position, value in self.latest[mount].items():
            others = self.possible[position] if position in self.landed[mount] else set()
            self.possible[position] = {value, *others}
        self.latest[mount], self.written[mount] = {}, {}
        self.landed[mount].clear()

    # Records

    @precondition(lambda self: self.writers(0, "r"))
    @rule(data=st.data(), count=st.integers(1, 3), value=values, cut=st.integers(1, ITEM * WIDTH))
    def append(self, data: st.DataObject, count: int, value: int, cut: int) -> None:
        """In two pieces, of which the second is the kernel's next append."""
        found = data.draw(st.sampled_from(self.writers(0, "r")))
        given = [value + n for n in range(count * WIDTH)]
        raw = np.array(given, "<i4").tobytes()
        fs = self.fs[0]
        for piece in filter(None, (raw[:cut], raw[cut:])):
            end = self.known[0].size(RAW["r"])
            assert fs.write(found.handle, end, piece) == len(piece)
        self.records += given

    @precondition(lambda self: self.pwriters() and self.records)
    @rule(data=st.data(), value=values)
    def write_in_a_record(self, data: st.DataObject, value: int) -> None:
        found = data.draw(st.sampled_from(self.pwriters()))
        position = data.draw(st.integers(0, len(self.records) - 1))
        self.fs[0].write(found.handle, position * ITEM, np.array([value], "<i4").tobytes())
        self.records[position] = value

    @precondition(lambda self: self.writers(0, "r"))
    @rule(data=st.data(), count=st.integers(0, 3))
    def make_longer(self, data: st.DataObject, count: int) -> None:
        found = data.draw(st.sampled_from(self.writers(0, "r")))
        self.records += [FILL] * (count * WIDTH)
        changes = AttributeChanges(size=len(self.records) * ITEM)
        assert self.fs[0].setattr(self.ino(0, "r"), changes, found.handle).size == changes.size

    def records_confirmed(self) -> None:
        assert raw_array(self.memory, "d.zarr/r").reshape(-1).tolist() == self.records
        try:
            copy = json.loads(bytes(self.memory.read(Key("d.zarr/.zmetadata")).data))
        except StoreError:
            return
        assert copy["metadata"]["r/.zarray"]["shape"] == [len(self.records) // WIDTH, WIDTH]

    # What happens beside

    @rule(mount=mounts, path=st.sampled_from(("", "d.zarr", "d.zarr/v", "datasets/d.zarr/r")))
    def refresh(self, mount: int, path: str) -> None:
        self.fs[mount].refresh(path)
        self.known[mount].forget()

    @rule(mount=mounts, name=st.sampled_from("vr"))
    def change_attributes_through_objects(self, mount: int, name: str) -> None:
        path = f"objects/d.zarr/{name}/.zattrs"
        self.fs[mount].refresh("")
        attributes = json.loads(read(self.fs[mount], path))
        self.others += 1
        write(self.fs[mount], path, json.dumps({**attributes, "turn": self.others}).encode())

    @rule(mount=mounts, name=st.sampled_from("vr"))
    def change_times(self, mount: int, name: str) -> None:
        self.fs[mount].setattr(
            self.ino(mount, name), AttributeChanges(mtime_ns=1, atime_ns=1), None
        )

    @rule(mount=mounts, trouble=troubles)
    def read_with_faults(self, mount: int, trouble: Trouble) -> None:
        try:
            with self.failing(mount, trouble):
                read(self.fs[mount], RAW["v"])
        except StoreError:
            return

    @rule()
    def late_requests_arrive(self) -> None:
        self.memory.land()

    # What holds after each step

    @precondition(lambda self: hasattr(self, "fs"))
    @invariant()
    def each_mount_shows_its_own_and_otherwise_what_the_store_has(self) -> None:
        """SEMANTICS D9, W1, W2."""
        stored = self.stored()
        self.note_landed(stored)
        for position, value in enumerate(stored):
            meanwhile = (written.get(position, set()) for written in self.written)
            may = self.possible[position].union(*meanwhile)
            assert value in may, (position, value, may)
            self.ever[position].add(value)
            if not any(position in written for written in self.written):
                self.possible[position] = {value}
        for mount in range(2):
            latest, landed = self.latest[mount], self.landed[mount]
            dirty = {position // CHUNK for position in latest}
            for position, value in enumerate(self.shown(mount)):
                may = {latest.get(position, stored[position])}
                if position in landed:
                    may |= {stored[position]}
                is_own = position in latest and position not in landed
                if position // CHUNK in dirty and not is_own:
                    may |= self.ever[position]  # as it was when the chunk was read
                assert value in may, (mount, position, value, may)
        content = self.known[0].read(RAW["r"])
        assert np.frombuffer(content, "<i4").tolist() == self.records

    def shown(self, mount: int) -> list[int]:
        return list(map(int, np.frombuffer(self.known[mount].read(RAW["v"]), "<i4")))

    def stored(self) -> list[int]:
        return list(map(int, raw_array(self.memory, "d.zarr/v")))

    def writers(self, mount: int, name: str) -> list[Open]:
        handles = getattr(self, "handles", [])
        return [
            found
            for found in handles
            if found.writes and (found.mount, found.name) == (mount, name)
        ]

    def pwriters(self) -> list[Open]:
        """Where an offset counts: the kernel has every write by O_APPEND begin at the end."""
        return [found for found in self.writers(0, "r") if not found.flags & os.O_APPEND]

    def ino(self, mount: int, name: str) -> Any:
        return self.known[mount].ino(RAW[name])

    def teardown(self) -> None:
        if not hasattr(self, "fs"):
            return
        for mount in range(2):
            for writer in self.writers(mount, "v")[:1]:
                self.write_pages(mount, writer)
        for found in self.handles:
            close(self.fs[found.mount], found.handle)
            if found.writes and found.name == "v":
                self.elements_confirmed(found.mount)
        for mount in range(2):
            self.sync(mount, None)
        self.each_mount_shows_its_own_and_otherwise_what_the_store_has()
        for fs in self.fs:
            fs.close()
        left = [path for path in self.directory.rglob("*") if path.is_file()]
        shutil.rmtree(self.directory)
        assert left == []


TestMounts = Mounts.TestCase
TestMounts.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
