"""Several handles and mappings of one file, on a dataset that is looked at anew meanwhile."""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.gated import WAIT_S
from tests.support.mounts import Served
from tests.support.sample import Values
from tests.support.settled import settled, status
from tests.support.waiting import until

VALUES = np.arange(6000, dtype="<f8").reshape(60, 100)
CHUNKS = (20, 100)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    with nczfs.open(str(directory / "d.zarr"), "w") as root:
        root.create_dimension("t", None)
        root.create_variable("v", (60, 100), "<f8", VALUES, chunks=CHUNKS)
        root.create_variable("r", ("t", 100), "<f8", VALUES[:20], chunks=(8, 100))
    return directory


@pytest.fixture
def mount(store: Path, tmp_path: Path) -> Iterator[Served]:
    with settled(store, tmp_path / "spool", "--flush-age", "1h") as mount:
        yield mount


def stored(store: Path, name: str = "v") -> Values:
    """What another reader of the store finds."""
    with nczfs.open(str(store / "d.zarr")) as root:
        return np.asarray(root.variables[name][...])


def raw_of(mount: Served, name: str = "v") -> Path:
    return mount.path / "datasets/d.zarr" / name / "values.raw"


def number(value: float) -> bytes:
    return np.array([value], "<f8").tobytes()


def test_each_of_two_mappings_of_a_file_has_its_pages_stored(mount: Served, store: Path) -> None:
    """SEMANTICS W1."""
    raw = raw_of(mount)
    one, other = (np.memmap(raw, "<f8", "r+", shape=VALUES.shape) for _ in range(2))
    one[3, 5] = -1
    one.flush()
    assert stored(store)[3, 5] == -1
    other[30, 7] = -2
    other.flush()
    assert stored(store)[30, 7] == -2
    one[59, 99] = -3
    one.flush()
    assert stored(store)[59, 99] == -3


def test_a_mapping_is_stored_though_others_open_the_file_after_it(
    mount: Served, store: Path
) -> None:
    """SEMANTICS W1."""
    raw = raw_of(mount)
    mapped = np.memmap(raw, "<f8", "r+", shape=VALUES.shape)
    with raw.open("r+b", buffering=0) as later:
        mapped[0, 0] = -1
        mapped.flush()
        assert stored(store)[0, 0] == -1
        later.seek(8)
        later.write(number(-2))
        mapped[0, 2] = -3
    mapped.flush()
    assert stored(store)[0, :3].tolist() == [-1, -2, -3]


def test_fsync_of_any_handle_stores_what_another_one_wrote(mount: Served, store: Path) -> None:
    """SEMANTICS W1."""
    raw = raw_of(mount)
    writer, reader = os.open(raw, os.O_RDWR), os.open(raw, os.O_RDONLY)
    os.pwrite(writer, number(-1), 0)
    os.fsync(reader)
    assert stored(store)[0, 0] == -1
    os.close(reader)
    os.close(writer)


OTHERS = ["v/values.npy", "v/v.nc", "d.nc", "d.classic.nc", "v/chunks/0.0"]


def first_of(path: Path) -> tuple[int, str]:
    """Where a file has the first row of the variable, and the type of its numbers there."""
    data = path.read_bytes()
    found = [(data.find(VALUES[0].astype(dtype).tobytes()), dtype) for dtype in ("<f8", ">f8")]
    return max(found)


@pytest.mark.parametrize("name", OTHERS)
def test_an_open_file_shows_at_once_what_is_written_through_another_one(
    mount: Served, name: str
) -> None:
    """SEMANTICS W2: although the kernel has pages of it."""
    path = mount.path / "datasets/d.zarr" / name
    start, dtype = first_of(path)
    reader, writer = os.open(path, os.O_RDONLY), os.open(raw_of(mount), os.O_WRONLY)
    with mmap.mmap(reader, 0, prot=mmap.PROT_READ) as mapped:
        assert os.pread(reader, 8, start) == mapped[start : start + 8] == bytes(8)
        os.pwrite(writer, number(-1), 0)
        assert np.frombuffer(os.pread(reader, 8, start), dtype) == -1
        assert np.frombuffer(mapped[start : start + 8], dtype) == -1
    os.close(writer)
    os.close(reader)


@pytest.mark.parametrize("changes", ["before", "after"])
@pytest.mark.parametrize("name", OTHERS)
def test_pages_of_one_file_undo_nothing_that_is_written_through_another_one(
    mount: Served, store: Path, name: str, changes: str
) -> None:
    """SEMANTICS W1, W68."""
    path = mount.path / "datasets/d.zarr" / name
    start, dtype = first_of(path)
    handle, writer = os.open(path, os.O_RDWR), os.open(raw_of(mount), os.O_RDWR)
    with mmap.mmap(handle, 0) as mapped:
        assert mapped[start : start + 8] == bytes(8)
        if changes == "after":
            os.pwrite(writer, number(-1), 0)
        mapped[start + 8 : start + 16] = np.array([-2], dtype).tobytes()
        if changes == "before":
            os.pwrite(writer, number(-1), 0)
        mapped.flush()
        os.fsync(writer)
        assert stored(store)[0, :3].tolist() == [-1, -2, 2]
        assert os.pread(writer, 16, 0) == number(-1) + number(-2)
    os.close(writer)
    os.close(handle)


ROUNDS = 15


@pytest.mark.parametrize("name", ["v/values.npy", "v/v.nc", "d.nc", "d.classic.nc"])
def test_a_mapping_and_what_is_written_at_the_same_moment_through_another_file_are_both_kept(
    mount: Served, store: Path, name: str
) -> None:
    """SEMANTICS W1, W68: in different pages of the mapping."""
    path = mount.path / "datasets/d.zarr" / name
    start, dtype = first_of(path)
    mapped = np.memmap(raw_of(mount), "<f8", "r+", shape=VALUES.shape)
    mapped_rows, written_rows = range(25), range(31, 60)  # rows 26 to 30 fill a page
    assert mapped[59, 99] == VALUES[59, 99]  # the mapping has pages of all rows
    handle, begun = os.open(path, os.O_RDWR), threading.Barrier(2)

    def change_the_mapping() -> None:
        begun.wait(WAIT_S)
        for number in range(ROUNDS):
            for row in mapped_rows:
                mapped[row] = 1000 * number + row
            if number % 3 == 0:
                mapped.flush()

    def write_the_file() -> None:
        begun.wait(WAIT_S)
        for number in range(ROUNDS):
            for row in written_rows:
                values = np.full(100, -1000 * number - row, dtype)
                os.pwrite(handle, values.tobytes(), start + 800 * row)
            if number % 5 == 0:
                os.fsync(handle)

    with ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(change_the_mapping), threads.submit(write_the_file)]:
            future.result()
    expected = VALUES.copy()
    for row in mapped_rows:
        expected[row] = 1000 * (ROUNDS - 1) + row
    for row in written_rows:
        expected[row] = -1000 * (ROUNDS - 1) - row
    # What was being written back just then may have kept the mapping from showing the writes.
    until(lambda: np.array_equal(mapped, expected))
    expected[40] = -1
    os.pwrite(handle, np.full(100, -1, dtype).tobytes(), start + 800 * 40)
    until(lambda: np.array_equal(mapped, expected))
    mapped.flush()
    os.fsync(handle)
    np.testing.assert_array_equal(stored(store), expected)
    found = np.frombuffer(os.pread(handle, VALUES.nbytes, start), dtype)
    np.testing.assert_array_equal(found.reshape(VALUES.shape), expected)
    os.close(handle)


def test_a_mapping_and_writes_to_the_mapped_file_at_the_same_moment_are_both_kept(
    mount: Served, store: Path
) -> None:
    """SEMANTICS W1, W68: even in one page."""
    raw = raw_of(mount)
    mapped = np.memmap(raw, "<f8", "r+", shape=VALUES.shape)
    begun = threading.Barrier(2)

    def change_the_mapping() -> None:
        begun.wait(WAIT_S)
        for number in range(ROUNDS):
            mapped[:, ::2] = number
            if number % 3 == 0:
                mapped.flush()

    def write_the_file() -> None:
        with raw.open("r+b", buffering=0) as file:
            begun.wait(WAIT_S)
            for number in range(ROUNDS):
                for row in range(0, 60, 7):
                    for column in range(1, 100, 14):
                        data = np.array([-number], "<f8").tobytes()
                        os.pwrite(file.fileno(), data, 800 * row + 8 * column)
            os.fsync(file.fileno())

    with ThreadPoolExecutor(2) as threads:
        for future in [threads.submit(change_the_mapping), threads.submit(write_the_file)]:
            future.result()
    expected = VALUES.copy()
    expected[:, ::2] = ROUNDS - 1
    expected[::7, 1::14] = 1 - ROUNDS
    np.testing.assert_array_equal(mapped, expected)
    mapped.flush()
    np.testing.assert_array_equal(stored(store), expected)


@pytest.mark.parametrize("path", ["", "/datasets/d.zarr", "/datasets/d.zarr/v"])
def test_a_handle_that_was_open_at_a_refresh_goes_on_writing(
    mount: Served, store: Path, path: str
) -> None:
    """SEMANTICS W1, W2."""
    raw = raw_of(mount)
    handle = os.open(raw, os.O_RDWR)
    os.pwrite(handle, number(-1), 0)
    (mount.path / ".nczfs/refresh").write_text(path)
    os.pwrite(handle, number(-2), 8)
    assert np.fromfile(raw, "<f8", 2).tolist() == [-1, -2]
    os.fsync(handle)
    assert stored(store)[0, :2].tolist() == [-1, -2]
    with raw.open("r+b", buffering=0) as newer:
        newer.seek(16)
        newer.write(number(-3))
    os.pwrite(handle, number(-4), 24)
    assert os.pread(handle, 32, 0) == np.arange(-1.0, -5.0, -1.0).tobytes()
    os.close(handle)
    assert stored(store)[0, :4].tolist() == [-1, -2, -3, -4]


def test_a_handle_goes_on_writing_when_attributes_are_changed_through_objects(
    mount: Served, store: Path
) -> None:
    """SEMANTICS W1, W2."""
    raw = raw_of(mount)
    handle = os.open(raw, os.O_RDWR)
    os.pwrite(handle, number(-1), 0)
    document = mount.path / "objects/d.zarr/v/.zattrs"
    document.write_text('{"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"}')
    os.pwrite(handle, number(-2), 8)
    os.fsync(handle)
    assert stored(store)[0, :2].tolist() == [-1, -2]
    assert np.fromfile(raw, "<f8", 2).tolist() == [-1, -2]
    os.close(handle)


def test_a_handle_that_was_open_at_a_refresh_goes_on_appending(mount: Served, store: Path) -> None:
    """SEMANTICS W8."""
    raw = raw_of(mount, "r")
    handle = os.open(raw, os.O_WRONLY | os.O_APPEND)
    os.write(handle, VALUES[20:22].tobytes())
    (mount.path / ".nczfs/refresh").write_text("")
    os.write(handle, VALUES[22:25].tobytes())
    assert raw.stat().st_size == 25 * 800
    with raw.open("ab", buffering=0) as newer:
        newer.write(VALUES[25].tobytes())
    os.write(handle, VALUES[26].tobytes())
    os.close(handle)
    np.testing.assert_array_equal(stored(store, "r"), VALUES[:27])


def test_a_mapping_that_was_there_at_a_refresh_is_stored(mount: Served, store: Path) -> None:
    """SEMANTICS W1."""
    with raw_of(mount).open("r+b") as file:
        pages = mmap.mmap(file.fileno(), 0)
    pages[:8] = number(-1)
    (mount.path / ".nczfs/refresh").write_text("")
    pages[8:16] = number(-2)
    pages.flush()
    assert stored(store)[0, :2].tolist() == [-1, -2]
    pages.close()
    assert status(mount)["unsaved_chunks"] == 0


def test_pages_that_are_written_back_through_a_file_for_appending_stay_where_they_are(
    mount: Served, store: Path
) -> None:
    """SEMANTICS W1, W8, W58."""
    raw = raw_of(mount, "r")
    with raw.open("r+b") as file:
        pages = mmap.mmap(file.fileno(), 0)
    handle = os.open(raw, os.O_RDWR | os.O_APPEND)
    mapped = mmap.mmap(handle, 0)
    for turn in range(3):
        pages[800:808] = number(-turn)
        pages.flush()
        mapped[8 * 1999 : 8 * 2000] = number(-turn)
        os.write(handle, VALUES[20 + turn].tobytes())
        mapped.flush()
    pages.close()
    mapped.close()
    os.close(handle)
    wanted = VALUES[:23].copy()
    wanted[1, 0] = wanted[19, 99] = -2
    np.testing.assert_array_equal(stored(store, "r"), wanted)
