"""How the elements of an array fall into its chunks."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from nczfs.engine.arrays.runs import row_elements, runs_of
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import ArrayDescription
from nczfs.zmap.memory import MemoryZMap


def described(shape: tuple[int, ...], chunks: tuple[int, ...]) -> ArrayDescription:
    with open_zmap(MemoryZMap(), "w") as dataset:
        return dataset.create_variable("v", shape, "i2", chunks=chunks).description.array


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((7,), (3,)),
        ((3, 5), (1, 2)),
        ((5, 4), (2, 4)),
        ((2, 3, 4, 5), (1, 1, 3, 5)),
        ((2, 3), (1, 1)),
    ],
)
def test_any_range_of_bytes_is_found_in_the_chunks_that_hold_it(
    shape: tuple[int, ...], chunks: tuple[int, ...]
) -> None:
    array = described(shape, chunks)
    values = np.arange(prod(shape), dtype="i2").reshape(shape)
    grid, data = array.grid, values.tobytes()
    runs = runs_of(array)
    assert runs is not None
    for start in range(len(data)):
        for stop in range(start, len(data) + 1):
            found = b""
            for index, first, size, share in runs.pieces(start, stop):
                chunk = values[grid.box(index).slices()].tobytes()
                assert share == size / len(chunk)
                found += chunk[first : first + size]
            assert found == data[start:stop]


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        pytest.param((4, 4), (2, 2), id="blocks"),
        pytest.param((4, 4), (4, 2), id="columns"),
        pytest.param((4, 0), (1, 1), id="no elements"),
        pytest.param((), (), id="a scalar"),
    ],
)
def test_chunks_that_are_no_runs_are_told(shape: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    assert runs_of(described(shape, chunks)) is None


def test_a_row_of_chunks_is_all_that_begins_together() -> None:
    assert row_elements(described((6, 10, 10), (2, 5, 5))) == 2 * 10 * 10
    assert row_elements(described((6, 10, 10), (1, 5, 5))) == 5 * 10
    assert row_elements(described((), ())) == 1
