"""What one mount stored is there for files that another one opens afterwards, however soon."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.mounts import Served
from tests.support.places import DATASET, Place, requested_place
from tests.support.settled import settled

VALUES = np.arange(600, dtype="<f8").reshape(60, 10)
CHUNKS = (20, 10)
TURNS = 20


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    place = requested_place(request, tmp_path)
    with nczfs.open(place.url_of(DATASET), "w") as root:
        root.create_dimension("t", None)
        root.create_dimension("x", 10)
        root.create_variable("v", (60, 10), "<f8", VALUES, chunks=CHUNKS, attributes={"n": 0})
        root.create_variable("r", ("t", "x"), "<f8", VALUES[:2], chunks=CHUNKS)
    return place


@pytest.fixture
def mounts(place: Place, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Served]]:
    far = [] if place.url.startswith("/") else ["--metadata-ttl", "minimal"]
    with ExitStack() as stack:
        yield [
            stack.enter_context(settled(place.url, tmp_path / f"spool{number}", *far))
            for number in range(2)
        ]


def file_of(mount: Served, name: str) -> Path:
    return mount.path / "datasets" / DATASET / name


def test_values_are_those_that_the_other_mount_closed(mounts: list[Served]) -> None:
    """SEMANTICS D9."""
    values = VALUES.copy()
    for turn in range(TURNS):
        writer, reader = mounts if turn % 2 else mounts[::-1]
        at = (turn * 37) % VALUES.size
        values.flat[at] = -turn
        with file_of(writer, "v/values.raw").open("r+b") as file:
            file.seek(8 * at)
            file.write(np.float64(-turn).tobytes())
        np.testing.assert_array_equal(np.fromfile(file_of(reader, "v/values.raw")), values.flat)
        header = np.load(file_of(reader, "v/values.npy"))
        np.testing.assert_array_equal(header, values)
        with file_of(reader, "v/values.raw").open("rb") as file:
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            assert pages[8 * at : 8 * at + 8] == np.float64(-turn).tobytes()
            pages.close()


def test_records_are_those_that_the_other_mount_closed(mounts: list[Served]) -> None:
    """SEMANTICS D9."""
    for turn in range(2, TURNS):
        writer, reader = mounts if turn % 2 else mounts[::-1]
        with file_of(writer, "r/values.raw").open("ab") as file:
            file.write(VALUES[turn].tobytes())
        with file_of(reader, "r/values.raw").open("rb") as file:
            assert os.fstat(file.fileno()).st_size == 80 * (turn + 1)
            assert file.read() == VALUES[: turn + 1].tobytes()


def test_attributes_are_those_that_the_other_mount_closed(mounts: list[Served]) -> None:
    """SEMANTICS D9."""
    for turn in range(TURNS):
        writer, reader = mounts if turn % 2 else mounts[::-1]
        file_of(writer, "v/attributes/n").write_text(f"{turn}\n")
        assert file_of(reader, "v/attributes/n").read_text() == f"{turn}\n"


def test_a_variable_that_was_made_anew_is_opened_as_it_is(
    place: Place, mounts: list[Served]
) -> None:
    """SEMANTICS D9, D10."""
    raw = file_of(mounts[0], "v/values.raw")
    for dtype in ("<i4", "<f8", "<i2"):
        assert len(raw.read_bytes()) > 0
        with nczfs.open(place.url_of(DATASET), "r+") as root:
            del root["v"]
            root.create_variable("v", (60, 10), dtype, VALUES.astype(dtype), chunks=CHUNKS)
        assert raw.read_bytes() == VALUES.astype(dtype).tobytes()
