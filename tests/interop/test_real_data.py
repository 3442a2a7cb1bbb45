"""Real files through the real commands: imported, compared with netCDF4-python, exported again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import iris_sample_data
import netCDF4
import numpy as np
import pytest
import xarray

import nczfs as library
from tests.support.mounts import nczfs
from tests.support.netcdf import (
    assert_same,
    attributes_of,
    dimensions_of,
    form_of,
    ncdump,
    stored,
    values_of,
)
from tests.support.reference import reference_root
from tests.support.servers import S3Server

SAMPLES = Path(iris_sample_data.path)
REAL = [
    *sorted((reference_root() or Path("/nowhere")).glob("real/*.nc")),
    *(
        SAMPLES / name
        for name in (
            "SOI_Darwin.nc",  # chunks of one value along an unlimited dimension
            "hybrid_height.nc",
            "orca2_votemper.nc",
            "vlstr_type.nc",  # strings
            "space_weather.nc",  # netCDF-3, with text
            "NEMO/nemo_1m_20150101-20150201_grid-T.nc",  # compressed, the classic model
        )
    ),
]
FORMATS = ["nczarr-L3", "nczarr-L2l", "nczarr-L2U", "nczarr-L1", "zarr2"]


@pytest.fixture(params=REAL, ids=lambda path: path.stem)
def original(request: pytest.FixtureRequest) -> Path:
    path = request.param
    assert isinstance(path, Path)
    return path


def done(*arguments: str | Path) -> str:
    """Run a command that must succeed; what it prints."""
    finished = nczfs(*arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def assert_holds(dataset: library.Group, file: netCDF4.Dataset) -> None:
    """The library finds in a dataset what netCDF4-python finds in the file."""
    found = [(d.name, d.size, d.unlimited) for d in dataset.dimensions.values()]
    assert found == dimensions_of(file)
    assert list(dataset.variables) == list(file.variables)
    for name, variable in file.variables.items():
        assert dataset.variables[name].dimensions == variable.dimensions
        dtype, shape, values = values_of(variable)
        read = np.asarray(dataset.variables[name][...])
        assert read.shape == shape, name
        if dtype == "string":
            assert read.reshape(-1).tolist() == values
        else:
            assert (read.dtype.name, read.tobytes()) == (dtype, values), name
        chunks = variable.chunking()
        if isinstance(chunks, list):
            assert list(dataset.variables[name].chunks) == chunks


def test_a_dataset_has_the_values_and_the_form_of_the_file(original: Path, tmp_path: Path) -> None:
    done("import", original, tmp_path / "d")
    with library.open(str(tmp_path / "d")) as dataset, stored(original) as file:
        assert_holds(dataset, file)


def test_netcdf_c_finds_in_the_dataset_what_it_finds_in_the_file(
    original: Path, tmp_path: Path
) -> None:
    done("import", original, tmp_path / "d")
    with stored(f"file://{tmp_path}/d#mode=nczarr,file") as dataset, stored(original) as file:
        # One file has a text with a NUL at its end, whose escape in JSON netcdf-c does not know.
        assert_same(dataset, file, without=("NCO",))


def test_the_file_comes_back(original: Path, tmp_path: Path) -> None:
    """Wherever it had chunks and filters with the same; what was contiguous is compressed."""
    done("import", original, tmp_path / "d")
    done("export", tmp_path / "d", tmp_path / "back.nc")
    # The reanalysis has fill values that are none of the type: netCDF-4 files cannot have them.
    without = ("_FillValue",) if original.stem == "eraint_uvz" else ()
    with stored(original) as before, stored(tmp_path / "back.nc") as after:
        assert_same(before, after, without=without)
        for name, variable in before.variables.items():
            chunks, filters, byte_order = form_of(variable)
            if isinstance(chunks, list) and any(filters.values()):
                assert form_of(after[name]) == (chunks, filters, byte_order)
    if not without:
        assert ncdump(tmp_path / "back.nc", "-h") == ncdump(original, "-h")


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_holds_the_same_values(format_name: str, tmp_path: Path) -> None:
    original = SAMPLES / "hybrid_height.nc"
    done("import", original, tmp_path / "d", "--format", format_name, "--fixed", "--consolidated")
    with library.open(str(tmp_path / "d")) as dataset, stored(original) as file:
        for name, variable in file.variables.items():
            found = dataset.variables[name]
            assert found.description.format == format_name
            assert np.asarray(found[...]).tobytes() == values_of(variable)[2]
            assert list(found.attrs) == variable.ncattrs()
    assert (tmp_path / "d/.zmetadata").exists()


def test_xarray_reads_what_was_imported_as_zarr(tmp_path: Path) -> None:
    original = SAMPLES / "SOI_Darwin.nc"
    done("import", original, tmp_path / "d", "--format", "zarr2", "--chunks", "time=500")
    with (
        xarray.open_zarr(tmp_path / "d", consolidated=False) as found,
        xarray.open_dataset(original) as expected,
    ):
        xarray.testing.assert_equal(found, expected)
        assert found["SOI_Darwin"].encoding["chunks"] == (500,)


def test_a_bucket_holds_the_same_as_a_directory(swift: S3Server, tmp_path: Path) -> None:
    original = SAMPLES / "hybrid_height.nc"
    url = swift.url(swift.new_bucket(), "data/d")
    done("import", original, url)
    done("export", url, tmp_path / "back.nc")
    with stored(original) as before, stored(tmp_path / "back.nc") as after:
        assert_same(before, after)
    refused = nczfs("import", original, url)
    assert refused.returncode == 1
    assert "--overwrite" in refused.stderr
    done("import", SAMPLES / "SOI_Darwin.nc", url, "--overwrite", "--chunks", "time=1776")
    assert done("ls", url).split() == ["SOI_Darwin", "time"]


def test_the_attributes_of_a_dataset_are_listed_by_the_other_commands(tmp_path: Path) -> None:
    original = SAMPLES / "hybrid_height.nc"
    done("import", original, tmp_path / "d")
    listed = done("ls", "-lR", tmp_path / "d").splitlines()
    assert any(line.startswith("float32 ") and " surface_altitude (" in line for line in listed)
    with stored(original) as file:
        units = {name: value for name, _, value in attributes_of(file["surface_altitude"])}
    assert units["units"].strip("'") in done("info", tmp_path / "d/surface_altitude")
    assert nczfs("verify", tmp_path / "d").returncode == 0


# -- files larger than the memory budget, and imports that are cut short ---------------------------

BUDGET_MIB = 32
SHAPE = (200, 512, 512)

_MEASURED = """
import sys
from nczfs.cli.main import main
code = main(sys.argv[1:])
with open("/proc/self/status") as status:
    print(next(line for line in status if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """200 MiB in one variable, a plane a chunk."""
    path = tmp_path_factory.mktemp("large") / "large.nc"
    random = np.random.default_rng(0)
    with netCDF4.Dataset(path, "w") as file:
        for name, size in zip("tyx", SHAPE, strict=True):
            file.createDimension(name, size)
        variable = file.createVariable("v", "i4", ("t", "y", "x"), chunksizes=(1, 512, 512))
        for t in range(SHAPE[0]):
            variable[t] = random.integers(0, 1000, SHAPE[1:], "i4")
    yield path
    path.unlink()


def peak_mib(*arguments: str | Path) -> int:
    """The most memory that a command ever had, in MiB."""
    finished = subprocess.run(
        [sys.executable, "-c", _MEASURED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert finished.returncode == 0, finished.stderr
    return int(finished.stdout) // 1024


def test_a_large_file_needs_no_more_than_the_budget(large: Path, tmp_path: Path) -> None:
    limit = ("--memory-limit", f"{BUDGET_MIB}MiB")
    base = peak_mib("import", SAMPLES / "hybrid_height.nc", tmp_path / "small")
    # Once chunk by chunk, and once across the chunks of the file.
    assert peak_mib("import", large, tmp_path / "same", *limit) < base + 2 * BUDGET_MIB
    chunks = ("--chunks", "t=50,y=64,x=64")
    assert peak_mib("import", large, tmp_path / "d", *limit, *chunks) < base + 2 * BUDGET_MIB
    assert peak_mib("export", tmp_path / "d", tmp_path / "b.nc", *limit) < base + 2 * BUDGET_MIB
    with stored(large) as before, stored(tmp_path / "b.nc") as after:
        assert after["v"].chunking() == [50, 64, 64]
        for t in range(0, SHAPE[0], 50):
            assert np.array_equal(before["v"][t : t + 50], after["v"][t : t + 50])


def interrupted(large: Path, target: Path, number: signal.Signals) -> tuple[int, str]:
    """An import that gets a signal when its first chunk is there: its status, and what it says."""
    words = ["import", str(large), str(target), "--chunks", "t=1,y=64,x=64"]
    process = subprocess.Popen(
        [sys.executable, "-m", "nczfs.cli.main", *words], stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 60
    while not any((target / "v").glob("[0-9]*")) and time.monotonic() < end:
        assert process.poll() is None, "it ended before a chunk was there"
        time.sleep(0.01)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    return process.returncode, told


def test_a_killed_import_leaves_nothing_that_looks_whole(large: Path, tmp_path: Path) -> None:
    target = tmp_path / "d"
    status, _ = interrupted(large, target, signal.SIGKILL)
    assert status == -signal.SIGKILL
    assert any((target / "v").iterdir())
    assert nczfs("info", target).returncode == 1
    with pytest.raises(FileNotFoundError):
        xarray.open_zarr(target, consolidated=False)
    with stored(f"file://{target}#mode=nczarr,file") as seen:
        assert seen.variables == {}
    small = SAMPLES / "SOI_Darwin.nc"
    refused = nczfs("import", small, target)
    assert refused.returncode == 1
    assert "holds an unfinished import" in refused.stderr
    done("import", small, target, "--overwrite")
    assert done("ls", target).split() == ["SOI_Darwin", "time"]
    assert sorted(os.listdir(target)) == [".zattrs", ".zgroup", "SOI_Darwin", "time"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_import_removes_what_it_made(
    number: signal.Signals, large: Path, tmp_path: Path
) -> None:
    status, told = interrupted(large, tmp_path / "d", number)
    assert status == 128 + number
    assert told.endswith("d: what was written there has been removed\n")
    assert list((tmp_path / "d").rglob("*")) == []
