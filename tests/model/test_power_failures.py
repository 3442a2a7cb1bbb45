"""The power fails at any time: what was said to be on the disk is there, and nothing is torn."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.space import Survives
from nczfs.errors import NoSuchObject, StoreError
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.base import HandleNo
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import ROOT, Key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.killed import copied, recovered
from tests.support.power import Disk
from tests.support.trees import tree_over
from tests.support.writing import open_file

KEYS = ("a", "b", "d/a", "d/e/a")
LENGTH = 16
VALUES = "datasets/d.zarr/v/values.raw"
WRITES = [40, pytest.param(2000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize("writes", WRITES)
def test_a_durable_directory_has_each_object_whole_as_it_was_written_last(
    tmp_path: Path, writes: int
) -> None:
    root = tmp_path / "store"
    root.mkdir()
    disk = Disk(root)
    zmap = DirectoryZMap(root, durable=True)
    drawn = random.Random(writes)
    stored: dict[str, bytes] = {}

    def found() -> dict[str, bytes]:
        copy = disk.after_failure(tmp_path / "copy")
        after = DirectoryZMap(copy, read_only=True)
        objects = {str(s.key): bytes(after.read(s.key).data) for s in after.list(ROOT)}
        after.close()
        shutil.rmtree(copy)
        return objects

    with disk.watched():
        for number in range(writes):
            key, old = drawn.choice(KEYS), dict(stored)
            if key in stored and drawn.random() < 0.3:
                new = {known: data for known, data in old.items() if known != key}
            else:
                new = {**old, key: b"%d " % number * drawn.randrange(1, 2000)}
            between: list[dict[str, bytes]] = []
            disk.before_sync = lambda into=between: into.append(found())  # type: ignore[misc]
            if key in new:
                zmap.write(Key(key), new[key])
            else:
                zmap.delete(Key(key))
            disk.before_sync = lambda: None
            assert all(each in (old, new) for each in between)
            assert found() == new
            stored = new
    zmap.close()


@pytest.fixture
def memory() -> MemoryZMap:
    memory = MemoryZMap()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w") as root:
        root.create_variable("v", (LENGTH,), "i4", chunks=(4,), fillvalue=-1, codecs=[])
    return memory


def _copy_of(memory: MemoryZMap) -> MemoryZMap:
    copy = MemoryZMap()
    for stat in memory.list(ROOT):
        copy.write(stat.key, memory.read(stat.key).data)
    return copy


@pytest.mark.parametrize("writes", WRITES)
def test_a_journal_that_is_synced_has_whatever_write_returned_for(
    memory: MemoryZMap, tmp_path: Path, writes: int, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W21."""
    expected_warnings.add("kept in|saved in|tried again|not stored")
    spool = tmp_path / "spool"
    spool.mkdir()
    disk = Disk(spool)
    faulty = Faulty(memory)
    options = VfsOptions(
        engine=EngineOptions(cache_bytes_max=0),
        read_only=False,
        spool_dir=spool,
        survives=Survives.POWER,
    )
    drawn = random.Random(writes)
    values, content = np.full(LENGTH, -1, "<i4"), bytearray()
    with disk.watched():
        fs = tree_over(faulty, options)
        faulty.arm(Fault(0, operations=frozenset({"write", "write_parts"}), repeats=10**9))
        elements = open_file(fs, VALUES, os.O_WRONLY)
        file = open_file(fs, "objects/file", os.O_WRONLY | os.O_CREAT)
        for number in range(writes):
            if drawn.random() < 0.5:
                at = drawn.randrange(LENGTH)
                fs.write(elements, at * 4, np.array([number], "<i4").tobytes())
                values[at] = number
            else:
                at, data = drawn.randrange(len(content) + 1), b"%d " % number * 9
                fs.write(file, at, data)
                content[at : at + len(data)] = data
            store = _copy_of(memory)
            copy = disk.after_failure(tmp_path / "copy")
            recovered(copy, store)
            shutil.rmtree(copy)
            with open_zmap(Prefixed(store, parse_prefix("d.zarr"))) as root:
                np.testing.assert_array_equal(root.variables["v"][...], values)
            if content:
                assert bytes(store.read(Key("file")).data) == content
        faulty.arm()
        for handle in (elements, file):
            fs.flush(handle)
            fs.release(handle)
        fs.close()
    assert [path for path in spool.rglob("*") if path.is_file()] == []


class Mounted:
    """A mount with a journal that is synced, one variable and one object, and who else writes them.

    Attributes
    ----------
    pending : the elements that were written here and are not known to be stored.
    overtaken : the chunks of which another client has stored other elements meanwhile.
    content : of the object, written here and not known to be stored; None: nothing was.
    """

    def __init__(self, memory: MemoryZMap, spool: Path) -> None:
        self.memory = memory
        self.faulty = Faulty(memory)
        self.pending: dict[int, int] = {}
        self.overtaken: set[int] = set()
        self.content: bytes | None = None
        self._fs = tree_over(
            self.faulty,
            VfsOptions(
                engine=EngineOptions(cache_bytes_max=0, metadata_ttl_s=0),
                read_only=False,
                spool_dir=spool,
                survives=Survives.POWER,
            ),
        )
        self._elements = open_file(self._fs, VALUES, os.O_RDWR)
        self._file: HandleNo | None = None

    def write_element(self, drawn: random.Random, number: int) -> None:
        at = drawn.randrange(LENGTH)
        self._fs.write(self._elements, at * 4, np.array([number], "<i4").tobytes())
        self.pending[at] = number

    def write_object(self, drawn: random.Random, number: int) -> None:
        if self._file is None:
            self._file = open_file(self._fs, "objects/file", os.O_RDWR | os.O_CREAT)
        content = self.content
        if content is None:
            content = bytes(self._fs.read(self._file, 0, 10_000))
        at, data = drawn.randrange(len(content) + 1), b"%d " % number * 9
        self._fs.write(self._file, at, data)
        self.content = content[:at] + data + content[at + len(data) :]

    def sync_elements(self, drawn: random.Random, number: int) -> None:
        with suppress(StoreError):
            self._fs.fsync(self._elements, data_only=False)
            self.pending.clear()
            self.overtaken.clear()

    def close_object(self, drawn: random.Random, number: int) -> None:
        if self._file is not None:
            with suppress(StoreError):
                self._fs.flush(self._file)
                self._fs.release(self._file)
                self._file, self.content = None, None

    def another_client_writes_an_element(self, drawn: random.Random, number: int) -> None:
        at = drawn.choice([each for each in range(LENGTH) if each not in self.pending] or [0])
        if at not in self.pending:
            with open_zmap(Prefixed(self.memory, parse_prefix("d.zarr")), "r+") as root:
                root.variables["v"][at] = -number
            self.overtaken.add(at // 4)

    def another_client_writes_the_object(self, drawn: random.Random, number: int) -> None:
        if self._file is None:
            self.memory.write(Key("file"), b"another %d" % number * drawn.randrange(1, 20))

    def the_store_fails(self, drawn: random.Random, number: int) -> None:
        after = drawn.random() < 0.5
        self.faulty.arm(
            Fault(0, after=after, operations=frozenset({"write", "write_parts"}), repeats=10**9)
        )

    def the_store_works(self, drawn: random.Random, number: int) -> None:
        self.faulty.arm()

    def check(self, spool: Path) -> None:
        """What recover makes of what the power failure has left of the spool."""
        before = self._stored(self.memory)
        store = copied(self.memory)
        refused = recovered(spool, store, refusing=True)
        assert all(what.startswith("d.zarr/v[") for what in refused)
        assert self.overtaken or not refused
        values, content = self._stored(store)
        for at, value in enumerate(values):
            wanted = {self.pending.get(at, before[0][at])}
            if at // 4 in self.overtaken:
                wanted.add(before[0][at])
            assert value in wanted, (at, value, wanted)
        assert content == (before[1] if self.content is None else self.content)

    def close(self) -> None:
        self.faulty.arm()
        self.sync_elements(random.Random(), 0)
        self._fs.release(self._elements)
        self.close_object(random.Random(), 0)
        self._fs.close()

    @staticmethod
    def _stored(store: MemoryZMap) -> tuple[list[int], bytes | None]:
        with open_zmap(Prefixed(store, parse_prefix("d.zarr"))) as root:
            values = root.variables["v"][...].tolist()
        try:
            return values, bytes(store.read(Key("file")).data)
        except NoSuchObject:
            return values, None


@pytest.mark.parametrize("writes", WRITES)
def test_nothing_old_comes_back_of_what_was_stored_before_a_power_failure(
    memory: MemoryZMap, tmp_path: Path, writes: int, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W21, W51: neither over what the mount stored later, nor over another client's."""
    expected_warnings.add("kept in|saved in|tried again|not stored")
    spool = tmp_path / "spool"
    spool.mkdir()
    disk = Disk(spool)
    drawn = random.Random(writes)
    with disk.watched():
        mounted = Mounted(memory, spool)
        actions = [
            *[mounted.write_element] * 3,
            *[mounted.write_object] * 2,
            *[mounted.sync_elements] * 3,
            *[mounted.close_object] * 2,
            *[mounted.another_client_writes_an_element] * 2,
            mounted.another_client_writes_the_object,
            mounted.the_store_fails,
            *[mounted.the_store_works] * 2,
        ]
        for number in range(1, writes + 1):
            drawn.choice(actions)(drawn, number)
            copy = disk.after_failure(tmp_path / "copy")
            mounted.check(copy)
            shutil.rmtree(copy)
        mounted.close()
    assert [path for path in spool.rglob("*") if path.is_file()] == []
