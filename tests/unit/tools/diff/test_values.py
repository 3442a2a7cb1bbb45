"""How values differ: which, how many, how much; of all types, in any blocks."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.grid import RegularGrid, Slices
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.diff.differences import ValueDifferences
from nczfs.tools.diff.values import EXACT, Compared, Tolerance, value_differences
from nczfs.tools.transfer.source import Content

Array = np.ndarray[Any, np.dtype[Any]]
MEMORY = 1 << 20
PAIR = [("a", "i4"), ("b", "f4", (2,))]


def content_of(values: Array, chunks: tuple[int, ...] | None = None) -> Content:
    def read(selection: Slices) -> Array:
        index: tuple[Any, ...] = (*selection, ...)
        part: Array = values[index]
        return part

    return Content(values.shape, chunks or values.shape or (), max(1, values.itemsize), read)


def compared(
    a: Any, b: Any, tolerance: Tolerance = EXACT, memory: int = MEMORY
) -> ValueDifferences | None:
    one, other = (Compared(content_of(np.asarray(values))) for values in (a, b))
    return value_differences(one, other, memory, lambda _: None, tolerance=tolerance)


arrays = st.integers(0, 2).flatmap(
    lambda ndim: st.tuples(
        st.lists(st.integers(1, 5), min_size=ndim, max_size=ndim),
        st.lists(st.integers(1, 5), min_size=2 * ndim, max_size=2 * ndim),
        st.data(),
    )
)


@given(case=arrays, memory=st.integers(1, 200))
def test_count_place_and_size_are_those_of_numpy(case: Any, memory: int) -> None:
    shape, chunks, data = case
    ndim, count = len(shape), int(np.prod(shape))
    values = st.lists(
        st.sampled_from([0.0, -0.0, 1.5, -3.0, nan, inf]), min_size=count, max_size=count
    )
    a, b = (np.array(data.draw(values)).reshape(shape) for _ in range(2))
    one = Compared(content_of(a, tuple(chunks[:ndim])))
    other = Compared(content_of(b, tuple(chunks[ndim:])))
    done: list[float] = []
    found = value_differences(one, other, memory, done.append, tolerance=EXACT)
    assert sum(done) == a.nbytes
    flags = np.asarray((a != b) & ~(np.isnan(a) & np.isnan(b)))
    if not flags.any():
        assert found is None
        return
    assert found is not None
    assert (found.count, found.total) == (flags.sum(), flags.size)
    assert found.first == tuple(np.argwhere(flags)[0].tolist())
    with np.errstate(invalid="ignore"):
        distance = np.abs(a - b)[flags]
    finite = distance[np.isfinite(distance)]
    assert found.largest == (finite.max() if finite.size else None)


@pytest.mark.parametrize(
    ("a", "b", "largest"),
    [
        (np.array([0, 1], "i1"), np.array([0, -128], "i1"), 129),
        (np.array([2**63 - 1], "i8"), np.array([-(2**63)], "i8"), 2**64 - 1),
        (np.array([2**64 - 1], "u8"), np.array([0], "u8"), 2**64 - 1),
        (np.array([2**64 - 1], "u8"), np.array([-1], "i8"), 2**64),
        (np.array([2**53 + 1], ">i8"), np.array([2**53], "<i8"), 1),
        (np.array([True]), np.array([False]), 1),
        (np.array([1.5], "f4"), np.array([1], "i2"), 0.5),
        (np.array([3j]), np.array([4.0]), 5.0),
        (np.array([1e308]), np.array([-1e308]), None),
        (np.array([nan]), np.array([1.0]), None),
        (np.array("2000-01-01", "M8[s]"), np.array("NaT", "M8[s]"), None),
        (np.array([b"a"]), np.array([b"b"]), None),
    ],
)
def test_differences_of_all_types_are_exact(a: Array, b: Array, largest: object) -> None:
    found = compared(a, b)
    assert found is not None
    assert (found.count, found.largest) == (1, largest)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (np.array([nan, 0.0]), np.array([nan, -0.0])),
        (np.array([1, 2], ">i2"), np.array([1, 2], "<i8")),
        (np.array([1.0]), np.array([1], "u1")),
        (np.array(["NaT"], "M8[s]"), np.array(["NaT"], "M8[s]")),
        (np.array([b"a\0", b"\xff"], "S2"), np.array(["a", "\udcff"], object)),
        (np.array(["\u00e4", ""]), np.array(["\u00e4".encode(), b""])),
        (np.array([b"x"], "S1"), np.array(["x"], object)),
        (
            np.array([None, {"b": 1, "a": [2]}], object),
            np.array([None, {"a": [2], "b": 1}], object),
        ),
        (
            np.zeros(2, [("a", "i4"), ("b", "f4", (2,))]),
            np.zeros(2, [("a", "i4"), ("b", "f4", (2,))]),
        ),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (np.float32(2.5), np.float64(2.5)),
    ],
)
def test_what_means_the_same_is_the_same(a: Any, b: Any) -> None:
    assert compared(a, b) is None


def test_arrays_of_variable_length_are_compared_by_their_elements() -> None:
    a, b = (np.empty(2, object) for _ in range(2))
    a[:] = b[:] = [np.array([1, 2]), np.array([3])]
    assert compared(a, b) is None
    b[1] = np.array([3, 3])
    found = compared(a, b)
    assert found is not None
    assert found.first == (1,)


def test_structures_differ_by_any_of_their_bytes() -> None:
    a, b = (np.zeros(3, PAIR) for _ in range(2))
    b["b"][1, 1] = 1
    found = compared(a, b)
    assert found is not None
    assert (found.count, found.first) == (1, (1,))


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (np.zeros(2), np.array(["a", "b"]), "numbers and texts or objects"),
        (np.zeros(2), np.zeros((2, 1)), "1 dimension and 2 dimensions"),
        (
            np.zeros(2, [("a", "i4")]),
            np.zeros(2, [("b", "i4")]),
            "[('a', '<i4')] and [('b', '<i4')]",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(a: Array, b: Array, reason: str) -> None:
    found = compared(a, b)
    assert found is not None
    assert found.text == f"not compared: {reason}"


def test_what_one_side_has_more_of_is_not_compared() -> None:
    assert compared(np.arange(6).reshape(3, 2), np.arange(8).reshape(4, 2)) is None
    assert compared(np.arange(3), np.arange(0)) is None


def test_a_tolerance_makes_near_numbers_the_same() -> None:
    a, b = np.array([1.0, 100.0, nan, inf]), np.array([1.05, 101.0, nan, inf])
    assert compared(a, b, Tolerance(absolute=1.0)) is None
    assert compared(a, b, Tolerance(relative=0.05)) is None
    found = compared(a, b, Tolerance(absolute=0.1))
    assert found is not None
    assert (found.count, found.first, found.largest) == (1, (1,), 1.0)
    assert compared(np.array([nan]), np.array([1.0]), Tolerance(absolute=inf)) is not None
    assert (
        compared(np.array([2**63], "u8"), np.array([-1], "i8"), Tolerance(absolute=1.0)) is not None
    )


def test_infinity_is_near_no_number_within_any_tolerance() -> None:
    numbers, infinite = np.array([1.0, -inf]), np.array([inf, inf])
    assert compared(numbers, infinite, Tolerance(relative=0.1)) == ValueDifferences(
        2, 2, (0,), "1.0", "inf", None
    )


def test_a_tolerance_is_exact_for_integers() -> None:
    a, b = np.array([2**63, -128], "O"), np.array([2**63 + 1, -127], "O")
    assert compared(a[:1].astype("u8"), b[:1].astype("u8"), Tolerance(absolute=0.5)) is not None
    assert compared(a[:1].astype("u8"), b[:1].astype("u8"), Tolerance(absolute=1.0)) is None
    assert compared(b[1:].astype("i1"), a[1:].astype("i1"), Tolerance(relative=0.1)) is None


def sparse(
    written: dict[int, float],
    shape: tuple[int, ...] = (1 << 62,),
    chunk: int = 1 << 10,
    fill: float = 0.0,
) -> Compared:
    """One dimension of a fill value, and some numbers; only chunks that hold one are stored."""
    stored = ChunkSet(RegularGrid(shape, (chunk,)))
    for index in written:
        stored.add((index // chunk,))

    def read(selection: Slices) -> Array:
        (part,) = selection
        values = np.full(part.stop - part.start, fill)
        for index, value in written.items():
            if part.start <= index < part.stop:
                values[index - part.start] = value
        return values

    return Compared(Content(shape, (chunk,), 8, read), stored)


def difference_of(
    one: Compared, other: Compared, memory: int = 1 << 30
) -> tuple[ValueDifferences | None, float]:
    """What differs, and how many bytes were said to be done."""
    done: list[float] = []
    found = value_differences(one, other, memory, done.append, tolerance=EXACT)
    return found, sum(done)


def test_of_an_array_of_exabytes_only_what_is_stored_is_read() -> None:
    far = (1 << 62) - 1
    found, done = difference_of(sparse({5: 1.0, 6: 1.0}), sparse({6: 1.0, far: 2.0}))
    assert found == ValueDifferences(2, 1 << 62, (5,), "1.0", "0.0", 2.0)
    assert done == 8 << 62
    assert difference_of(sparse({}), sparse({})) == (None, 8 << 62)


def test_elements_that_neither_side_stored_are_compared_as_one() -> None:
    one, other = sparse({5: 1.0}), sparse({5: 1.0}, fill=3.0)
    found, _ = difference_of(one, other)
    apart = (1 << 62) - 1
    assert found == ValueDifferences(apart, 1 << 62, (0,), "0.0", "3.0", 3.0)
    assert difference_of(other, replace(other)) == (None, 8 << 62)


def test_chunks_beyond_the_shorter_side_are_not_read() -> None:
    one, other = sparse({3: 1.0, 5000: 1.0}, (9000,), 10), sparse({3: 2.0}, (15,), 8)
    found, done = difference_of(one, other)
    assert found == ValueDifferences(1, 15, (3,), "1.0", "2.0", 1.0)
    assert done == 9000 * 8


def test_everything_is_read_where_it_is_not_known_what_is_stored() -> None:
    written, holes = sparse({33: 1.0}, (100,), 10), sparse({}, (100,), 10)
    unknown = replace(written, stored=None)
    assert difference_of(unknown, holes) == difference_of(written, holes)


@given(
    places=st.tuples(*[st.dictionaries(st.integers(0, 99), st.integers(1, 3))] * 2),
    fills=st.tuples(*[st.integers(0, 1)] * 2),
    chunks=st.tuples(*[st.integers(1, 40)] * 2),
    memory=st.integers(1, 4000),
)
def test_what_is_stored_is_compared_in_any_chunks(
    places: tuple[dict[int, float], ...],
    fills: tuple[float, ...],
    chunks: tuple[int, ...],
    memory: int,
) -> None:
    sides = [sparse(p, (100,), c, f) for p, c, f in zip(places, chunks, fills, strict=True)]
    one, other = sides
    values = [side.content.read((slice(0, 100),)) for side in sides]
    apart = np.flatnonzero(values[0] != values[1]).tolist()
    found, done = difference_of(one, other, memory)
    assert done == 800
    assert (found.count, found.first) == (len(apart), (apart[0],)) if found else not apart
