"""What one mount stored as an object is what another one opens afterwards, however soon."""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.mounts import Served
from tests.support.places import Place, requested_place
from tests.support.settled import settled
from tests.support.waiting import until

TURNS = {"directory": 500, "ceph": 40}


@pytest.fixture(params=[*TURNS])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return requested_place(request, tmp_path)


@pytest.fixture
def turns(request: pytest.FixtureRequest) -> int:
    return TURNS[request.node.callspec.params["place"]]


@pytest.fixture
def mounts(place: Place, tmp_path: Path) -> Iterator[list[Path]]:
    far = [] if place.url.startswith("/") else ["--metadata-ttl", "minimal"]
    with ExitStack() as stack:
        served: list[Served] = [
            stack.enter_context(settled(place.url, tmp_path / f"spool{number}", *far))
            for number in range(2)
        ]
        yield [mount.path / "objects" for mount in served]


def contents(turns: int) -> Iterator[bytes]:
    """What a file holds in one turn after the other: longer, shorter, of the same size, empty."""
    source = random.Random(1)
    size = 0
    for turn in range(turns):
        size = source.choice([size, source.randrange(9000), size + 1, 0])
        yield (b"%d " % turn * (size // 2 + 1))[:size]


def make_known(mounts: list[Path]) -> None:
    """Make the file, and wait for the other mount, which may know a listing without it."""
    with (mounts[0] / "f").open("wb") as file:
        os.fsync(file.fileno())
    until((mounts[1] / "f").exists)


def test_an_object_is_what_the_other_mount_closed(mounts: list[Path], turns: int) -> None:
    """SEMANTICS O21: who asks for attributes right before opens it all the same as it is."""
    make_known(mounts)
    for turn, wanted in enumerate(contents(turns)):
        writer, reader = mounts if turn % 2 else mounts[::-1]
        path = reader / "f"
        os.stat(path)
        with (writer / "f").open("wb") as file:
            file.write(wanted)
            if not wanted:  # which is stored at fsync, or a moment after the close (O8)
                os.fsync(file.fileno())
        os.stat(path)
        fd = os.open(path, os.O_RDONLY)
        try:
            assert os.read(fd, 20_000) == wanted
            assert os.fstat(fd).st_size == len(wanted)
            assert os.lseek(fd, 0, os.SEEK_END) == len(wanted)
            if wanted:
                with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as mapped:
                    assert mapped[:] == wanted
        finally:
            os.close(fd)
        assert path.read_bytes() == wanted


def test_an_append_is_behind_what_the_other_mount_closed(mounts: list[Path], turns: int) -> None:
    """SEMANTICS O21."""
    make_known(mounts)
    wanted = b""
    for turn in range(turns // 2):
        wanted += b"%d\n" % turn
        with (mounts[turn % 2] / "f").open("ab") as file:
            file.write(b"%d\n" % turn)
    for mount in mounts:
        assert (mount / "f").read_bytes() == wanted


def test_what_the_other_mount_made_renamed_and_removed_is_so(
    mounts: list[Path], turns: int
) -> None:
    """SEMANTICS O21: a file is opened by the name that it has by now."""
    make_known(mounts)
    for turn, wanted in enumerate(contents(turns // 4)):
        writer, reader = mounts if turn % 2 else mounts[::-1]
        (writer / "new").write_bytes(wanted or b"-")
        (writer / "new").rename(writer / "f")
        assert (reader / "f").read_bytes() == (wanted or b"-")


def test_a_file_that_the_other_mount_has_just_made_is_not_made_again(
    mounts: list[Path], turns: int
) -> None:
    """SEMANTICS O21: although a listing without it is believed for a second."""
    make_known(mounts)
    for turn in range(turns // 4):
        writer, appender = mounts if turn % 2 else mounts[::-1]
        name = f"new{turn}"
        assert name not in os.listdir(appender)
        (writer / name).write_bytes(b"theirs")
        if turn % 4 == 3:
            with pytest.raises(FileExistsError):
                (appender / name).open("xb")
        mode, wanted = (("ab", b"theirs, ours"), ("wb", b", ours"))[turn % 3 == 2]
        with (appender / name).open(mode) as file:
            file.write(b", ours")
        assert (appender / name).read_bytes() == (writer / name).read_bytes() == wanted
