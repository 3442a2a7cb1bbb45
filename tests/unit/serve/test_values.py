"""The blocks of an answer: every selected element once, in C order, none larger than allowed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczfs
from nczfs.engine.arrays.array import Array
from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.options import Tally
from nczfs.errors import CodecError
from nczfs.serve.values import block_selections, value_blocks


@st.composite
def _selections(draw: st.DrawFn) -> tuple[tuple[int, ...], list[range]]:
    shape = draw(st.lists(st.integers(1, 6), max_size=3))
    ranges = []
    for length in shape:
        first = draw(st.integers(0, length - 1))
        last = draw(st.integers(first - 1, length - 1))
        step = draw(st.integers(1, 4))
        ranges.append(range(first, last + 1, step) if last >= first else range(0))
    return tuple(shape), ranges


@given(_selections(), st.integers(1, 40), st.data())
def test_blocks_are_the_selection_in_order(
    selected: tuple[tuple[int, ...], list[range]], elements: int, data: st.DataObject
) -> None:
    shape, ranges = selected
    chunks = [data.draw(st.integers(1, length)) for length in shape]
    everything = np.arange(prod(shape)).reshape(shape)
    blocks = list(block_selections(ranges, chunks, elements))
    assert all(prod(block.shape) <= elements for block in blocks)
    found = [everything[np.ix_(*block.axes)].reshape(-1) for block in blocks]
    expected = everything[np.ix_(*ranges)].reshape(-1)
    assert np.concatenate([np.empty(0, int), *found]).tolist() == expected.tolist()


def test_a_block_ends_with_a_chunk_where_one_ends_in_it() -> None:
    blocks = list(block_selections([range(1, 100, 3)], [10], 8))
    assert [block.axes[0][-1] // 10 for block in blocks[:3]] == [1, 3, 5]
    for block, following in pairwise(blocks):
        assert block.axes[0][-1] // 10 < following.axes[0][0] // 10


@pytest.mark.parametrize("codecs", ["none", "blosc", "cached"])
@pytest.mark.parametrize("rows", [range(10), range(1, 10, 3)])
def test_blocks_come_in_the_byte_order_that_is_asked_for(
    codecs: str, rows: range, tmp_path: Path
) -> None:
    """A chunk may be decoded in place, copied from its bytes, from the cache, or be a hole."""
    values = np.arange(60, dtype="f4").reshape(10, 6)
    values[4:6] = 7
    blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    chain = [blosc] if codecs == "blosc" else []
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr2") as made:
        v = made.create_variable("v", (10, 6), "f4", chunks=(2, 6), codecs=chain, fillvalue=7.0)
        v[...] = values
    assert not (tmp_path / "d/v/2.0").exists()
    with nczfs.open(str(tmp_path / "d")) as opened:
        variable = opened.variables["v"]
        if codecs == "cached":
            assert np.array_equal(variable[:3], values[:3])
        array = opened.engine_dataset.array(variable.description)
        blocks = value_blocks(array, [rows, range(6)], 0.0, 100, np.dtype(">f4"))
        found = b"".join(block.tobytes() for block in blocks)
    assert found == values[rows].astype(">f4").tobytes()


# -- work on the next block ------------------------------------------------------------------------


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Array]:
    """Six chunks of one row, of which the last one is broken."""
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr2") as made:
        v = made.create_variable("v", (6, 8), "f4", chunks=(1, 8))
        v[...] = np.arange(48, dtype="f4").reshape(6, 8)
    (tmp_path / "d/v/5.0").write_bytes(b"broken")
    with nczfs.open(str(tmp_path / "d")) as opened:
        yield opened.engine_dataset.array(opened.variables["v"].description)


def test_the_next_chunk_is_decoded_while_one_is(
    rows: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = threading.Barrier(2)
    copy = ArrayChunks.copy_past_cache

    def met(chunks: ArrayChunks, *words: Any) -> None:
        meeting.wait(60)
        copy(chunks, *words)

    monkeypatch.setattr(ArrayChunks, "copy_past_cache", met)
    blocks = value_blocks(rows, [range(2), range(8)], 0.0, 32)
    assert np.concatenate(list(blocks)).tolist() == list(range(16))


def test_an_error_of_a_block_comes_after_the_blocks_before_it(rows: Array) -> None:
    blocks = value_blocks(rows, [range(6), range(8)], 0.0, 32)
    assert [next(blocks)[0] for _ in range(5)] == [0, 8, 16, 24, 32]
    with pytest.raises(CodecError):
        next(blocks)


def test_the_next_chunk_of_a_far_store_is_requested_ahead(
    rows: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[tuple[int, ...]] = []
    request = Array.request

    def noted(array: Array, index: tuple[int, ...], tally: Tally, fresh_since: float) -> bool:
        requested.append(index)
        return request(array, index, tally, fresh_since)

    monkeypatch.setattr(Array, "request", noted)
    monkeypatch.setattr(rows, "far", True)
    blocks = value_blocks(rows, [range(5), range(8)], 0.0, 32)
    assert next(blocks).tolist() == list(range(8))
    assert requested == [(1, 0)]
    assert np.concatenate(list(blocks)).tolist() == list(range(8, 40))
    assert requested == [(1, 0), (2, 0), (3, 0), (4, 0)]
