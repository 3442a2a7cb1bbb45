"""Several programs that append to a variable through one mount, and others that write beside."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.library.opening import open_zmap
from nczfs.vfs.base import HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import find, read
from tests.support.writing import close, open_file, write

WIDTH, ROUNDS = 5, 25
RECORD_BYTES = 4 * WIDTH
RAW = "datasets/d.zarr/r/values.raw"


@pytest.fixture
def memory() -> MemoryZMap:
    memory = MemoryZMap()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", WIDTH)
        variable = root.create_variable("r", ("t", "x"), "<i4", chunks=(4, 3), fillvalue=-1)
        variable[:2] = 0
    return memory


@pytest.fixture(params=[0.0, 60.0])
def fs(
    request: pytest.FixtureRequest, memory: MemoryZMap, tmp_path: Path
) -> Iterator[TreeFileSystem]:
    options = VfsOptions(
        engine=EngineOptions(cache_bytes_max=0, metadata_ttl_s=request.param, flush_age_s=0.01),
        read_only=False,
        spool_dir=tmp_path / "spool",
    )
    with mock.patch("nczfs.vfs.tree.open_store", return_value=memory):
        mounted = mount_tree("memory://store", None, options)
    yield mounted
    mounted.close()


def record(writer: int, number: int) -> list[int]:
    return [1000 * writer + number] * WIDTH


def test_no_writer_is_disturbed_by_others_of_the_mount(
    fs: TreeFileSystem, memory: MemoryZMap
) -> None:
    """SEMANTICS W34. None of them is told that its file is stale."""

    def each_with(work: Callable[[HandleNo, int], None], flags: int) -> Callable[[], None]:
        def run() -> None:
            handle = open_file(fs, RAW, flags)
            for number in range(ROUNDS):
                work(handle, number)
                fs.fsync(handle, data_only=False)
            close(fs, handle)

        return run

    def appender(writer: int) -> Callable[[], None]:
        def append(handle: HandleNo, number: int) -> None:
            raw = np.array(record(writer, number), "<i4").tobytes()
            cut = number % RECORD_BYTES
            for piece in filter(None, (raw[:cut], raw[cut:])):
                fs.write(handle, find(fs, RAW).size, piece)

        return each_with(append, os.O_WRONLY | os.O_APPEND)

    def write_the_second(handle: HandleNo, number: int) -> None:
        raw = np.array(record(9, number), "<i4").tobytes()
        fs.write(handle, RECORD_BYTES, raw)

    def disturb() -> None:
        path = "objects/d.zarr/r/.zattrs"
        for number in range(ROUNDS):
            fs.refresh("")
            attributes = json.loads(read(fs, path))
            write(fs, path, json.dumps({**attributes, "turn": number}).encode())

    works = [appender(1), appender(2), each_with(write_the_second, os.O_RDWR), disturb]
    with ThreadPoolExecutor(len(works)) as threads:
        for future in [threads.submit(work) for work in works]:
            future.result()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        found = root.variables["r"][...].tolist()
    assert found[:2] == [[0] * WIDTH, record(9, ROUNDS - 1)]
    for writer in (1, 2):
        own = [row for row in found if row[0] // 1000 == writer]
        assert own == [record(writer, number) for number in range(ROUNDS)]
    assert len(found) == 2 + 2 * ROUNDS
