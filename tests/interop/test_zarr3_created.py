"""Datasets of Zarr v3 that nczfs makes, by every way, are read by zarr-python and tensorstore."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest
import tensorstore
import zarr

import nczfs
from nczfs.cli.main import main
from tests.support.mounts import mounted

NUMBERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
FIELD = np.array([[1.5, np.nan, 0.1], [np.inf, 2.5, 3.5]], "f4")
TEXTS = ["a", "", "é漢字"]
LETTERS = np.array([b"x", b"", b"z"], "S1")
ATTRIBUTES: dict[str, Any] = {
    "title": "é",
    "many": ["one", "two"],
    **{f"one_{code}": np.dtype(code).type(3) for code in NUMBERS},
    **{f"some_{code}": np.array([1, 2], code) for code in NUMBERS},
    "fraction": np.float32(0.1),
}


def values_of(code: str) -> Any:
    limits: Any = np.finfo(code) if code[0] == "f" else np.iinfo(code)
    return np.array([limits.min, 0, limits.max], code)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A netCDF-4 file with all that netCDF has: an unlimited dimension, groups, every type."""
    path = tmp_path_factory.mktemp("original") / "d.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 3)
        file.setncatts(ATTRIBUTES)
        field = file.createVariable("field", "f4", ("time", "x"), zlib=True, fill_value=np.nan)
        field[:] = FIELD
        field.units = "K"
        for code in NUMBERS:
            file.createVariable(code, code, ("x",))[:] = values_of(code)
        file.createVariable("scalar", "i4", ())[...] = 7
        file.createVariable("letters", "S1", ("x",))[:] = LETTERS
        group = file.createGroup("g").createGroup("h")
        texts = group.createVariable("texts", str, ("x",))
        texts[:] = np.array(TEXTS, object)
    return path


def by_library(_: Path, place: Path) -> None:
    with nczfs.open(str(place), "w", format="zarr3") as root:
        root.create_dimension("time", None)
        root.create_dimension("x", 3)
        for name, value in ATTRIBUTES.items():
            root.attrs[name] = value
        field = root.create_variable("field", ("time", "x"), "f4", fillvalue=np.nan)
        field[0:2] = FIELD
        field.attrs["units"] = "K"
        for code in NUMBERS:
            root.create_variable(code, ("x",), code, values_of(code))
        root.create_variable("scalar", (), "i4", 7)
        root.create_variable("letters", ("x",), "S1", LETTERS)
        group = root.create_group("g").create_group("h")
        group.create_variable("texts", ("x",), str, TEXTS)


def by_create(original: Path, place: Path) -> None:
    cdl = place.with_suffix(".cdl")
    command = ["ncdump", "-p", "9,17", str(original)]
    cdl.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert main(["create", str(place), "--format", "zarr3", "--cdl", str(cdl)]) == 0


def by_import(original: Path, place: Path) -> None:
    assert main(["import", str(original), str(place), "--format", "zarr3"]) == 0


def by_mount(original: Path, place: Path) -> None:
    place.parent.joinpath("store").mkdir()
    with mounted(place.parent / "store", "-o", "create_format=zarr3") as mount:
        dataset = mount / "datasets" / "d.zarr"
        dataset.mkdir()
        subprocess.run(["cp", original, dataset / "d.nc"], check=True)
    shutil.move(place.parent / "store" / "d.zarr", place)


@pytest.mark.parametrize("make", [by_library, by_create, by_import, by_mount])
def test_what_is_made_is_read_by_others(
    make: Callable[[Path, Path], None],
    original: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "made"
    make(original, place)
    assert capsys.readouterr() == ("", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of characters, which the specification does not have
        root = zarr.open_group(place, mode="r", zarr_format=3)
        found: dict[str, Any] = dict(root.arrays())
    assert sorted(found) == sorted(["field", "letters", "scalar", *NUMBERS])
    attributes = root.attrs.asdict()
    assert attributes.pop("_nczfs_unlimited") == ["time"]
    assert set(attributes) == set(ATTRIBUTES)
    for name, value in ATTRIBUTES.items():
        wanted = np.asarray(value).tolist()
        shown = np.asarray(attributes[name], getattr(value, "dtype", None)).tolist()
        assert shown == wanted, name
    assert found["field"].metadata.dimension_names == ("time", "x")
    assert found["field"].attrs["units"] == "K"
    assert np.isnan(found["field"].fill_value)
    expected = {"field": FIELD, "scalar": np.int32(7)} | {code: values_of(code) for code in NUMBERS}
    for name, values in expected.items():
        assert np.asarray(found[name][...]).tobytes() == values.tobytes()
        kvstore = {"driver": "file", "path": f"{place / name}/"}
        array = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
        assert np.asarray(array.read().result()).tobytes() == values.tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.asarray(found["letters"][...]).tolist() == LETTERS.tolist()
        texts: Any = root["g/h/texts"]
        assert texts[...].tolist() == TEXTS
        assert texts.metadata.dimension_names == ("x",)


def test_records_are_read_by_zarr_python(tmp_path: Path) -> None:
    records = np.array([(1, 2.5), (-3, np.inf)], [("a", "<i4"), ("b", "<f8")])
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr3") as root:
        root.create_variable("v", (2,), records.dtype, records)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the specification does not have them
        read: Any = zarr.open_array(tmp_path / "d" / "v", mode="r")[...]
    assert read.tolist() == records.tolist()


def test_bare_words_for_nan_in_attributes_are_numbers_to_zarr_python_alone(tmp_path: Path) -> None:
    """zarr-python and xarray write them so, and JSON has none; docs/zarr-v3.md tells."""
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr3") as root:
        for name, missing in ("v", np.nan), ("w", 1.5):
            root.create_variable(name, (2,), "f4", FIELD[0, :2]).attrs["missing_value"] = missing
    by_zarr: Any = zarr.open_array(tmp_path / "d/v", mode="r")
    assert np.isnan(by_zarr.attrs["missing_value"])
    kvstore = {"driver": "file", "path": f"{tmp_path}/d/"}
    spec = {"driver": "zarr3", "kvstore": kvstore}
    with pytest.raises(ValueError, match="Invalid JSON"):
        tensorstore.open(spec | {"path": "v/"}).result()
    read = tensorstore.open(spec | {"path": "w/"}).result().read().result()
    assert np.asarray(read).tobytes() == FIELD[0, :2].tobytes()
