"""The map of dirty chunks: what leaves it is forgotten everywhere, and the versions it knows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.chunkio import ChunkIO
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.options import MissingChunks
from nczfs.engine.writing.dirtymap import DirtyMap
from nczfs.errors import StructureChanged, Unavailable
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import ABSENT, Features, Version
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from tests.support.gated import WAIT_S
from tests.support.spooling import CHUNK, CHUNK_BYTES, Mount, mounted, new_memory

CLIP = Box((0,), (CHUNK,))


class Undated(Faulty):
    """A store whose objects have no times."""

    @property
    def features(self) -> Features:
        return replace(super().features, dates_objects=False)


@pytest.fixture
def memory() -> MemoryZMap:
    return new_memory()


@pytest.fixture
def mount(memory: MemoryZMap, tmp_path: Path) -> Iterator[Mount]:
    with mounted(memory, tmp_path) as mount:
        yield mount


def chunks_of(mount: Mount, zmap: MemoryZMap | Faulty) -> ChunkStore:
    place = ArrayPlace(parse_prefix("v"))
    return ChunkIO(zmap, place, mount.v.description, MissingChunks.FILL)


def test_a_chunk_that_leaves_is_forgotten_and_its_memory_given_back(mount: Mount) -> None:
    dirty, unused = mount.writeback._dirty, mount.engine.cache.used_bytes
    first, second = ((mount.v.stored, (index,)) for index in range(2))
    mount.write(0, 1)
    one = dirty.nbytes
    mount.write(CHUNK, 2)
    assert (one > 0, dirty.nbytes) == (True, 2 * one)
    assert mount.engine.cache.used_bytes == unused + dirty.nbytes
    assert dirty.ids(lambda _: True) == [first, second]
    left = dirty.drop(first)
    assert left is not None
    assert dirty.ids(lambda array: array is mount.v.stored) == [second]
    assert (dirty.nbytes, dirty.decoded_bytes, list(dirty.chunks)) == (one, CHUNK_BYTES, [second])
    assert dirty.has_any(lambda array: array is mount.v.stored)
    dirty.drop(second)
    assert not dirty.has_any(lambda _: True)
    assert (dirty.nbytes, dirty.decoded_bytes, dirty.all()) == (0, 0, [])
    assert mount.engine.cache.used_bytes == unused
    assert not left.unit.chunks
    assert dirty.drop(first) is None


def test_what_is_left_of_a_chunk_is_no_moment_unseen(
    mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W1: readers, and an fsync, look without a lock."""
    dirty, here, found = mount.writeback._dirty, (mount.v.stored, (0,)), []
    take = DirtyMap._take

    def take_and_look(dirty: DirtyMap, nbytes: int) -> None:
        take(dirty, nbytes)
        with ThreadPoolExecutor(1) as pool:
            values = pool.submit(mount.read, 0, 2).result(WAIT_S)
        found.append((values, [each.index for each in dirty.units([here])]))

    mount.write(0, 1, 2, 3)
    with monkeypatch.context() as patched:
        patched.setattr(DirtyMap, "_take", take_and_look)
        dirty.retract(here, mount.v.writer(), Box((2,), (3,)))
    assert found == [([1, 2], [(0,)])]


def test_of_an_array_that_is_gone_nothing_is_taken_out(mount: Mount) -> None:
    """The next flush puts it into the spool."""
    dirty, here = mount.writeback._dirty, (mount.v.stored, (0,))
    mount.write(0, 1, 2)
    mount.v.stored.end("another client has removed it")
    with pytest.raises(StructureChanged):
        dirty.retract(here, mount.v.writer(), Box((0,), (1,)))
    chunk = dirty.chunks[here]
    assert chunk.copy_of(Box((0,), (2,))).tolist() == [1, 2]
    dirty.drop(here)


def test_a_chunk_that_left_is_made_anew(mount: Mount) -> None:
    dirty, here = mount.writeback._dirty, (mount.v.stored, (0,))
    mount.write(0, 1)
    left = dirty.drop(here)
    assert left is not None
    again = dirty.entry(here, mount.v.writer(), CLIP)
    assert again is dirty.entry(here, mount.v.writer(), CLIP)
    assert (again is left, again.unit is left.unit) == (False, False)
    dirty.remove_unwritten(here, again)


def test_the_versions_of_a_dated_store_are_asked_for_by_nobody(
    mount: Mount, memory: MemoryZMap
) -> None:
    """The time of a version says as well whether it is newer than a write."""
    dirty, io, array = mount.writeback._dirty, chunks_of(mount, memory), mount.v.stored
    assert dirty.known_version((array, (0,)), io) is None
    mount.read(0, CHUNK)
    assert dirty.known_version((array, (0,)), io) == ABSENT
    memory.write(parse_key("v/1"), np.full(CHUNK, 7, "<i4").tobytes())
    assert dirty.known_version((array, (1,)), io) is None
    mount.read(CHUNK, 2 * CHUNK)
    assert dirty.known_version((array, (1,)), io) == memory.stat(parse_key("v/1")).version
    dirty.versions.note((array, (2,)), Version("stored here"))
    assert dirty.known_version((array, (2,)), io) == "stored here"


def test_a_store_without_times_is_asked_for_versions_that_are_not_known(
    mount: Mount, memory: MemoryZMap
) -> None:
    zmap = Undated(memory)
    dirty, io, array = mount.writeback._dirty, chunks_of(mount, zmap), mount.v.stored
    assert dirty.known_version((array, (0,)), io) == ABSENT
    memory.write(parse_key("v/1"), bytes(CHUNK_BYTES))
    assert dirty.known_version((array, (1,)), io) == memory.stat(parse_key("v/1")).version
    zmap.arm(Fault(0, Unavailable, operations=frozenset({"stat"}), repeats=10**9))
    assert dirty.known_version((array, (1,)), io) is None
    dirty.versions.note((array, (2,)), Version("stored here"))
    assert dirty.known_version((array, (2,)), io) == "stored here"


def test_chunks_are_lent_only_where_nothing_of_their_object_is_dirty(mount: Mount) -> None:
    dirty, array = mount.writeback._dirty, mount.v.stored
    lent: dict[ChunkIndex, tuple[Box, Values]] = {(0,): (CLIP, np.zeros(CHUNK, "<i4"))}
    mount.write(0, 1)
    assert dirty.lend((array, (0,)), mount.v.writer(), lent) is None
    dirty.drop((array, (0,)))
    found = dirty.lend((array, (0,)), mount.v.writer(), lent)
    assert found is not None
    unit, snapshots = found
    assert list(snapshots) == [(0,)]
    dirty.fail(unit, Unavailable("no route"))
    dirty.drop((array, (0,)))


def test_the_oldest_chunks_are_as_many_as_are_needed(mount: Mount) -> None:
    dirty = mount.writeback._dirty
    for index in (2, 0, 1):
        mount.write(index * CHUNK, 1)
    one = dirty.nbytes // 3
    for excess, wanted in ((0, []), (1, [2]), (one, [2]), (one + 1, [2, 0]), (9 * one, [2, 0, 1])):
        assert [index for _, (index,) in dirty.oldest(excess)] == wanted
    first = dirty.chunks[mount.v.stored, (2,)]
    assert [index for _, (index,) in dirty.aged(first.since)] == [2]
    first.unit.retry.failed()
    assert [index for _, (index,) in dirty.oldest(9 * one)] == [0, 1, 2]
    assert not dirty.are_due
    first.unit.retry.succeeded()
    assert dirty.are_due
