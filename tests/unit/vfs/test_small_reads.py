"""Small reads of what is in memory: many programs make millions of them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.tree import mount_tree
from nczfs.zmap.registry import open_store
from tests.support.calls import counted_calls
from tests.support.copies import new_url
from tests.support.trees import find

READ_BYTES = 4096
VALUES = np.arange(16 * 64 * 512, dtype="<f4").reshape(16, 64, 512)


@pytest.mark.parametrize(
    ("chunks", "calls_max"),
    [((1, 64, 512), 40), ((16, 16, 64), 140)],
    ids=["within a chunk", "across sixteen pieces of chunks"],
)
def test_a_read_from_memory_takes_few_calls(chunks: tuple[int, ...], calls_max: int) -> None:
    """Each takes about a tenth of a microsecond, and the event loop does nothing else meanwhile."""
    url = new_url()
    store = open_store(url)
    put_group(store, "d.zarr")
    put_array(store, "d.zarr/v", VALUES, chunks)
    fs = mount_tree(url)
    handle = fs.open(find(fs, "datasets/d.zarr/v/values.raw").ino, os.O_RDONLY).handle
    fs.read(handle, 0, READ_BYTES)
    with counted_calls() as calls:
        found = fs.read_if_cached(handle, 0, READ_BYTES)
    fs.release(handle)
    fs.close()
    assert found is not None
    assert bytes(found) == VALUES.tobytes()[:READ_BYTES]
    assert calls.total() <= calls_max
