"""Whole live files of a real mount: equal to the files that their datasets were imported from."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import zarr

import nczfs
from tests.interop.netcdf_programs.program import CLASSIC, FORMATS, SUFFIX, printed
from tests.interop.test_hdf5_datasets import REAL, SAMPLES, native
from tests.interop.test_reference_netcdf_c import cases
from tests.support.cdl import header_lines
from tests.support.commands import printed as said_by_nczfs
from tests.support.mounts import mounted
from tests.support.netcdf import assert_same, ncdump, stored
from tests.support.sample import keys_of

TIB = 1 << 40
HUGE = (2560, 1 << 15, 1 << 15)
NUMBERED = {f"v{n:04}": n + np.arange(6).reshape(2, 3) for n in range(1000)}
RECORDED = {"_FillValue", "nczfs_name"}
LAST = np.arange(16, dtype="f4").reshape(1, 4, 4)


def many(path: Path) -> Path:
    """1,000 variables."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        for name, values in NUMBERED.items():
            made = file.createVariable(name, "i4", ("time", "x"))
            made.units = "m"
            made[:] = values
    return path


def write_many(dataset: Path) -> None:
    """Write them as Zarr, document by document: importing them takes half a minute."""
    dataset.mkdir()
    (dataset / ".zgroup").write_text('{"zarr_format": 2}')
    described = {"zarr_format": 2, "shape": [2, 3], "chunks": [2, 3], "dtype": "<i4", "order": "C"}
    array = json.dumps(described | {"fill_value": None, "filters": None, "compressor": None})
    attributes = json.dumps({"_ARRAY_DIMENSIONS": ["time", "x"], "units": "m"})
    for name, values in NUMBERED.items():
        (dataset / name).mkdir()
        (dataset / name / ".zarray").write_text(array)
        (dataset / name / ".zattrs").write_text(attributes)
        (dataset / name / "0.0").write_bytes(values.astype("<i4").tobytes())


def lengths(path: Path) -> Path:
    """Dimensions without elements, of one, and none; groups three deep that use those above."""
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("none", None)
        file.createDimension("one", 1)
        file.createDimension("x", 5)
        file.createVariable("scalar", "f8", ())[...] = 2.5
        file.createVariable("text", str, ())[...] = "żółw"
        file.createVariable("records", "i2", ("none", "x"))
        file.createVariable("single", "i8", ("one",))[:] = 9
        group = file
        for name in ("a", "b", "c"):
            group = group.createGroup(name)
            group.createDimension("own", 2)
            group.createVariable("v", "f4", ("own", "x"))[:] = np.arange(10).reshape(2, 5)
    return path


MADE: dict[str, Callable[[Path], Path]] = {"types": native, "many": many, "lengths": lengths}
NAMES = [*(path.stem for path in REAL), *MADE, "space_weather"]
IN_SHORT = [
    pytest.param(name, marks=[pytest.mark.long] if name == "many" else []) for name in NAMES
]
OPTIONS = ("--record-dim", "time")  # which NCZarr does not need
AS_CLASSIC = {"space_weather"}
"""Files of the classic format."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Files of netCDF-C, and a store with a dataset for each."""

    originals: dict[str, Path]
    store: Path


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    directory = tmp_path_factory.mktemp("imported")
    originals = {path.stem: path for path in (*REAL, SAMPLES / "space_weather.nc")}
    originals |= {name: make(directory / f"{name}.nc") for name, make in MADE.items()}
    (directory / "store").mkdir()
    for name, path in originals.items():
        if name == "many":
            write_many(directory / f"store/{name}.zarr")
        else:
            said_by_nczfs("import", path, directory / f"store/{name}.zarr")
    return Imported(originals, directory / "store")


@pytest.fixture(scope="module")
def mount(imported: Imported) -> Iterator[Path]:
    with mounted(imported.store, *OPTIONS) as path:
        yield path


def live_file(mount: Path, name: str, suffix: str = ".nc") -> Path:
    return mount / f"datasets/{name}.zarr/{name}{suffix}"


@pytest.mark.parametrize("name", NAMES)
def test_ncdump_shows_what_it_shows_of_the_original(
    imported: Imported, mount: Path, name: str
) -> None:
    """Types, groups, dimensions, attributes, values."""
    assert ncdump(live_file(mount, name)) == ncdump(imported.originals[name])


@pytest.mark.parametrize("name", sorted(AS_CLASSIC & set(NAMES)))
def test_ncdump_shows_what_it_shows_of_an_original_of_the_classic_format(
    imported: Imported, mount: Path, name: str
) -> None:
    assert ncdump(live_file(mount, name, SUFFIX[CLASSIC])) == ncdump(imported.originals[name])


@pytest.mark.parametrize("name", IN_SHORT)
def test_nccopy_makes_a_real_file_of_it_that_holds_the_same(
    imported: Imported, mount: Path, tmp_path: Path, name: str
) -> None:
    printed("nccopy", live_file(mount, name), tmp_path / "real.nc")
    with stored(imported.originals[name]) as one, stored(tmp_path / "real.nc") as other:
        assert_same(one, other)


def test_cmp_and_checksums_find_the_same_bytes_in_every_mount(
    imported: Imported, mount: Path
) -> None:
    """SEMANTICS D17."""
    names = [name for name in NAMES if name != "many"]
    files = [f"{name}.zarr/{name}{SUFFIX[form]}" for name in names for form in FORMATS]
    present = [file for file in files if (mount / "datasets" / file).exists()]
    assert len(present) >= len(names)
    before = printed("sha256sum", *present, cwd=mount / "datasets")
    with mounted(imported.store, "--read-only", *OPTIONS) as other:
        for file in present:
            printed("cmp", mount / "datasets" / file, other / "datasets" / file)
    with mounted(imported.store, *OPTIONS) as again:
        assert printed("sha256sum", *present, cwd=again / "datasets") == before


@pytest.mark.parametrize(
    ("dataset", "cdl"),
    [(dataset, cdl) for dataset, cdl, case in cases() if not case.fragment],
    ids=lambda path: path.name,
)
def test_ncdump_shows_what_netcdf_c_expects_of_its_own_datasets(dataset: Path, cdl: Path) -> None:
    with mounted(dataset, "--read-only") as mount:
        (top,) = (mount / "datasets").iterdir()
        (file,) = (path for path in top.glob("*.nc") if not path.name.endswith(SUFFIX[CLASSIC]))
        found, wanted = header_lines(printed("ncdump", "-h", file)), header_lines(cdl.read_text())
    # The live file shows the fill value that only the array has.
    shown = [line for line in found if ":_FillValue=" not in line or line in wanted]
    assert shown == wanted


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A mounted array of 10 TiB, with one chunk that is stored."""
    store = tmp_path_factory.mktemp("huge")
    root = zarr.open_group(store / "huge.zarr", mode="w", zarr_format=2)
    array = root.create_array(
        "v", shape=HUGE, dtype="f4", chunks=(1, 1024, 1024), fill_value=0, compressors=None
    )
    array.attrs["_ARRAY_DIMENSIONS"] = ["time", "y", "x"]
    array[-1:, -4:, -4:] = LAST
    assert sum(path.stat().st_size for path in keys_of(store).values()) < 1 << 23
    with mounted(store, "--record-dim", "time") as mount:
        yield mount


@pytest.mark.parametrize("form", FORMATS)
def test_ten_tebibytes_are_a_file_that_is_read_at_its_end(
    huge: Path, tmp_path: Path, form: str
) -> None:
    file = live_file(huge, "huge", SUFFIX[form])
    size = os.stat(file).st_size
    assert 10 * TIB <= size < 10 * TIB + (1 << 20)
    with netCDF4.Dataset(file) as dataset:
        np.testing.assert_array_equal(dataset["v"][-1:, -4:, -4:], LAST)
        assert not dataset["v"][1234, 77, 5:9].any()
    corner = ("-d", "time,-1", "-d", "y,-4,-1", "-d", "x,-4,-1")
    printed("ncks", "-O", *corner, file, tmp_path / "corner.nc")
    with netCDF4.Dataset(tmp_path / "corner.nc") as dataset:
        np.testing.assert_array_equal(dataset["v"][:], LAST)
    command = ("tail", "-c", "16", str(file))
    end = subprocess.run(command, capture_output=True, check=True).stdout
    assert len(end) == 16


@pytest.mark.parametrize("form", FORMATS)
def test_names_as_long_as_netcdf_has_are_read_by_its_programs(tmp_path: Path, form: str) -> None:
    """A name of NC_MAX_NAME bytes has no room for NUL in them: the last bytes become a checksum."""
    names = {length: f"n{'x' * (length - 2)}z" for length in (254, 255, 256, 257)}
    with nczfs.open(str(tmp_path / "store/names.zarr"), "w", format="zarr2") as root:
        for length, name in names.items():
            root.create_dimension(name, length)
            root.create_variable(f"v{length}", (name,), "<i4", attributes={name: "set"})
    with mounted(tmp_path / "store") as mount:
        file = live_file(mount, "names", SUFFIX[form])
        printed("ncdump", file)
        with netCDF4.Dataset(file) as dataset:
            for length, name in names.items():
                made = dataset[f"v{length}"]
                ((dimension,), (attribute,)) = made.dimensions, set(made.ncattrs()) - RECORDED
                assert made.getncattr(attribute) == "set"
                for shown in (dimension, attribute):
                    assert shown == name if length <= 255 else shown.startswith(f"{name[:240]}")
                    assert len(shown) <= 255
