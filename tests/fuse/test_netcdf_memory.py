"""Reading and writing step by step, with a hundredth of the memory that the data would take."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr

from tests.interop.netcdf_programs.field import VARIABLE
from tests.interop.netcdf_programs.program import CLASSIC, FORMATS, NETCDF4, SUFFIX, printed
from tests.interop.netcdf_programs.scripts import compiled
from tests.support.cgroups import memory_limited
from tests.support.looking import peak_bytes
from tests.support.mounts import Served, served
from tests.support.sample import open_zarr

SHAPE = (2560, 2048, 2048)
BYTES = 4 * SHAPE[0] * SHAPE[1] * SHAPE[2]
LIMIT_BYTES = BYTES // 100
CHUNKS = (1, 512, 512)
STORED = range(0, SHAPE[0], 20)
"""Steps that are stored, and hold their number; the others are fill values."""


@dataclass(frozen=True)
class Limited:
    """A mount in a group of processes with little memory, and how others join that."""

    mount: Served
    store: Path
    words: list[str]

    def printed(self, *command: str | Path) -> str:
        assert "HDF5_USE_FILE_LOCKING" not in os.environ
        return printed(*self.words, *command)

    def live(self, form: str) -> Path:
        return self.mount.path / f"datasets/large.zarr/large{SUFFIX[form]}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with the dataset; the chunks of a step are equal, and compressed once."""
    directory = tmp_path_factory.mktemp("large")
    root = zarr.open_group(directory / "large.zarr", mode="w", zarr_format=2)
    array = root.create_array(
        VARIABLE,
        shape=SHAPE,
        dtype="f4",
        chunks=CHUNKS,
        fill_value=0,
        compressors=numcodecs.Zlib(1),
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["time", "y", "x"]
    for step in STORED:
        chunk = zlib.compress(np.full(CHUNKS, step, "f4").tobytes(), 1)
        for y, x in itertools.product(range(SHAPE[1] // CHUNKS[1]), range(SHAPE[2] // CHUNKS[2])):
            (directory / f"large.zarr/{VARIABLE}/{step}.{y}.{x}").write_bytes(chunk)
    return directory


@pytest.fixture
def limited(store: Path, tmp_path: Path) -> Iterator[Limited]:
    shutil.copytree(store / "large.zarr", tmp_path / "large.zarr")
    options = ["--record-dim", "time", "--memory-limit", "64MiB"]
    command = [sys.executable, "-m", "nczfs.cli.main", "mount", "--foreground", *options]
    with (
        memory_limited(LIMIT_BYTES) as words,
        served([*words, *command, str(tmp_path)]) as mount,
    ):
        yield Limited(mount, tmp_path, words)
        assert peak_bytes(mount.process.pid) < LIMIT_BYTES


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("steps", [21, pytest.param(SHAPE[0], marks=pytest.mark.long)])
@pytest.mark.parametrize("form", FORMATS)
def test_cdo_reads_step_by_step(limited: Limited, form: str, steps: int) -> None:
    command = ("cdo", "-s", "outputf,%.9g,1", "-fldmax", f"-seltimestep,1/{steps}")
    found = limited.printed(*command, limited.live(form)).split()
    assert [int(text) for text in found] == [n if n in STORED else 0 for n in range(steps)]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("form", "steps"),
    [
        (NETCDF4, 2),
        pytest.param(NETCDF4, 40, marks=pytest.mark.long),
        # The library writes 8 KiB around each row of a block.
        pytest.param(CLASSIC, 4, marks=pytest.mark.long),
    ],
)
def test_a_model_reads_and_writes_step_by_step_in_spatial_chunks(
    limited: Limited, form: str, steps: int
) -> None:
    limited.printed(compiled("netcdffield.f90"), "steps", limited.live(form), str(steps))
    array = open_zarr(limited.store / "large.zarr")[VARIABLE]
    assert isinstance(array, zarr.Array)
    for step in range(steps + 1):
        wanted = (step if step in STORED else 0) + (step < steps)
        assert np.all(np.asarray(array[step]) == wanted), step
