"""Sets of chunks, in whichever form their grid has them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex, RegularGrid
from nczfs.tools import chunkset
from nczfs.tools.chunkset import ChunkSet

Case = tuple[RegularGrid, list[ChunkIndex], Box]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    counts = draw(st.lists(st.integers(0, 5), max_size=3).map(tuple))
    grid = RegularGrid(tuple(3 * n for n in counts), (3,) * len(counts))
    every = list(product(*map(range, counts)))
    added = draw(st.lists(st.sampled_from(every))) if every else []
    start = tuple(draw(st.integers(0, n)) for n in counts)
    stop = tuple(draw(st.integers(a, n)) for a, n in zip(start, counts, strict=True))
    return grid, added, Box(start, stop)


def test_two_threads_that_look_first_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunkset, "BITMAP_BYTES_MAX", 0)
    found = ChunkSet(RegularGrid((30,), (3,)))
    found.add((4,))
    has_come, may_go, union = threading.Event(), threading.Event(), np.union1d

    def stopped(*given: Any) -> Any:
        has_come.set()
        assert may_go.wait(60)
        return union(*given)

    monkeypatch.setattr(np, "union1d", stopped)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(found.__contains__, (4,))
        assert has_come.wait(60)
        second = pool.submit(found.__contains__, (4,))
        wait([second], 0.2)  # unless it waits
        may_go.set()
        assert (first.result(), second.result()) == (True, True)


@given(
    case=cases(),
    bitmap_bytes_max=st.sampled_from([0, 1, 100]),
    gathered=st.sampled_from([0, 2, 1000]),
)
def test_a_set_has_what_was_added(case: Case, bitmap_bytes_max: int, gathered: int) -> None:
    grid, added, box = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunkset, "BITMAP_BYTES_MAX", bitmap_bytes_max)
        patch.setattr(chunkset, "_BLOCK", 3)
        patch.setattr(chunkset, "_GATHERED", gathered)
        chunks = ChunkSet(grid)
        for chunk in added:
            chunks.add(chunk)
        every = list(product(*map(range, grid.counts)))
        inside = list(product(*map(range, box.start, box.stop)))
        assert [chunk for chunk in every if chunk in chunks] == sorted(set(added))
        assert list(chunks) == sorted(set(added))
        assert list(chunks.missing()) == [chunk for chunk in every if chunk not in added]
        assert list(chunks.within(box)) == [chunk for chunk in inside if chunk in added]
        assert chunks.has_any(box) == any(chunk in added for chunk in inside)
        assert chunks.has_all(box) == all(chunk in added for chunk in inside)


def test_a_grid_may_have_more_chunks_than_a_machine_word_counts() -> None:
    length = 2**62
    chunks = ChunkSet(RegularGrid((length, length, 4), (1, 1, 1)))
    last = (length - 1, length - 1, 3)
    chunks.add(last)
    chunks.add((0, 0, 1))
    assert last in chunks
    assert (length - 1, length - 1, 2) not in chunks
    everywhere = Box((0, 0, 0), (length, length, 4))
    assert list(chunks.within(everywhere)) == [(0, 0, 1), last]
    assert list(islice(chunks.missing(), 3)) == [(0, 0, 0), (0, 0, 2), (0, 0, 3)]
