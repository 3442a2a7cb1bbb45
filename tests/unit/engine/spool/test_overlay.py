"""Elements that are put over what the store has: what is different, and what is there already."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.spool.basis import Basis, sent
from nczfs.engine.spool.overlay import Written, differs, may_replace, overlay
from nczfs.errors import CodecError, SpoolError
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import CodecSpec
from nczfs.testing.faults import Faulty
from nczfs.zmap.base import ABSENT, Stat, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap

KEY = Key("v/0")
FILL = -1
SHARD = Key("v/c/0")  # the chunks of elements 0 to 2 and 3 to 5, and an index
CHUNK_BYTES = 3 * 4 + 4  # with a checksum
OLDER, NEWER = Basis(0), Basis(2**62)


class _Store(Faulty):
    """A store with the variable ``v``: two chunks of three elements in a shard.

    Attributes
    ----------
    is_dated : whether it says when an object was stored.
    """

    is_dated = True

    def stat(self, key: Key) -> Stat:
        found = super().stat(key)
        return found if self.is_dated else found._replace(mtime_ns=None)


@pytest.fixture
def zmap() -> _Store:
    return _Store(MemoryZMap())


@pytest.fixture
def length() -> int:
    return 6


@pytest.fixture
def io(zmap: _Store, length: int) -> Iterator[ChunkStore]:
    with open_zmap(zmap, "w", format="zarr3") as root:
        options: dict[str, Any] = {"chunks": (3,), "shards": (6,), "fillvalue": FILL}
        codecs = [CodecSpec("bytes", {"endian": "little"}), CodecSpec("crc32c")]
        v = root.create_variable("v", (length,), "<i4", codecs=codecs, **options)
        root.sync()
        yield root._opened.array(v.description).writer()


def written(start: int, *values: int, basis: Basis = NEWER) -> Written:
    """Elements that all lie in one chunk."""
    inside = slice(start % 3, start % 3 + len(values))
    flags, whole = np.zeros(3, bool), np.zeros(3, "<i4")
    flags[inside], whole[inside] = True, values
    return Written((start // 3,), flags, whole, basis)


def fill_shard(zmap: _Store, io: ChunkStore, *, damaged: int | None = None) -> None:
    """Store 0 to 5; a chunk may be damaged."""
    io.store((0,), {(n,): np.arange(3 * n, 3 * n + 3, dtype="<i4") for n in (0, 1)}, None)
    if damaged is not None:
        data = bytearray(zmap.read(SHARD).data)
        data[damaged * CHUNK_BYTES] ^= 1
        zmap.write(SHARD, bytes(data))


def shard(io: ChunkStore) -> list[int]:
    found, _ = io.newest((0,), [(0,), (1,)])
    return [*map(int, found[0,]), *map(int, found[1,])]


def test_elements_of_several_chunks_are_put_over_those_of_their_object(
    zmap: _Store, io: ChunkStore
) -> None:
    fill_shard(zmap, io)
    several = [written(1, 10), written(4, 40, 50), written(1, 11, 12)]
    assert overlay(zmap, io, (0,), several, force=False) == [None, None, None]
    assert shard(io) == [0, 11, 12, 3, 40, 50]


def test_where_there_is_no_object_the_rest_is_fill(zmap: _Store, io: ChunkStore) -> None:
    assert overlay(zmap, io, (0,), [written(4, 40)], force=False) == [None]
    assert shard(io) == [FILL, FILL, FILL, FILL, 40, FILL]


def test_what_is_newer_stays_and_the_rest_of_its_object_is_put_over_the_store(
    zmap: _Store, io: ChunkStore
) -> None:
    fill_shard(zmap, io)
    older, newer = written(0, 10, 1, basis=OLDER), written(3, 30)
    contested, none = overlay(zmap, io, (0,), [older, newer], force=False)
    assert isinstance(contested, SpoolError)
    assert none is None
    assert "1 elements differ, the first at [0]: the store has 0, the spool 10;" in str(contested)
    assert shard(io) == [0, 1, 2, 30, 4, 5]


def test_by_force_it_is_put_over_whatever_the_store_has(zmap: _Store, io: ChunkStore) -> None:
    fill_shard(zmap, io)
    assert overlay(zmap, io, (0,), [written(0, 10, basis=OLDER)], force=True) == [None]
    assert shard(io)[0] == 10


def test_of_what_is_newer_only_the_elements_count_that_nothing_was_written_over_later(
    zmap: _Store, io: ChunkStore
) -> None:
    """They differ from the store, but what stands for them is the later one."""
    fill_shard(zmap, io)
    first, second = written(3, 30, 4, basis=OLDER), written(3, 31)
    assert overlay(zmap, io, (0,), [first, second], force=False) == [None, None]
    assert shard(io)[3:] == [31, 4, 5]
    elsewhere = written(0, 9)
    told = overlay(zmap, io, (0,), [written(4, 40, basis=OLDER), elsewhere], force=False)
    assert [type(each) for each in told] == [SpoolError, type(None)]


@pytest.mark.parametrize("damaged", [0, 1])
def test_beside_a_damaged_chunk_the_others_of_its_object_are_told_apart(
    zmap: _Store, io: ChunkStore, damaged: int
) -> None:
    """Whether they can be stored is up to the object: all its chunks lie in it."""
    fill_shard(zmap, io, damaged=damaged)
    several = [written(0, 0, basis=OLDER), written(3, 3, basis=OLDER)]
    told = overlay(zmap, io, (0,), several, force=False)
    assert [isinstance(each, CodecError) for each in told] == [damaged == 0, damaged == 1]
    assert told[1 - damaged] is None


def test_a_damaged_chunk_that_was_written_whole_in_several_parts_is_replaced(
    zmap: _Store, io: ChunkStore
) -> None:
    fill_shard(zmap, io, damaged=1)
    assert overlay(zmap, io, (0,), [written(3, 30, 40), written(5, 50)], force=False) == [None] * 2
    assert shard(io) == [0, 1, 2, 30, 40, 50]


@pytest.mark.parametrize("length", [5])
def test_a_damaged_chunk_at_the_end_is_replaced_if_all_that_lies_in_the_array_was_written(
    zmap: _Store, io: ChunkStore
) -> None:
    fill_shard(zmap, io, damaged=1)
    (damaged,) = overlay(zmap, io, (0,), [written(3, 30)], force=False)
    assert isinstance(damaged, CodecError)
    several = [written(3, 31, 41, basis=OLDER), written(3, 30), written(4, 40)]
    told = overlay(zmap, io, (0,), several, force=False)
    assert [type(each) for each in told[:1]] == [type(damaged)]
    assert overlay(zmap, io, (0,), several[1:], force=False) == [None, None]
    assert shard(io) == [0, 1, 2, 30, 40, FILL]


def test_what_is_known_of_the_newer_object_is_said(zmap: _Store, io: ChunkStore) -> None:
    older = dataclasses.replace(OLDER, versions=(Version("1"),))
    (removed,) = overlay(zmap, io, (0,), [written(0, 10, basis=older)], force=False)
    fill_shard(zmap, io)
    (stored,) = overlay(zmap, io, (0,), [written(0, 10, basis=older)], force=False)
    zmap.is_dated = False
    (unknown,) = overlay(zmap, io, (0,), [written(0, 10, basis=older)], force=False)
    assert "another client has removed the chunk since" in str(removed)
    assert "the chunk was stored since, at 2" in str(stored)
    assert "another client may have stored the chunk since" in str(unknown)


def test_what_the_store_has_already_is_stored_no_second_time(zmap: _Store, io: ChunkStore) -> None:
    fill_shard(zmap, io)
    before = zmap.stat(SHARD)
    data = bytes(zmap.read(SHARD).data)
    done = dataclasses.replace(written(0, 10, 11), done_by=(sent([data]),))
    assert overlay(zmap, io, (0,), [written(0, 9, 9), done], force=False) == [None, None]
    assert zmap.stat(SHARD).version == before.version


def test_elements_differ_to_the_bit() -> None:
    one = np.array([[1.0, np.nan], [0.0, 2.0]])
    other = np.array([[1.0, np.nan], [-0.0, 3.0]])
    assert differs(one, other).tolist() == [[False, False], [True, True]]


def test_elements_of_variable_length_differ_where_any_of_theirs_does() -> None:
    one, other = np.empty((2, 2), object), np.empty((2, 2), object)
    for index, (a, b) in enumerate([("a", "a"), ("a", "b"), ([1, 2], [1, 2]), ([1], [1, 2])]):
        one.flat[index], other.flat[index] = np.array(a), np.array(b)
    assert differs(one, other).tolist() == [[False, True], [False, True]]


def test_elements_are_there_already_in_an_object_that_has_all_of_them() -> None:
    zmap = MemoryZMap()
    zmap.write(KEY, b"sent")
    flags, values = np.ones(3, bool), np.zeros(3)
    done = Written((0,), flags, values, Basis(), (sent([b"sent"]),))
    other = Written((0,), flags, values, Basis(), (sent([b"else"]),))
    stat = zmap.stat(KEY)
    assert done.is_done(zmap, stat)
    assert not done.is_done(zmap, None)
    assert not other.is_done(zmap, stat)


def test_an_object_may_be_replaced_that_is_not_newer_than_what_was_written() -> None:
    zmap = MemoryZMap()
    zmap.write(KEY, b"there")
    stat = zmap.stat(KEY)
    timeless = stat._replace(mtime_ns=None)
    assert stat.stored_ns is not None
    before, after = stat.stored_ns, stat.stored_ns + 1
    assert [may_replace(zmap, stat, Basis(written_ns)) for written_ns in (before, after)] == [
        False,
        True,
    ]
    assert not may_replace(zmap, timeless, Basis(after))
    assert may_replace(zmap, timeless, Basis(before, (Version("0"), stat.version)))
    assert may_replace(zmap, timeless, Basis(before, sent=(sent([b"there"]),)))
    assert not may_replace(zmap, timeless, Basis(before, sent=(sent([b"other"]),)))


def test_what_was_removed_is_written_anew_where_nothing_was_or_nothing_is_known() -> None:
    zmap = MemoryZMap()
    assert may_replace(zmap, None, Basis(1))
    assert may_replace(zmap, None, Basis(1, (ABSENT, Version("1"))))
    assert not may_replace(zmap, None, Basis(1, (Version("1"),)))
