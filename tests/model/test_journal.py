"""Mounts with a journal that are killed at any time: every write that was acknowledged is there."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from nczfs.buffers import Values
from nczfs.engine.options import EngineOptions
from nczfs.engine.spool import log as spool_log
from nczfs.engine.spool.space import Survives
from nczfs.errors import NczfsError, StoreError
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_json
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import Key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.support.killed import Kept, left_by, recovered
from tests.support.trees import find, read, tree_and_engine_over
from tests.support.writing import close, open_file

SHAPE, CHUNKS = (5, 6), (2, 4)
SIZE = 4 * 5 * 6
RECORD = 4 * 3
OBJECT = 300
DOWN = Fault(0, operations=frozenset({"write", "write_parts", "copy"}), repeats=10**9)
LOST = Fault(0, after=True, operations=frozenset({"write"}), repeats=10**9)

variables = st.sampled_from(("v", "w"))
objects = st.sampled_from(("a", "b"))
offsets = st.integers(0, SIZE - 1)
pieces = st.binary(min_size=1, max_size=40)


@contextmanager
def quiet() -> Iterator[None]:
    """What the store refuses is logged, and is no news here."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class KilledMounts(RuleBasedStateMachine):
    """Two variables, one that grows, and two objects, through mounts of which none ends well.

    Attributes
    ----------
    values, records, objects : the bytes that must be there.
    handles : of the open files.
    object_shape : of the elements in one object.
    """

    object_shape = CHUNKS

    fs: TreeFileSystem

    @initialize(segment_bytes=st.sampled_from((300, 1 << 20)), consolidated=st.booleans())
    def begin(self, segment_bytes: int, consolidated: bool) -> None:
        self.patched = mock.patch.object(spool_log, "FILE_BYTES", segment_bytes)
        self.patched.start()
        self.place = Path(tempfile.mkdtemp(prefix="nczfs-test-"))
        self.numbers = itertools.count()
        self.memory = MemoryZMap()
        first = np.arange(30, dtype="<i4").reshape(SHAPE)
        self.consolidated = consolidated
        self.make_dataset(first)
        self.values = {name: bytearray(first.tobytes()) for name in ("v", "w")}
        self.records = bytearray(first[:1, :3].tobytes())
        self.objects = {name: bytearray(os.urandom(OBJECT)) for name in ("a", "b")}
        for name, data in self.objects.items():
            self.memory.write(Key(name), bytes(data))
        self.mount()

    def make_dataset(self, first: Values) -> None:
        with open_zmap(self.inside(), "w", consolidated=self.consolidated) as root:
            root.create_dimension("t", None)
            for name in ("v", "w"):
                root.create_variable(name, SHAPE, "i4", first, chunks=CHUNKS)
            root.create_variable("r", ("t", 3), "i4", first[:1, :3], chunks=(40, 3))

    def inside(self) -> Prefixed:
        return Prefixed(Kept(self.memory), parse_prefix("data"))

    def mount(self) -> None:
        self.faulty = Faulty(Kept(self.memory))
        self.spool_dir = self.place / f"spool{next(self.numbers)}"
        options = VfsOptions(
            engine=EngineOptions(
                cache_bytes_max=0, store_threads=2, decode_threads=2, metadata_ttl_s=0
            ),
            read_only=False,
            spool_dir=self.spool_dir,
            survives=Survives.KILL,
        )
        self.fs, self.engine = tree_and_engine_over(self.faulty, options)
        self.handles: dict[str, HandleNo] = {}

    def handle(self, path: str) -> HandleNo:
        if path not in self.handles:
            self.handles[path] = open_file(self.fs, path)
        return self.handles[path]

    @rule(name=variables, offset=offsets, data=pieces)
    def write_values(self, name: str, offset: int, data: bytes) -> None:
        self.write_at(name, self.values[name], offset, data[: SIZE - offset])

    @rule(name=variables, row=st.integers(0, 1), value=st.integers(0, 255))
    def write_whole_chunks(self, name: str, row: int, value: int) -> None:
        data = bytes([value]) * (CHUNKS[0] * SHAPE[1] * 4)
        self.write_at(name, self.values[name], row * len(data), data)

    @rule(count=st.integers(1, 3), value=st.integers(0, 255))
    def append_records(self, count: int, value: int) -> None:
        self.write_at("r", self.records, len(self.records), bytes([value]) * (RECORD * count))

    def write_at(self, name: str, known: bytearray, offset: int, data: bytes) -> None:
        path = f"datasets/data/{name}/values.raw"
        try:
            self.fs.write(self.handle(path), offset, data)
        except StoreError:
            found = read(self.fs, path)
            self.check_refused(known, offset, data, found)
            known[:] = found
        else:
            known[offset : offset + len(data)] = data

    def check_refused(self, known: bytearray, offset: int, data: bytes, found: bytes) -> None:
        """A write that was refused may have written a part of its bytes, and nothing else."""
        for at, byte in enumerate(found):
            is_old = at >= len(known) or byte == known[at]
            assert is_old or byte == data[at - offset]

    @rule(name=objects, offset=st.integers(0, OBJECT + 50), data=pieces)
    def write_object(self, name: str, offset: int, data: bytes) -> None:
        self.fs.write(self.handle(f"objects/{name}"), offset, data)
        known = self.objects[name]
        known.extend(bytes(max(0, offset - len(known))))
        known[offset : offset + len(data)] = data

    @rule(name=objects, size=st.integers(0, OBJECT + 50))
    def truncate_object(self, name: str, size: int) -> None:
        path = f"objects/{name}"
        handle = self.handle(path)
        self.fs.setattr(find(self.fs, path).ino, AttributeChanges(size=size), handle)
        known = self.objects[name]
        known.extend(bytes(max(0, size - len(known))))
        del known[size:]

    @rule()
    def the_store_fails(self) -> None:
        self.faulty.arm(DOWN)

    @rule(count=st.integers(1, 4))
    def the_store_fails_after_some_writes(self, count: int) -> None:
        """For instance after a length, and before the consolidated copy of it."""
        self.faulty.arm(replace(DOWN, call=count))

    @rule()
    def answers_are_lost(self) -> None:
        self.faulty.arm(LOST)

    @rule()
    def the_store_works(self) -> None:
        self.faulty.arm()

    @precondition(lambda self: bool(getattr(self, "handles", None)))
    @rule(data=st.data(), closing=st.booleans())
    def end_a_file(self, data: st.DataObject, closing: bool) -> None:
        path = data.draw(st.sampled_from(sorted(self.handles)))
        try:
            with quiet():
                if closing:
                    close(self.fs, self.handles.pop(path))
                else:
                    self.fs.fsync(self.handles[path], data_only=False)
        except NczfsError:
            if closing and path.startswith("objects/"):
                self.kill()  # what could not be stored is in the spool, and shown no more

    @rule()
    def store_everything(self) -> None:
        with suppress(StoreError):
            self.fs.sync()

    @rule()
    def store_the_chunks_alone(self) -> None:
        """As the background does."""
        with suppress(StoreError):
            self.engine.writeback.flush()

    @rule(name=variables, row=st.integers(0, 4), column=st.integers(0, 5), value=st.integers(0, 9))
    def another_client_writes(self, name: str, row: int, column: int, value: int) -> None:
        with quiet(), suppress(StoreError):
            self.fs.fsync(self.handle(f"datasets/data/{name}/values.raw"), data_only=False)
            with open_zmap(self.inside(), "r+") as root:
                root.variables[name][row, column] = value
            offset = 4 * (row * SHAPE[1] + column)
            self.values[name][offset : offset + 4] = np.int32(value).tobytes()

    @rule(
        name=variables, row=st.integers(0, 4), column=st.integers(0, 5), value=st.integers(10, 19)
    )
    def kill_and_another_client_writes(self, name: str, row: int, column: int, value: int) -> None:
        """What it stored is newer than what is put back, and stays; so does all of its object."""
        left = left_by(self.spool_dir, self.place / f"left{next(self.numbers)}")
        self.end()
        with open_zmap(self.inside(), "r+") as root:
            root.variables[name][row, column] = value
            rows, columns = (
                slice(at // count * count, at // count * count + count)
                for at, count in zip((row, column), self.object_shape, strict=True)
            )
            theirs = root.variables[name][rows, columns]
        refused = recovered(left, self.memory, refusing=True)
        assert len(refused) <= np.prod(self.object_shape) // np.prod(CHUNKS)
        known = np.frombuffer(self.values[name], "<i4").reshape(SHAPE).copy()
        known[row, column] = value
        if refused:
            known[rows, columns] = theirs
        self.values[name] = bytearray(known.tobytes())
        self.check(left)

    @rule()
    def kill(self) -> None:
        left = left_by(self.spool_dir, self.place / f"left{next(self.numbers)}")
        self.end()
        recovered(left, self.memory)
        self.check(left)

    def check(self, left: Path) -> None:
        """Everything is where it must be, and the next mount begins."""
        assert list(left.iterdir()) == []
        with open_zmap(self.inside()) as root:
            for name, data in self.values.items():
                assert root.variables[name][...].tobytes() == bytes(data), name
            assert root.variables["r"][...].tobytes() == bytes(self.records)
        if self.consolidated:
            copy = json.loads(bytes(self.memory.read(Key("data/.zmetadata")).data))
            assert copy["metadata"]["r/.zarray"]["shape"] == [len(self.records) // RECORD, 3]
        for name, data in self.objects.items():
            assert bytes(self.memory.read(Key(name)).data) == bytes(data), name
        self.mount()

    def end(self) -> None:
        """Give back what a process gives back by ending; nothing reaches the store any more."""
        self.faulty.arm(DOWN)
        with quiet():
            self.fs.close()

    def teardown(self) -> None:
        if hasattr(self, "fs"):
            self.kill()
            self.end()
            shutil.rmtree(self.place)
            self.patched.stop()


class KilledMountsOfShards(KilledMounts):
    """The same mounts, with two chunks in each object; no array grows."""

    object_shape = CHUNKS[0], 2 * CHUNKS[1]

    @initialize(segment_bytes=st.sampled_from((300, 1 << 20)))
    def begin(self, segment_bytes: int) -> None:
        super().begin(segment_bytes, consolidated=False)

    def make_dataset(self, first: Values) -> None:
        put_json(self.inside(), "zarr.json", {"zarr_format": 3, "node_type": "group"})
        for name in ("v", "w", "r"):
            put_json(
                self.inside(),
                f"{name}/zarr.json",
                sharded_array(first[:1, :3] if name == "r" else first),
            )
        with open_zmap(self.inside(), "r+") as root:
            for name in ("v", "w"):
                root.variables[name][...] = first
            root.variables["r"][...] = first[:1, :3]

    def append_records(self, count: int, value: int) -> None:
        """No rule here."""


def sharded_array(values: Values) -> dict[str, Any]:
    """The document of an array with two chunks in each object."""
    numbers = {"name": "bytes", "configuration": {"endian": "little"}}
    inside = {
        "chunk_shape": CHUNKS,
        "codecs": [numbers],
        "index_codecs": [numbers, {"name": "crc32c"}],
    }
    shape = KilledMountsOfShards.object_shape
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": values.shape,
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shape}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": inside}],
    }


TestKilledMounts = KilledMounts.TestCase
TestKilledMounts.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)

TestKilledMountsOfShards = KilledMountsOfShards.TestCase
TestKilledMountsOfShards.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_records_are_in_the_consolidated_metadata_after_a_kill_between_two_documents(
    count: int,
) -> None:
    """SEMANTICS W21."""
    mounts = KilledMounts()
    mounts.begin(segment_bytes=300, consolidated=True)
    mounts.append_records(2, 7)
    mounts.the_store_fails_after_some_writes(count)
    with quiet(), pytest.raises(NczfsError):
        mounts.fs.fsync(mounts.handle("datasets/data/r/values.raw"), data_only=False)
    mounts.faulty.arm()
    mounts.kill()
    mounts.teardown()
