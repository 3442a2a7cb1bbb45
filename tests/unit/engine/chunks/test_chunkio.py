"""Which chunks are stored: those of fill only where something else is, or is meant."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from nczfs.library.opening import open_zmap
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.clients import FILL, LENGTH, Client, chunk_keys, created, stored


@pytest.fixture
def memory() -> MemoryZMap:
    return MemoryZMap()


@pytest.fixture
def client(memory: MemoryZMap) -> Iterator[Client]:
    with created(memory) as client:
        yield client


def test_a_chunk_of_fill_is_not_stored_where_there_is_none(
    memory: MemoryZMap, client: Client
) -> None:
    client.v[...] = FILL
    client.v[5] = FILL
    client.dataset.sync()
    assert chunk_keys(memory) == set()
    assert client.writeback.dirty_bytes == 0
    assert client.v[...].tolist() == [FILL] * LENGTH


def test_an_array_that_becomes_longer_keeps_its_codecs(client: Client) -> None:
    io = client.dataset._dataset.array(client.v.description).writer()
    codecs = io.pipeline((0,))
    longer = io.resized(replace(io.array, shape=(LENGTH + 1,))).writer
    assert longer is not None
    assert longer.pipeline((0,)) is codecs


@pytest.mark.parametrize("index", [slice(0, 4), slice(1, 4)], ids=["whole", "in part"])
def test_a_chunk_of_fill_replaces_one_that_is_there(
    memory: MemoryZMap, client: Client, index: slice
) -> None:
    client.v[0:4] = [FILL, 1, 2, 3]
    client.v[index] = FILL
    client.dataset.sync()
    assert chunk_keys(memory) == {"v/0"}
    assert stored(memory) == [FILL] * LENGTH


def test_without_a_fill_value_a_chunk_of_zeros_is_stored_as_others_would_read_anything(
    memory: MemoryZMap,
) -> None:
    with created(memory, fillvalue=None) as client:
        client.v[0:4] = 0
        client.v[5] = 0
        client.dataset.sync()
        assert chunk_keys(memory) == {"v/0", "v/1"}


def test_negative_zero_is_not_taken_for_a_fill_value_of_zero(memory: MemoryZMap) -> None:
    with created(memory, dtype="f8", fillvalue=0.0) as client:
        client.v[0:8] = -0.0
        client.v[9] = -0.0
    with open_zmap(memory) as dataset:
        assert np.signbit(dataset.variables["v"][...]).tolist() == [True] * 8 + [False, True]


def test_the_payload_of_a_nan_survives_beside_a_fill_value_of_nan(memory: MemoryZMap) -> None:
    odd = np.array([0x7FF800000000BEEF] * LENGTH, np.uint64).view(np.float64)
    with created(memory, dtype="f8", fillvalue=float("nan")) as client:
        client.v[0:5] = odd[:5]
        client.v[5:] = odd[5:]
    with open_zmap(memory) as dataset:
        assert dataset.variables["v"][...].tobytes() == odd.tobytes()


@pytest.mark.parametrize("size", [17, 3 << 20])
def test_the_log_names_one_chunk_of_an_array_that_is_too_long(
    memory: MemoryZMap,
    caplog: pytest.LogCaptureFixture,
    expected_warnings: ExpectedWarnings,
    size: int,
) -> None:
    expected_warnings.add("the surplus is ignored")
    with open_zmap(memory, "w") as dataset:
        dataset.create_dimension("x", 8)
        dataset.create_variable("v", ("x",), "<i4", np.arange(8), chunks=(4,), codecs=[])
    for key in ("v/0", "v/1"):
        memory.write(parse_key(key), bytes(size))
    with open_zmap(memory) as dataset:
        assert dataset.variables["v"][...].tolist() == [0] * 8
    warnings = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert re.search(rf"/v/[01]: a chunk decodes to {size} bytes instead of 16", warnings[0])
