"""Chunk grids: the pieces of a box."""

from __future__ import annotations

from itertools import accumulate, islice, pairwise
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.boxes import Box, index_of
from nczfs.model.grid import ChunkGrid, ChunkInterval, RectilinearGrid, RegularGrid, UnevenCuts
from nczfs.model.hierarchy import ChunkKeys
from tests.support.grids import grids, uneven_cuts


@st.composite
def boxes_in_grids(draw: st.DrawFn) -> tuple[ChunkGrid, Box]:
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
    start = tuple(draw(st.integers(0, n)) for n in shape)
    stop = tuple(draw(st.integers(a, n)) for a, n in zip(start, shape, strict=True))
    return draw(grids(shape)), Box(start, stop)


@given(boxes_in_grids())
def test_the_parts_of_a_box_put_together_are_the_box(case: tuple[ChunkGrid, Box]) -> None:
    grid, box = case
    array = np.arange(prod(grid.shape)).reshape(grid.shape)
    padded = np.full([n + c for n, c in zip(grid.shape, grid.chunk_shape, strict=True)], -1)
    padded[tuple(slice(n) for n in grid.shape)] = array
    out = np.full(box.shape, -2)
    for part in grid.parts(box):
        origin = grid.origin(part.chunk)
        chunk = padded[
            tuple(slice(o, o + c) for o, c in zip(origin, grid.extent(part.chunk), strict=True))
        ]
        assert part.chunk in grid
        out[part.target.slices()] = chunk[part.source.slices()]
    np.testing.assert_array_equal(out, array[box.slices()])
    if box.size:
        assert [part.chunk for part in grid.parts(box)] == list(grid.touched(box).indexes())


@given(st.data(), st.integers(0, 12))
def test_uneven_cuts_find_what_a_list_of_all_chunks_has(data: st.DataObject, length: int) -> None:
    cuts = data.draw(uneven_cuts(length))
    stops = list(accumulate(size for size, repeat in cuts.runs for _ in range(repeat)))
    places = [ChunkInterval(i, a, b) for i, (a, b) in enumerate(pairwise([0, *stops]))]
    for position in range(length):
        (place,) = (each for each in places if each.start <= position < each.stop)
        assert cuts.at(position) == cuts.place(place.number) == place
    numbers, within = cuts.found(np.arange(length))
    assert [(n, w) for n, w in zip(numbers, within, strict=True)] == [
        (cuts.at(i).number, i - cuts.at(i).start) for i in range(length)
    ]
    assert cuts.count(length) == sum(place.start < length for place in places)
    assert (cuts.stop, max(cuts.lengths)) == (stops[-1], max(b.stop - b.start for b in places))


def test_repeated_lengths_are_never_listed() -> None:
    grid = RectilinearGrid((3 * 10**15,), (UnevenCuts(((2, 10**15), (1, 10**15))),))
    assert grid.counts == (2 * 10**15,)
    assert grid.box((10**15 + 5,)) == Box((2 * 10**15 + 5,), (2 * 10**15 + 6,))
    assert (2 * 10**15,) not in grid


def test_the_box_of_a_scalar_touches_its_chunk() -> None:
    assert RegularGrid((), ()).touched(Box((), ())) == Box((), ())


def test_the_chunk_at_the_edge_is_cut_off_there() -> None:
    grid = RegularGrid((5, 4), (2, 3))
    assert grid.counts == (3, 2)
    assert grid.box((2, 1)) == Box((4, 3), (5, 4))


def test_an_array_of_length_zero_has_no_chunks() -> None:
    grid = RegularGrid((0, 4), (1, 2))
    assert grid.chunk_count == 0
    assert (0, 0) not in grid


def test_a_scalar_has_one_chunk() -> None:
    grid = RegularGrid((), ())
    assert grid.chunk_count == 1
    assert () in grid


def test_chunk_names_follow_the_separator_and_the_prefix() -> None:
    assert ChunkKeys().name((1, 20)) == "1.20"
    assert ChunkKeys("/").name((1, 20)) == "1/20"
    assert ChunkKeys("/", "c", "c").name((1, 20)) == "c/1/20"
    assert ChunkKeys("/", "c", "c").name(()) == "c"
    assert ChunkKeys().name(()) == "0"


def test_the_first_parts_of_a_box_of_very_many_chunks_come_at_once() -> None:
    length = 10**12
    for shape in ((length,), (3, length), (length, 3)):
        grid = RegularGrid(shape, (1,) * len(shape))
        found = [part.chunk for part in islice(grid.parts(Box((0,) * len(shape), shape)), 4)]
        assert found == [index_of(number, shape) for number in range(4)]
