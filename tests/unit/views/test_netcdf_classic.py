"""Classic files, read by a reader that knows only the specification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nczfs.buffers import Values
from nczfs.engine.options import Tally
from nczfs.errors import NotPermitted
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Variable
from nczfs.testing.layouts import LayoutSuite
from nczfs.views.layout import Layout
from nczfs.views.netcdf.classic.layout import classic_layout
from nczfs.views.netcdf.classic.plan import planned
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import CLASSIC
from nczfs.views.reader import read_at
from nczfs.views.writer import write_at
from tests.support.classicfile import ClassicFile, parse
from tests.support.elements import Numbers
from tests.support.groups import group, number, said, variable

GIB, TIB = 1 << 30, 1 << 40
TYPES = ("|i1", "char", "<i2", ">i4", "<f4", ">f8", "|u1", ">u2", "<u4", "<i8", ">u8")


@dataclass
class Sources:
    """The elements of variables, made of their numbers."""

    made: dict[str, Numbers] = field(default_factory=dict)

    def __call__(self, variable: Variable) -> Numbers:
        if variable.path not in self.made:
            made = Far(variable) if variable.array.size > 1 << 20 else None
            self.made[variable.path] = made or Numbers(some_values(variable))
        return self.made[variable.path]

    def values(self, variable: Variable) -> Values:
        return self(variable).values.reshape(variable.array.shape)


class Far(Numbers):
    """The numbers of a large array, made when they are read."""

    def __init__(self, variable: Variable) -> None:
        super().__init__(np.empty(0, variable.array.dtype.native))
        self._size = variable.array.size

    def read(self, first: int, out: Values, tally: Tally, fresh_since: float) -> None:
        assert 0 <= first <= first + len(out) <= self._size
        out[...] = (np.arange(first, first + len(out)) % 101).astype(out.dtype)


def some_values(variable: Variable) -> Values:
    dtype = variable.array.dtype.native
    numbers = np.arange(variable.array.size) * 7 + len(variable.path)
    if dtype.kind == "S":
        return (numbers % 256).astype("u1").view("S1").astype(dtype)
    if dtype.kind == "U":
        return np.array([f"ż{number % 10}" for number in numbers], dtype)
    return (numbers % 101).astype(dtype)


def texts(variable: Variable) -> tuple[str, ...]:
    return tuple("ab" * (number % 4) for number in range(variable.array.size))


def layout_of(*members: Variable, sources: Sources | None = None) -> Layout:
    content = file_content(group("", *members), CLASSIC, texts)
    assert content.omitted == ()
    return classic_layout(content, sources or Sources())


def read(layout: Layout, start: int, size: int) -> bytes:
    return bytes(read_at(layout, start, size, Tally()))


def whole(layout: Layout) -> bytes:
    return read(layout, 0, layout.size)


def parsed(layout: Layout) -> ClassicFile:
    return parse(read(layout, 0, 1 << 20))


def record(path: str, dtype: Any, count: int, **inner: int) -> Variable:
    return variable(path, dtype, {"t": count} | inner, unlimited=("t",))


class TestFileWithRecords(LayoutSuite):
    """Fixed variables, a text of variable length in records, a number between."""

    @pytest.fixture
    def layout(self) -> Layout:
        return layout_of(
            record("a", "<i2", 5, x=3),
            variable("fixed", "<f8", {"x": 3}),
            variable("byte", "|i1"),
            variable("s", "|O", {"t": 5}, filters=("vlen-utf8",), unlimited=("t",)),
            record("b", "<f4", 5),
        )


class TestFileWithoutRecords(LayoutSuite):
    """Text, which is only exact as a whole, between numbers that are widened."""

    @pytest.fixture
    def layout(self) -> Layout:
        return layout_of(
            variable("h", "<f2", {"x": 3}), variable("c", "char", {"x": 3}), variable("n", ">i4")
        )


def test_each_type_is_read_by_the_specification() -> None:
    sources = Sources()
    members = [variable(f"v{i}", dtype, {"x": 5}) for i, dtype in enumerate(TYPES)]
    layout = layout_of(*members, sources=sources)
    found = parsed(layout)
    assert found.version == 5
    assert [v.type for v in found.variables.values()] == list(range(1, 12))
    for member in members:
        values = found.values(member.name, lambda start, size: read(layout, start, size))
        np.testing.assert_array_equal(values, sources.values(member))


@st.composite
def structures(draw: st.DrawFn) -> list[Variable]:
    """Variables of any type and shape, some of them with the record dimension."""
    lengths = {f"d{i}": draw(st.integers(1, 4)) for i in range(3)}
    count = draw(st.integers(0, 5))
    members = []
    for index in range(draw(st.integers(0, 6))):
        names = draw(st.lists(st.sampled_from(sorted(lengths)), max_size=3))
        inner = {name: lengths[name] for name in names}
        dtype = draw(st.sampled_from(TYPES[: draw(st.sampled_from((6, 11)))]))
        place = f"v{index}"
        if draw(st.booleans()):
            members.append(record(place, dtype, count, **inner))
        else:
            members.append(variable(place, dtype, inner))
    return members


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(members=structures(), data=st.data())
def test_any_structure_is_read_by_the_specification(
    members: list[Variable], data: st.DataObject
) -> None:
    sources = Sources()
    layout = layout_of(*members, sources=sources)
    everything = whole(layout)
    found = parse(everything)
    for member in members:
        values = found.values(member.name, lambda start, size: everything[start : start + size])
        np.testing.assert_array_equal(values, sources.values(member))
    begins = [v.begin for v in found.variables.values()]
    assert all(begin % 4 == 0 for begin in begins)
    if members:
        assert min(begins) == 4096
    ends = [
        v.begin + v.row_bytes + found.record_bytes * (found.records - 1) * v.is_record
        for v in found.variables.values()
        if found.records or not v.is_record
    ]
    assert max(ends, default=found.size) <= layout.size
    start = data.draw(st.integers(0, layout.size))
    stop = data.draw(st.integers(start, layout.size))
    assert read(layout, start, stop - start) == everything[start:stop]


def test_a_single_record_variable_has_no_padding() -> None:
    layout = layout_of(record("v", "|i1", 5, x=3))
    assert parsed(layout).variables["v"].vsize == 4
    assert layout.size == 4096 + 15
    assert read(layout, 4096, 15) == ((np.arange(15) * 7 + 1) % 101).astype("i1").tobytes()


def test_two_record_variables_are_padded() -> None:
    layout = layout_of(record("v", "|i1", 5, x=3), record("w", "<i2", 5))
    assert layout.size == 4096 + 5 * 8


def test_records_without_any_are_a_record_dimension_of_length_0() -> None:
    found = parsed(layout_of(record("v", "<f4", 0, x=3), variable("w", "<f4", {"x": 3})))
    assert (found.records, found.dimensions) == (0, {"t": 0, "x": 3})


def test_a_fixed_dimension_of_length_0_becomes_the_record_dimension() -> None:
    found = parsed(layout_of(variable("v", "<f4", {"none": 0, "x": 3})))
    assert (found.records, found.dimensions) == (0, {"none": 0, "x": 3})


def test_strings_of_variable_length_stand_in_their_records() -> None:
    text = variable("s", "|O", {"t": 5}, filters=("vlen-utf8",), unlimited=("t",))
    layout = layout_of(text, record("n", "<i4", 5))
    found = parsed(layout)
    values = found.values("s", lambda start, size: read(layout, start, size))
    assert values.tobytes() == b"".join(t.encode().ljust(6, b"\0") for t in texts(text))
    assert found.variables["s"].dimensions == ("t", "string6")


def test_text_of_any_kind_is_utf_8() -> None:
    layout = layout_of(variable("u", "<U3", {"x": 2}), variable("b", "|S2", {"x": 2}))
    found = parsed(layout)
    assert read(layout, found.variables["u"].begin, 24) == "ż1".encode().ljust(12, b"\0") + (
        "ż8".encode().ljust(12, b"\0")
    )
    assert found.variables["u"].attributes == {"_Encoding": (2, b"utf-8")}


@pytest.mark.parametrize(
    ("members", "version"),
    [
        ([variable("v", "<f8", {"x": 8})], 1),
        ([variable("v", "<i8")], 5),
        ([variable("v", "|u1")], 5),
        ([variable("v", "<f4", {"x": 8 * GIB // 4 - 8})], 1),
        ([variable("v", "<f4", {"y": 1 << 20, "x": 1 << 13})], 1),
        ([variable("v", "<f4", {"y": 1 << 20, "x": 1 << 13}), variable("w")], 5),
        ([variable("w"), variable("v", "<f4", {"y": 1 << 20, "x": 1 << 13})], 1),
        ([variable("v", "<f4", {"y": 1 << 20, "x": 900}), variable("w")], 2),
        ([variable("v", "|i1", {"x": 2 * GIB - 4}), variable("w")], 2),
        ([variable("v", "|i1", {"x": 2 * GIB - 3})], 5),
        ([variable("v", "<f4", {"y": 1 << 20, "x": 1 << 13}), record("t", "<f8", 4)], 5),
        ([record("v", "<f4", 5 * 1024, y=1 << 20, x=1 << 9)], 1),
        ([record("t", "<f8", 5 * 1024), record("v", "<f4", 5 * 1024, y=1 << 20, x=1 << 9)], 1),
        ([record("v", "<f4", 5 * 1024, y=1 << 20, x=1 << 9), record("t", "<f8", 5 * 1024)], 2),
        ([record("v", "<f4", 5 * 1024, y=1 << 20, x=1 << 10), record("t", "<f8", 5 * 1024)], 5),
        ([variable("v", "|i1", {"x": 1 << 62})], 5),
    ],
)
def test_the_version_is_the_oldest_that_can_hold_the_file(
    members: list[Variable], version: int
) -> None:
    assert parsed(layout_of(*members)).version == version


def test_no_file_has_more_than_2_to_the_63_bytes() -> None:
    large, small = variable("v", "<f8", {"x": 1 << 62}), variable("w")
    content = file_content(group("", large, small), CLASSIC, texts)
    assert [v.name for v in content.variables()] == ["w"]
    assert "/v: its 36893488147419103232 bytes are more than the file can have" in content.omitted
    classic_layout(content, Sources())


@pytest.mark.parametrize("size", [2**32 - 4, 2**32])
def test_a_variable_that_is_too_large_for_its_size_says_the_largest_number(size: int) -> None:
    big = variable("v", "|i1", {"y": size // 4, "x": 4})
    assert parsed(layout_of(variable("w"), big)).variables["v"].vsize == min(size, 2**32 - 1)


def test_ten_tebibytes_are_exact_at_their_far_end() -> None:
    shape = {"y": 1 << 19, "x": 1 << 11}
    layout = layout_of(
        record("a", "<f4", 2500, **shape),
        variable("b", ">i2", {"x": 1 << 11}),
        record("t", "<f8", 2500),
    )
    found = parsed(layout)
    assert (found.version, found.records) == (5, 2500)
    assert layout.size == 4096 + (2 << 11) + 2500 * ((4 << 30) + 8) > 9.7 * TIB
    last = found.variables["a"].begin + 2499 * found.record_bytes
    first = (2499 << 30) % 101
    assert np.frombuffer(read(layout, last, 12), ">f4").tolist() == [
        (first + n) % 101 for n in range(3)
    ]
    assert np.frombuffer(read(layout, layout.size - 8, 100), ">f8") == (2499 * 7 + 1) % 101


def test_five_tebibytes_of_smaller_records_are_of_the_second_version() -> None:
    layout = layout_of(record("a", "<f4", 2560, y=1 << 18, x=1 << 11), record("t", "<f8", 2560))
    assert parsed(layout).version == 2


def test_ten_thousand_variables_are_laid_out_at_once() -> None:
    members = [
        variable(f"v{i}", "<f4", {"x": 3}, attributes=(said("a", "b"),)) for i in range(9999)
    ]
    found = parsed(layout_of(*members, record("t", "<f8", 2)))
    assert len(found.variables) == 10_000
    assert found.variables["v9998"].begin == found.variables["v0"].begin + 9998 * 12


def test_numbers_without_a_type_in_old_versions_are_ints_or_doubles() -> None:
    attributes = (
        number("small", NcType.INT64, 1, -(2**31)),
        number("large", NcType.UINT64, 2**63),
        number("bytes", NcType.UBYTE, 255),
        number("none", NcType.UINT),
        said("names", ("one", "two")),
        said("json", {"a": [1, None]}),
    )
    old = parsed(layout_of(variable("v", attributes=attributes))).variables["v"].attributes
    assert old == {
        "small": (4, np.array([1, -(2**31)], ">i4").tobytes()),
        "large": (6, np.array([2.0**63], ">f8").tobytes()),
        "bytes": (4, np.array([255], ">i4").tobytes()),
        "none": (4, b""),
        "names": (2, b"one\ntwo"),
        "json": (2, b'{"a": [1,null]}'),
    }
    new = parsed(layout_of(variable("v", "<i8", attributes=attributes))).variables["v"].attributes
    assert [nc_type for nc_type, _ in new.values()] == [10, 11, 7, 9, 2, 2]


def test_a_write_of_whole_blocks_changes_only_the_elements_that_differ() -> None:
    sources = Sources()
    layout = layout_of(
        variable("v", "<i4", {"x": 100}),
        record("a", "<i2", 3),
        record("b", "<f8", 3),
        sources=sources,
    )
    block = bytearray(whole(layout))
    found = parse(bytes(block))
    at = found.variables["v"].begin + 8
    block[at : at + 4] = (77).to_bytes(4, "big")
    later = found.variables["b"].begin + 2 * found.record_bytes
    block[later : later + 8] = np.array([2.5], ">f8").tobytes()
    write_at(layout, 0, bytes(block))
    assert sources.made["v"].written == [(2, 3)]
    assert sources.made["b"].written == [(2, 3)]
    assert sources.made["a"].written == []
    assert whole(layout) == bytes(block)


@pytest.mark.parametrize("at", [5, 20, 4000])
def test_no_byte_of_the_header_nor_of_the_room_behind_it_changes(at: int) -> None:
    sources = Sources()
    layout = layout_of(variable("v", "<i4", {"x": 100}), sources=sources)
    block = bytearray(whole(layout))
    block[at] ^= 1
    block[-1] ^= 1
    with pytest.raises(NotPermitted):
        write_at(layout, 0, bytes(block))
    assert sources.made["v"].written == []


def test_padding_takes_any_bytes_and_keeps_none() -> None:
    layout = layout_of(variable("v", "|i1", {"x": 3}), variable("w", "|i1", {"x": 3}))
    write_at(layout, 4096 + 3, b"x")
    assert read(layout, 4096 + 3, 1) == b"\0"


def test_the_plan_keeps_variables_in_their_order() -> None:
    content = file_content(
        group("", record("a", "<i2", 3), variable("b", "|i1", {"x": 5}), record("c", "<i2", 3)),
        CLASSIC,
        texts,
    )
    plan = planned(content)
    assert [(p.variable.name, p.begin, p.size) for p in plan.places] == [
        ("a", 4104, 2),
        ("b", 4096, 5),
        ("c", 4108, 2),
    ]
    assert plan.size == plan.records_begin + 3 * 8
