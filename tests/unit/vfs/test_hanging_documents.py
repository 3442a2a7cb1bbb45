"""A store that does not answer about one document: records and attributes beside it are stored."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.errors import Unavailable
from nczfs.library.opening import open_zmap
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import find, read, tree_over
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
            root.create_dimension("u", None)
            for variable, dimension in (("r", "t"), ("q", "t"), ("s", "u")):
                made = root.create_variable(
                    variable, (dimension,), "<i4", chunks=(4,), fillvalue=-1
                )
                made[:2] = [1, 2]
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


def append(fs: TreeFileSystem, name: str, *values: int, variable: str = "r") -> None:
    """Append records, and sync them."""
    handle = appended(fs, name, *values, variable=variable)
    fs.fsync(handle, data_only=False)
    close(fs, handle)


def appended(fs: TreeFileSystem, name: str, *values: int, variable: str = "r") -> HandleNo:
    """Append records to an open file."""
    path = f"datasets/{name}/{variable}/values.raw"
    handle = open_file(fs, path, os.O_WRONLY | os.O_APPEND)
    fs.write(handle, find(fs, path).size, np.array(values, "<i4").tobytes())
    return handle


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


@pytest.mark.parametrize("hangs", ["place", "values", "length"])
@pytest.mark.parametrize("variable", ["q", "s"])
def test_records_are_appended_while_a_request_for_those_of_another_variable_hangs(
    fs: TreeFileSystem,
    store: GatedZMap,
    threads: ThreadPoolExecutor,
    variable: str,
    hangs: str,
) -> None:
    """SEMANTICS W1, W8."""
    name, place = NAMES[0], f"{NAMES[0]}/r/.zarray"
    key = f"{name}/r/0" if hangs == "values" else place
    with ExitStack() as stops:
        gate = stops.enter_context(store.stopping("write", key))
        appending = threads.submit(append, fs, name, 3, 4)
        assert gate.reached.wait(WAIT_S)
        if hangs == "length":  # it was the place
            first, gate = gate, stops.enter_context(store.stopping("write", key))
            first.open()
            assert gate.reached.wait(WAIT_S)
        shares_the_wait = variable == "q" and hangs != "length"
        beside = threads.submit(appended, fs, name, 5, variable=variable)
        if not shares_the_wait:
            handle = beside.result(WAIT_S)
        readable = threads.submit(read, fs, f"datasets/{name}/s/values.raw").result(WAIT_S)
        assert np.frombuffer(readable, "<i4").tolist()[:2] == [1, 2]
        if variable == "s":
            threads.submit(fs.fsync, handle, data_only=False).result(WAIT_S)
            with client(store, name) as root:
                assert root["s"][...].tolist() == [1, 2, 5]
        assert not appending.done()
        gate.open()
        appending.result(WAIT_S)
    handle = beside.result(WAIT_S)
    fs.fsync(handle, data_only=False)
    close(fs, handle)
    with client(store, name) as root:
        assert root["r"][...].tolist()[:4] == [1, 2, 3, 4]
        assert 5 in root[variable][...].tolist()


def test_a_sync_does_not_believe_values_that_another_one_has_claimed_a_place_for_and_not_stored(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS W1, W8."""
    name, place = NAMES[0], f"{NAMES[0]}/r/.zarray"
    handle = appended(fs, name, 3, 4)
    with store.stopping("write", place) as claim:
        first = threads.submit(fs.fsync, handle, data_only=False)
        assert claim.reached.wait(WAIT_S)
        second = threads.submit(fs.fsync, handle, data_only=False)
        with store.stopping("write", f"{name}/r/0") as values:
            claim.open()
            assert values.reached.wait(WAIT_S)
            values.open(Unavailable("the store is down for a moment"))
            with pytest.raises(Unavailable):
                first.result(WAIT_S)
        second.result(WAIT_S)
    with client(store, name) as root:
        assert root["r"][...].tolist() == [1, 2, 3, 4]
    close(fs, handle)


def test_several_variables_and_their_group_are_stored_together_all_the_time(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS W1, W8, W9. Nobody waits for someone who waits for them."""
    name, rounds = NAMES[0], range(25)

    def append_to(variable: str) -> None:
        for number in rounds:
            append(fs, name, number, variable=variable)

    def set_title() -> None:
        for number in rounds:
            write(fs, f"datasets/{name}/attributes/title", b"title %d" % number)

    works = [threads.submit(append_to, variable) for variable in "rqs"]
    works.append(threads.submit(set_title))
    for work in works:
        work.result(WAIT_S)
    with client(store, name) as root:
        assert root.attrs["title"] == "title 24"
        for variable in "rqs":
            found = root[variable][...].tolist()
            assert found[:2] == [1, 2]
            assert [value for value in found[2:] if value != -1] == [*rounds]
