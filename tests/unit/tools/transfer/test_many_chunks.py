"""The plan of a copy of a million chunks is made as it goes."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from uuid import uuid4

import numpy as np
import pytest

from nczfs.model.hierarchy import CodecSpec
from nczfs.testing.datasets import put_array, put_group
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.transfer.copy_pieces import CopyPiece, StoredPiece
from nczfs.tools.transfer.dataset_copy import Copy
from nczfs.tools.transfer.intermediate import Spread
from nczfs.tools.transfer.target import Target
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import open_store
from tests.support.copies import copied, new_url

PEAK_BYTES_MAX = 32 << 20


@pytest.fixture(scope="module", params=[100, pytest.param(1000, marks=pytest.mark.long)])
def side(request: pytest.FixtureRequest) -> int:
    """Of an array with a chunk for each element."""
    return int(request.param)


@pytest.fixture(scope="module")
def url(side: int) -> str:
    url = f"memory://{uuid4().hex}"
    store = open_store(url)
    put_group(store, "")
    put_array(store, "v", np.zeros((1, 1), "i1"), (1, 1), dimensions=("x", "y"))
    document = json.loads(bytes(store.read(Key("v/.zarray")).data))
    store.write(Key("v/.zarray"), json.dumps(document | {"shape": [side, side]}).encode())
    for x in range(side):
        for y in range(side):
            store.write(Key(f"v/{x}.{y}"), b"\x01")
    return url


@pytest.mark.parametrize(
    "choices",
    [
        Choices(),
        Choices(codecs=(CodecSpec("zlib", {"level": 1}),)),
        Choices(chunks={"x": 7, "y": 5}),
    ],
    ids=["stored bytes", "other codecs", "other chunks"],
)
def test_a_plan_has_every_chunk_once_in_bounded_memory(
    url: str, side: int, choices: Choices
) -> None:
    counts = {"units": 0, "elements": 0}

    def only_planned(copy: Copy) -> Spread:
        def count(target: Target, pieces: Iterator[CopyPiece]) -> None:
            for piece in pieces:
                if isinstance(piece, StoredPiece):
                    counts["units"] += len(piece.units)
                else:
                    counts["elements"] += piece.box.size

        return count

    begun = time.process_time()
    tracemalloc.start()
    try:
        copied(url, new_url(), choices=choices, spread=only_planned)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    print(f"{side**2} chunks: {time.process_time() - begun:.1f} s of processor time, {peak} bytes")
    assert counts["units"] + counts["elements"] == side**2
    assert peak < PEAK_BYTES_MAX
