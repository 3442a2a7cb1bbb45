"""Programs that write far more than a small file can take."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from nczfs.testing.datasets import put_array, put_group
from nczfs.zmap.registry import open_store
from tests.support.enduring import costing, enduring
from tests.support.looking import failing_with, store_served

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
TEXT_BYTES = 8 << 20
BLOCK = b"x" * 4096
PART_BYTES = 1 << 20


@pytest.fixture
def place(tmp_path: Path) -> Path:
    store = open_store(str(tmp_path))
    put_group(store, "d.zarr", {})
    put_array(store, "d.zarr/good", FIELD, (2, 4))
    return tmp_path


def test_a_long_attribute_takes_time_in_proportion_to_its_length(place: Path) -> None:
    """Each write copied all that was written before."""
    with store_served(place, "--memory-limit", "64MiB") as mount:
        costs = []
        with (mount.path / "datasets/d.zarr/attributes/long").open("wb", buffering=0) as file:
            for _ in range(TEXT_BYTES // PART_BYTES):
                with costing(mount) as cost:
                    for _ in range(PART_BYTES // len(BLOCK)):
                        file.write(BLOCK)
                costs.append(cost.cpu_s)
        assert (mount.path / "datasets/d.zarr/attributes/long").stat().st_size == TEXT_BYTES + 1
    assert costs[-1] < 4 * costs[0], costs  # it was ten times as much


def test_a_gap_in_an_attribute_has_a_length(place: Path) -> None:
    with store_served(place, "--memory-limit", "64MiB", expect="EFBIG") as mount:
        dataset = mount.path / "datasets/d.zarr"
        with (
            enduring(mount, dataset / "good/values.raw"),
            (dataset / "attributes/long").open("wb", buffering=0) as file,
        ):
            os.lseek(file.fileno(), 1 << 30, os.SEEK_SET)
            with failing_with(errno.EFBIG):
                file.write(BLOCK)


@pytest.mark.parametrize("name", ["flush", "refresh"])
def test_requests_to_a_mount_have_a_length(place: Path, name: str) -> None:
    """Requests of ten megabytes were carried out for minutes."""
    with store_served(place, "--memory-limit", "64MiB", expect="EFBIG") as mount:
        lever = mount.path / ".nczfs" / name
        with (
            enduring(mount, mount.path / "datasets/d.zarr/good/values.raw"),
            lever.open("wb", buffering=0) as file,
        ):
            file.write(b"\n")
            with failing_with(errno.EFBIG):
                for _ in range(1 << 10):
                    file.write(b"datasets\n" * (1 << 17))
            lever.write_bytes(b"datasets/d.zarr\n")
