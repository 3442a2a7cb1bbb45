"""The segments that files of several variables are made of."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.buffers import Values
from nczfs.engine.arrays.array import now
from nczfs.engine.options import Tally
from nczfs.engine.readahead.prefetch import AheadOptions
from nczfs.errors import BadValue, CorruptStore, NotPermitted
from nczfs.testing.layouts import LayoutSuite
from nczfs.views.forms import BinaryForm
from nczfs.views.layout import Layout
from nczfs.views.literalfile import LiteralFile
from nczfs.views.netcdf.cells import Utf8Form
from nczfs.views.reader import read_at, read_if_cached, request
from nczfs.views.records import Records
from nczfs.views.segments import (
    PEEK_ASSEMBLED_BYTES_MAX,
    FileLiteral,
    Literal,
    Padding,
    Run,
    Segment,
)
from nczfs.views.writer import settled, write_at
from tests.support.descriptors import open_paths
from tests.support.elements import Numbers

BIG, LITTLE = BinaryForm(np.dtype(">i4")), BinaryForm(np.dtype("<i4"))


def literal_file(path: Path, data: bytes) -> LiteralFile:
    path.write_bytes(data)
    return LiteralFile(os.open(path, os.O_RDONLY))


def run(values: Values, dtype: str, count: int, *, is_compared: bool = False) -> Run:
    """The first `count` numbers, in some byte order."""
    return Run(Numbers(values), BinaryForm(np.dtype(dtype)), 0, count, is_compared)


def records(*, is_compared: bool = False) -> Records:
    """Five records of a short and two floats, padded to four bytes, as the classic format has."""
    shorts = run(np.arange(5, dtype="i2") + 300, ">i2", 1, is_compared=is_compared)
    floats = run(np.linspace(0, 1, 10, dtype="f4"), ">f4", 2, is_compared=is_compared)
    return Records(((0, shorts), (4, floats)), 12, 5)


def expected_records() -> bytes:
    rows = np.zeros(5, np.dtype([("s", ">i2"), ("pad", "V2"), ("f", ">f4", 2)]))
    rows["s"] = np.arange(5) + 300
    rows["f"] = np.linspace(0, 1, 10, dtype="f4").reshape(5, 2)
    return rows.tobytes()


class TestFileOfSeveralVariables(LayoutSuite):
    """Every kind of segment, but for literals on a disk, which are not read from memory."""

    @pytest.fixture
    def layout(self) -> Layout:
        return Layout(
            [
                Literal(b"CDF"),
                run(np.arange(7, dtype="u2"), "<u2", 7),
                Literal(b"between"),
                run(np.arange(7, dtype="i4") - 3, ">i4", 7, is_compared=True),
                records(),
            ]
        )


def test_records_are_interleaved_in_their_byte_order() -> None:
    layout = Layout([records()])
    assert bytes(read_at(layout, 0, layout.size, Tally())) == expected_records()


@given(start=st.integers(0, 60), size=st.integers(0, 61))
def test_any_range_of_records_is_that_of_the_whole(start: int, size: int) -> None:
    found = read_at(Layout([records()]), start, size, Tally())
    assert bytes(found) == expected_records()[start : start + size]


@given(start=st.integers(0, 59), data=st.binary(min_size=1, max_size=60), is_compared=st.booleans())
def test_what_is_written_to_records_is_read_back_but_for_the_padding(
    start: int, data: bytes, is_compared: bool
) -> None:
    layout = Layout([records(is_compared=is_compared)])
    data = data[: 60 - start]
    write_at(layout, start, data)
    wanted = np.frombuffer(bytearray(expected_records()), np.uint8).copy()
    wanted[start : start + len(data)] = np.frombuffer(data, np.uint8)
    wanted.reshape(5, 12)[:, 2:4] = 0
    assert bytes(read_at(layout, 0, 60, Tally())) == wanted.tobytes()


@given(start=st.integers(0, 79), size=st.integers(1, 80))
def test_records_in_memory_are_peeked_at_whatever_chunks_they_lie_in(start: int, size: int) -> None:
    values = np.arange(20, dtype="<i4")
    source = Numbers(values, chunk_bytes=12)
    segment, stop = Records(((0, Run(source, LITTLE, 0, 4)),), 16, 5), min(start + size, 80)
    found = segment.peek(start, stop, 0.0)
    assert found is not None
    assert b"".join(map(bytes, found)) == values.tobytes()[start:stop]


def test_a_peek_at_records_wants_chunks_that_were_confirmed_in_time() -> None:
    member = Run(Numbers(np.arange(4, dtype="<i4"), confirmed_at=7.0), LITTLE, 0, 1)
    segment = Records(((0, member),), 4, 4)
    assert segment.peek(0, 16, 7.0) is not None
    assert segment.peek(0, 16, 7.5) is None


def test_many_records_are_not_put_together_where_nothing_may_take_long() -> None:
    count = PEEK_ASSEMBLED_BYTES_MAX // 4
    member = Run(Numbers(np.zeros(count + 1, "<i4")), LITTLE, 0, 1)
    segment = Records(((0, member),), 4, count + 1)
    assert segment.peek(4, 4 * count + 4, 0.0) is not None
    assert segment.peek(3, 4 * count + 4, 0.0) is None


def test_a_refused_element_of_a_record_is_named_by_its_byte_in_the_file() -> None:
    text = Run(Numbers(np.array(["a"] * 4)), BinaryForm(np.dtype(">U1")), 0, 1)
    layout = Layout([Literal(b"head"), Records(((0, text), (8, text)), 16, 2)])
    with pytest.raises(BadValue, match="from byte 12 on: "):
        write_at(layout, 4, b"\0\0\0b\0\0\0\0\x00\x11\0\0")
    with pytest.raises(BadValue, match="from byte 28 on: "):
        write_at(layout, 20, b"\0\0\0b\0\0\0\0\x00\x11\0\0")


@pytest.mark.parametrize("dtype", ["<i8", ">i8"])
def test_numbers_in_memory_are_peeked_at_to_the_last_digit(dtype: str) -> None:
    values = np.arange(4, dtype="i8") + (1 << 60)
    found = read_if_cached(Layout([run(values, dtype, 4)]), 3, 20, 0.0)
    assert bytes(found or b"") == values.astype(dtype).tobytes()[3:23]


def test_a_run_of_later_elements_compares_and_writes_those() -> None:
    numbers = Numbers(np.arange(8, dtype="i4"))
    layout = Layout([Run(numbers, BIG, 5, 3, is_compared=True)])
    assert bytes(read_at(layout, 0, 12, Tally())) == np.arange(5, 8, dtype=">i4").tobytes()
    write_at(layout, 4, b"\0\0\0\x63")
    assert numbers.written == [(6, 7)]
    assert numbers.values.tolist() == [0, 1, 2, 3, 4, 5, 99, 7]


def test_a_million_records_are_one_segment_and_a_read_touches_only_its_own() -> None:
    numbers = Numbers(np.arange(1 << 20, dtype="i4"))
    member = Run(numbers, BIG, 0, 1)
    layout = Layout([Records(((0, member), (8, member)), 16, 1 << 20)])
    request(layout, 16 * 1000, 16 * 1003, Tally(), 0.0)
    assert numbers.requested == [(1000, 1003), (1000, 1003)]
    assert len(layout.segments) == 1


class _Ahead(Numbers):
    """Numbers that are read ahead by the room that they have."""

    def ahead(self, width: int, room: int, *, uncopied: bool) -> AheadOptions:
        return AheadOptions(room, width, 0)


def test_the_variables_of_records_share_the_room_for_reading_ahead() -> None:
    narrow = Run(_Ahead(np.zeros(4, "i2")), BinaryForm(np.dtype(">i2")), 0, 1)
    wide = Run(_Ahead(np.zeros(4, "i4")), BIG, 0, 1)
    found = Layout([Literal(b"head"), Records(((0, wide), (4, narrow)), 8, 4)]).ahead(100)
    assert (found.window_bytes, found.ahead_bytes) == (50, 4)


def test_members_of_a_record_that_overlap_are_refused() -> None:
    member = run(np.zeros(4, "i4"), ">i4", 2)
    with pytest.raises(ValueError, match="overlap"):
        Records(((0, member), (4, member)), 16, 2)


def test_a_write_that_repeats_what_is_there_changes_no_element() -> None:
    numbers = Numbers(np.arange(8, dtype="i4"))
    layout = Layout([Run(numbers, BIG, 0, 8, is_compared=True)])
    whole = bytearray(read_at(layout, 0, 32, Tally()))
    write_at(layout, 0, whole)
    assert numbers.written == []
    whole[4:8] = whole[20:24] = b"\0\0\0\x63"
    write_at(layout, 0, whole)
    assert numbers.written == [(1, 2), (5, 6)]
    assert numbers.values.tolist() == [0, 99, 2, 3, 4, 99, 6, 7]


class Outdated(Numbers):
    """Elements of which others are known: they were confirmed before another client wrote them."""

    def __init__(self, known: Values, values: Values) -> None:
        super().__init__(values, confirmed_at=now())
        self.known = known

    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        values = self.known if fresh_since <= self.confirmed_at else self.values
        out[...] = values[first : first + len(out)]


@pytest.mark.parametrize("is_compared", [False, True])
@pytest.mark.parametrize("cut", [slice(2, 12), slice(4, 10), slice(2, 10), slice(5, 6)], ids=str)
def test_the_other_bytes_of_an_element_are_those_that_the_store_has_now(
    is_compared: bool, cut: slice
) -> None:
    stored = np.array([0x11223344, 0x55667788, 0x12345678], "i4")
    numbers = Outdated(np.zeros(3, "i4"), stored.copy())
    layout = Layout([Run(numbers, BIG, 0, 3, is_compared=is_compared)])
    wanted = bytearray(stored.astype(">i4").tobytes())
    wanted[cut] = b"\x01" * (cut.stop - cut.start)
    write_at(layout, cut.start, wanted[cut])
    assert numbers.values.astype(">i4").tobytes() == wanted


def test_whole_elements_are_compared_with_those_that_are_known() -> None:
    numbers = Outdated(np.array([1, 2], "i4"), np.array([1, 9], "i4"))
    write_at(Layout([Run(numbers, BIG, 0, 2, is_compared=True)]), 0, b"\0\0\0\x05\0\0\0\x02")
    assert numbers.written == [(0, 1)]


def test_a_write_is_refused_as_a_whole_when_one_byte_of_it_may_not_change() -> None:
    numbers = Numbers(np.arange(2, dtype="i4"))
    layout = Layout([Run(numbers, BIG, 0, 2), Literal(b"end")])
    with pytest.raises(NotPermitted, match="byte 10 "):
        write_at(layout, 0, b"\0\0\0\x09" * 2 + b"enD")
    assert numbers.written == []


@pytest.mark.parametrize("place", ["memory", "file"])
def test_bytes_that_may_be_written_and_are_forgotten(place: str, tmp_path: Path) -> None:
    data, forgotten = b"0123456789", ((2, 4), (9, 10))
    segment: Segment = Literal(data, forgotten)
    if place == "file":
        segment = FileLiteral(literal_file(tmp_path / "f", b"ab" + data), 2, 10, forgotten)
    layout = Layout([Literal(b"head"), segment])
    write_at(layout, 4, b"01xx45678x")
    assert bytes(read_at(layout, 4, 10, Tally())) == data
    with pytest.raises(NotPermitted, match="byte 8 "):
        write_at(layout, 4, b"01xxx5678x")


def test_literal_bytes_of_a_file_are_compared_where_they_lie(tmp_path: Path) -> None:
    layout = Layout([FileLiteral(literal_file(tmp_path / "f", b"0123456789"), 4, 5)])
    write_at(layout, 2, b"67")
    with pytest.raises(NotPermitted, match="byte 3 "):
        write_at(layout, 2, b"66")


def test_a_file_of_literal_bytes_is_closed_with_the_last_layout(tmp_path: Path) -> None:
    file = literal_file(tmp_path / "f", b"0123456789")
    layouts = [Layout([FileLiteral(file, begin, 2)]) for begin in (0, 2)]
    del file
    assert str(tmp_path / "f") in open_paths()
    del layouts
    gc.collect()
    assert str(tmp_path / "f") not in open_paths()


def test_literal_bytes_of_a_file_are_read_where_they_lie(tmp_path: Path) -> None:
    file = literal_file(tmp_path / "f", b"0123456789")
    layout = Layout([FileLiteral(file, 6, 3), Padding(2), FileLiteral(file, 0, 2)])
    assert bytes(read_at(layout, 1, 100, Tally())) == b"78\0\x0001"


def test_a_file_of_literal_bytes_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    file = literal_file(tmp_path / "f", b"0123456789")
    os.truncate(tmp_path / "f", 5)
    with pytest.raises(CorruptStore, match="ends before byte 8"):
        read_at(Layout([FileLiteral(file, 4, 4)]), 0, 4, Tally())


def test_padding_is_zeros_whatever_is_written_to_it() -> None:
    layout = Layout([Padding(4)])
    write_at(layout, 0, b"abcd")
    assert bytes(read_at(layout, 0, 4, Tally())) == bytes(4)
    assert bytes(read_at(layout, 3, 4, Tally())) == bytes(1)
    assert bytes(read_if_cached(layout, 1, 2, 0.0) or b"") == bytes(2)


def test_padding_that_is_kept_takes_zeros_and_names_the_first_other_byte() -> None:
    layout = Layout([Literal(b"head"), Padding(4, is_kept=True)])
    write_at(layout, 4, bytes(4))
    with pytest.raises(NotPermitted, match="byte 6 "):
        write_at(layout, 5, b"\0ab")


@pytest.mark.parametrize("dtype", ["i2", "f8", "c16", "U3", "M8[s]", "i1", "S3"])
def test_elements_in_the_other_byte_order_are_restored(dtype: str) -> None:
    values = np.arange(4).astype("i8").astype(dtype)
    form = BinaryForm(values.dtype.newbyteorder(">"))
    assert bytes(form.render(values)) == values.astype(form.dtype).tobytes()
    assert form.parse(form.render(values), values.dtype).tolist() == values.tolist()


def test_characters_beyond_unicode_are_refused_in_any_byte_order() -> None:
    form = BinaryForm(np.dtype(">U1"))
    with pytest.raises(BadValue, match="Unicode"):
        form.parse(b"\x00\x11\x00\x00", np.dtype("U1"))


@pytest.mark.parametrize(
    ("stop", "wanted"), [(4, 4), (8, 8), (12, 8), (16, 16), (20, 20), (26, 24), (31, 24), (32, 32)]
)
def test_records_wait_for_the_rest_of_a_text_at_the_end(stop: int, wanted: int) -> None:
    """Half of a text may be none; numbers are completed with what is stored."""
    text = Run(Numbers(np.array(["ab", "cd"])), Utf8Form(8), 0, 1)
    number = run(np.arange(4, dtype="i4"), ">i4", 2)
    assert settled(Layout([Records(((0, number), (8, text)), 16, 2)]), 0, stop) == wanted
