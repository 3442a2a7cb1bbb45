"""Files of ``objects/`` that are open, on real mounts: mappings, appends, renames, holes."""

from __future__ import annotations

import errno
import mmap
import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.looking import store_served
from tests.support.mounts import Served, nczfs
from tests.support.places import Place, bucket_of, directory_at
from tests.support.servers import S3Server
from tests.support.settled import gauge, settled, status, wait_until

PAGE = 4096


@pytest.fixture(params=("directory", "ceph"))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "directory":
        return directory_at(tmp_path / "store")
    return bucket_of(request.getfixturevalue(request.param))


@pytest.fixture
def mount(place: Place, tmp_path: Path) -> Iterator[Served]:
    with settled(place.url, tmp_path / "spool") as mount:
        yield mount


@pytest.fixture
def objects(mount: Served) -> Path:
    return mount.path / "objects"


def test_each_of_two_mappings_is_stored_when_it_is_flushed(objects: Path, place: Place) -> None:
    """SEMANTICS O6."""
    (objects / "f").write_bytes(bytes(2 * PAGE))
    first = np.memmap(objects / "f", "u1", "r+")
    second = np.memmap(objects / "f", "u1", "r+")
    first[0] = 1
    first.flush()
    assert place.objects()["f"][0] == 1
    second[PAGE] = 2
    with (objects / "f").open("r+b", buffering=0) as file:
        first[1] = 3
        first.flush()
        assert place.objects()["f"][:2] == b"\x01\x03"
        file.write(b"\x04")
    second.flush()
    found = place.objects()["f"]
    assert (found[0], found[1], found[PAGE], len(found)) == (4, 3, 2, 2 * PAGE)


def test_a_page_of_a_file_opened_for_appending_goes_where_it_is(
    objects: Path, place: Place
) -> None:
    """SEMANTICS O6."""
    (objects / "f").write_bytes(b"." * 5000)
    with (
        (objects / "f").open("ab+", buffering=0) as file,
        mmap.mmap(file.fileno(), 5000) as mapped,
    ):
        mapped[4500] = ord("x")
        file.write(b"end")
        mapped[0] = ord("y")
        mapped.flush()
        assert place.objects()["f"] == b"y" + b"." * 4499 + b"x" + b"." * 499 + b"end"
    assert len(place.objects()["f"]) == 5003


def test_an_append_goes_behind_what_another_client_has_appended(tmp_path: Path) -> None:
    """SEMANTICS O21: right after it, though the kernel was told the size a moment before."""
    place = directory_at(tmp_path / "store")
    stored = tmp_path / "store/f"
    with settled(place.url, tmp_path / "spool") as mount:
        path = mount.path / "objects/f"
        path.write_bytes(b"1")
        for number in range(5):
            before = stored.read_bytes()
            assert path.stat().st_size == len(before)
            (tmp_path / "store/new").write_bytes(before + b"theirs")
            (tmp_path / "store/new").rename(stored)
            with path.open("ab") as file:
                file.write(b"%d" % number)
            assert stored.read_bytes() == before + b"theirs%d" % number
            (tmp_path / "store/new").write_bytes(b"short")
            (tmp_path / "store/new").rename(stored)
            assert path.read_bytes() == b"short"


def test_every_fsync_holds_while_the_directory_is_renamed(objects: Path, place: Place) -> None:
    """SEMANTICS O25."""
    (objects / "d0").mkdir()
    for number in range(30):
        (objects / f"d0/other{number}").write_bytes(b"other")
    path = objects / "d0/f"
    ended = threading.Event()
    written = 0

    def write() -> None:
        nonlocal written
        with path.open("wb", buffering=0) as file:
            while not ended.is_set() or written < 20:
                written += 1
                os.pwrite(file.fileno(), b"%08d" % written, 0)
                os.fsync(file.fileno())
                time.sleep(0.002)
            # What the last fsync had stored is there before the close.
            found = [data for key, data in place.objects().items() if key.endswith("/f")]
            assert found == [b"%08d" % written]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while not written:
            time.sleep(0.01)
        for number in range(4):
            (objects / f"d{number}").rename(objects / f"d{number + 1}")
    finally:
        ended.set()
        writer.join()
    found = place.objects()
    assert found["d4/f"] == b"%08d" % written
    assert {key.partition("/")[0] for key in found} == {"d4"}


def test_who_is_in_a_directory_stays_there_while_one_above_is_renamed(objects: Path) -> None:
    """SEMANTICS O25: what a program does there by names without a path never fails."""
    (objects / "d0/sub/deep").mkdir(parents=True)
    for number in range(40):
        (objects / f"d0/sub/f{number}").write_bytes(b"data")
    sub = os.open(objects / "d0/sub", os.O_PATH | os.O_DIRECTORY)
    ended = threading.Event()
    failures: Counter[str] = Counter()

    def attempt(call: Callable[..., object], *arguments: object, **options: object) -> None:
        try:
            call(*arguments, **options)
        except OSError as error:
            failures[f"{call.__name__}: {error.strerror}"] += 1

    def look() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            name = f"f{number % 40}"
            attempt(os.stat, name, dir_fd=sub)
            attempt(os.utime, name, ns=(number, number), dir_fd=sub)
            attempt(os.chmod, name, 0o600, dir_fd=sub)
            attempt(os.utime, "deep", ns=(number, number), dir_fd=sub)
            attempt(os.chmod, "deep", 0o700, dir_fd=sub)
            attempt(lambda name=name: os.close(os.open(name, os.O_RDONLY, dir_fd=sub)))

    looking = [threading.Thread(target=look) for _ in range(3)]
    for each in looking:
        each.start()
    try:
        for number in range(20):
            (objects / f"d{number}").rename(objects / f"d{number + 1}")
    finally:
        ended.set()
        for each in looking:
            each.join()
        os.close(sub)
    assert not failures
    assert len(os.listdir(objects / "d20/sub")) == 41


def test_holes_cost_no_disk(tmp_path: Path) -> None:
    """SEMANTICS O13."""
    place = directory_at(tmp_path / "store")
    with settled(place.url, tmp_path / "spool", "--max-spool-size", "1MiB") as mount:
        path = mount.path / "objects/f"
        with path.open("wb", buffering=0) as file:
            file.truncate(1 << 30)
            os.pwrite(file.fileno(), b"end", 5 << 29)
            assert status(mount)["spool_used_bytes"] < PAGE
            (staged,) = tmp_path.glob("spool/*/*-f")
            assert staged.stat().st_blocks * 512 < 1 << 20
        found = (tmp_path / "store/f").stat()
        assert (found.st_size, found.st_blocks * 512 < 1 << 20) == ((5 << 29) + 3, True)
        with path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"begin", 0)
            assert os.pread(file.fileno(), 10, 5 << 29) == b"end"
        found = (tmp_path / "store/f").stat()
        assert (found.st_size, found.st_blocks * 512 < 2 << 20) == ((5 << 29) + 3, True)


def test_a_process_that_inherits_a_file_stores_nothing_again(
    objects: Path, place: Place, mount: Served
) -> None:
    """SEMANTICS O31."""
    with (objects / "f").open("wb", buffering=0) as file:
        file.write(b"data")
        for _ in range(5):
            subprocess.run([sys.executable, "-S", "-c", ""], stdout=file, check=True)
        before = (objects / "f").stat().st_mtime_ns
        assert place.objects() == {"f": b"data"}
    assert (objects / "f").stat().st_mtime_ns == before


@contextmanager
def suppress_enfile() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        assert error.errno == errno.ENFILE  # noqa: PT017 - it must end so


def test_without_descriptors_what_was_written_is_stored_or_kept(tmp_path: Path) -> None:
    """SEMANTICS O6, O17: `ulimit -n 64` of the daemon, and a hundred writers."""
    place = directory_at(tmp_path / "store")
    data = {f"f{number}": b"%d" % number * 50_000 for number in range(100)}
    expect = "Too many open files|was not stored|not stored \\(|EN?FILE"
    options = ["--spool-dir", str(tmp_path / "spool")]
    written, closed = set(), set()
    with store_served(place.url, *options, expect=expect) as mount:
        (mount.path / "objects/new").mkdir()
        limits = resource.prlimit(mount.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(mount.process.pid, resource.RLIMIT_NOFILE, (64, limits[1]))
        all_written = threading.Barrier(len(data))

        def write(name: str, content: bytes) -> None:
            fd = None
            with suppress_enfile():
                fd = os.open(mount.path / "objects/new" / name, os.O_WRONLY | os.O_CREAT)
                if os.write(fd, content) == len(content):
                    written.add(name)
            all_written.wait(60)
            if fd is not None:
                with suppress_enfile():
                    os.close(fd)
                    closed.update({name} & written)

        writers = [threading.Thread(target=write, args=each) for each in data.items()]
        for each in writers:
            each.start()
        for each in writers:
            each.join()
        wait_until(mount, unsaved_files=0)
        lost = set(re.findall(r"new/(\w+): lost", mount.log.read_text()))
        resource.prlimit(mount.process.pid, resource.RLIMIT_NOFILE, limits)
    assert not lost & written
    found = place.objects()
    assert {f"new/{name}" for name in closed} <= set(found)
    print(len(written), len(closed), len(found))
    nczfs("recover", "--spool-dir", tmp_path / "spool")
    found = place.objects()
    for name in written:
        assert found[f"new/{name}"] == data[name]


def test_a_byte_of_a_large_object_is_changed_without_fetching_it(
    ceph: S3Server, tmp_path: Path
) -> None:
    """SEMANTICS O8."""
    place = bucket_of(ceph)
    content = os.urandom(1 << 20) * 40
    with settled(place.url, tmp_path / "spool") as mount:
        path = mount.path / "objects/f"
        path.write_bytes(content)
        with path.open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), b"changed", 20_000_000)
        assert gauge(mount, 'nczfs_store_read_bytes_total{store="s3"}') == 0
    assert place.objects()["f"] == content[:20_000_000] + b"changed" + content[20_000_007:]
