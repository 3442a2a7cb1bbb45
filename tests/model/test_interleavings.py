"""Each operation, stopped at each of its steps, while each other operation is done: all that was
said to be stored is there, whatever came in between."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.structure.dependents import declare
from nczfs.errors import NoSuchNode, NoSuchObject, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import ROOT, Key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.killed import recovered
from tests.support.rawchunks import raw_array
from tests.support.stopping import Steps, Work
from tests.support.trees import find, read, tree_over
from tests.support.writing import close, open_file, rename, write

LENGTH, CHUNK, FILL = 16, 4, -1
OPTIONS = EngineOptions(
    cache_bytes_max=0,
    metadata_ttl_s=0.0,
    store_threads=2,
    fetch_threads=2,
    writes_dependents=True,
)
V, R = "datasets/d.zarr/v/values.raw", "datasets/d.zarr/r/values.raw"
S, MASK = "datasets/s.zarr/g/v/values.raw", "datasets/s.zarr/g/v/mask/values.raw"
ZOM = "datasets/s.zarr/g/zom.json"
MADE = {"zarr_format": 3, "node_type": "group", "attributes": {}, "members": {}}
DOTS: Any = {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}
NETCDF = {"datasets/d.zarr/d.classic.nc": ">i4", "datasets/d.zarr/v/v.nc": "<i4"}
BLOCKED_S = 0.02
"""How long the other one may take before it is believed to wait for the one that has stopped."""
AT_MOST = [1, pytest.param(10**6, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
"""How many steps of an operation are tried with each other one."""


Template: TypeAlias = tuple[dict[Key, bytes], Path]
Operation: TypeAlias = "Callable[[World], None]"


class World:
    """A mount in which files are open and written.

    Parameters
    ----------
    operations : those that will be done; netCDF files are open for them alone.

    Attributes
    ----------
    values, records : what the store must have in the end.
    shards : the same of the arrays in shards.
    group : the name of the group that they are in.
    declared : what that group gets besides.
    contents, names : of the files in the end, by the names that they had.
    """

    def __init__(
        self, memory: MemoryZMap, spool: Path, dead: Path, operations: Collection[Operation]
    ) -> None:
        self.memory, self.spool, self.dead = memory, spool, dead
        options = VfsOptions(engine=OPTIONS, read_only=False, spool_dir=spool, allow_delete=True)
        self.fs: TreeFileSystem = tree_over(memory, options)
        self.values = [FILL] * LENGTH
        self.records: list[int] = []
        self.shards = {name: [FILL] * LENGTH for name in ("v", "v/mask")}
        self.group = "g"
        self.declared: list[object] = [None, None]
        self.contents = {"a": bytearray(64), "b": bytearray(64)}
        self.names = {"a": "dir/a", "b": "dir/b"}
        self.v = [open_file(self.fs, V) for _ in range(2)]
        # The kernel sends one append after another; here they come at once. A file that could be
        # mapped would take the second one for a page of a mapping, for it begins at 0, too.
        self.r = open_file(self.fs, R, os.O_WRONLY | os.O_APPEND)
        self.a = [open_file(self.fs, "objects/dir/a") for _ in range(2)]
        self.inode_of_a = find(self.fs, "objects/dir/a").ino
        self.s = [open_file(self.fs, S) for _ in range(2)]
        self.mask = open_file(self.fs, MASK)
        self.put(self.v[0], 5, 7)
        self.put_in_shards(self.s[0], "v", 5, 7)
        self.put_bytes(self.a[0], 30, b"earlier")
        self.zom: list[HandleNo] = []
        if World.declare in operations:
            self.zom.append(open_file(self.fs, ZOM, os.O_WRONLY | os.O_TRUNC))
            self.text = json.loads(read(self.fs, ZOM))
            self.text["attributes"]["turn"] = 1
            self.text["members"]["made"] = MADE
        names = NETCDF if World.write_netcdf in operations else ()
        self.netcdf = {path: open_file(self.fs, path) for path in names}
        self.begins = {path: self.begin_of_values(path) for path in names}

    def begin_of_values(self, path: str) -> int:
        content = bytes(self.fs.read(self.netcdf[path], 0, 1 << 20))
        return content.index(np.array(self.values, NETCDF[path]).tobytes())

    def put(self, handle: HandleNo, start: int, *given: int) -> None:
        self.fs.write(handle, start * 4, np.array(given, "<i4").tobytes())
        self.values[start : start + len(given)] = given

    def put_in_shards(self, handle: HandleNo, name: str, start: int, *given: int) -> None:
        self.fs.write(handle, start * 4, np.array(given, "<i4").tobytes())
        self.shards[name][start : start + len(given)] = given

    def put_bytes(self, handle: HandleNo, offset: int, data: bytes) -> None:
        self.fs.write(handle, offset, data)
        self.contents["a"][offset : offset + len(data)] = data

    # Operations: each may be in the way of each other one, and what they change is apart

    def write_values(self) -> None:
        self.put(self.v[1], 1, 11, 12)
        self.put(self.v[1], 8, 20, 21, 22, 23)  # a whole chunk

    def sync_values(self) -> None:
        self.fs.fsync(self.v[0], data_only=False)
        assert self.stored_values()[5] == 7

    def write_shards(self) -> None:
        self.put_in_shards(self.s[1], "v", 1, 11, 12)
        self.put_in_shards(self.s[1], "v", 8, *range(20, 28))  # a whole shard

    def sync_shards(self) -> None:
        self.fs.fsync(self.s[0], data_only=False)
        assert any(found[5] == 7 for found in self.stored_shards("v"))

    def write_mask(self) -> None:
        self.put_in_shards(self.mask, "v/mask", 3, 33, 34)
        self.fs.fsync(self.mask, data_only=False)
        assert any(found[3] == 33 for found in self.stored_shards("v/mask"))

    def declare(self) -> None:
        """Make a group and an attribute by a zom.json."""
        self.fs.write(self.zom[0], 0, json.dumps(self.text).encode())
        self.fs.flush(self.zom[0])
        self.declared = ["made", 1]
        assert self.declared in (self.stored_declared(name) for name in "gh")

    def rename_group(self) -> None:
        rename(self.fs, "datasets/s.zarr/g", "datasets/s.zarr/h")
        self.group = "h"

    def write_netcdf(self) -> None:
        for position, path in enumerate(NETCDF, 6):
            data = np.array([position], NETCDF[path]).tobytes()
            self.fs.write(self.netcdf[path], self.begins[path] + position * 4, data)
            self.values[position] = position
            self.fs.fsync(self.netcdf[path], data_only=False)
            assert self.stored_values()[position] == position

    def append(self) -> None:
        self.fs.write(self.r, 0, np.array([1, 2, 3], "<i4").tobytes())
        self.records += [1, 2, 3]
        wanted = list(self.records)  # another append may come during the fsync
        self.fs.fsync(self.r, data_only=False)
        assert self.stored_records()[: len(wanted)] == wanted

    def write_object(self) -> None:
        self.put_bytes(self.a[1], 3, b"written")
        self.fs.flush(self.a[1])

    def sync_object(self) -> None:
        self.fs.fsync(self.a[0], data_only=False)
        found = [bytes(data) for key, data in self.stored_objects().items() if key[-1] in "ac"]
        assert any(data[30:37] == b"earlier" for data in found), found

    def rename_object(self) -> None:
        rename(self.fs, "objects/dir/a", "objects/dir/c")
        self.names["a"] = "dir/c"

    def rename_directory(self) -> None:
        rename(self.fs, "objects/dir", "objects/new")
        self.names = {"a": "new/a", "b": "new/b"}

    def change_times(self) -> None:
        self.fs.setattr(self.inode_of_a, AttributeChanges(mtime_ns=5, atime_ns=5), None)

    def refresh(self) -> None:
        self.fs.refresh("")

    def change_attributes(self) -> None:
        path = "objects/d.zarr/v/.zattrs"
        attributes = json.loads(read(self.fs, path))
        write(self.fs, path, json.dumps({**attributes, "turn": 1}).encode())

    def recover(self) -> None:
        recovered(self.dead, self.memory)
        self.values[14] = 99
        assert self.stored_values()[14] == 99

    def sync_all(self) -> None:
        self.fs.sync()
        assert self.stored_values()[5] == 7

    # The end

    def check(self) -> None:
        handles = (*self.v, self.r, *self.a, *self.netcdf.values(), *self.s, self.mask, *self.zom)
        for handle in handles:
            close(self.fs, handle)
        assert self.stored_values() == self.values
        for name, given in self.shards.items():
            assert list(self.stored_shards(name)) == [given]
            path = f"datasets/s.zarr/{self.group}/{name}/values.raw"
            assert np.frombuffer(read(self.fs, path), "<i4").tolist() == given
        assert self.stored_declared(self.group) == self.declared
        below = f"s.zarr/{self.group}/"
        keys = {str(stat.key) for stat in self.memory.list(parse_prefix("s.zarr"))}
        assert {key for key in keys if not key.startswith(below)} == {"s.zarr/zarr.json"}
        assert self.stored_records() == self.records
        objects = {self.names[name]: data for name, data in self.contents.items()}
        assert self.stored_objects() == objects
        shown = np.frombuffer(read(self.fs, V), "<i4").tolist()
        assert shown == self.values
        for name, data in objects.items():
            assert read(self.fs, f"objects/{name}") == data
        self.fs.close()
        assert [path for path in self.spool.rglob("*") if path.is_file()] == []

    def stored_values(self) -> list[int]:
        return list(map(int, raw_array(self.memory, "d.zarr/v")))

    def stored_shards(self, name: str) -> Iterator[list[int]]:
        """Those of the group by its old name, and then by its new one, while it is renamed."""
        for group in "gh":
            with client(self.memory, "r", "s.zarr") as root, suppress(KeyError, NoSuchNode):
                yield root[f"{group}/{name}"][...].tolist()

    def stored_declared(self, group: str) -> list[object]:
        """The member and the attribute that may be declared."""
        with suppress(NoSuchObject):
            document = json.loads(bytes(self.memory.read(Key(f"s.zarr/{group}/zarr.json")).data))
            made = Key(f"s.zarr/{group}/made/zarr.json")
            is_there = any(stat.key == made for stat in self.memory.list(parse_prefix("s.zarr")))
            return ["made" if is_there else None, document["attributes"].get("turn")]
        return []

    def stored_records(self) -> list[int]:
        return list(map(int, raw_array(self.memory, "d.zarr/r")))

    def stored_objects(self) -> dict[str, bytes]:
        while True:
            with suppress(NoSuchObject):  # it was renamed after it had been listed
                return {
                    str(stat.key): bytes(self.memory.read(stat.key).data)
                    for stat in self.memory.list(ROOT)
                    if not stat.key.startswith(("d.zarr/", "s.zarr/"))
                }


OPERATIONS: tuple[Operation, ...] = (
    World.write_values,
    World.sync_values,
    World.write_shards,
    World.sync_shards,
    World.write_mask,
    World.declare,
    World.rename_group,
    World.write_netcdf,
    World.append,
    World.write_object,
    World.sync_object,
    World.rename_object,
    World.rename_directory,
    World.change_times,
    World.refresh,
    World.change_attributes,
    World.recover,
    World.sync_all,
)
EXCLUDED = (
    # The kernel holds locks by which these come one after the other.
    {World.rename_object, World.rename_directory},
    {World.rename_object, World.change_times},
    # While its directory is being renamed, a file may have no name for a moment: ENOENT.
    {World.rename_directory, World.change_times},
    # The second one would find nothing by the old name.
    {World.rename_group},
    {World.rename_object},
    {World.rename_directory},
    # Each reads the file before it replaces it, and may find it truncated.
    {World.change_attributes},
    # One command waits for the other one before it looks for entries.
    {World.recover},
)
PAIRS = [
    (first, second)
    for first, second in itertools.product(OPERATIONS, repeat=2)
    if {first, second} not in EXCLUDED
]


def client(memory: MemoryZMap, mode: str, name: str = "d.zarr", **options: Any) -> Any:
    return open_zmap(Prefixed(memory, parse_prefix(name)), mode, options=OPTIONS, **options)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """What the store holds in the beginning, and the spool of a mount that was killed."""
    memory = MemoryZMap()
    with client(memory, "w") as root:
        root.create_dimension("x", LENGTH)
        root.create_dimension("t", None)
        root.create_variable("v", ("x",), "i4", chunks=(CHUNK,), fillvalue=FILL, codecs=[])
        root.create_variable("r", ("t",), "i4", chunks=(CHUNK,), fillvalue=FILL, codecs=[])
    with client(memory, "w", "s.zarr", format="zarr3") as root:
        group = root.create_group("g")
        group.create_dimension("x", LENGTH)
        group.create_variable(
            "v", ("x",), "i4", chunks=(2,), shards=(8,), fillvalue=FILL, codecs=[]
        )
        declare(root.engine_dataset, "g/v", "mask", DOTS)
    for name in ("a", "b"):
        memory.write(Key(f"dir/{name}"), bytes(64))
    dead = tmp_path_factory.mktemp("interleavings") / "dead"
    faulty = Faulty(memory)
    options = VfsOptions(engine=OPTIONS, read_only=False, spool_dir=dead)
    fs = tree_over(faulty, options)
    handle = open_file(fs, V)
    fs.write(handle, 14 * 4, np.array([99], "<i4").tobytes())
    faulty.arm(Fault(0, operations=frozenset({"write"}), repeats=10**9))
    with pytest.raises(Unavailable):
        fs.flush(handle)
    fs.close()
    stored = {stat.key: bytes(memory.read(stat.key).data) for stat in memory.list(ROOT)}
    return stored, dead


@contextmanager
def world(template: Template, place: Path, *operations: Operation) -> Iterator[World]:
    stored, dead = template
    memory = MemoryZMap()
    for key, data in stored.items():
        memory.write(key, data)
    shutil.copytree(dead, place / "dead")
    try:
        yield World(memory, place / "spool", place / "dead", operations)
    finally:
        shutil.rmtree(place)


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    for text in (
        "but kept in",
        "not stored at its last close",
        "tried again",
        "pieces of what",
        "may no longer match",
    ):
        expected_warnings.add(text)


@pytest.mark.parametrize("at_most", AT_MOST)
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda operation: operation.__name__)
def test_another_operation_comes_between_two_steps(
    template: Template,
    tmp_path: Path,
    first: Operation,
    second: Operation,
    at_most: int,
) -> None:
    """SEMANTICS O6, O11, O12, O14, W1, W2, W8, W20."""
    watched = Steps()
    with world(template, tmp_path / "alone", first) as alone:
        watched.start(lambda: first(alone)).end()
        alone.check()
    count = len(watched.names)
    drawn = random.Random(f"{first.__name__} {second.__name__}")
    for step in drawn.sample(range(count), min(count, at_most)):
        try:
            _interleave(template, tmp_path / "world", first, step, second)
        except BaseException as error:
            error.add_note(f"before the step {watched.names[step]}")
            raise


def _interleave(
    template: Template,
    place: Path,
    first: Operation,
    step: int,
    second: Operation,
) -> None:
    steps = Steps(step)
    with world(template, place, first, second) as found:
        stopped = steps.start(lambda: first(found))
        other = Work(lambda: second(found))
        other.wait(BLOCKED_S)
        steps.go_on()
        stopped.end()
        other.end()
        found.check()
