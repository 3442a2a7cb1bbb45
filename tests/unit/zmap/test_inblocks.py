"""A far archive is read in blocks, of which each is asked for once."""

from __future__ import annotations

import random
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO

import pytest

from nczfs.errors import Conflict, ReadOnlyStore, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import Blob, Features, Version, ZMap
from nczfs.zmap.inblocks import BLOCK_BYTES, KEPT_BLOCKS, InBlocks
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import archive_in
from nczfs.zmap.wrappers import ReadOnly

KEY = Key("data.zip")
DATA = random.Random(0).randbytes(5 * BLOCK_BYTES // 2)


class Counting(ReadOnly):
    """Counts reads, and calls itself far."""

    def __init__(self, zmap: ZMap) -> None:
        super().__init__(zmap)
        self.reads: list[tuple[int, int | None]] = []

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self.reads.append((start, stop))
        return super().read(key, start, stop, version=version)


@pytest.fixture
def inner() -> MemoryZMap:
    inner = MemoryZMap()
    inner.write(KEY, DATA)
    return inner


@pytest.fixture
def far(inner: MemoryZMap) -> Counting:
    return Counting(inner)


def test_every_range_is_what_the_object_has(far: Counting) -> None:
    zmap = InBlocks(far)
    version = zmap.stat(KEY).version
    dice = random.Random(1)
    for _ in range(500):
        start = dice.randrange(len(DATA) + 10)
        stop = start + dice.choice([0, 1, 100, BLOCK_BYTES, 3 * BLOCK_BYTES, 10 * BLOCK_BYTES])
        blob = zmap.read(KEY, start, stop, version=version)
        assert bytes(blob.data) == DATA[start:stop]
        assert (blob.version, blob.object_size) == (version, len(DATA))
    assert bytes(zmap.read(KEY, 5, version=version).data) == DATA[5:]
    assert bytes(zmap.read(KEY, 5, 9).data) == DATA[5:9]


def test_neighbours_are_one_request_and_come_from_memory_then(far: Counting) -> None:
    zmap = InBlocks(far)
    version = zmap.stat(KEY).version
    zmap.read(KEY, BLOCK_BYTES - 5, BLOCK_BYTES + 5, version=version)
    for start in range(0, 2 * BLOCK_BYTES - 100, 10_000):
        zmap.read(KEY, start, start + 100, version=version)
    assert far.reads == [(0, 2 * BLOCK_BYTES)]


def test_threads_that_need_one_block_ask_once(far: Counting) -> None:
    zmap = InBlocks(far)
    version = zmap.stat(KEY).version
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(
            lambda start: bytes(zmap.read(KEY, start, start + 9, version=version).data), range(64)
        )
        assert [*found] == [DATA[start : start + 9] for start in range(64)]
    assert len(far.reads) == 1


def test_a_failure_is_told_and_not_kept(inner: MemoryZMap) -> None:
    zmap = InBlocks(Faulty(inner, Fault(0, operations=frozenset({"read"}))))
    version = zmap.stat(KEY).version
    with pytest.raises(Unavailable, match=KEY):
        zmap.read(KEY, 0, 10, version=version)
    assert bytes(zmap.read(KEY, 0, 10, version=version).data) == DATA[:10]


def test_another_version_is_a_conflict(inner: MemoryZMap, far: Counting) -> None:
    zmap = InBlocks(far)
    version = zmap.stat(KEY).version
    inner.write(KEY, b"new")
    with pytest.raises(Conflict):
        zmap.read(KEY, 0, 10, version=version)


def test_no_more_blocks_are_kept_than_there_is_room_for(inner: MemoryZMap, far: Counting) -> None:
    inner.write(KEY, bytes((KEPT_BLOCKS + 10) * BLOCK_BYTES))
    zmap = InBlocks(far)
    version = zmap.stat(KEY).version
    for number in range(KEPT_BLOCKS + 10):
        zmap.read(KEY, number * BLOCK_BYTES, number * BLOCK_BYTES + 1, version=version)
    assert len(vars(zmap)["_blocks"]) == KEPT_BLOCKS


def test_it_is_for_reading(far: Counting) -> None:
    zmap = InBlocks(far)
    with pytest.raises(ReadOnlyStore):
        zmap.write(KEY, b"")
    with pytest.raises(ReadOnlyStore):
        zmap.delete(KEY)
    assert [entry.name for entry in zmap.search(ROOT)] == [stat.key for stat in zmap.list(ROOT)]


def test_the_documents_of_a_far_archive_come_in_few_requests(
    inner: MemoryZMap,
) -> None:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(".zgroup", b"{}")
        for number in range(100):
            archive.writestr(f"a{number}/.zarray", b"{}" * 300)
            archive.writestr(f"a{number}/0", bytes(1000))
    inner.write(KEY, file.getvalue())
    far = Counting(inner)
    zmap = archive_in(far, KEY)
    for number in range(100):
        assert zmap.read(Key(f"a{number}/.zarray")).object_size == 600
    assert len(far.reads) <= 3
    zmap.close()
