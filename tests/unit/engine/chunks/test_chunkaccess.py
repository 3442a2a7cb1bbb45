"""What the chunk cache is told of a look at a chunk."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.engine.chunks.chunkaccess import Index, access_of
from nczfs.model.boxes import Box

POSITIONS = np.array([7, 2, 3], np.int64)


@pytest.mark.parametrize(
    ("index", "part", "elements"),
    [
        ((slice(2, 4), slice(None)), Box((2, 0), (4, 20)), 40),
        ((slice(0, 10, 3), slice(5, 6)), Box((0, 5), (10, 6)), 4),
        ((slice(1, 9, 4), slice(0, 20)), Box((1, 0), (6, 20)), 40),
        (np.ix_(POSITIONS, np.arange(20)), Box((2, 0), (8, 20)), 60),
    ],
    ids=["box", "stride", "stride that ends early", "positions"],
)
def test_a_look_is_the_box_around_it_and_its_share(index: Index, part: Box, elements: int) -> None:
    access = access_of(index, (10, 20), Box((0, 0), (10, 20)))
    assert access.part == part
    assert access.share == pytest.approx(elements / 200)
    assert set(np.arange(200).reshape(10, 20)[index].reshape(-1)) <= set(
        np.arange(200).reshape(10, 20)[part.slices()].reshape(-1)
    )


def test_what_lies_beyond_the_edge_of_the_array_does_not_count() -> None:
    edge = Box((30, 40), (34, 60))
    assert access_of((slice(0, 4), slice(0, 20)), (10, 20), edge).share == 1.0


def test_a_scalar_is_looked_at_whole() -> None:
    access = access_of((), (), Box((), ()))
    assert access.part == Box((), ())
    assert access.share == 1.0
