"""Dirty chunks as entries: elements of every type come back bit by bit, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.chunkio import ChunkIO
from nczfs.engine.chunks.place import ArrayPlace
from nczfs.engine.chunks.storedarray import codecs_digest
from nczfs.engine.options import MissingChunks
from nczfs.engine.spool.basis import Basis, ObjectCopy, Sent
from nczfs.engine.spool.chunks import ChunkDetails, KeptChunk
from nczfs.engine.spool.contents import read_entry
from nczfs.engine.spool.entries import add_record, heading, read_records, write_records
from nczfs.engine.spool.records import packed
from nczfs.engine.spool.saved import (
    DESCRIPTION_BYTES,
    Attempt,
    Frozen,
    Saved,
    discard,
    save_chunk,
)
from nczfs.engine.spool.space import Spool
from nczfs.errors import NoSpace, SpoolError, Unavailable
from nczfs.formats.elementtypes import data_type
from nczfs.library.opening import open_zmap
from nczfs.model.grid import UnevenCuts
from nczfs.model.hierarchy import ArrayDescription, CodecChain, CodecSpec
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", "memory://there")
    yield spool
    spool.close()


def chunk_io(typestr: Any, chunk_shape: tuple[int, ...], **changes: Any) -> ChunkStore:
    dtype = data_type(typestr, (), "v")
    fields: dict[str, Any] = {"shape": chunk_shape, "codecs": CodecChain(2)} | changes
    array = ArrayDescription(chunk_shape=chunk_shape, dtype=dtype, fill_value=None, **fields)
    return ChunkIO(MemoryZMap(), ArrayPlace(Prefix("g/v")), array, MissingChunks.FILL)


def frozen(values: Values, flags: Values | None = None) -> Frozen:
    return Frozen(values, flags, Version("1"), 1)


def save(spool: Spool, io: ChunkStore, what: Frozen) -> Saved:
    return save_chunk(spool, io, (0,) * len(io.array.shape), what, "no way")


def kept(path: Path) -> KeptChunk:
    entry = read_entry(path)
    assert isinstance(entry, KeptChunk)
    return entry


def restored(saved: Saved, io: ChunkStore) -> tuple[Values, Values]:
    entry = kept(saved.path)
    return entry.values(io.array.dtype.native, io), entry.flags()


TYPES = ["|b1", "|i1", "<u2", ">i4", "<f8", ">f4", "<c16", "|S3", "<U2", ">U2", "<M8[s]", ">m8[ms]"]
TYPES += ["|V5", [["a", "<i2"], ["b", ">f8"], ["c", "|S3"]]]  # type: ignore[list-item]


@pytest.mark.parametrize("typestr", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 2)], ids=str)
@pytest.mark.parametrize("partly", [False, True], ids=["whole", "in part"])
def test_elements_come_back_bit_by_bit(
    spool: Spool, typestr: Any, shape: tuple[int, ...], partly: bool
) -> None:
    io = chunk_io(typestr, shape)
    random = np.random.default_rng(3)
    dtype = io.array.dtype.native
    count = int(np.prod(shape))
    bits = random.integers(0, 256, count * dtype.itemsize, np.uint8)
    if dtype.kind in "bU":
        bits %= 2
    values = bits.view(dtype).reshape(shape)
    flags = random.random(shape) < 0.5 if partly else None
    saved = save(spool, io, frozen(values, flags))
    assert kept(saved.path).details == ChunkDetails.of(
        io.array, (0,) * len(shape), (0,) * len(shape)
    )
    found, which = restored(saved, io)
    np.testing.assert_array_equal(which, np.ones(shape, bool) if flags is None else flags)
    assert (found.dtype, found.shape) == (dtype, shape)
    assert found[which].tobytes() == values[which].tobytes()
    assert saved.values is not None
    mapped = saved.values()
    assert (mapped.dtype, mapped.shape, mapped.tobytes()) == (dtype, shape, values.tobytes())
    np.testing.assert_array_equal(saved.flags(), which)


def test_a_chunk_of_an_uneven_grid_is_mapped_in_its_own_shape(spool: Spool) -> None:
    io = chunk_io("<i4", (5,), shape=(7,), cuts=(UnevenCuts(((2, 1), (5, 1))),))
    saved = save_chunk(spool, io, (0,), frozen(np.array([6, 7], "<i4")), "no way")
    assert saved.values is not None
    assert saved.values().tolist() == [6, 7]


def test_elements_of_variable_length_come_back(spool: Spool) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format="zarr2") as dataset:
        v = dataset.create_variable("v", (3,), str, chunks=(3,))
        io = dataset._dataset.array(v.description).writer()
        assert io.array.dtype.vlen is not None
        values = np.array(["", "ö", "x" * 1000], object)
        saved = save(spool, io, frozen(values, np.array([True, False, True])))
        found, which = restored(saved, io)
    assert found[which].tolist() == values[which].tolist()
    assert which.tolist() == [True, False, True]
    assert saved.values is None


def test_values_that_do_not_lie_one_after_the_other_come_back_in_order(spool: Spool) -> None:
    io = chunk_io("<i4", (2, 3))
    values = np.arange(12, dtype=np.int32).reshape(3, 4).T[::2]
    found, _ = restored(save(spool, io, frozen(values)), io)
    assert found.tolist() == values.tolist()


def test_of_a_chunk_that_is_whole_only_what_lies_in_the_array_counts(spool: Spool) -> None:
    io = chunk_io("<i4", (4, 4), shape=(6, 3))
    saved = save_chunk(spool, io, (1, 0), frozen(np.zeros((4, 4), np.int32)), "no way")
    _, which = restored(saved, io)
    assert which.sum() == 6
    assert which[:2, :3].all()


@pytest.mark.parametrize("partly", [False, True])
def test_a_bit_that_flipped_anywhere_is_noticed(spool: Spool, partly: bool) -> None:
    io = chunk_io("<i2", (4,))
    flags = np.array([True, False, True, True]) if partly else None
    saved = save(spool, io, frozen(np.arange(4, dtype=np.int16), flags))
    data = saved.path.read_bytes()
    for position in range(len(data)):
        saved.path.write_bytes(
            data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :]
        )
        with pytest.raises(SpoolError):
            restored(saved, io)


@pytest.mark.parametrize(
    "changes",
    [
        {"index": [-1]},
        {"index": [0, 0]},
        {"index": 3},
        {"index": ["0"]},
        {"shape": [1.5]},
        {"chunk_shape": [3]},
        {"chunk_shape": None},
    ],
    ids=str,
)
def test_what_an_entry_says_of_its_chunk_is_checked(spool: Spool, changes: dict[str, Any]) -> None:
    io = chunk_io("<i4", (9,))
    details = ChunkDetails.of(io.array, (0,), (0,)).document() | changes
    first = packed({"is": "chunk", **heading("u", "v", ""), **details}, np.zeros(2, np.uint8))
    second = packed({"is": "values"}, np.zeros(36, np.uint8))
    path = write_records(spool.new_path("v"), [first, second])
    with pytest.raises(SpoolError):
        restored(Saved(spool, path, 0, 0, None, lambda: np.empty(0)), io)


def test_two_arrays_have_one_digest_only_when_their_chunks_are_alike() -> None:
    def digest(**changes: Any) -> str:
        return codecs_digest(chunk_io("<i4", (4,), **changes).array)

    zlib = CodecSpec("zlib", {"level": 1})
    plain = digest()
    assert digest(shape=(99,)) == plain
    others = [
        CodecChain(3),
        CodecChain(2, order="F"),
        CodecChain(2, (zlib,)),
        CodecChain(2, (zlib,), compressed=True),
        CodecChain(2, (CodecSpec("zlib", {"level": 2}),), compressed=True),
    ]
    assert len({plain, *(digest(codecs=chain) for chain in others)}) == 6
    again = CodecChain(2, (CodecSpec("zlib", {"level": 1}),))
    assert digest(codecs=again) == digest(codecs=others[2])


def test_an_entry_takes_of_the_budget_and_gives_it_back(spool: Spool) -> None:
    io = chunk_io("<i4", (100,))
    saved = save(spool, io, frozen(np.zeros(100, np.int32), np.ones(100, bool)))
    assert spool.bytes_used >= saved.path.stat().st_size
    discard(spool, saved)
    assert spool.bytes_used == 0
    assert not saved.path.exists()


def test_an_entry_for_which_there_is_no_room_leaves_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path, bytes_max=1500)
    io = chunk_io("<i4", (100,))
    save(spool, io, frozen(np.zeros(100, np.int32)))
    used, files = spool.bytes_used, os.listdir(spool.directory)
    with pytest.raises(NoSpace, match="--max-spool-size"):
        save(spool, io, frozen(np.zeros(100, np.int32)))
    assert (spool.bytes_used, os.listdir(spool.directory)) == (used, files)


def test_an_entry_that_cannot_be_written_takes_nothing_of_the_budget(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = chunk_io("<i4", (100,))
    spool.new_path("made")

    def fail(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(Unavailable):
        save(spool, io, frozen(np.zeros(100, np.int32)))
    assert spool.bytes_used == 0


def test_many_entries_take_no_descriptors(spool: Spool) -> None:
    io = chunk_io("<i4", (4,))
    first = save(spool, io, frozen(np.arange(4, dtype=np.int32)))
    before = len(os.listdir("/proc/self/fd"))
    kept = [save(spool, io, frozen(np.arange(4, dtype=np.int32))) for _ in range(20)]
    for saved in (first, *kept):
        assert saved.values is not None
        assert saved.values().tolist() == [0, 1, 2, 3]
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_mapped_stays_readable_when_the_entry_goes(spool: Spool) -> None:
    io = chunk_io("<i4", (4,))
    saved = save(spool, io, frozen(np.arange(4, dtype=np.int32)))
    assert saved.values is not None
    values = saved.values()
    discard(spool, saved)
    assert values.tolist() == [0, 1, 2, 3]
    with pytest.raises(Unavailable):
        saved.values()
    with pytest.raises(Unavailable):
        saved.flags()


def test_an_entry_counts_for_all_it_has_of_the_chunk(spool: Spool) -> None:
    saved = save(spool, chunk_io("<i4", (16,)), frozen(np.zeros(16, "i4"), np.ones(16, bool)))
    assert saved.nbytes == 16 * 4 + 16 // 8 + DESCRIPTION_BYTES
    assert spool.bytes_used == saved.nbytes
    discard(spool, saved)
    assert spool.bytes_used == 0


def test_what_was_sent_is_added_to_an_entry_once_and_not_after_its_end(spool: Spool) -> None:
    known, part, whole = (Sent(n, n, ((0, n),)) for n in (1, 2, 3))
    what = Frozen(np.zeros(3, "i4"), None, Version("1"), 1, Basis(7, sent=(known,)))
    saved = save(spool, chunk_io("<i4", (3,)), what)
    said = [Attempt(known, False), Attempt(part, False), Attempt(whole, True)]
    saved.record(said)
    entry, data = kept(saved.path), saved.path.read_bytes()
    assert (entry.basis.sent, entry.done_by) == ((known, part), (whole,))
    assert data.count(b"sending") == 2
    saved.record(said)
    assert saved.path.read_bytes() == data
    saved.end()
    saved.record([Attempt(Sent(4, 4, ((0, 4),)), True)])
    assert saved.path.read_bytes() == data


def test_a_copy_of_its_object_is_added_once_and_only_of_one_that_is_not_newer(spool: Spool) -> None:
    what = Frozen(np.zeros(3, "i4"), None, Version("1"), 5, Basis(7, (Version("1"),)))
    saved = save(spool, chunk_io("<i4", (3,)), what)
    saved.rest_upon(ObjectCopy(Stat(Key("v/0"), 3, Version("2"), mtime_ns=7), Version("3"), 1, 8))
    assert kept(saved.path).basis.versions == ("1",)
    copy = ObjectCopy(Stat(Key("v/0"), 3, Version("1"), mtime_ns=7), Version("4"), 1, 8)
    saved.rest_upon(copy)
    size = saved.path.stat().st_size
    saved.rest_upon(copy)
    saved.rest_upon(ObjectCopy(Stat(Key("v/0"), 3, Version("5"), mtime_ns=6), Version("6"), 1, 8))
    assert kept(saved.path).basis.versions == ("1", "4", "6")
    assert saved.path.stat().st_size < size + 100


def test_what_is_added_that_makes_no_sense_is_refused(spool: Spool) -> None:
    saved = save(spool, chunk_io("<i4", (3,)), frozen(np.zeros(3, "i4")))
    add_record(saved.path, packed({"is": "sending", "sent": [1], "is_whole": True}))
    with pytest.raises(SpoolError, match="cannot be understood"):
        kept(saved.path)


def test_an_entry_whose_records_have_a_certain_place_is_the_same_otherwise(spool: Spool) -> None:
    what = Frozen(np.zeros(3, "i4"), None, Version("1"), 1, Basis(7, appended_from=2))
    entry = kept(save(spool, chunk_io("<i4", (3,)), what).path)
    assert entry.basis.appended_from == 2
    assert entry.placed() == replace(entry, basis=Basis(7))


@pytest.mark.parametrize(("at", "what"), [(0, "flags"), (1, "values")])
def test_which_bytes_of_an_entry_are_damaged_is_said(spool: Spool, at: int, what: str) -> None:
    saved = save(spool, chunk_io("<i4", (3,)), frozen(np.zeros(3, "i4"), np.ones(3, bool)))
    data = bytearray(saved.path.read_bytes())
    data[read_records(saved.path)[at].data.offset] ^= 1
    saved.path.write_bytes(data)
    with pytest.raises(SpoolError, match=f"checksum of its {what} is wrong"):
        kept(saved.path).values(np.dtype("i4"))


@pytest.mark.parametrize("length", [1 << 62, 1 << 70])
def test_a_chunk_that_no_memory_has_room_for_is_refused(spool: Spool, length: int) -> None:
    """Whoever lists or recovers a spool goes on with the other entries."""
    saved = save(spool, chunk_io("<i4", (3,)), frozen(np.zeros(3, "i4")))
    entry = kept(saved.path)
    large = replace(entry, details=replace(entry.details, chunk_shape=(length,)))
    with pytest.raises(SpoolError, match=f"no chunk of the shape .{length},. fits"):
        large.describe()
    with pytest.raises(SpoolError, match="fits"):
        large.values(np.dtype("i4"))


def test_elements_of_variable_length_are_nothing_without_their_variable(spool: Spool) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format="zarr2") as dataset:
        v = dataset.create_variable("v", (3,), str, chunks=(3,))
        io = dataset._dataset.array(v.description).writer()
        saved = save(spool, io, frozen(np.array(["a", "b", "c"], object), np.ones(3, bool)))
    with pytest.raises(SpoolError, match="cannot be interpreted without their variable"):
        kept(saved.path).values(np.dtype(object))


def test_an_export_of_elements_of_variable_length_has_them_as_the_codecs_do(spool: Spool) -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format="zarr2") as dataset:
        v = dataset.create_variable("v", (2,), str, chunks=(2,))
        io = dataset._dataset.array(v.description).writer()
        values = np.array(["a", "ö"], object)
        entry = kept(save(spool, io, frozen(values)).path)
        exported = entry.export(spool.directory / "out")
        assert exported.name == "out.chunk"
        assert io.pipeline((0,)).decode(exported.read_bytes()).tolist() == ["a", "ö"]
    data = bytearray(entry.files[0].read_bytes())
    data[-3] ^= 1
    entry.files[0].write_bytes(data)
    with pytest.raises(SpoolError, match="damaged: the checksum of its values is wrong"):
        entry.export(spool.directory / "again")
    exported.unlink()
