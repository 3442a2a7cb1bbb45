"""Shards of a new array that are larger than the memory for values on their way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.model.declaration import GroupDeclaration, VariableDeclaration
from nczfs.model.dtypes import NcType
from nczfs.model.grid import Slices
from nczfs.model.hierarchy import Dimension
from nczfs.tools.transfer.chunk_target import ChunkTarget
from nczfs.tools.transfer.copying import Writes
from nczfs.tools.transfer.dataset_target import write_dataset
from nczfs.tools.transfer.source import Content, Source
from nczfs.tools.transfer.target import NewNode
from tests.support.copies import new_url, objects

VALUES = np.arange(1, 13 * 10 + 1, dtype="i4").reshape(13, 10)
FILL = -2147483647
VALUES[8:12, 5:] = FILL
BLOCK_ELEMENTS = 20


def test_a_large_shard_is_read_and_encoded_in_parts_and_stored_once() -> None:
    url, sizes, missing = new_url(), [], VALUES.copy()
    missing[:8] = FILL

    def content(values: Any) -> Content:
        def read(selection: Slices) -> Any:
            sizes.append(values[selection].size)
            return values[selection].copy()

        return Content(VALUES.shape, (3, 10), 4, read)

    declared = [
        VariableDeclaration(name, NcType.INT, ("y", "x"), chunk_shape=(2, 5), shard_shape=(8, 10))
        for name in "vw"
    ]
    root = GroupDeclaration("", (Dimension("y", 13), Dimension("x", 10)), (), tuple(declared))
    source = Source("a file", root, {"v": content(VALUES), "w": content(missing)})
    done: list[float] = []
    new = NewNode(url, format="zarr3", memory_limit_bytes=4 * 4 * BLOCK_ELEMENTS)
    write_dataset(source, new, lambda _: None, done.append)
    assert max(sizes) <= BLOCK_ELEMENTS
    assert sum(done) == pytest.approx(2 * VALUES.nbytes)
    assert {key for key in objects(url) if "/c/" in key} == {"v/c/0/0", "v/c/1/0", "w/c/1/0"}
    with nczfs.open(url) as found:
        assert found.variables["v"][...].tolist() == VALUES.tolist()
        assert found.variables["w"][...].tolist() == missing.tolist()


def test_a_shard_that_is_never_whole_gives_its_memory_back() -> None:
    with nczfs.open(new_url(), "w", format="zarr3") as root:
        made = root.create_variable("v", (8, 10), "i4", chunks=(2, 5), shards=(8, 10), fillvalue=0)
        dataset = root.engine_dataset
        cache = dataset.engine.cache
        before = cache.used_bytes
        target = ChunkTarget(dataset, made.description, is_new=True)
        with Writes(2, 1000, lambda _: None) as writes:
            target.start((slice(0, 4), slice(0, 10)), VALUES[:4], writes, 1)
            writes.wait()
            assert cache.used_bytes > before
        assert cache.used_bytes == before
