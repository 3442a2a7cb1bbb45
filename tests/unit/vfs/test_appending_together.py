"""Several programs that append to a variable through one mount, and others that write beside."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool import log as spool_log
from nczfs.engine.spool.space import Survives
from nczfs.errors import BadArgument, NoSuchNode, StructureChanged, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.datasets.arraysfile import ArraysFile
from nczfs.vfs.filesystem import PAGE_BYTES, TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.between import take_once
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.killed import Kept, left_by, recovered
from tests.support.trees import find, read, tree_and_engine_over, tree_over
from tests.support.writing import close, open_file, write

WIDTH, ROUNDS = 5, 25
RECORD_BYTES = 4 * WIDTH
PAGE_NUMBERS = PAGE_BYTES // 4
RAW = "datasets/d.zarr/r/values.raw"


@pytest.fixture
def memory() -> GatedZMap:
    memory = GatedZMap()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", WIDTH)
        variable = root.create_variable("r", ("t", "x"), "<i4", chunks=(4, 3), fillvalue=-1)
        variable[:2] = 0
    return memory


def options(spool_dir: Path, ttl_s: float, flush_age_s: float) -> VfsOptions:
    engine = EngineOptions(cache_bytes_max=0, metadata_ttl_s=ttl_s, flush_age_s=flush_age_s)
    return VfsOptions(engine=engine, read_only=False, spool_dir=spool_dir)


@pytest.fixture(params=[0.0, 60.0])
def fs(
    request: pytest.FixtureRequest, memory: GatedZMap, tmp_path: Path
) -> Iterator[TreeFileSystem]:
    mounted = tree_over(memory, options(tmp_path / "spool", request.param, 0.01), "memory://store")
    yield mounted
    mounted.close()


@pytest.fixture(params=[0.0, 60.0])
def waiting(
    request: pytest.FixtureRequest, memory: GatedZMap, tmp_path: Path
) -> Iterator[TreeFileSystem]:
    """A mount that stores nothing before it is asked to."""
    mounted = tree_over(memory, options(tmp_path / "spool", request.param, 3600), "memory://store")
    yield mounted
    mounted.close()


def record(writer: int, number: int) -> list[int]:
    return [1000 * writer + number] * WIDTH


def test_no_writer_is_disturbed_by_others_of_the_mount(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    """SEMANTICS W34, W54. None of them is told that its file is stale."""

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


def test_an_fsync_stores_a_record_that_another_file_completes_meanwhile(
    waiting: TreeFileSystem, memory: GatedZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W1, W8."""
    with ThreadPoolExecutor(1) as pool:

        def complete() -> None:
            pool.submit(waiting.write, other, 2 * RECORD_BYTES + 3, raw[3:]).result(WAIT_S)

        raw = np.array(record(1, 0), "<i4").tobytes()
        taken = take_once(monkeypatch, ArraysFile, "_store", complete, after=True)
        one, other = open_file(waiting, RAW), open_file(waiting, RAW)
        waiting.write(one, 2 * RECORD_BYTES, raw[:3])
        waiting.fsync(one, data_only=False)
    assert taken
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["r"][2:].tolist() == [record(1, 0)]
    for each in (one, other):
        close(waiting, each)


def test_half_a_record_is_an_error_of_the_file_that_appended_it_and_goes_with_it(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    """SEMANTICS W8, W54: while others have the variable open."""
    size = find(fs, RAW).size
    one, other = (open_file(fs, RAW, os.O_WRONLY | os.O_APPEND) for _ in range(2))
    fs.write(one, size, b"\1" * 5)
    fs.write(other, size, np.array(record(2, 0), "<i4").tobytes())
    assert find(fs, RAW).size == size + RECORD_BYTES + 5
    fs.flush(other)
    with pytest.raises(BadArgument, match="last 5 bytes are not a whole record"):
        fs.flush(one)
    fs.release(one)
    assert find(fs, RAW).size == size + RECORD_BYTES
    close(fs, other)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["r"][2:].tolist() == [record(2, 0)]


def test_half_a_record_at_an_offset_waits_for_all_files_of_the_variable(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    """SEMANTICS W8: any of them may write the rest."""
    size = find(fs, RAW).size
    one, other = (open_file(fs, RAW, os.O_RDWR) for _ in range(2))
    given = np.array(record(2, 0), "<i4").tobytes()
    fs.write(one, size, given[:5])
    for handle in (one, other):
        fs.write(handle, 0, bytes(4))
        with pytest.raises(BadArgument, match="last 5 bytes are not a whole record"):
            fs.flush(handle)
    fs.release(one)
    fs.write(other, size + 5, given[5:])
    close(fs, other)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["r"][2:].tolist() == [record(2, 0)]


def test_half_a_record_at_an_offset_stays_there_when_others_append_a_record(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    """SEMANTICS W55."""
    size = find(fs, RAW).size
    one = open_file(fs, RAW, os.O_RDWR)
    other = open_file(fs, RAW, os.O_WRONLY | os.O_APPEND)
    fs.write(one, size, np.array([7], "<i4").tobytes())
    fs.write(other, size, np.array(record(2, 0), "<i4").tobytes())
    fs.write(one, size + RECORD_BYTES, np.array(record(1, 0), "<i4").tobytes())
    for handle in (one, other):
        close(fs, handle)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["r"][2:].tolist() == [[7, *record(2, 0)[1:]], record(1, 0)]


def test_appended_records_keep_their_place_before_those_that_a_truncation_adds(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    """SEMANTICS W8, W34."""
    size = find(fs, RAW).size
    handle = open_file(fs, RAW, os.O_WRONLY | os.O_APPEND)
    fs.write(handle, size, np.array(record(1, 0), "<i4").tobytes())
    fs.setattr(find(fs, RAW).ino, AttributeChanges(size=size + 3 * RECORD_BYTES), handle)
    close(fs, handle)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["r"][2:].tolist() == [record(1, 0), [-1] * WIDTH, [-1] * WIDTH]


def test_a_record_at_an_offset_stays_there_when_appended_ones_move_behind_those_of_others(
    waiting: TreeFileSystem, memory: GatedZMap
) -> None:
    """SEMANTICS W34, W55."""
    size = find(waiting, RAW).size
    appending = open_file(waiting, RAW, os.O_WRONLY | os.O_APPEND)
    beside = open_file(waiting, RAW, os.O_RDWR)
    waiting.write(appending, size, np.array([record(1, 0), record(1, 1)], "<i4").tobytes())
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "r+") as root:
        root.variables["r"][2:] = [record(3, 0)]
    waiting.write(beside, size + 2 * RECORD_BYTES, np.array(record(2, 0), "<i4").tobytes())
    for handle in (appending, beside):
        close(waiting, handle)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["r"][2:].tolist() == [record(3, 0), record(1, 0), record(2, 0)]


@pytest.mark.parametrize("skipped", [1, 6, RECORD_BYTES + 3])
def test_bytes_that_are_skipped_before_a_part_of_an_element_are_those_of_the_fill_value(
    fs: TreeFileSystem, memory: GatedZMap, skipped: int
) -> None:
    """SEMANTICS W8."""
    fill = 0x04030201
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "r+") as root:
        root.create_variable("f", ("t", "x"), "<i4", chunks=(4, 3), fillvalue=fill)
    fs.refresh("")
    path = "datasets/d.zarr/f/values.raw"
    size = find(fs, path).size
    handle = open_file(fs, path, os.O_RDWR)
    fs.write(handle, size + skipped, b"\x7f")
    fs.write(handle, size + skipped + 3, b"\x7f")
    rest = -(skipped + 4) % RECORD_BYTES
    end = size + skipped + 4 + rest
    wanted = bytearray(np.full((end - size) // 4, fill, "<i4").tobytes())
    wanted[skipped] = wanted[skipped + 3] = 0x7F
    fs.write(handle, end - 1, wanted[-1:])
    close(fs, handle)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["f"][2:].astype("<i4").tobytes() == wanted


def made_of_pages(fs: TreeFileSystem, memory: GatedZMap) -> str:
    """The path of the values of a new variable, of which each record fills a page."""
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "r+") as root:
        root.create_dimension("p", PAGE_NUMBERS)
        root.create_variable("page", ("t", "p"), "<i4", chunks=(4, PAGE_NUMBERS), fillvalue=-1)
    fs.refresh("")
    return "datasets/d.zarr/page/values.raw"


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_RDWR])
def test_a_record_of_a_page_is_appended_wherever_the_kernel_took_the_end_to_be(
    fs: TreeFileSystem, memory: GatedZMap, flags: int
) -> None:
    """SEMANTICS W34, W58: the file has grown since, and only a mapping writes pages elsewhere."""
    path = made_of_pages(fs, memory)
    end = find(fs, path).size
    handles = [open_file(fs, path, os.O_WRONLY | os.O_APPEND) for _ in range(2)]
    for number, handle in enumerate(handles):  # the kernel sends both before it has an answer
        fs.write(handle, end, np.full(PAGE_NUMBERS, number, "<i4").tobytes())
        assert find(fs, path).size == end + (number + 1) * PAGE_BYTES
    mapped = open_file(fs, path, flags)
    fs.write(handles[0], end, np.full(PAGE_NUMBERS, 7, "<i4").tobytes())
    for handle in (*handles, mapped):
        close(fs, handle)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        found = root.variables["page"][2:, 0].tolist()
    assert found == ([0, 1, 7] if flags == os.O_WRONLY else [7, 1])


def test_a_record_that_the_kernel_sends_in_two_parts_stays_whole(
    fs: TreeFileSystem, memory: GatedZMap
) -> None:
    """SEMANTICS W34, W54: the second part begins with a page, before the end that others made."""
    count = PAGE_BYTES // RECORD_BYTES
    first = PAGE_BYTES - count * RECORD_BYTES  # bytes of the record that two pages have
    handles = [open_file(fs, RAW, os.O_RDWR | os.O_APPEND) for _ in range(2)]
    filler = np.repeat(np.arange(2, count, dtype="<i4"), WIDTH)
    fs.write(handles[0], find(fs, RAW).size, filler.tobytes())
    end = find(fs, RAW).size
    for writer, handle in enumerate(handles):  # the kernel takes the end to be here both times
        data = np.array(record(1, writer), "<i4").tobytes()
        fs.write(handle, end, data[:first])
        fs.write(handle, end + first, data[first:])
        assert find(fs, RAW).size == end + (writer + 1) * RECORD_BYTES
    for handle in handles:
        close(fs, handle)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        found = root.variables["r"][count:].tolist()
    assert found == [record(1, 0), record(1, 1)]


def looks(fs: TreeFileSystem, path: str, how: str) -> Callable[[], object]:
    """One of the ways in which the kernel asks for the size of a file."""
    place, _, name = path.rpartition("/")
    ino, above = find(fs, path).ino, find(fs, place).ino
    if how == "lookup":
        return partial(fs.lookup, above, name.encode())
    if how == "getattr":
        return partial(fs.getattr, ino)
    handle = fs.opendir(above)
    return lambda: next(e for e in fs.readdir(handle, 0) if e.name == name.encode())


@pytest.mark.parametrize(
    ("how", "call"),
    [("lookup", "lookup_stat"), ("getattr", "stat"), ("readdir", "listing_stat")],
)
@pytest.mark.parametrize("change", ["write", "truncate"])
def test_a_size_that_was_looked_at_before_a_change_makes_no_append_of_a_page(
    fs: TreeFileSystem, memory: GatedZMap, how: str, call: str, change: str
) -> None:
    """SEMANTICS W58: the kernel does not believe it, and writes back pages behind it."""
    path = made_of_pages(fs, memory)
    found = find(fs, path)
    ino, end = found.ino, found.size
    handle = open_file(fs, path, os.O_RDWR | os.O_APPEND)
    kind = type(fs.inodes.get(ino).node)
    look = getattr(kind, call)
    looked, goes_on = threading.Event(), threading.Event()

    def held(node: object) -> object:
        stat = look(node)
        if stat.size == end and threading.current_thread() is not threading.main_thread():
            looked.set()
            assert goes_on.wait(WAIT_S)
        return stat

    asks = looks(fs, path, how)
    with mock.patch.object(kind, call, held), ThreadPoolExecutor(1) as threads:
        asked = threads.submit(asks)
        try:
            assert looked.wait(WAIT_S)
            if change == "write":
                fs.write(handle, end, np.full(PAGE_NUMBERS, 1, "<i4").tobytes())
            else:
                fs.setattr(ino, AttributeChanges(size=end + PAGE_BYTES), handle)
        finally:
            goes_on.set()
        asked.result(WAIT_S)
    fs.write(handle, end, np.full(PAGE_NUMBERS, 7, "<i4").tobytes())
    close(fs, handle)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        assert root.variables["page"][2:, 0].tolist() == [7]


@pytest.mark.parametrize("dtype", [None, "<f8", "<i2"])
def test_records_are_not_stored_when_another_client_has_taken_their_variable(
    fs: TreeFileSystem,
    memory: GatedZMap,
    dtype: str | None,
    expected_warnings: ExpectedWarnings,
) -> None:
    """SEMANTICS W1, W22: each fsync says so, and a new variable keeps its values."""
    for text in ("has removed or replaced it since it was opened", "not stored at its last close"):
        expected_warnings.add(text)
    handle = open_file(fs, RAW, os.O_WRONLY | os.O_APPEND)
    with (
        memory.stopping("write", "d.zarr/r/0.1", "after") as other,
        memory.stopping("write", "d.zarr/r/0.0") as gate,
        ThreadPoolExecutor(1) as threads,
    ):
        fs.write(handle, 2 * RECORD_BYTES, np.array(record(1, 1), "<i4").tobytes())
        syncing = threads.submit(fs.fsync, handle, data_only=False)
        assert other.reached.wait(WAIT_S)
        other.open()
        assert gate.reached.wait(WAIT_S)
        with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "r+") as root:
            del root["r"]
            if dtype is not None:
                made = root.create_variable("r", ("t", "x"), dtype, chunks=(4, 3), fillvalue=-1)
                made[:2] = 7
        gate.open()
        with pytest.raises((StructureChanged, NoSuchNode)):
            syncing.result(WAIT_S)
    for _ in range(2):
        with pytest.raises(StructureChanged):
            fs.fsync(handle, data_only=False)
    with pytest.raises(StructureChanged):
        close(fs, handle)
    if dtype is not None:
        with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
            assert root.variables["r"][...].tolist() == [[7] * WIDTH] * 2


def test_the_journal_keeps_appended_records_that_have_no_place_yet(
    memory: GatedZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W21: its old files go when all that stands in them is stored, records too."""
    monkeypatch.setattr(spool_log, "FILE_BYTES", 300)
    options = VfsOptions(
        engine=EngineOptions(cache_bytes_max=0, flush_age_s=None),
        read_only=False,
        spool_dir=tmp_path / "spool",
        survives=Survives.KILL,
    )
    fs, engine = tree_and_engine_over(Kept(memory), options)
    appending = open_file(fs, RAW, os.O_WRONLY | os.O_APPEND)
    fs.write(appending, 2 * RECORD_BYTES, np.array(record(1, 1), "<i4").tobytes())
    others = open_file(fs, RAW, os.O_RDWR)
    for number in range(5):
        fs.write(others, 0, np.array(record(2, number), "<i4").tobytes())
    with (
        ThreadPoolExecutor(1) as threads,
        memory.stopping("write", "d.zarr/r/.zarray") as claiming,
    ):
        stored = threads.submit(engine.writeback._store_aged, time.monotonic())
        assert claiming.reached.wait(WAIT_S)
        claiming.open(Unavailable("the store went away"))
        assert stored.result(WAIT_S), "records are left"
    recovered(left_by(tmp_path / "spool", tmp_path / "left"), memory)
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr"))) as root:
        found: Any = root["r"]
        assert found[...].tolist() == [record(2, 4), [0] * WIDTH, record(1, 1)]
    for handle in (appending, others):
        fs.release(handle)
    fs.close()
