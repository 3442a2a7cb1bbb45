"""The sample of the demo, and what its page tells of it, against the file that it was made from."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import iris_sample_data
import netCDF4
import numpy as np
import pytest
import xarray

import nczfs as library
from nczfs.cli.demo import SAMPLE, VARIABLE

REPOSITORY = Path(__file__).parents[2]
SOURCE = Path(iris_sample_data.path, "ostia_monthly.nc")
PAGE = (REPOSITORY / "docs/demo.md").read_text("utf-8")
MONTHS = slice(-12, None)
LAND = -32768

Temperatures: TypeAlias = "np.ma.MaskedArray[Any, np.dtype[np.float64]]"


@pytest.fixture(scope="module")
def temperature() -> Temperatures:
    """What the source has, in K; land is masked."""
    with netCDF4.Dataset(SOURCE) as source:
        values: Temperatures
        values = source[VARIABLE][MONTHS].astype("f8")
    return values


def printed(command: str) -> str:
    """What the page says that a command, which begins so, prints."""
    found = re.search(rf"^\$ {command}.*\n((?:(?!\$ |```).*\n)+)", PAGE, re.MULTILINE)
    assert found is not None
    return found[1]


def test_every_value_is_that_of_the_source_packed(
    temperature: Temperatures,
) -> None:
    expected = np.ma.filled(np.rint((temperature - 290) / 0.001), LAND)
    with library.open(str(SAMPLE)) as sample, netCDF4.Dataset(SOURCE) as source:
        variable = sample.variables[VARIABLE]
        assert variable.attrs["scale_factor"] == 0.001
        assert variable.attrs["add_offset"] == 290
        assert variable.attrs["_FillValue"] == LAND
        found = np.asarray(variable[...])
        assert found.dtype == np.int16
        assert np.array_equal(found, expected)
        for name in ("time", "time_bnds"):
            assert np.array_equal(sample.variables[name][...], source[name][MONTHS])
        for name in ("latitude", "longitude"):
            assert np.array_equal(sample.variables[name][...], source[name][...])
        for name, found_variable in sample.variables.items():
            ours, theirs = dict(found_variable.attrs), source[name].__dict__
            assert {k: ours[k] for k in ours.keys() & theirs.keys() - {"_FillValue"}} == {
                k: theirs[k] for k in theirs.keys() - {"_FillValue", "coordinates", "grid_mapping"}
            }


def test_netcdf_c_and_xarray_unpack_it(
    temperature: Temperatures,
) -> None:
    with netCDF4.Dataset(f"file://{SAMPLE}#mode=nczarr,file") as dataset:
        unpacked = dataset[VARIABLE][...]
    assert np.array_equal(np.ma.getmaskarray(unpacked), np.ma.getmaskarray(temperature))
    assert np.abs(unpacked - temperature).max() < 0.00050001
    with xarray.open_zarr(SAMPLE, consolidated=False) as opened:
        values = opened[VARIABLE].values
        months = np.datetime_as_string(opened["time"].values, unit="M").tolist()
    assert np.allclose(values, np.ma.filled(unpacked, np.nan), atol=1e-9, equal_nan=True)
    assert (months[0], months[-1]) == ("2009-10", "2010-09")


def test_the_figures_of_the_page_are_those_of_the_source(
    temperature: Temperatures,
) -> None:
    assert float(printed("awk")) == pytest.approx(temperature.mean(), abs=0.0005)
    point = temperature[:, 9, 288]
    assert [float(word) for word in printed("python3")[1:-2].split()] == point.round(1).tolist()
    with netCDF4.Dataset(SOURCE) as source:
        assert abs(source["latitude"][9]) < 0.001
        assert abs(source["longitude"][288] - (360 - 120)) < 0.001
    april, september = point[6].round(1), point[11].round(1)
    text = " ".join(PAGE.split())
    assert f"cools from {april} K in April to {september} K in September" in text
    assert f"The mean of the twelve months is {temperature.mean().round(1)} K" in text
    packed = np.ma.filled(np.rint((temperature[0, 0, :16] - 290) / 0.001), LAND).astype(int)
    words = [line.split()[1:] for line in printed("od").splitlines()]
    assert [int(word) for line in words for word in line] == packed.tolist()
    assert printed("cat") == f"{VARIABLE}\nK\n"
    rows = re.findall(r"(\d+) \w+ \d+ [\d:]+ (values\.\w+)$", printed("ls"), re.MULTILINE)
    sizes = {name: int(size) for size, name in rows}
    width = max(len(str(value)) for value in np.ma.filled(temperature, LAND).astype(int).flat)
    assert sizes["values.raw"] == 2 * temperature.size
    assert sizes["values.txt"] == (width + len("\n")) * temperature.size


def test_the_script_makes_the_sample_that_is_shipped(tmp_path: Path) -> None:
    script = REPOSITORY / "scripts/make-sample"
    subprocess.run([sys.executable, "-W", "error", script, tmp_path / SAMPLE.name], check=True)
    names = sorted(path.relative_to(SAMPLE) for path in SAMPLE.rglob("*") if path.is_file())
    made = tmp_path / SAMPLE.name
    assert sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file()) == names
    for document in names:
        if document.name.startswith(".z"):
            ours, theirs = (json.loads((place / document).read_text()) for place in (SAMPLE, made))
            assert ours.pop("_NCProperties", None) is None or theirs.pop("_NCProperties")
            assert ours == theirs, document
    with library.open(str(made)) as one, library.open(str(SAMPLE)) as other:
        for name, variable in one.variables.items():
            assert np.array_equal(variable[...], other.variables[name][...])
