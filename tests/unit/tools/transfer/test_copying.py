"""How values are cut into blocks, and what can be chosen of a source."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.errors import UsageError
from nczfs.model.grid import Slices
from nczfs.model.hierarchy import CodecSpec
from nczfs.tools.transfer.blocks import BlockSize, Shapes, block_shape, blocks, pieces
from nczfs.tools.transfer.cdl_source import cdl_source
from nczfs.tools.transfer.choices import Choices, chosen
from nczfs.tools.transfer.copying import Writes, copy, longest_string
from nczfs.tools.transfer.source import Content, variables_of

Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ndim = draw(st.integers(0, 4))
    lengths = st.lists(st.integers(1, 9), min_size=ndim, max_size=ndim).map(tuple)
    return draw(lengths), draw(lengths), draw(lengths)


sizes = st.tuples(st.integers(1, 3000), st.integers(1, 3000)).map(
    lambda pair: BlockSize(min(pair), max(pair))
)


@given(cases(), sizes)
def test_blocks_are_every_element_once(case: Case, size: BlockSize) -> None:
    shape, unit, wish = case
    seen = np.zeros(shape, int)
    for selection in blocks(shape, unit, wish, size):
        seen[selection] += 1
    assert (seen == 1).all()


def test_blocks_of_an_array_of_exabytes_come_one_at_a_time() -> None:
    some = islice(blocks((1 << 40, 1 << 20), (1, 1 << 10), (1, 1), BlockSize(1 << 20, 1 << 20)), 2)
    assert [selection[0] for selection in some] == [slice(0, 1), slice(1, 2)]


@given(cases(), sizes)
def test_a_block_is_whole_chunks_of_the_target(case: Case, size: BlockSize) -> None:
    shape, unit, wish = case
    block = block_shape(shape, unit, wish, size)
    assert all(b % u == 0 or b == n for b, u, n in zip(block, unit, shape, strict=True))


@given(cases(), sizes)
def test_a_block_has_no_more_than_it_may_unless_a_chunk_has(case: Case, size: BlockSize) -> None:
    shape, unit, wish = case
    smallest = prod(min(u, n) for u, n in zip(unit, shape, strict=True))
    assert prod(block_shape(shape, unit, wish, size)) <= max(size.most, smallest)


@given(cases(), sizes)
def test_a_block_is_larger_than_usual_only_for_chunks_of_the_source(
    case: Case, size: BlockSize
) -> None:
    shape, unit, wish = case
    block = block_shape(shape, unit, wish, size)
    covering = prod(min(n, -(-w // u) * u) for n, u, w in zip(shape, unit, wish, strict=True))
    assert prod(block) <= max(size.usual, covering)


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (10**6, (100, 60, 60)),
        (100 * 60 * 10, (10, 60, 60)),  # a chunk of the source is within a block
        (10 * 60 * 20, (10, 20, 60)),
        (10 * 10 * 10, (10, 10, 10)),
        (1, (10, 10, 10)),
    ],
)
def test_a_block_grows_to_the_chunks_of_the_source_and_then_to_everything(
    most: int, expected: tuple[int, ...]
) -> None:
    size = BlockSize(most, most)
    assert block_shape((100, 60, 60), (10, 10, 10), (1, 60, 60), size) == expected


@given(cases(), cases(), st.integers(1, 300))
def test_pieces_are_a_box_once_and_no_chunk_is_in_two(
    whole: Case, part: Case, elements_max: int
) -> None:
    shape, unit, starts = whole
    lengths = (part[0] * 4)[: len(shape)] if part[0] else (1,) * len(shape)
    selection = tuple(slice(a, a + n) for a, n in zip(starts, lengths, strict=True))
    seen = np.zeros([part.stop for part in selection], int)
    chunks: dict[tuple[int, ...], int] = {}
    for number, piece in enumerate(pieces(selection, unit, elements_max)):
        seen[piece] += 1
        grid = [range(p.start // u, -(-p.stop // u)) for p, u in zip(piece, unit, strict=True)]
        for chunk in product(*grid):
            assert chunks.setdefault(chunk, number) == number
    assert (seen[selection] == 1).all()
    assert seen.sum() == prod(lengths)


def content_of(values: np.ndarray[Any, np.dtype[Any]], released: list[bool]) -> Content:
    return Content(
        values.shape,
        values.shape,
        values.itemsize,
        lambda selection: values[selection],
        lambda: released.append(True),
    )


class Target:
    """Takes what is written, in a thread, as slowly as it is told to."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.values = np.zeros(shape)
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.started = 0
        self.most = 0
        self._running = 0
        self._pool = ThreadPoolExecutor(8)

    def start(self, selection: Slices, values: Any, writes: Writes, credit: float) -> None:
        writes.add(
            lambda: self._pool.submit(self._write, selection, values),
            values.nbytes,
            values.size * credit,
        )

    def close(self) -> None:
        self.goes_on.set()
        self._pool.shutdown()

    def _write(self, selection: Slices, values: Any) -> None:
        self.started += 1
        self._running += 1
        self.most = max(self.most, self._running)
        assert self.goes_on.wait(60)
        self._running -= 1
        self.values[selection] = values


@pytest.fixture
def target() -> Iterator[Target]:
    target = Target((6, 8))
    yield target
    target.close()


VALUES = np.arange(48.0).reshape(6, 8)
CELLS = Shapes((1, 1), (1, 1))


@pytest.mark.parametrize(
    ("chunk", "unit", "size"),
    [
        ((1, 8), (1, 8), BlockSize(8, 8)),
        ((6, 1), (6, 1), BlockSize(8, 48)),
        ((2, 3), (2, 3), BlockSize(4, 20)),
        ((2, 3), (4, 6), BlockSize(4, 20)),
        ((1, 2), (4, 8), BlockSize(3, 5)),
        ((2, 1), (6, 8), BlockSize(4, 48)),
    ],
)
def test_all_values_arrive_and_progress_counts_each_byte_once(
    target: Target, chunk: tuple[int, ...], unit: tuple[int, ...], size: BlockSize
) -> None:
    done: list[float] = []
    largest: list[int] = []

    def read(selection: Slices) -> Any:
        values = VALUES[selection].copy()
        largest.append(values.size)
        return values

    content = Content((6, 8), (1, 8), 8, read)
    with Writes(2, 1000, done.append) as writes:
        copy(content, Shapes(chunk, unit), target.start, size, writes, done.append)
    assert (target.values == VALUES).all()
    assert sum(done) == VALUES.nbytes
    assert max(largest) <= max(size.most, prod(chunk))


def test_no_more_is_under_way_than_there_is_room_for(target: Target) -> None:
    with Writes(2, 10**6, lambda _: None) as writes:
        copy(content_of(VALUES, []), CELLS, target.start, BlockSize(1, 10), writes, lambda _: None)
    assert target.most <= 2
    with Writes(8, 3 * 8, lambda _: None) as writes:  # three elements
        copy(content_of(VALUES, []), CELLS, target.start, BlockSize(1, 10), writes, lambda _: None)
    assert target.most <= 3


def test_progress_ends_the_waiting_for_a_write_that_takes_long(target: Target) -> None:
    """As a signal does; what has begun is waited for, the rest never begins."""
    target.goes_on.clear()
    calls: list[float] = []

    def progress(nbytes: float) -> None:
        calls.append(nbytes)
        if calls.count(0) == 3:
            target.goes_on.set()
            raise KeyboardInterrupt

    writes = Writes(3, 10**6, progress)
    with pytest.raises(KeyboardInterrupt), writes:
        copy(
            content_of(VALUES, []),
            Shapes((1, 8), (1, 8)),
            target.start,
            BlockSize(8, 99),
            writes,
            progress,
        )
    assert target.started == 3
    assert (target.values[:3] == VALUES[:3]).all()
    assert (target.values[3:] == 0).all()


def test_an_array_without_elements_is_copied_without_a_block(target: Target) -> None:
    copied: list[object] = []
    content = content_of(np.zeros((0, 3)), [])
    with Writes(1, 1, copied.append) as writes:
        copy(
            content, Shapes((1, 3), (1, 3)), target.start, BlockSize(10, 10), writes, copied.append
        )
    assert copied == []


def test_what_reading_took_is_released_when_writing_fails() -> None:
    released: list[bool] = []

    def start(*_: object) -> None:
        raise OSError

    content = content_of(np.zeros(3), released)
    with (
        pytest.raises(OSError),  # noqa: PT011 - raised right here
        Writes(1, 1, lambda _: None) as writes,
    ):
        copy(content, Shapes((1,), (1,)), start, BlockSize(1, 1), writes, lambda _: None)
    assert released == [True]


def test_the_longest_string_counts_in_bytes_of_utf8() -> None:
    texts = np.array(["abc", "", "日本"], object)
    calls: list[float] = []
    assert longest_string(content_of(texts, []), BlockSize(1, 1), calls.append) == 6
    assert set(calls) == {0}


CDL = """netcdf a {
dimensions: t = UNLIMITED; x = 6; e = UNLIMITED;
variables: double v(t, x); double w(x); w:_ChunkSizes = 5; double n(e); string s(x);
data: v = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12;
group: g { dimensions: x = 4; variables: float v(x); float u(/x); float far(t); }
}"""


def chunk_shapes(choices: Choices) -> dict[str, tuple[int, ...] | None]:
    root = chosen(cdl_source(CDL, "a.cdl"), choices).root
    return {path: variable.chunk_shape for path, variable in variables_of(root)}


def test_an_unlimited_dimension_with_elements_is_not_cut_into_chunks_of_one() -> None:
    assert chunk_shapes(Choices()) == {
        "v": (2, 6),
        "w": (5,),
        "n": (1024,),
        "s": (6,),
        "g/v": (4,),
        "g/u": (6,),
        "g/far": (2,),
    }


def test_chosen_lengths_hold_along_all_dimensions_of_the_name() -> None:
    assert chunk_shapes(Choices(chunks={"x": 5, "t": 10})) == {
        "v": (10, 5),
        "w": (5,),
        "n": (1024,),
        "s": (5,),
        "g/v": (4,),  # no longer than a dimension that cannot grow
        "g/u": (5,),
        "g/far": (10,),
    }


def test_a_length_for_a_dimension_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a.cdl: no dimension 'y' \(there are: e, t, x\)"):
        chunk_shapes(Choices(chunks={"y": 2}))


def test_codecs_lengths_and_fixed_dimensions_can_be_chosen() -> None:
    codecs = (CodecSpec("zstd", {"level": 1}),)
    root = chosen(cdl_source(CDL, "a"), Choices(codecs=codecs, fixed=True, string_bytes=9)).root
    assert [dimension.unlimited for dimension in root.dimensions] == [False, False, False]
    assert [dimension.size for dimension in root.dimensions] == [2, 6, 0]
    variables = dict(variables_of(root))
    assert all(variable.codecs == codecs for variable in variables.values())
    assert variables["s"].string_bytes == 9
    assert variables["v"].string_bytes is None
