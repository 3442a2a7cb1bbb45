"""Programs that read rows from the last to the first, on a real mount."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr

from tests.support.mounts import mounted

PAGE = 4096
SIEVE = 64 << 10  # bytes that HDF5 reads for each row
MAPS, ROWS, COLUMNS = 6, 512, 1024  # a row is a page
FIELD = np.random.default_rng(0).integers(0, 1000, (MAPS, ROWS, COLUMNS)).astype("<i4")
FILES = ["d.nc", "rows/values.raw", "tiles/values.raw"]
ROUNDS = 25


@pytest.fixture
def store(tmp_path: Path) -> Path:
    root = zarr.open_group(tmp_path / "d.zarr", mode="w", zarr_format=2)
    for name, chunks in {"rows": (1, ROWS, COLUMNS), "tiles": (2, 128, 256)}.items():
        array = root.create_array(
            name,
            shape=FIELD.shape,
            chunks=chunks,
            dtype="<i4",
            compressors=numcodecs.Zlib(1),
            attributes={"_ARRAY_DIMENSIONS": ["time", "y", "x"]},
        )
        array[...] = FIELD
    return tmp_path


@pytest.fixture
def mount(store: Path) -> Iterator[Path]:
    with mounted(store) as path:
        yield path


def counted(mount: Path, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)", (mount / ".nczfs/metrics").read_text(), re.M)
    return float(found[1]) if found else 0.0


def requests(mount: Path) -> float:
    return counted(mount, 'nczfs_fuse_requests_total{operation="read"}')


@pytest.mark.parametrize("name", FILES)
def test_rows_from_the_last_to_the_first_are_right_and_cost_few_requests(
    mount: Path, name: str
) -> None:
    """Each row was a request of its own."""
    path = mount / "datasets/d.zarr" / name
    with open(path, "rb", buffering=0) as file:
        size = path.stat().st_size
        before = requests(mount)
        pieces = [os.pread(file.fileno(), PAGE, at) for at in range(0, size, PAGE)[::-1]]
        asked = requests(mount) - before
    assert asked <= size // PAGE / 4
    assert counted(mount, "nczfs_pages_put_bytes_total") > 0
    assert b"".join(reversed(pieces)) == path.read_bytes()
    if name != "d.nc":
        assert b"".join(reversed(pieces)) == FIELD.tobytes()


def test_maps_one_after_the_other_each_from_its_last_row_to_its_first(mount: Path) -> None:
    """As GDAL reads a netCDF file whose y axis ascends, through HDF5."""
    path = mount / "datasets/d.zarr/d.nc"
    content = path.read_bytes()
    start = content.index(FIELD[0].tobytes())
    (mount / ".nczfs/refresh").write_text("\n")
    with open(path, "rb", buffering=0) as file:
        before = requests(mount)
        for number in range(MAPS):
            for row in reversed(range(ROWS)):
                at = start + (number * ROWS + row) * PAGE
                assert os.pread(file.fileno(), SIEVE, at) == content[at : at + SIEVE]
        asked = requests(mount) - before
    assert asked <= MAPS * ROWS / 4


@pytest.mark.parametrize("writes_to", ["rows/values.raw", "d.nc"])
def test_a_backward_reader_leaves_no_old_bytes_behind_a_write(mount: Path, writes_to: str) -> None:
    """SEMANTICS W2, W48."""
    dataset = mount / "datasets/d.zarr"
    start = (dataset / "d.nc").read_bytes().index(FIELD.tobytes())
    rows = MAPS * ROWS
    base = start if writes_to == "d.nc" else 0
    over = threading.Event()

    def read_on() -> None:
        while not over.is_set():
            with open(dataset / "d.nc", "rb", buffering=0) as file:
                for row in reversed(range(rows)):
                    os.pread(file.fileno(), PAGE, start + row * PAGE)
                    if over.is_set():
                        return

    reader = threading.Thread(target=read_on)
    with open(dataset / "d.nc", "rb", buffering=0) as shown:
        reader.start()
        try:
            for number in range(ROUNDS):
                row = (number * 997) % rows
                value = np.full(COLUMNS, -1 - number, "<i4").tobytes()
                with open(dataset / writes_to, "r+b", buffering=0) as file:
                    os.pwrite(file.fileno(), value, base + row * PAGE)
                    assert os.pread(shown.fileno(), PAGE, start + row * PAGE) == value, number
                assert os.pread(shown.fileno(), PAGE, start + row * PAGE) == value, number
        finally:
            over.set()
            reader.join()


def test_a_refresh_is_not_followed_by_old_bytes(mount: Path, store: Path) -> None:
    """SEMANTICS D9."""
    path = mount / "datasets/d.zarr/rows/values.raw"
    array = zarr.open_array(store / "d.zarr/rows", mode="r+", zarr_format=2)
    with open(path, "rb", buffering=0) as file:
        for number in range(10):
            for row in reversed(range(MAPS * ROWS // 2)):
                os.pread(file.fileno(), PAGE, row * PAGE)
            array[0] = -number
            with open(path, "rb", buffering=0) as anew:
                last = (ROWS - 1 - number) * PAGE
                assert os.pread(anew.fileno(), 4, last) == np.int32(-number).tobytes(), number
