"""Values written through the files of ``datasets/``, over a store in memory (docs/SEMANTICS.md)."""

from __future__ import annotations

import io
import itertools
import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.engine.arrays.array import now
from nczfs.engine.options import EngineOptions
from nczfs.errors import (
    BadArgument,
    BadValue,
    DeadlinePassed,
    NotPermitted,
    ReadOnlyMount,
    StructureChanged,
    Unavailable,
)
from nczfs.library.opening import open_zmap
from nczfs.metrics import REGISTRY
from nczfs.testing.datasets import put_array, put_group
from nczfs.testing.faults import Faulty
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.datasets import writing
from nczfs.vfs.effects import TimedRequest
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import Features, ZMap
from nczfs.zmap.keys import parse_key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.trees import find, listing, read
from tests.support.waiting import until
from tests.support.writing import close, open_file, sync

_stores = itertools.count()

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
V = "datasets/a.zarr/v"
WIDTH = 16
FLUSH_S = 0.3


@pytest.fixture
def url() -> str:
    return f"memory://writing{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    put_group(store, "a.zarr")
    put_array(store, "a.zarr/v", FIELD, (2, 4), dimensions=("y", "x"))
    put_array(store, "a.zarr/s", np.array([b"one", b"t\two", b"x"], "S5"), (2,), fill_value="")
    return store


@pytest.fixture
def fs(store: ZMap, url: str) -> Iterator[TreeFileSystem]:
    tree = mount_tree(url, options=VfsOptions(read_only=False))
    yield tree
    tree.close()


def write(
    fs: TreeFileSystem, path: str, data: bytes, offset: int = 0, flags: int = os.O_WRONLY
) -> None:
    handle = fs.open(find(fs, path).ino, flags).handle
    try:
        fs.write(handle, offset, data)
        fs.flush(handle)
    finally:
        fs.release(handle)


def stored(store: ZMap, name: str = "v", dataset: str = "a.zarr") -> Values:
    """The values that the store has, read by a client that shares nothing with the mount."""
    with open_zmap(Prefixed(store, parse_prefix(dataset))) as root:
        return np.array(root.variables[name][...])


def raw(fs: TreeFileSystem, variable: str = V) -> Values:
    return np.frombuffer(read(fs, f"{variable}/values.raw"), "<f4").reshape(FIELD.shape)


def test_bytes_written_to_values_raw_are_stored_at_the_close(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W1."""
    write(fs, f"{V}/values.raw", np.array([100, 101, 102], "<f4").tobytes(), 4 * 5)
    wanted = FIELD.copy()
    wanted.reshape(-1)[5:8] = 100, 101, 102
    np.testing.assert_array_equal(stored(store), wanted)
    np.testing.assert_array_equal(raw(fs), wanted)


@pytest.mark.parametrize(
    "synced",
    [
        "values.raw open for writing",
        "datasets/a.zip/v/values.raw",
        "datasets/a.zip/v/info.json",
        "objects/v/0.0",
        "datasets/a.zip/",
        "datasets/",
        "objects/",
    ],
)
def test_in_a_zip_archive_values_are_there_at_fsync(tmp_path: Path, synced: str) -> None:
    """SEMANTICS W88: through whichever descriptor, as ``sync FILE`` calls it."""
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w"):
        pass
    zmap = open_store(str(archive))
    put_group(zmap, "")
    put_array(zmap, "v", FIELD, (4, 6), dimensions=("y", "x"))
    zmap.close()
    tree = mount_tree(str(archive), options=VfsOptions(read_only=False))
    handle = tree.open(find(tree, "datasets/a.zip/v/values.raw").ino, os.O_WRONLY).handle
    tree.write(handle, 0, np.array([7], "<f4").tobytes())
    if synced == "values.raw open for writing":
        tree.fsync(handle, data_only=True)
    else:
        tree.flush(handle)
        sync(tree, synced)
    with zipfile.ZipFile(archive) as others:
        assert np.frombuffer(others.read("v/0.0"), "<f4")[0] == 7
    tree.release(handle)
    tree.close()


def test_what_one_view_wrote_every_other_shows_before_it_is_stored(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W2."""
    sibling = fs.open(find(fs, f"{V}/values.npy").ino, os.O_RDONLY).handle
    assert bytes(fs.read(sibling, 128, 4)) == FIELD.tobytes()[:4]
    handle = fs.open(find(fs, f"{V}/values.raw").ino, os.O_RDWR).handle
    fs.write(handle, 0, np.array([7], "<f4").tobytes())
    assert bytes(fs.read(handle, 0, 8)) == np.array([7, 1], "<f4").tobytes()
    assert bytes(fs.read(sibling, 128, 4)) == np.array([7], "<f4").tobytes()
    assert read(fs, f"{V}/values.txt", 0, WIDTH).strip() == b"7"
    assert read(fs, f"{V}/chunks/0.0", 0, 4) == np.array([7], "<f4").tobytes()
    assert stored(store)[0, 0] == 0
    fs.flush(handle)
    assert stored(store)[0, 0] == 7
    fs.release(handle)
    fs.release(sibling)


class Far(Faulty):
    """A store that says of itself that it is across a network."""

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)


@pytest.mark.parametrize("is_far", [False, True], ids=["near", "far"])
def test_pages_that_the_kernel_kept_are_not_believed_after_a_write(
    store: ZMap, url: str, monkeypatch: pytest.MonkeyPatch, is_far: bool
) -> None:
    """SEMANTICS D9, W2."""
    kind = Far if is_far else Faulty
    monkeypatch.setattr("nczfs.vfs.tree.open_store", lambda *_: kind(store))
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    ino = find(fs, f"{V}/values.txt").ino
    for _ in range(2):
        opened = fs.open(ino, os.O_RDONLY)
        fs.release(opened.handle)
    assert opened.keep_cache == is_far, "in a near store others may have written"
    before = fs.getattr(ino).mtime_ns
    write(fs, f"{V}/values.raw", b"1234", 0)
    opened = fs.open(ino, os.O_RDONLY)
    assert not opened.keep_cache
    assert fs.getattr(ino).mtime_ns > before
    fs.release(opened.handle)
    fs.close()


def test_a_far_chunk_that_was_replaced_shows_in_files_opened_after_its_time(
    store: ZMap, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS D9."""
    monkeypatch.setattr("nczfs.vfs.tree.open_store", lambda *_: Far(store))
    ttl_s, passed_s = 60.0, [0.0]
    monkeypatch.setattr("nczfs.vfs.datasets.viewfile.now", lambda: now() + passed_s[0])
    options = EngineOptions(metadata_ttl_s=ttl_s)
    fs = mount_tree(url, options=VfsOptions(read_only=False, engine=options))
    raw = f"{V}/values.raw"
    assert read(fs, raw) == FIELD.tobytes()
    before = open_file(fs, raw, os.O_RDONLY)
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "r+") as root:
        root.variables["v"][...] = -FIELD
    assert read(fs, raw) == FIELD.tobytes(), "it was confirmed just now"
    passed_s[0] = ttl_s
    assert read(fs, raw) == (-FIELD).tobytes()
    close(fs, before)
    fs.close()


def test_every_handle_of_a_replaced_variable_reports_what_was_lost(
    fs: TreeFileSystem, store: ZMap, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W85."""
    expected_warnings.add("another client has removed or replaced it")
    writer, other = open_file(fs, f"{V}/values.raw"), open_file(fs, f"{V}/values.raw")
    fs.write(writer, 0, b"1234")
    with open_zmap(Prefixed(store, parse_prefix("a.zarr")), "r+") as root:
        del root["v"]
        root.create_variable("v", (3, 3), "i2", chunks=(3, 3))
    with pytest.raises(StructureChanged):
        close(fs, writer)
    with pytest.raises(StructureChanged):
        close(fs, other)


def _windows_read_ahead() -> float:
    return REGISTRY.get_sample_value("nczfs_prefetched_windows_total") or 0.0


def test_bytes_that_were_read_ahead_are_not_shown_after_a_write(store: ZMap, url: str) -> None:
    """SEMANTICS W2: rows of chunks lie apart in the file, so threads put them together ahead."""
    field = np.arange(1 << 20, dtype="<f8").reshape(1024, 1024)
    put_array(store, "a.zarr/w", field, (64, 64))
    fs = mount_tree(url, options=VfsOptions(read_only=False))
    raw, step = "datasets/a.zarr/w/values.raw", 128 << 10
    reader = open_file(fs, raw, os.O_RDONLY)
    begun, place = _windows_read_ahead(), field.nbytes // 4

    def bytes_at(start: int) -> bytes:
        """As the kernel asks: what is in memory first."""
        found = fs.read_if_cached(reader, start, step)
        return bytes(fs.read(reader, start, step) if found is None else found)

    for start in range(0, place, step):
        assert bytes_at(start) == field.tobytes()[start : start + step]
    until(lambda: _windows_read_ahead() >= begun + 1)
    write(fs, raw, (-field).tobytes()[place:], place)
    for start in range(place, field.nbytes, step):
        assert bytes_at(start) == (-field).tobytes()[start : start + step]
    close(fs, reader)
    fs.close()


@pytest.mark.parametrize(("offset", "size"), [(1, 1), (3, 2), (2, 9), (0, 95), (95, 1), (5, 90)])
def test_any_bytes_of_an_element_can_be_written(
    fs: TreeFileSystem, store: ZMap, offset: int, size: int
) -> None:
    """SEMANTICS W1."""
    wanted = bytearray(FIELD.tobytes())
    wanted[offset : offset + size] = bytes(range(1, size + 1))
    write(fs, f"{V}/values.raw", bytes(range(1, size + 1)), offset)
    assert stored(store).tobytes() == bytes(wanted)


def test_a_chunk_file_is_written_without_reading_the_chunk(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W1, W4."""
    store.write(parse_key("a.zarr/v/1.1"), b"broken")
    chunk = np.full((2, 4), 9, "<f4")
    chunk[:, 2:] = 77  # beyond the edge of the array
    write(fs, f"{V}/chunks/1.1", chunk.tobytes())
    wanted = FIELD.copy()
    wanted[2:, 4:] = 9
    np.testing.assert_array_equal(stored(store), wanted)
    shown = np.frombuffer(read(fs, f"{V}/chunks/1.1"), "<f4").reshape(2, 4)
    assert 77 not in shown


def test_the_header_of_values_npy_can_only_be_written_over_by_itself(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W3."""
    with pytest.raises(NotPermitted, match="byte 5 "):
        write(fs, f"{V}/values.npy", b"\0", 5)
    buffer = io.BytesIO()
    np.save(buffer, FIELD + 1)
    write(fs, f"{V}/values.npy", buffer.getvalue(), 0, os.O_WRONLY | os.O_TRUNC)
    np.testing.assert_array_equal(stored(store), FIELD + 1)
    buffer = io.BytesIO()
    np.save(buffer, np.asfortranarray(FIELD + 2))
    with pytest.raises(NotPermitted):
        write(fs, f"{V}/values.npy", buffer.getvalue(), 0, os.O_WRONLY | os.O_TRUNC)
    np.testing.assert_array_equal(stored(store), FIELD + 1)


def test_a_truncated_file_is_a_rewrite_and_only_a_whole_one_counts(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W5."""
    new = FIELD[::-1].tobytes()
    handle = fs.open(find(fs, f"{V}/values.raw").ino, os.O_WRONLY | os.O_TRUNC).handle
    fs.flush(handle)  # the shell's own descriptor
    fs.write(handle, 0, new[:50])
    with pytest.raises(BadArgument, match=r"50 bytes were written.* old values stay"):
        fs.flush(handle)
    np.testing.assert_array_equal(stored(store), FIELD)
    np.testing.assert_array_equal(raw(fs), FIELD)
    fs.write(handle, 50, new[50:])
    fs.flush(handle)
    fs.release(handle)
    np.testing.assert_array_equal(stored(store), FIELD[::-1])
    with pytest.raises(BadArgument):
        write(fs, f"{V}/values.raw", new[:95], 0, os.O_WRONLY | os.O_TRUNC)
    np.testing.assert_array_equal(raw(fs), FIELD[::-1])
    assert find(fs, f"{V}/values.raw").size == FIELD.nbytes


def test_a_fixed_size_stays(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W6."""
    ino = find(fs, f"{V}/values.raw").ino
    for offset, flags in ((92, os.O_WRONLY), (96, os.O_WRONLY | os.O_APPEND)):
        with pytest.raises(NotPermitted, match="ends at byte 96"):
            write(fs, f"{V}/values.raw", b"12345678", offset, flags)
    for size in (0, 1, 95, 97, 192):
        with pytest.raises(NotPermitted, match=r"resize_dimension|old values stay"):
            fs.setattr(ino, AttributeChanges(size=size), None)
    fs.setattr(ino, AttributeChanges(size=96), None)
    np.testing.assert_array_equal(stored(store), FIELD)


def test_an_open_file_that_is_truncated_must_be_written_before_the_close(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W5, W6."""
    ino = find(fs, f"{V}/values.raw").ino
    handle = fs.open(ino, os.O_RDWR).handle
    assert bytes(fs.read(handle, 0, 96)) == FIELD.tobytes()
    assert fs.read_if_cached(handle, 0, 96) is not None
    fs.setattr(ino, AttributeChanges(size=0), handle)
    assert fs.read_if_cached(handle, 0, 96) is None  # the old values are in memory
    assert bytes(fs.read(handle, 0, 96)) == b""
    with pytest.raises(NotPermitted, match="ends at byte 96"):
        fs.write(handle, 92, b"12345678")
    with pytest.raises(NotPermitted, match="old values stay"):
        fs.flush(handle)
    np.testing.assert_array_equal(raw(fs), FIELD)
    fs.write(handle, 0, FIELD[::-1].tobytes())
    fs.flush(handle)
    fs.release(handle)
    np.testing.assert_array_equal(stored(store), FIELD[::-1])


def test_a_line_of_text_is_replaced_by_another_that_is_a_number(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W7."""
    write(fs, f"{V}/values.txt", b"           -2.5\n1e3            \n", WIDTH * 3)
    wanted = FIELD.copy()
    wanted.reshape(-1)[3:5] = -2.5, 1000
    np.testing.assert_array_equal(stored(store), wanted)
    for wrong in (
        b"           hello\n"[:15] + b"\n",
        b" " * 15 + b"\n",
        b"          1_000\n",
        b"1e99           \n",
    ):
        with pytest.raises(BadValue):
            write(fs, f"{V}/values.txt", b"              5\n" + wrong, WIDTH * 3)
    with pytest.raises(BadValue):
        write(fs, f"{V}/values.txt", b"1 2 3\n4 5 6\n", 0)
    np.testing.assert_array_equal(stored(store), wanted)


@pytest.mark.parametrize("step", [1, 7, 16, 100])
def test_text_may_come_in_pieces_that_end_anywhere(
    fs: TreeFileSystem, store: ZMap, step: int
) -> None:
    """SEMANTICS W98."""
    text = b"".join(b"%15.9g\n" % -n for n in range(24))
    handle = fs.open(find(fs, f"{V}/values.txt").ino, os.O_WRONLY).handle
    for offset in range(0, len(text), step):
        fs.write(handle, offset, text[offset : offset + step])
    fs.flush(handle)
    fs.release(handle)
    np.testing.assert_array_equal(stored(store), -FIELD)


def test_strings_that_lines_do_not_show_whole_are_kept(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W99."""
    path = "datasets/a.zarr/s/values.txt"
    assert read(fs, path) == b"one  \nt?wo \nx    \n"
    write(fs, path, b"two  \nt?wo \ny    \n")
    assert stored(store, "s").tolist() == [b"two", b"t\two", b"y"]
    with pytest.raises(BadValue, match="element 1"):
        write(fs, path, b"three\nthree\n")
    assert stored(store, "s").tolist() == [b"two", b"t\two", b"y"]


def test_a_store_that_refuses_is_told_at_the_close_and_what_was_written_is_kept(
    fs: TreeFileSystem, store: ZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W85."""
    handle = fs.open(find(fs, f"{V}/values.raw").ino, os.O_WRONLY).handle
    fs.write(handle, 0, b"1234")
    with monkeypatch.context() as broken:

        def refuse(*_: object, **__: object) -> None:
            raise Unavailable("the store is away")

        broken.setattr(MemoryZMap, "write", refuse)
        with pytest.raises(Unavailable):
            fs.flush(handle)
    assert raw(fs).tobytes()[:4] == b"1234"
    assert stored(store)[0, 0] == 0
    fs.flush(handle)
    assert stored(store).tobytes()[:4] == b"1234"
    fs.release(handle)


def test_what_is_written_behind_the_last_flush_is_stored_at_the_release(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W1."""
    handle = fs.open(find(fs, f"{V}/values.raw").ino, os.O_RDWR).handle
    fs.flush(handle)
    fs.write(handle, 0, b"1234")
    fs.release(handle)
    assert stored(store).tobytes()[:4] == b"1234"


def test_a_refresh_loses_nothing_that_was_written(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS N2."""
    handle = fs.open(find(fs, f"{V}/values.raw").ino, os.O_RDWR).handle
    fs.write(handle, 0, b"1234")
    fs.refresh("")
    assert raw(fs).tobytes()[:4] == b"1234"
    fs.release(handle)


def test_nothing_can_be_written_to_a_read_only_mount(store: ZMap, url: str) -> None:
    """SEMANTICS L1."""
    fs = mount_tree(url, options=VfsOptions(read_only=True))
    ino = find(fs, f"{V}/values.raw").ino
    assert fs.getattr(ino).mode & 0o222 == 0
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC):
        with pytest.raises(ReadOnlyMount):
            fs.open(ino, flags)
    with pytest.raises(ReadOnlyMount):
        fs.mkdir(find(fs, "datasets").ino, b"new.zarr", 0o755)
    fs.close()


def records(store: ZMap, chunks: tuple[int, ...] = (2, 3)) -> Values:
    """A dataset with an unlimited dimension of two records, and two variables that have it."""
    values = np.arange(6, dtype="<i4").reshape(2, 3)
    with open_zmap(Prefixed(store, parse_prefix("n.zarr")), "w") as root:
        root.create_dimension("time", None)
        root.create_dimension("x", 3)
        root.create_variable("r", ("time", "x"), "<i4", values, -1, chunks=chunks)
        root.create_variable("t", ("time",), "<f8", np.arange(2.0), -1.0)
    return values


R = "datasets/n.zarr/r/values.raw"


@pytest.mark.parametrize("step", [12, 24, 36, 5, 1])
def test_records_are_appended(fs: TreeFileSystem, store: ZMap, step: int) -> None:
    """SEMANTICS W8."""
    values = records(store)
    ino = find(fs, R).ino
    new = np.arange(100, 109, dtype="<i4").tobytes()
    handle = fs.open(ino, os.O_WRONLY | os.O_APPEND).handle
    reading = fs.open(ino, os.O_RDWR).handle
    for offset in range(0, len(new), step):
        fs.write(handle, values.nbytes + offset, new[offset : offset + step])
        written = len(new[: offset + step])
        assert fs.getattr(ino).size == values.nbytes + written
        whole = values.tobytes() + new[: written // 12 * 12]
        assert fs.read_if_cached(reading, 0, 1000) in (None, whole)
        assert bytes(fs.read(reading, 0, 1000)) == whole
    fs.flush(reading)
    fs.release(reading)
    fs.flush(handle)
    fs.release(handle)
    wanted = np.concatenate([values, np.arange(100, 109).reshape(3, 3)])
    np.testing.assert_array_equal(stored(store, "r", "n.zarr"), wanted)
    assert stored(store, "t", "n.zarr").tolist() == [0, 1, -1, -1, -1]
    assert read(fs, R) == wanted.astype("<i4").tobytes()
    assert find(fs, R).ino == ino
    assert find(fs, "datasets/n.zarr/t/values.raw").size == 5 * 8
    assert {"0.0", "1.0", "2.0"} == set(listing(fs, "datasets/n.zarr/r/chunks"))


def test_what_is_rewritten_is_read_while_it_is_stored(fs: TreeFileSystem) -> None:
    """SEMANTICS W2: its bytes are released when they are in the chunks."""
    new = np.arange(FIELD.size, dtype="<f4").tobytes()
    handle = fs.open(find(fs, f"{V}/values.raw").ino, os.O_RDWR | os.O_TRUNC).handle
    fs.write(handle, 0, new)
    flushing, pread = threading.Thread(target=fs.flush, args=(handle,)), os.pread

    def flushed_before(fd: int, size: int, offset: int) -> bytes:
        if threading.current_thread() is threading.main_thread():
            flushing.start()
            flushing.join(FLUSH_S)  # or until it waits for this read
        return pread(fd, size, offset)

    with mock.patch.object(os, "pread", flushed_before):
        assert bytes(fs.read(handle, 0, len(new))) == new
    flushing.join()
    assert bytes(fs.read(handle, 0, len(new))) == new
    fs.release(handle)


def test_a_rewrite_with_a_wrong_line_at_its_end_changes_nothing(
    fs: TreeFileSystem, store: ZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W5, W7: however many pieces it is taken in."""
    monkeypatch.setattr(writing, "BLOCK_BYTES", 2 * WIDTH + 5)
    path = f"{V}/values.txt"
    lines = [str(number).rjust(WIDTH - 1) + "\n" for number in range(100, 124)]
    wrong = [*lines[:-1], "none".rjust(WIDTH - 1) + "\n"]
    with pytest.raises(BadValue, match="is not a float32"):
        write(fs, path, "".join(wrong).encode(), 0, os.O_WRONLY | os.O_TRUNC)
    np.testing.assert_array_equal(stored(store), FIELD)
    np.testing.assert_array_equal(raw(fs), FIELD)
    write(fs, path, "".join(lines).encode(), 0, os.O_WRONLY | os.O_TRUNC)
    np.testing.assert_array_equal(stored(store), FIELD + 100)


def test_half_lines_become_whole_with_what_follows_or_with_what_the_file_shows(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W98."""
    path = f"{V}/values.txt"
    one, other = (open_file(fs, path) for _ in range(2))
    sign = b"-".rjust(WIDTH - 2)  # of the digit that the line ends with
    fs.write(one, WIDTH * 3, sign)
    fs.write(one, WIDTH * 5, b"7")
    fs.write(one, WIDTH * 5 + 1, b".5".ljust(WIDTH - 2) + b"\n")
    fs.write(other, WIDTH * 5, b"8.5".ljust(WIDTH - 1) + b"\n")
    fs.write(one, WIDTH * 6, sign)
    for handle in (one, other):
        close(fs, handle)
    wanted = FIELD.copy()
    wanted.reshape(-1)[[3, 5, 6]] = -3, 8.5, -6
    np.testing.assert_array_equal(stored(store), wanted)


def test_half_a_record_at_the_end_is_an_error_and_dropped(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W8."""
    values = records(store)
    with pytest.raises(BadArgument, match="last 7 bytes are not a whole record of 12 bytes"):
        write(fs, R, b"\1" * 19, values.nbytes)
    assert stored(store, "r", "n.zarr").shape == (3, 3)
    assert find(fs, R).size == 36


def test_what_is_skipped_before_an_appended_record_is_fill(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W8."""
    records(store)
    write(fs, R, np.array([9], "<i4").tobytes(), 4 * (3 * 5 + 2))
    found = stored(store, "r", "n.zarr")
    assert found[2:].tolist() == [[-1] * 3] * 3 + [[-1, -1, 9]]


def test_a_record_that_is_held_is_filled_when_writing_goes_on_behind_it(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W8."""
    values = records(store)
    handle = fs.open(find(fs, R).ino, os.O_WRONLY).handle
    fs.write(handle, values.nbytes, np.array([5], "<i4").tobytes())
    fs.write(handle, 4 * 3 * 4, np.array([1, 2, 3], "<i4").tobytes())
    fs.flush(handle)
    fs.release(handle)
    assert stored(store, "r", "n.zarr")[2:].tolist() == [[5, -1, -1], [-1] * 3, [1, 2, 3]]


def test_truncating_to_whole_records_appends_fill_and_nothing_shortens(
    fs: TreeFileSystem, store: ZMap
) -> None:
    """SEMANTICS W6, W8."""
    records(store)
    ino = find(fs, R).ino
    fs.setattr(ino, AttributeChanges(size=48), None)
    assert stored(store, "r", "n.zarr").shape == (4, 3)
    with pytest.raises(BadArgument):
        fs.setattr(ino, AttributeChanges(size=50), None)
    with pytest.raises(NotPermitted):
        fs.setattr(ino, AttributeChanges(size=36), None)
    assert fs.getattr(ino).size == 48


def test_a_rewrite_may_have_more_records(fs: TreeFileSystem, store: ZMap) -> None:
    """SEMANTICS W5, W8."""
    records(store)
    new = np.arange(12, dtype="<i4")
    write(fs, R, new.tobytes(), 0, os.O_WRONLY | os.O_TRUNC)
    np.testing.assert_array_equal(stored(store, "r", "n.zarr"), new.reshape(4, 3))
    with pytest.raises(BadArgument):
        write(fs, R, new[:9].tobytes(), 0, os.O_WRONLY | os.O_TRUNC)
    np.testing.assert_array_equal(stored(store, "r", "n.zarr"), new.reshape(4, 3))


WITHDRAWN: dict[str, Callable[[TreeFileSystem, HandleNo], object]] = {
    "write": lambda fs, handle: fs.write(handle, 0, b"1234"),
    "truncate": lambda fs, handle: fs.setattr(
        find(fs, f"{V}/values.raw").ino, AttributeChanges(size=0), handle
    ),
    "mkdir": lambda fs, _: fs.mkdir(find(fs, "datasets/a.zarr").ino, b"new", 0o755),
    "create": lambda fs, _: fs.create(find(fs, "objects/a.zarr").ino, b"new", os.O_WRONLY, 0o644),
    "unlink": lambda fs, _: fs.unlink(find(fs, "objects/a.zarr/v").ino, b".zattrs"),
    "rename": lambda fs, _: fs.rename(
        find(fs, "objects/a.zarr").ino, b"v", find(fs, "objects").ino, b"w", replace=True
    ),
}


@pytest.mark.parametrize("change", WITHDRAWN.values(), ids=WITHDRAWN)
def test_what_nobody_waits_for_any_more_changes_nothing(
    fs: TreeFileSystem, store: ZMap, change: Callable[[TreeFileSystem, HandleNo], object]
) -> None:
    """SEMANTICS A11."""
    before = {stat.key: stat.version for stat in store.list(parse_prefix(""))}
    handle = fs.open(find(fs, f"{V}/values.raw").ino, os.O_RDWR).handle
    request = TimedRequest()
    assert request.withdraw()
    with request.under_way(), pytest.raises(DeadlinePassed, match="nothing was changed"):
        change(fs, handle)
    assert raw(fs).tobytes() == FIELD.tobytes()
    fs.flush(handle)
    fs.release(handle)
    assert {stat.key: stat.version for stat in store.list(parse_prefix(""))} == before
