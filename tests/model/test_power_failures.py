"""The power fails at any time: what was said to be on the disk is there, and nothing is torn."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.space import Survives
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import ROOT, Key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.killed import recovered
from tests.support.power import Disk
from tests.support.trees import tree_over
from tests.support.writing import open_file

KEYS = ("a", "b", "d/a", "d/e/a")
LENGTH = 16
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
        elements = open_file(fs, "datasets/d.zarr/v/values.raw", os.O_WRONLY)
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
