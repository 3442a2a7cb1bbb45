"""Records that are appended at the same time, by several programs in several mounts."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from tests.support.mounts import Served
from tests.support.places import (
    DATASET,
    SHARDED,
    Place,
    bucket_of,
    directory_at,
    requested_place,
)
from tests.support.sample import Values
from tests.support.settled import settled, status

WIDTH = 5
CHUNKS = (4, 3)
SHARDS = (8, 6)
ROUNDS = [12, pytest.param(300, marks=pytest.mark.long)]
PATIENCE_S = 60.0


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Stores with conditional writes."""
    return with_records(requested_place(request, tmp_path))


@pytest.fixture
def mounts(place: Place, tmp_path: Path) -> Iterator[list[Served]]:
    prompt = ["--metadata-ttl", "minimal"]
    with ExitStack() as stack:
        yield [
            stack.enter_context(settled(place.url, tmp_path / f"spool{number}", *prompt))
            for number in range(2)
        ]


def with_records(place: Place) -> Place:
    """A store with a dataset of two variables of records, of which there is none yet."""
    with nczfs.open(place.url_of(DATASET), "w") as root:
        make_records(root)
    with nczfs.open(place.url_of(SHARDED), "w", format="zarr3") as root:
        make_records(root, shards=SHARDS)
    return place


def make_records(root: nczfs.OpenDataset, **options: Any) -> None:
    root.create_dimension("t", None)
    root.create_dimension("x", WIDTH)
    for name in "rs":
        root.create_variable(name, ("t", "x"), "<i4", chunks=CHUNKS, fillvalue=-1, **options)


def file_of(mount: Served, name: str = "r", dataset: str = DATASET) -> Path:
    return mount.path / "datasets" / dataset / name / "values.raw"


def record(writer: int, number: int) -> Values:
    """A record that no other writer writes."""
    return np.arange(WIDTH, dtype="<i4") + 1000 * (1 + number) + 1_000_000 * (1 + writer)


def records_of(writer: int, count: int) -> list[list[int]]:
    return [record(writer, number).tolist() for number in range(count)]


def stored(place: Place, name: str = "r") -> list[list[int]]:
    found: list[list[int]] = place.values(name).tolist()
    return found


def check_each_once(found: list[list[int]], writers: int, count: int) -> None:
    """Every record is there once, those of a writer in their order, and nothing between them."""
    for writer in range(writers):
        own = [row for row in found if row[0] // 1_000_000 == 1 + writer]
        assert own == records_of(writer, count)
    assert len(found) == writers * count


@contextmanager
def looked_at(*paths: Path) -> Iterator[None]:
    """Other programs ask for the sizes of files all the time."""
    ends = threading.Event()

    def look(path: Path) -> None:
        while not ends.is_set():
            path.stat()

    threads = [threading.Thread(target=look, args=[path]) for path in paths]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def append_all(path: Path, writer: int, count: int, synced_after: int) -> None:
    """Append records, a part of one at a time, and have some of them confirmed now and then."""
    fd = open_patiently(path)
    try:
        for number in range(count):
            data = record(writer, number).tobytes()
            cut = 0 if number % 3 else 8
            if cut:
                os.write(fd, data[:cut])
            os.write(fd, data[cut:])
            if number % synced_after == synced_after - 1:
                os.fsync(fd)
    finally:
        os.close(fd)


def open_patiently(path: Path) -> int:
    give_up = time.monotonic() + PATIENCE_S
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ETIMEDOUT) or time.monotonic() > give_up:
                raise


def at_once(paths: list[Path], count: int, *synced_after: int) -> None:
    with ThreadPoolExecutor(len(paths)) as threads:
        futures = [
            threads.submit(append_all, path, number, count, synced_after[number])
            for number, path in enumerate(paths)
        ]
        for future in futures:
            future.result()


@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_mounts_that_append_at_the_same_time_lose_nothing(
    place: Place, mounts: list[Served], rounds: int
) -> None:
    """SEMANTICS W34."""
    for dataset in (DATASET, SHARDED):
        files = [file_of(mount, dataset=dataset) for mount in mounts]
        at_once(files, rounds, 1, 3)
        found = stored(place)
        if dataset == SHARDED:
            found = place.values_by_zarr(SHARDED, "r").tolist()
        check_each_once(found, 2, rounds)
        for file in files:
            shown = np.frombuffer(file.read_bytes(), "<i4").reshape(-1, WIDTH)
            assert shown.tolist() == found
        assert place.findings(dataset) == []


def test_records_of_a_page_are_appended_while_others_look_at_the_file(
    tmp_path: Path,
) -> None:
    """SEMANTICS W34: the kernel may take the end to be where it was a moment ago."""
    place = directory_at(tmp_path / "store")
    width, count = 1024, 40
    with nczfs.open(place.url_of(DATASET), "w") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", width)
        root.create_variable("r", ("t", "x"), "<i4", chunks=(4, width), fillvalue=-1)

    def append(path: Path, writer: int) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            for number in range(count):
                os.write(fd, np.full(width, 1000 * writer + number, "<i4").tobytes())
                if number % 3 == 0:
                    os.fsync(fd)
        finally:
            os.close(fd)

    with (
        settled(place.url, tmp_path / "spool0") as one,
        settled(place.url, tmp_path / "spool1") as other,
        looked_at(file_of(one), file_of(other)),
        ThreadPoolExecutor(3) as threads,
    ):
        works = [threads.submit(append, file_of(m), n) for n, m in enumerate((one, other, one), 1)]
        for work in works:
            work.result()
    found = [int(row[0]) for row in stored(place) if len(set(row)) == 1]
    for writer in (1, 2, 3):
        own = [number for number in found if number // 1000 == writer]
        assert own == [1000 * writer + number for number in range(count)]
    assert len(found) == 3 * count


def test_a_reader_from_before_does_not_move_the_end_for_programs_that_append(
    tmp_path: Path,
) -> None:
    """SEMANTICS D8, W34: the kernel takes the end of what is read for the end of the file."""
    place = with_records(directory_at(tmp_path / "store"))
    count = 4096 // (WIDTH * 4)  # in the first page
    with settled(place.url, tmp_path / "spool") as mount, ExitStack() as files:
        path = file_of(mount)
        reader = files.enter_context(path.open("rb", buffering=0)).fileno()
        writer = os.open(path, os.O_RDWR | os.O_APPEND)
        for number in range(2 * count):
            os.write(writer, record(0, number).tobytes())
        os.posix_fadvise(writer, 0, 0, os.POSIX_FADV_DONTNEED)
        shown = os.pread(reader, 4096, 4096)
        os.write(writer, record(1, 0).tobytes())
        os.close(writer)
        wanted = [*records_of(0, 2 * count), record(1, 0).tolist()]
        assert shown == np.array(wanted, "<i4").tobytes()[4096 : 2 * count * WIDTH * 4]
        assert np.frombuffer(path.read_bytes(), "<i4").reshape(-1, WIDTH).tolist() == wanted
    assert stored(place) == wanted


def test_the_loser_appends_behind_the_winner_and_sees_its_records_there(
    place: Place, mounts: list[Served]
) -> None:
    """SEMANTICS W34."""
    fds = [open_patiently(file_of(mount)) for mount in mounts]
    for writer, fd in enumerate(fds):
        for number in range(3):
            os.write(fd, record(writer, number).tobytes())
    os.fsync(fds[0])
    assert stored(place) == records_of(0, 3)
    os.fsync(fds[1])
    wanted = [*records_of(0, 3), *records_of(1, 3)]
    assert stored(place) == wanted
    size = 4 * WIDTH
    assert os.fstat(fds[1]).st_size == 6 * size
    assert np.frombuffer(os.pread(fds[1], 3 * size, 3 * size), "<i4").tolist() == [
        value for row in records_of(1, 3) for value in row
    ]
    shown = file_of(mounts[1]).read_bytes()
    assert np.frombuffer(shown, "<i4").reshape(-1, WIDTH).tolist() == wanted
    os.write(fds[1], record(1, 3).tobytes())
    os.write(fds[0], record(0, 3).tobytes())
    for fd in fds:
        os.close(fd)
    found = stored(place)
    assert found[:6] == wanted
    assert sorted(found[6:]) == sorted([record(0, 3).tolist(), record(1, 3).tolist()])


def test_records_at_an_offset_keep_their_place_and_merge(
    place: Place, mounts: list[Served]
) -> None:
    """SEMANTICS W55. A Fortran program writes a record by its number."""
    size = 4 * WIDTH
    fds = [os.open(file_of(mount), os.O_RDWR) for mount in mounts]
    for writer, fd in enumerate(fds):
        os.pwrite(fd, record(writer, 0).tobytes(), (2 + writer) * size)
    for fd in fds:
        os.fsync(fd)
    for writer, fd in enumerate(fds):
        data = record(writer, 1).tobytes()
        os.pwrite(fd, data[8 * writer : 8 * writer + 8], 8 * writer)
        os.close(fd)
    one, other = (record(writer, 1).tolist() for writer in range(2))
    wanted = [[*one[:2], *other[2:4], -1], [-1] * WIDTH, *records_of(0, 1), *records_of(1, 1)]
    assert stored(place) == wanted


def test_appenders_in_one_mount_are_not_disturbed(place: Place, mounts: list[Served]) -> None:
    """SEMANTICS W34."""
    at_once([file_of(mounts[0])] * 3, 12, 1, 2, 5)
    check_each_once(stored(place), 3, 12)


def test_without_conditional_writes_they_append_by_turns(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """SEMANTICS W56, W43."""
    place = with_records(bucket_of(request.getfixturevalue("swift")))
    with ExitStack() as stack:
        expect = "EAGAIN|ETIMEDOUT"
        mounts = [
            stack.enter_context(settled(place.url, tmp_path / f"spool{n}", expect=expect))
            for n in range(2)
        ]
        at_once([file_of(mount) for mount in mounts], 4, 1, 3)
        check_each_once(stored(place), 2, 4)


def test_a_follower_in_another_mount_reads_whole_records(
    place: Place, mounts: list[Served]
) -> None:
    """SEMANTICS W34. As tail -f does: what it reads is never replaced."""
    ended = threading.Event()
    seen = bytearray()

    def follow() -> None:
        while True:
            is_last = ended.is_set()
            with file_of(mounts[1]).open("rb") as file:
                file.seek(len(seen))
                seen.extend(file.read())
            if is_last:
                return

    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(follow)
        try:
            append_all(file_of(mounts[0]), 0, 30, 1)
        finally:
            ended.set()
        following.result()
    assert np.frombuffer(seen, "<i4").reshape(-1, WIDTH).tolist() == records_of(0, 30)
    assert status(mounts[1])["unsaved_chunks"] == 0
