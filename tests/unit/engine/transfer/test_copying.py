"""How values are cut into blocks, and what can be chosen of a source."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.transfer.cdl_source import cdl_source
from nczfs.engine.transfer.choices import Choices, chosen
from nczfs.engine.transfer.copying import (
    Content,
    block_shape,
    blocks,
    copy,
    longest_string,
    variables_of,
)
from nczfs.errors import UsageError
from nczfs.model.hierarchy import CodecSpec

Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ndim = draw(st.integers(0, 4))
    lengths = st.lists(st.integers(1, 9), min_size=ndim, max_size=ndim).map(tuple)
    return draw(lengths), draw(lengths), draw(lengths)


@given(cases(), st.integers(1, 3000))
def test_blocks_are_every_element_once(case: Case, elements_max: int) -> None:
    shape, unit, wish = case
    seen = np.zeros(shape, int)
    for selection in blocks(shape, unit, wish, elements_max):
        seen[selection] += 1
    assert (seen == 1).all()


@given(cases(), st.integers(1, 3000))
def test_a_block_is_whole_chunks_of_the_target(case: Case, elements_max: int) -> None:
    shape, unit, wish = case
    block = block_shape(shape, unit, wish, elements_max)
    assert all(b % u == 0 or b == n for b, u, n in zip(block, unit, shape, strict=True))


@given(cases(), st.integers(1, 3000))
def test_a_block_has_no_more_than_it_may_unless_a_chunk_has(case: Case, elements_max: int) -> None:
    shape, unit, wish = case
    smallest = prod(min(u, n) for u, n in zip(unit, shape, strict=True))
    assert prod(block_shape(shape, unit, wish, elements_max)) <= max(elements_max, smallest)


@pytest.mark.parametrize(
    ("elements_max", "expected"),
    [
        (10**6, (100, 60, 60)),
        (100 * 60 * 10, (10, 60, 60)),  # a chunk of the source is within a block
        (10 * 60 * 20, (10, 20, 60)),
        (10 * 10 * 10, (10, 10, 10)),
        (1, (10, 10, 10)),
    ],
)
def test_a_block_grows_to_the_chunks_of_the_source_and_then_to_everything(
    elements_max: int, expected: tuple[int, ...]
) -> None:
    assert block_shape((100, 60, 60), (10, 10, 10), (1, 60, 60), elements_max) == expected


def content_of(values: np.ndarray[Any, np.dtype[Any]], released: list[bool]) -> Content:
    return Content(
        values.shape,
        values.shape,
        lambda selection: values[selection],
        lambda: released.append(True),
    )


def test_an_array_without_elements_is_copied_without_a_block() -> None:
    copied: list[object] = []
    copy(content_of(np.zeros((0, 3)), []), (1, 3), lambda *_: copied.append(1), 10, copied.append)
    assert copied == []


def test_what_reading_took_is_released_when_writing_fails() -> None:
    released: list[bool] = []

    def write(*_: object) -> None:
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - raised right here
        copy(content_of(np.zeros(3), released), (1,), write, 1, lambda _count: None)
    assert released == [True]


def test_the_longest_string_counts_in_bytes_of_utf8() -> None:
    texts = np.array(["abc", "", "日本"], object)
    assert longest_string(content_of(texts, []), 1) == 6


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
