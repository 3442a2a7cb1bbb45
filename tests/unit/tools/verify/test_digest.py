"""Checksums of values: SHA-256 of the elements, however they are stored."""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numcodecs
import numpy as np
import pytest
import zarr

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.model.boxes import whole
from nczfs.model.hierarchy import Variable
from nczfs.testing.datasets import put_array, put_group
from nczfs.tools.verify.digest import (
    BLOCK_BYTES,
    FAR_BLOCK_BYTES,
    DigestElements,
    blocks,
    digest_of,
    digest_of_elements,
)
from nczfs.tools.verify.digests import Digest, dataset_jobs, digests
from nczfs.tools.verify.nodes import Nodes
from nczfs.tools.verify.state import VerifyState
from nczfs.tools.verify.subject import subject_at, subject_of
from nczfs.zmap.keys import parse_key
from tests.support.verifying import CountedStore

Values = np.ndarray[Any, np.dtype[Any]]

FIELD = np.sin(np.arange(7 * 30 * 11)).reshape(7, 30, 11).astype("<f4")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def of_texts(*texts: bytes) -> str:
    return sha256(b"".join(len(text).to_bytes(4, "little") + text for text in texts))


def stored(
    place: Path,
    values: Values,
    chunks: tuple[int, ...],
    *,
    order: Literal["C", "F"] = "C",
    **options: Any,
) -> str:
    """The digest of values that zarr-python stores in some way."""
    array = zarr.create_array(
        place,
        shape=values.shape,
        dtype=options.pop("dtype", values.dtype),
        chunks=chunks,
        order=order,
        zarr_format=2,
        overwrite=True,
        **{"compressors": None, **options},
    )
    array[...] = values
    with subject_at(str(place)) as subject:
        node = subject.dataset.node("")
        assert isinstance(node, Variable)
        return digest_of(subject.dataset.array(node))


def test_it_is_the_sha256_of_the_bytes_that_numpy_has(tmp_path: Path) -> None:
    assert stored(tmp_path / "a", FIELD, (2, 10, 3)) == sha256(FIELD.tobytes())


def test_chunks_codecs_order_and_byte_order_do_not_count(tmp_path: Path) -> None:
    place = tmp_path / "a"
    found = {
        stored(place, FIELD, (7, 30, 11)),
        stored(place, FIELD, (1, 30, 11), compressors=numcodecs.Zlib(1)),
        stored(place, FIELD, (3, 7, 5), compressors=numcodecs.Blosc("zstd"), order="F"),
        stored(place, FIELD, (7, 1, 1), filters=[numcodecs.Shuffle(4)]),
        stored(place, FIELD.astype(">f4"), (2, 2, 2), dtype=">f4"),
    }
    assert found == {sha256(FIELD.tobytes())}


def test_the_type_and_every_bit_count(tmp_path: Path) -> None:
    place = tmp_path / "a"
    other = FIELD.copy()
    other[-1, -1, -1] = np.nextafter(other[-1, -1, -1], np.float32(9))
    assert stored(place, other, (2, 2, 2)) != sha256(FIELD.tobytes())
    assert stored(place, FIELD.astype("f8"), (2, 2, 2)) != sha256(FIELD.tobytes())


@pytest.mark.parametrize(
    "values",
    [
        np.array([True, False, True]),
        np.arange(-4, 4, dtype="i1"),
        np.arange(5, dtype=">u8"),
        np.array([1.5, np.nan, -0.0], ">f2"),
        np.array([0x7FF8000000000001, 0xFFF0000000000123], "u8").view("f8"),
        np.array([1 + 2j, -3j], ">c8"),
    ],
    ids=lambda values: values.dtype.str,
)
def test_numbers_are_their_bytes_little_endian(tmp_path: Path, values: Values) -> None:
    little = values.astype(values.dtype.newbyteorder("<"))
    assert stored(tmp_path / "a", values, (2,)) == sha256(little.tobytes())


def test_dates_are_the_numbers_that_they_are_stored_as(tmp_path: Path) -> None:
    dates = np.array(["2020-01-01", "NaT", "1969-12-31"], "M8[s]")
    assert stored(tmp_path / "a", dates, (2,)) == sha256(dates.astype("<i8").tobytes())


def of_memory(values: Values, *, is_char: bool = False) -> str:
    """The digest of elements that stand in memory."""
    return digest_of_elements(
        DigestElements(values.shape, values.dtype, values.shape, is_char, values.__getitem__)
    )


def test_structures_are_their_fields_packed() -> None:
    padded = np.dtype([("a", ">i2"), ("b", "<f8")], align=True)
    values = np.array([(1, 2.5), (3, -1.0)], padded)
    packed = values.astype(np.dtype([("a", "<i2"), ("b", "<f8")]))
    assert padded.itemsize > packed.dtype.itemsize
    assert of_memory(values) == sha256(packed.tobytes())


def test_strings_are_the_same_however_they_are_stored(tmp_path: Path) -> None:
    texts = ["Zürich", "", "a", "日本"]
    expected = of_texts(*(text.encode() for text in texts))
    place = tmp_path / "a"
    fixed = np.array([text.encode() for text in texts], "S128")
    assert stored(place, fixed, (3,)) == expected
    assert stored(place, np.array(texts, "<U9"), (2,)) == expected
    assert stored(place, np.array(texts, ">U40"), (4,), dtype=">U40") == expected
    objects = np.empty(4, object)
    objects[:] = texts
    assert stored(place, objects, (3,), dtype=str, filters=[numcodecs.VLenUTF8()]) == expected
    assert of_memory(np.array(["ends", "with\0\0"], object)) == of_texts(b"ends", b"with")


def test_text_of_netcdf_is_its_bytes() -> None:
    assert of_memory(np.array([b"a", b"", b"c"], "S1"), is_char=True) == sha256(b"a\0c")
    assert of_memory(np.array([b"a", b"", b"c"], "S1")) == of_texts(b"a", b"", b"c")


def test_other_elements_of_variable_length_have_a_length_too() -> None:
    values = np.empty(4, object)
    values[:] = [b"a\0", np.array([1, 2], ">i2"), {"b": [1, None], "a": "é"}, None]
    assert of_memory(values) == of_texts(
        b"a\0", b"\1\0\2\0", '{"a":"é","b":[1,null]}'.encode(), b"null"
    )


def test_what_was_never_written_counts_as_the_fill_value() -> None:
    values = np.arange(6, dtype="<i4")
    values[2:4] = -9
    whole, holed = CountedStore(), CountedStore()
    for store in (whole, holed):
        put_group(store, "")
    put_array(whole, "v", values, (2,))
    put_array(holed, "v", values, (2,), fill_value=-9, skip=frozenset({(1,)}))
    assert made(whole) == made(holed) == [Digest("/v", sha256(values.tobytes()))]


def test_a_scalar_and_an_empty_variable_have_one(tmp_path: Path) -> None:
    assert stored(tmp_path / "a", np.array(2.5), ()) == sha256(np.array(2.5).tobytes())
    assert stored(tmp_path / "a", np.zeros((0, 3)), (1, 1)) == sha256(b"")


# -- blocks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("usual", "most"), [(1, 1), (2, 700), (60, 60), (100, 330), (661, 5000)])
@pytest.mark.parametrize("chunks", [(7, 30, 11), (1, 1, 1), (3, 7, 5), (1, 10, 11)])
def test_blocks_follow_each_other_in_c_order(
    usual: int, most: int, chunks: tuple[int, ...]
) -> None:
    numbers = np.arange(FIELD.size).reshape(FIELD.shape)
    cuts = blocks(FIELD.shape, chunks, usual, most)
    pieces = [numbers[selection].reshape(-1) for selection in cuts]
    assert max(piece.size for piece in pieces) <= most
    assert np.array_equal(np.concatenate(pieces), np.arange(FIELD.size))


@pytest.mark.parametrize(
    ("chunks", "elements_max"), [((2, 10, 3), 700), ((1, 10, 3), 120), ((3, 30, 11), 1000)]
)
def test_no_chunk_is_read_twice_when_a_row_of_them_fits(
    chunks: tuple[int, ...], elements_max: int
) -> None:
    store = CountedStore()
    put_array(store, "", FIELD, chunks)
    engine = Engine(EngineOptions(memory_limit_bytes=1))  # nothing stays in a cache
    subject = subject_of(store, engine, name="v")
    nodes = Nodes(subject)
    assert list(nodes.walk()) == []
    (job,) = dataset_jobs(subject, nodes, elements_max * 4)
    assert job.digest(lambda _count: None) == sha256(FIELD.tobytes())
    assert len(store.chunks_read) == len(set(store.chunks_read))
    engine.close()


def test_whole_chunks_are_decoded_into_their_block_and_not_kept() -> None:
    store = CountedStore()
    put_array(store, "", FIELD, (3, 10, 11))
    engine = Engine(EngineOptions())  # with room for all of them
    subject = subject_of(store, engine, name="v")
    node = subject.dataset.node("")
    assert isinstance(node, Variable)
    array = subject.dataset.array(node)
    assert digest_of(array) == sha256(FIELD.tobytes())
    chunks = node.array.grid.touched(whole(FIELD.shape))
    assert len(store.chunks_read) == chunks.size
    assert all(array.peek_chunk(chunk, 0.0) is None for chunk in chunks.indexes())
    engine.close()


@pytest.mark.parametrize(("far", "wanted"), [(False, BLOCK_BYTES), (True, FAR_BLOCK_BYTES)])
def test_far_stores_are_asked_for_more_at_a_time(*, far: bool, wanted: int) -> None:
    store = CountedStore()
    shape = (80 << 20,)
    put_array(
        store, "", np.zeros(shape, "u1"), (1 << 20,), skip=frozenset({(n,) for n in range(80)})
    )
    engine = Engine(EngineOptions())
    subject = subject_of(store, engine, name="v")
    node = subject.dataset.node("")
    assert isinstance(node, Variable)
    array = subject.dataset.array(node)
    array.far = far
    counts: list[float] = []
    digest_of(array, progress=counts.append)
    assert counts[0] == max(counts) == wanted
    engine.close()


def of_rows(read: Callable[[slice], Values], readers: int, block_rows: int) -> DigestElements:
    """Forty rows of ten bytes, each of them a chunk."""
    block = block_rows * 10
    return DigestElements(
        (40, 10), np.dtype("u1"), (1, 10), False, lambda box: read(box[0]), readers, block
    )


@pytest.mark.parametrize(("readers", "room", "held"), [(1, 9, 2), (2, 9, 3), (2, 2, 2), (2, 1, 1)])
def test_no_more_blocks_are_in_memory_than_there_is_room_for(
    readers: int, room: int, held: int
) -> None:
    values = np.arange(400, dtype="u1").reshape(40, 10)
    alive: list[weakref.ref[Values]] = []
    counts: list[int] = []
    lock = threading.Lock()

    def read(rows: slice) -> Values:
        block = values[rows].copy()
        with lock:
            alive.append(weakref.ref(block))
            counts.append(sum(each() is not None for each in alive))
        return block

    digest = digest_of_elements(of_rows(read, readers, 2), room * 20)
    assert digest == sha256(values.tobytes())
    assert max(counts) <= held


def test_two_blocks_are_read_at_a_time() -> None:
    both = threading.Barrier(2, timeout=60)

    def read(rows: slice) -> Values:
        both.wait()
        return np.zeros((rows.stop - rows.start, 10), "u1")

    assert digest_of_elements(of_rows(read, 2, 2)) == sha256(bytes(400))


# -- many, and again -------------------------------------------------------------------------------


def made(store: CountedStore, state: VerifyState | None = None) -> list[Digest]:
    engine = Engine()
    try:
        subject = subject_of(store, engine)
        nodes = Nodes(subject)
        assert list(nodes.walk()) == []
        return list(digests(dataset_jobs(subject, nodes), state))
    finally:
        engine.close()


def test_what_has_no_digest_does_not_keep_the_others_from_theirs() -> None:
    store = CountedStore()
    put_group(store, "")
    for name in "abc":
        put_array(store, name, np.arange(4.0), (2,))
    store.write(parse_key("b/1"), b"short")
    found = made(store)
    assert [digest.path for digest in found] == ["/a", "/b", "/c"]
    assert [bool(digest.value) for digest in found] == [True, False, True]
    assert "b/1: the data decode to 5 bytes" in found[1].trouble


def test_digests_made_before_are_not_made_again_until_a_chunk_changes(tmp_path: Path) -> None:
    store = CountedStore()
    put_group(store, "")
    for name in "ab":
        put_array(store, name, np.arange(4.0), (2,))
    with VerifyState(tmp_path / "state", store.name) as state:
        first = made(store, state)
    store.chunks_read.clear()
    with VerifyState(tmp_path / "state", store.name) as state:
        assert made(store, state) == first
        assert store.chunks_read == []
        store.write(parse_key("b/0"), np.array([5.0, 6.0]).tobytes())
        found = made(store, state)
    assert sorted(store.chunks_read) == ["b/0", "b/1"]
    assert found[0] == first[0]
    assert found[1].value == sha256(np.array([5.0, 6.0, 2.0, 3.0]).tobytes())
