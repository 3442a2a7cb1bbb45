"""Chunks that decode to more than they should: cut, and told of."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from nczfs.codecs.registry import pipeline_of
from tests.conftest import ExpectedWarnings
from tests.unit.codecs.arrays import described

CHUNK = np.arange(4, dtype="<i4")
DATA = CHUNK.tobytes()
TOLD = "a chunk decodes to 17 bytes instead of 16; what is too much is left out"


def test_the_log_tells_of_the_first_one_of_an_array(
    caplog: pytest.LogCaptureFixture, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add(TOLD)
    pipeline = pipeline_of(described("<i4", (4,)))
    for data in (DATA, DATA + b"x", DATA + b"x", DATA + b"yz"):
        np.testing.assert_array_equal(pipeline.decode(data), CHUNK)
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warnings == [f"{TOLD} (said once for each array)"]


def test_who_asks_for_it_hears_of_each_one_and_the_log_of_none() -> None:
    told: list[str] = []
    pipeline = pipeline_of(described("<i4", (4,)), told.append)
    for data in (DATA, DATA + b"x", DATA + b"x"):
        np.testing.assert_array_equal(pipeline.decode(data), CHUNK)
    assert told == [TOLD, TOLD]
