"""Chunks that decode to more than they should: cut, and told of."""

from __future__ import annotations

import numpy as np

from nczfs.codecs.pipelines import pipeline_of
from tests.unit.codecs.arrays import described

CHUNK = np.arange(4, dtype="<i4")
DATA = CHUNK.tobytes()
TOLD = "a chunk decodes to 17 bytes instead of 16; the surplus is ignored"


def test_who_decodes_a_chunk_hears_that_it_is_too_long() -> None:
    told: list[str] = []
    pipeline = pipeline_of(described("<i4", (4,)))
    for data in (DATA, DATA + b"x", DATA + b"x"):
        np.testing.assert_array_equal(pipeline.decode(data, told.append), CHUNK)
    assert told == [TOLD, TOLD]


def test_nobody_has_to_hear_of_it() -> None:
    pipeline = pipeline_of(described("<i4", (4,)))
    np.testing.assert_array_equal(pipeline.decode(DATA + b"x"), CHUNK)
