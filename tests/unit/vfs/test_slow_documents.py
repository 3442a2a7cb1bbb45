"""A store that does not answer about one document of a dataset, and everything beside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from nczfs.library.opening import open_zmap
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.wrappers import Prefixed
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import find, read, tree_over
from tests.support.writing import close, open_file


@pytest.fixture
def store() -> GatedZMap:
    return GatedZMap()


@pytest.fixture
def fs(store: GatedZMap, tmp_path: Path) -> Iterator[TreeFileSystem]:
    options = VfsOptions(read_only=False, spool_dir=tmp_path)
    tree = tree_over(store, options)
    yield tree
    tree.close()


def made(store: GatedZMap) -> None:
    with open_zmap(Prefixed(store, parse_prefix("d")), "w", format="nczarr-L3") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", 4)
        root.create_variable("a", ("t", "x"), "<i4", chunks=(1, 4))
        root.create_variable("b", ("x",), "<i4", np.zeros(4, "<i4"))


@pytest.mark.parametrize("key", ["d/a/.zarray", "d/a/.zattrs", "d/.zattrs"])
def test_other_variables_are_read_written_and_stored(
    store: GatedZMap, fs: TreeFileSystem, key: str
) -> None:
    """SEMANTICS W1."""
    made(store)
    record, values = np.arange(4, dtype="<i4").tobytes(), np.full(4, 7, "<i4").tobytes()
    growing = open_file(fs, "datasets/d/a/values.raw", os.O_WRONLY | os.O_APPEND)
    other = open_file(fs, "datasets/d/b/values.raw")
    attribute = open_file(fs, "datasets/d/a/attributes/units", os.O_WRONLY | os.O_CREAT)
    fs.write(growing, 0, record)
    fs.write(attribute, 0, b"K")
    with store.stopping("write", key) as gate, ThreadPoolExecutor(4) as pool:
        hanging = pool.submit(fs.fsync, growing, data_only=False)
        if key == "d/a/.zattrs":
            hanging = pool.submit(fs.flush, attribute)
        assert gate.reached.wait(WAIT_S)
        beside = [
            pool.submit(lambda: read(fs, "datasets/d/a/values.raw")),
            pool.submit(lambda: read(fs, "datasets/d/b/values.raw")),
        ]
        assert [each.result(WAIT_S) for each in beside] == [record, bytes(16)]
        pool.submit(fs.write, other, 0, values).result(WAIT_S)
        pool.submit(fs.fsync, other, data_only=False).result(WAIT_S)
        with open_zmap(Prefixed(store, parse_prefix("d"))) as root:
            assert root.variables["b"][...].tolist() == [7] * 4
        assert not hanging.done()
        gate.open()
        hanging.result(WAIT_S)
    close(fs, attribute)
    close(fs, growing)
    close(fs, other)
    assert find(fs, "datasets/d/a/values.raw").size == len(record)
