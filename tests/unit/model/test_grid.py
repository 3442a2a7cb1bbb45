"""Chunk grids: the pieces of a box."""

from __future__ import annotations

from itertools import islice
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.boxes import Box, index_of
from nczfs.model.grid import RegularGrid
from nczfs.model.hierarchy import ChunkKeys


@st.composite
def boxes_in_grids(draw: st.DrawFn) -> tuple[RegularGrid, Box]:
    shape = tuple(draw(st.lists(st.integers(0, 7), max_size=3)))
    chunks = tuple(draw(st.integers(1, 8)) for _ in shape)
    start = tuple(draw(st.integers(0, n)) for n in shape)
    stop = tuple(draw(st.integers(a, n)) for a, n in zip(start, shape, strict=True))
    return RegularGrid(shape, chunks), Box(start, stop)


@given(boxes_in_grids())
def test_the_parts_of_a_box_put_together_are_the_box(case: tuple[RegularGrid, Box]) -> None:
    grid, box = case
    array = np.arange(prod(grid.shape)).reshape(grid.shape)
    padded = np.full([n * c for n, c in zip(grid.counts, grid.chunk_shape, strict=True)], -1)
    padded[tuple(slice(n) for n in grid.shape)] = array
    out = np.full(box.shape, -2)
    for part in grid.parts(box):
        origin = grid.origin(part.chunk)
        chunk = padded[
            tuple(slice(o, o + c) for o, c in zip(origin, grid.chunk_shape, strict=True))
        ]
        assert part.chunk in grid
        out[part.target.slices()] = chunk[part.source.slices()]
    np.testing.assert_array_equal(out, array[box.slices()])


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
