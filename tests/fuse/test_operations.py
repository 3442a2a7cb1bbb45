"""What the operations do on a real mount."""

from __future__ import annotations

import errno
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.mounts import Served, served
from tests.support.toydaemon import BIG
from tests.support.waiting import until

TOY = [sys.executable, "-X", "faulthandler", "-m", "tests.support.toydaemon"]


@pytest.fixture(scope="module", params=["plain", "uncached"])
def toy(request: pytest.FixtureRequest) -> Iterator[Served]:
    """The same files, answered on the event loop and by threads."""
    with served([*TOY, request.param]) as mount:
        yield mount


@pytest.fixture(scope="module")
def listing() -> Iterator[Served]:
    with served([*TOY, "listing"]) as mount:
        yield mount


def test_a_big_file_is_read_whole(toy: Served) -> None:
    assert (toy.path / "big").read_bytes() == BIG


def test_reads_at_any_offset_give_the_bytes_there(toy: Served) -> None:
    with open(toy.path / "big", "rb", buffering=0) as file:
        for offset, size in [(0, 1), (4095, 2), (1 << 20, 300_000), (len(BIG) - 3, 3)]:
            assert os.pread(file.fileno(), size, offset) == BIG[offset : offset + size]


def test_a_read_beyond_the_end_gives_what_is_there(toy: Served) -> None:
    with open(toy.path / "big", "rb", buffering=0) as file:
        assert os.pread(file.fileno(), 100, len(BIG) - 10) == BIG[-10:]
        assert os.pread(file.fileno(), 100, len(BIG)) == b""


def test_a_shared_map_works(toy: Served) -> None:
    with (
        open(toy.path / "big", "rb") as file,
        mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as view,
    ):
        assert view[1_000_000:1_000_256] == BIG[1_000_000:1_000_256]


def test_a_file_can_be_made_written_renamed_and_removed(toy: Served) -> None:
    file = toy.path / "new"
    file.write_bytes(b"one")
    with open(file, "ab") as appended:
        appended.write(b" two")
    os.truncate(file, 5)
    assert file.read_bytes() == b"one t"
    renamed = file.rename(toy.path / "renamed")
    assert renamed.read_bytes() == b"one t"
    renamed.unlink()
    assert not renamed.exists()


def test_a_directory_can_be_made_and_removed_when_empty(toy: Served) -> None:
    directory = toy.path / "made"
    directory.mkdir()
    (directory / "file").touch()
    with pytest.raises(OSError, match="not empty") as caught:
        directory.rmdir()
    assert caught.value.errno == errno.ENOTEMPTY
    (directory / "file").unlink()
    directory.rmdir()
    assert not directory.exists()


def test_fsync_of_files_and_directories_is_answered(toy: Served) -> None:
    with open(toy.path / "synced", "wb") as file:
        file.write(b"x")
        os.fsync(file.fileno())
    directory = os.open(toy.path, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    (toy.path / "synced").unlink()


def test_df_shows_sizes(toy: Served) -> None:
    sizes = os.statvfs(toy.path)
    assert sizes.f_frsize * sizes.f_blocks == 1 << 40
    assert sizes.f_bsize * sizes.f_bfree == 1 << 39
    assert sizes.f_bsize * sizes.f_bavail == 1 << 38
    assert sizes.f_files == sizes.f_ffree == 0  # no number of files: df -i shows no percentage
    assert sizes.f_namemax == 255


def test_blocks_follow_the_size(toy: Served) -> None:
    # Programs take a file without blocks for a hole.
    status = (toy.path / "big").stat()
    assert status.st_blocks * 512 == status.st_size


def test_programs_are_told_to_read_128_kib_at_a_time(toy: Served) -> None:
    """SEMANTICS A10."""
    for path in (toy.path, toy.path / "big"):
        assert path.stat().st_blksize == 128 << 10
    with os.scandir(toy.path) as entries:
        assert {entry.stat().st_blksize for entry in entries} == {128 << 10}


def test_extended_attributes_are_not_supported_and_asked_for_once(toy: Served) -> None:
    for _ in range(2):
        with pytest.raises(OSError, match="not supported") as caught:
            os.getxattr(toy.path / "big", "user.x")
        assert caught.value.errno == errno.EOPNOTSUPP
    with pytest.raises(OSError, match="not supported"):
        os.setxattr(toy.path / "big", "user.x", b"1")
    with pytest.raises(OSError, match="not supported"):
        os.removexattr(toy.path / "big", "user.x")


def test_a_link_is_a_file_of_its_own(toy: Served) -> None:
    (toy.path / "hard").hardlink_to(toy.path / "directory/hello")
    assert (toy.path / "hard").read_bytes() == b"hello\n"
    with pytest.raises(FileExistsError):
        (toy.path / "hard").hardlink_to(toy.path / "big")


def test_symbolic_links_and_devices_are_refused(toy: Served) -> None:
    with pytest.raises(PermissionError):
        (toy.path / "link").symlink_to("big")
    with pytest.raises(PermissionError):
        os.mkfifo(toy.path / "pipe")


def test_exchanging_two_names_is_refused(toy: Served) -> None:
    script = (
        "import ctypes, os, sys; libc = ctypes.CDLL(None, use_errno=True);"
        "libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2);"
        "print(ctypes.get_errno())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, toy.path / "big", toy.path / "directory"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) == errno.EINVAL


def test_an_absent_name_is_remembered_until_it_is_made(toy: Served) -> None:
    file = toy.path / "later"
    assert not file.exists()
    file.touch()
    assert file.exists()
    file.unlink()


def test_names_are_bytes(toy: Served) -> None:
    name = os.fsencode(toy.path) + b"/caf\xe9 \xf0\x9f\x8c\x8a"
    with open(name, "wb") as file:
        file.write(b"x")
    assert os.path.basename(name) in os.listdir(os.fsencode(toy.path))
    os.unlink(name)


def test_a_hundred_thousand_entries_are_listed_each_once(listing: Served) -> None:
    names = os.listdir(listing.path / "many")
    assert len(names) == 100_000
    assert sorted(names) == [f"file-{number:06}" for number in range(100_000)]


def test_a_listing_brings_the_attributes(listing: Served) -> None:
    with os.scandir(listing.path / "many") as entries:
        sizes = {entry.name: entry.stat().st_size for entry in entries}
    assert sizes["file-000006"] == 6
    assert sizes["file-099999"] == 99_999 % 7


def test_a_listing_that_begins_anew_gives_all_again(listing: Served) -> None:
    with os.scandir(listing.path / "many") as entries:
        first = next(entries).name
    assert first == "file-000000"
    assert len(os.listdir(listing.path / "many")) == 100_000


def test_a_listing_goes_on_where_a_program_seeks_to(listing: Served) -> None:
    script = (
        "import ctypes, sys; libc = ctypes.CDLL(None); libc.opendir.restype = ctypes.c_void_p;"
        "d = ctypes.c_void_p(libc.opendir(sys.argv[1].encode()));"
        "libc.readdir.restype = ctypes.c_void_p; libc.telldir.restype = ctypes.c_long;"
        "name = lambda: ctypes.string_at(libc.readdir(d) + 19).decode();"
        "[name() for _ in range(1234)]; place = libc.telldir(d); here = name();"
        "[name() for _ in range(5000)]; libc.seekdir(d, ctypes.c_long(place)); print(here, name())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, listing.path / "many"],
        capture_output=True,
        text=True,
        check=True,
    )
    here, again = done.stdout.split()
    assert here == again == "file-001234"


def test_a_listing_that_fails_in_the_middle_says_so() -> None:
    with served([*TOY, "broken_listing"], expect="readdir") as mount:
        with pytest.raises(OSError, match="Input/output"):
            os.listdir(mount.path / "many")
        assert (mount.path / "many/file-0001").exists()


def test_what_is_invalidated_is_forgotten_and_its_lookup_counts_are_given_back(
    listing: Served,
) -> None:
    os.listdir(listing.path / "many")
    listing.process.send_signal(signal.SIGHUP)
    until(lambda: "lookups=0" in last_state(listing))
    assert "lookups=-" not in listing.log.read_text()
    assert (listing.path / "many/file-000006").stat().st_size == 6


def last_state(mount: Served) -> str:
    return [line for line in mount.log.read_text().splitlines() if "STATE" in line][-1]
