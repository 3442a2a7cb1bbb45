"""A store that does not answer about one document: records and attributes beside it are stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.library.opening import open_zmap
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, write

NAMES = ("a.zarr", "b.zarr")
OPTIONS = EngineOptions(cache_bytes_max=0, flush_age_s=None)


@pytest.fixture(params=["nczarr-L3", "nczarr-L2l"])
def store(request: pytest.FixtureRequest) -> GatedZMap:
    store = GatedZMap()
    for name in NAMES:
        with client(store, name, "w", format=request.param) as root:
            root.create_dimension("t", None)
            root.create_dimension("x", 4)
            attributes = {"units": "K"}
            root.create_variable("v", ("x",), "<i4", fillvalue=-1, attributes=attributes)
            root.create_variable("r", ("t",), "<i4", chunks=(4,), fillvalue=-1)[:2] = [1, 2]
    return store


@pytest.fixture
def fs(store: GatedZMap, tmp_path: Path) -> Iterator[TreeFileSystem]:
    options = VfsOptions(engine=OPTIONS, read_only=False, spool_dir=tmp_path / "spool")
    tree = tree_over(store, options)
    yield tree
    tree.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def client(store: MemoryZMap, name: str, mode: str = "r", **options: Any) -> Any:
    return open_zmap(Prefixed(store, parse_prefix(name)), mode, options=OPTIONS, **options)


def append(fs: TreeFileSystem, name: str, *values: int) -> None:
    """Append records, and sync them."""
    path = f"datasets/{name}/r/values.raw"
    handle = open_file(fs, path, os.O_WRONLY | os.O_APPEND)
    fs.write(handle, find(fs, path).size, np.array(values, "<i4").tobytes())
    fs.fsync(handle, data_only=False)
    close(fs, handle)


def set_units(fs: TreeFileSystem, name: str, text: bytes) -> None:
    write(fs, f"datasets/{name}/v/attributes/units", text)


@pytest.mark.parametrize("slow", NAMES)
def test_records_are_stored_while_a_document_of_another_variable_hangs(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, slow: str
) -> None:
    """SEMANTICS W1, W8."""
    with store.stopping("write", f"{slow}/v/.zattrs") as gate:
        setting = threads.submit(set_units, fs, slow, b"m")
        assert gate.reached.wait(WAIT_S)
        threads.submit(append, fs, NAMES[0], 3, 4).result(WAIT_S)
        with client(store, NAMES[0]) as root:
            assert root["r"][...].tolist() == [1, 2, 3, 4]
        assert not setting.done()
        gate.open()
        setting.result(WAIT_S)
    with client(store, slow) as root:
        assert root["v"].attrs["units"] == "m"


def test_an_attribute_is_stored_while_the_length_of_another_variable_hangs(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS W1, W9."""
    name = NAMES[0]
    with store.stopping("write", f"{name}/r/.zarray") as gate:
        appending = threads.submit(append, fs, name, 3, 4)
        assert gate.reached.wait(WAIT_S)
        threads.submit(set_units, fs, name, b"m").result(WAIT_S)
        with client(store, name) as root:
            assert root["v"].attrs["units"] == "m"
        assert not appending.done()
        gate.open()
        appending.result(WAIT_S)
    with client(store, name) as root:
        assert root["r"][...].tolist() == [1, 2, 3, 4]


def test_an_attribute_that_is_written_while_an_older_text_is_stored_comes_last(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS W1, W9."""
    name = NAMES[0]
    with store.stopping("write", f"{name}/v/.zattrs") as gate:
        first = threads.submit(set_units, fs, name, b"m")
        assert gate.reached.wait(WAIT_S)
        second = threads.submit(set_units, fs, name, b"km")
        gate.open()
        first.result(WAIT_S)
        second.result(WAIT_S)
    with client(store, name) as root:
        assert root["v"].attrs["units"] == "km"
