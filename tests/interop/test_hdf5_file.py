"""The bytes of a netCDF-4 file, as the programs of its readers see them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import netCDF4
import numpy as np
import pytest
import xarray

from nczfs.engine.options import Tally
from nczfs.model.dtypes import NC_TYPE_OF_CODE
from nczfs.views.layout import Layout
from nczfs.views.netcdf.content import Compound, Opaque
from nczfs.views.netcdf.hdf5.layout import hdf5_layout
from nczfs.views.netcdf.hdf5.templates import Templates
from nczfs.views.reader import read_at
from tests.support import netcdf
from tests.support.netcdf_contents import Formula, Handmade, number, text, texts, write_file

TIB = 1 << 40
RECORD = np.dtype([("a", "<i4"), ("b", "<f4", (2,)), ("c", "S1", (3,)), ("d", "S1")])
COMPLEX = np.dtype([("r", "<f8"), ("i", "<f8")])


def layout_of(made: Handmade) -> Layout:
    return hdf5_layout(made.content(), made.elements, Templates())


def file_of(made: Handmade, path: Path) -> Path:
    write_file(layout_of(made), path)
    return path


def weather() -> Handmade:
    """Dimensions of every kind, coordinates, and variables of all types of numbers."""
    made = Handmade()
    time = made.dimension("time", 4, unlimited=True)
    y = made.dimension("y", 3)
    x = made.dimension("x", 3)
    made.dimension("unused", 9)
    other = made.dimension("other", 2, unlimited=True)
    made.attributes(text("title", "Höhe"), text("empty", ""))
    made.variable("time", (time,), np.arange(4.0) / 2, text("units", "days since 2000-01-01"))
    made.variable("x", (x,), np.arange(3, dtype="i4") * 10, text("axis", "X"))
    values = np.arange(36, dtype="f4").reshape(4, 3, 3)
    made.variable("t2m", (time, y, x), values, number("_FillValue", "f4", -9), text("units", "K"))
    made.variable("square", (x, x), np.arange(9, dtype="i8").reshape(3, 3))
    made.variable("twice", (other, time), np.arange(8, dtype="u2").reshape(2, 4))
    for code in NC_TYPE_OF_CODE:
        made.variable(
            f"of_{code}",
            (y,),
            np.arange(3).astype(code) - 1 if code[0] != "u" else np.arange(3, dtype=code),
        )
    made.variable("scalar", (), np.array(7, "i8"))
    return made


def test_dimensions_are_shown_by_name_in_order_and_unlimited(tmp_path: Path) -> None:
    path = file_of(weather(), tmp_path / "a.nc")
    wanted = [
        ("time", 4, True),
        ("y", 3, False),
        ("x", 3, False),
        ("unused", 9, False),
        ("other", 2, True),
    ]
    with netcdf.stored(path) as dataset:
        assert netcdf.dimensions_of(dataset) == wanted
        assert dataset["t2m"].dimensions == ("time", "y", "x")
        assert dataset["square"].dimensions == ("x", "x")
        assert dataset["twice"].dimensions == ("other", "time")
    with h5netcdf.File(path, "r") as file:
        assert [(n, d.size, d.isunlimited()) for n, d in file.dimensions.items()] == wanted
        assert file["t2m"].dimensions == ("time", "y", "x")
        assert file["square"].dimensions == ("x", "x")
    shown = netcdf.ncdump(path, "-h")
    assert "time = UNLIMITED ; // (4 currently)\n\ty = 3 ;\n\tx = 3 ;\n\tunused = 9 ;\n" in shown
    assert "other = UNLIMITED ; // (2 currently)" in shown


def test_variables_have_their_order_types_and_values(tmp_path: Path) -> None:
    made = weather()
    path = file_of(made, tmp_path / "a.nc")
    with netcdf.stored(path) as dataset, h5netcdf.File(path, "r") as file:
        names = [variable.name for variable in made.content().variables()]
        assert list(dataset.variables) == list(file.variables) == names
        for name, source in made.sources.items():
            for found in (dataset[name][...], file[name][...]):
                assert np.asarray(found).dtype == source.values.dtype
                np.testing.assert_array_equal(np.ravel(found), source.values)


@pytest.mark.filterwarnings("ignore:Duplicate dimension names")
@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_xarray_reads_coordinates_and_masks_fill_values(tmp_path: Path, engine: Any) -> None:
    made = weather()
    made.sources["t2m"].values[5] = -9
    with xarray.open_dataset(file_of(made, tmp_path / "a.nc"), engine=engine) as dataset:
        assert list(dataset.coords) == ["time", "x"]
        assert dataset["time"].dt.hour.values.tolist() == [0, 12, 0, 12]
        assert int(dataset["t2m"].isnull().sum()) == 1
        assert float(dataset["t2m"].isel(time=-1).sum()) == sum(range(27, 36))


def test_h5py_follows_scales_both_ways(tmp_path: Path) -> None:
    with h5py.File(file_of(weather(), tmp_path / "a.nc")) as file:
        assert file["t2m"].dims[0][0] == file["time"]
        assert file["x"].is_scale
        uses = [(file[use].name, int(axis)) for use, axis in file["x"].attrs["REFERENCE_LIST"]]
        assert uses == [("/t2m", 2), ("/square", 0), ("/square", 1)]


def test_h5dump_and_nccopy_of_the_distribution_read_it_all(tmp_path: Path) -> None:
    path = file_of(weather(), tmp_path / "a.nc")
    shown = subprocess.run(["h5dump", str(path)], capture_output=True, text=True, check=True)
    assert "(3,2,0): 33, 34, 35" in shown.stdout
    subprocess.run(["nccopy", "-k", "nc4", "-d1", path, tmp_path / "b.nc"], check=True)
    assert netcdf.ncdump(path) == netcdf.ncdump(tmp_path / "b.nc").replace("netcdf b", "netcdf a")


def test_values_that_were_never_written_are_masked_as_in_a_native_file(tmp_path: Path) -> None:
    made = Handmade()
    x = made.dimension("x", 3)
    made.variable("a", (x,), np.array([1, netCDF4.default_fillvals["i4"], 3], "i4"))
    with netCDF4.Dataset(file_of(made, tmp_path / "a.nc")) as dataset:
        assert dataset["a"][:].mask.tolist() == [False, True, False]
        assert dataset["a"].get_fill_value() == netCDF4.default_fillvals["i4"]


def test_attributes_keep_type_order_and_value(tmp_path: Path) -> None:
    made = Handmade()
    given = [
        text("short", "K"),
        text("unicode", "Höhe über dem Meer"),
        texts("list", "a", "", "größe"),
        texts("one", "single"),
        *(number(f"n_{code}", code, 1, 2) for code in NC_TYPE_OF_CODE),
        number("largest", "u8", 2**64 - 1),
        number("nan", "f8", float("nan")),
        text("empty", ""),
        text("long", "x" * 70_000),
        text("ünï cödé", "name"),
    ]
    made.attributes(*given)
    made.variable("v", (), np.array(1.0), *given)
    with netcdf.stored(file_of(made, tmp_path / "a.nc")) as dataset:
        for place in (dataset, dataset["v"]):
            assert place.ncattrs() == [attribute.name for attribute in given]
            assert place.getncattr("unicode") == "Höhe über dem Meer"
            assert place.list == ["a", "", "größe"]
            assert place.one == "single"
            for code in NC_TYPE_OF_CODE:
                assert place.getncattr(f"n_{code}").dtype == code
                assert place.getncattr(f"n_{code}").tolist() == [1, 2]
            assert place.largest == 2**64 - 1
            assert np.isnan(place.nan)
            assert place.empty == ""
            assert place.long == "x" * 70_000
    shown = netcdf.ncdump(tmp_path / "a.nc", "-h")
    assert '\t\tstring v:one = "single" ;\n' in shown
    assert '\t\tv:empty = "" ;\n' in shown


def test_strings_and_characters_are_read_as_text(tmp_path: Path) -> None:
    made = Handmade()
    n, width = made.dimension("n", 3), made.dimension("string5", 5)
    made.variable("s", (n,), ("a", "", "größe"))
    made.variable(
        "c", (n, width), np.array([b"abc", b"hello", b""], "S5"), text("_Encoding", "utf-8")
    )
    made.variable("one", (n,), np.array([b"x", b"y", b"z"], "S1"), text("_FillValue", "q"))
    path = file_of(made, tmp_path / "a.nc")
    for engine in ("netcdf4", "h5netcdf"):
        with xarray.open_dataset(path, engine=engine) as dataset:
            assert dataset["s"].values.tolist() == ["a", "", "größe"]
            assert dataset["c"].values.tolist() == ["abc", "hello", ""]
    shown = netcdf.ncdump(path)
    assert ' s = "a", _, "größe" ;\n' in shown
    assert ' c =\n  "abc",\n  "hello",\n  "" ;\n' in shown
    assert ' one = "xyz" ;\n' in shown


def test_groups_nest_and_see_dimensions_of_those_above(tmp_path: Path) -> None:
    made = Handmade()
    x, y = made.dimension("x", 3), made.dimension("y", 3)
    made.variable("x", (x,), np.arange(3))
    inner = made.dimension("x", 2, group="a/b/c")
    made.variable("x", (inner,), np.arange(2.0), group="a/b/c")
    made.variable("both", (y, inner), np.arange(6).reshape(3, 2), group="a/b/c")
    made.attributes(text("depth", "3"), group="a/b/c")
    made.variable("outer", (x,), np.arange(3), group="other")
    path = file_of(made, tmp_path / "a.nc")
    with netCDF4.Dataset(path) as dataset:
        deep = dataset["a/b/c"]
        assert netcdf.dimensions_of(deep) == [("x", 2, False)]
        assert deep["both"].shape == (3, 2)
        assert deep.depth == "3"
        assert deep["both"][:].ravel().tolist() == list(range(6))
        assert list(dataset.groups) == ["a", "other"]
    with xarray.open_dataset(path, group="other", engine="h5netcdf") as other:
        assert other["outer"].values.tolist() == [0, 1, 2]


def test_a_variable_with_the_name_of_a_dimension_need_not_be_its_coordinate(tmp_path: Path) -> None:
    made = Handmade()
    x, y, time = (
        made.dimension("x", 3),
        made.dimension("y", 2),
        made.dimension("time", 2, unlimited=True),
    )
    made.variable("y", (x, y), np.arange(6.0).reshape(3, 2))  # its second dimension
    made.variable("x", (), np.array(4))
    made.variable("time", (time, x), np.arange(6).reshape(2, 3))  # a scale of two dimensions
    path = file_of(made, tmp_path / "a.nc")
    with netCDF4.Dataset(path) as dataset, h5netcdf.File(path, "r") as file:
        for found in (dataset, file):
            assert list(found.variables) == ["y", "x", "time"]
            assert found["y"].dimensions == ("x", "y")
            assert found["x"].dimensions == ()
            assert found["time"].dimensions == ("time", "x")
        assert dataset["time"][:].ravel().tolist() == list(range(6))
    assert "\tint64 time(time, x) ;\n" in netcdf.ncdump(path, "-h")


def test_dimensions_without_elements_are_read(tmp_path: Path) -> None:
    made = Handmade()
    none, rec = made.dimension("none", 0), made.dimension("rec", 0, unlimited=True)
    x = made.dimension("x", 2)
    made.variable("rec", (rec,), np.empty(0, "f8"), text("units", "days since 2000-01-01"))
    made.variable("a", (none, x), np.empty((0, 2), "i2"))
    made.variable("b", (rec, x), np.empty((0, 2), "i2"))
    made.variable("s", (rec,), ())
    path = file_of(made, tmp_path / "a.nc")
    with netCDF4.Dataset(path) as dataset, h5netcdf.File(path, "r") as file:
        for found in (dataset, file):
            assert [found[name].shape for name in ("rec", "a", "b", "s")] == [
                (0,),
                (0, 2),
                (0, 2),
                (0,),
            ]
    assert "rec = UNLIMITED ; // (0 currently)" in netcdf.ncdump(path)


def test_compounds_are_named_and_opaque_types_harm_nothing(tmp_path: Path) -> None:
    made = Handmade()
    x = made.dimension("x", 2)
    records = np.zeros(2, RECORD)
    records["a"], records["b"], records["c"], records["d"] = 5, 1.5, [b"a", b"b", b""], [b"x", b"y"]
    made.variable("rec", (x,), records, type_=Compound("rec_t", RECORD))
    made.variable(
        "z", (x,), np.array([(1, 2), (3, -4)], COMPLEX), type_=Compound("complex128", COMPLEX)
    )
    made.variable("op", (x,), np.zeros(2, "V7"), type_=Opaque("op_t", 7))
    made.variable(
        "again",
        (x,),
        np.array([(1, 2), (3, -4)], COMPLEX),
        type_=Compound("complex128", COMPLEX),
        group="g",
    )
    path = file_of(made, tmp_path / "a.nc")
    shown = netcdf.ncdump(path)
    assert """ rec = {5, {1.5, 1.5}, {"ab"}, {"x"}}, {5, {1.5, 1.5}, {"ab"}, {"y"}} ;\n""" in shown
    assert " z = {1, 2}, {3, -4} ;\n" in shown
    with xarray.open_dataset(path, engine="h5netcdf") as dataset:
        assert dataset["z"].values.tolist() == [1 + 2j, 3 - 4j]
        assert dataset["rec"].values["a"].tolist() == [5, 5]
        assert dataset["op"].dtype == "V7"


def test_a_file_of_ten_tebibytes_is_read_at_its_ends(tmp_path: Path) -> None:
    made = Handmade()
    time, y, x = (
        made.dimension("time", 2560),
        made.dimension("y", 1 << 15),
        made.dimension("x", 1 << 15),
    )
    made.variable("time", (time,), np.arange(2560.0))
    made.variable("a", (time, y, x), Formula("f4"))
    made.variable("last", (x,), np.arange(1 << 15, dtype="i4"))
    layout = layout_of(made)
    assert layout.size > 10 * TIB
    assert sum(segment.size for segment in layout.segments if not segment.sources) < 1 << 20
    write_file(layout, tmp_path / "a.nc")
    with netCDF4.Dataset(tmp_path / "a.nc") as dataset:
        stop = 10 * TIB // 4
        assert dataset["a"][-1, -1, -5:].tolist() == [(stop - 5 + i) % 1000 for i in range(5)]
        assert dataset["a"][0, 0, :3].tolist() == [0, 1, 2]
        assert dataset["last"][-1] == (1 << 15) - 1
        assert dataset["time"][-1] == 2559


def test_an_unlimited_coordinate_that_is_too_large_for_a_chunk_is_read(tmp_path: Path) -> None:
    made = Handmade()
    time = made.dimension("time", 1 << 30, unlimited=True)
    made.variable("time", (time,), Formula("f8"))
    made.variable("a", (time,), Formula("i2"))
    path = file_of(made, tmp_path / "a.nc")
    with netCDF4.Dataset(path) as dataset, h5netcdf.File(path, "r") as file:
        assert len(dataset.dimensions["time"]) == 1 << 30
        assert dataset.dimensions["time"].isunlimited()
        for found in (dataset, file):
            assert found["time"].dimensions == ("time",)
            assert found["time"][-1] == ((1 << 30) - 1) % 1000


def test_hundreds_of_variables_of_a_dimension_are_all_attached(tmp_path: Path) -> None:
    made = Handmade()
    time, y, x = (
        made.dimension("time", 2, unlimited=True),
        made.dimension("y", 1),
        made.dimension("x", 3),
    )
    for i in range(300):
        values = np.arange(6, dtype="i4").reshape(2, 1, 3) + i
        made.variable(f"v{i}", (time, y, x), values, text("units", "m"))
    path = file_of(made, tmp_path / "a.nc")
    with netCDF4.Dataset(path) as dataset, h5py.File(path) as file:
        assert len(dataset.variables) == 300
        assert dataset["v299"][:].ravel().tolist() == list(range(299, 305))
        assert len(file["x"].attrs["REFERENCE_LIST"]) == 300
        assert "REFERENCE_LIST" not in file["time"].attrs  # would make the next open take minutes
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        assert all(variable.dims == ("time", "y", "x") for variable in opened.data_vars.values())
        assert opened.encoding["unlimited_dims"] == {"time"}
        assert opened["v299"].values.ravel().tolist() == list(range(299, 305))
    assert "int v299(time, y, x) ;" in netcdf.ncdump(path, "-h")


def test_netcdf_c_adds_nothing_to_variables_when_it_changes_a_value(tmp_path: Path) -> None:
    """It numbers the first dimension of each, if coordinates come in another order than theirs."""
    made = Handmade()
    time, x = made.dimension("time", 2, unlimited=True), made.dimension("x", 3)
    made.variable("a", (time, x), np.zeros((2, 3), "f4"))
    made.variable("x", (x,), np.arange(3.0))
    made.variable("time", (time,), np.arange(2.0))
    path = file_of(made, tmp_path / "a.nc")
    before = path.read_bytes()
    with netCDF4.Dataset(path, "r+") as dataset:
        dataset["a"][1, 2] = np.nan
    after = path.read_bytes()
    assert len(after) == len(before)
    changed = np.flatnonzero(np.frombuffer(before, "u1") != np.frombuffer(after, "u1"))
    assert np.ptp(changed) < 4, "more than the value"
    with netCDF4.Dataset(path) as dataset:
        assert list(dataset.dimensions) == ["time", "x"]
        assert dataset["a"].dimensions == ("time", "x")


@pytest.mark.parametrize("seed", range(3))
def test_any_range_of_bytes_is_that_of_the_whole(seed: int) -> None:
    layout = layout_of(weather())
    whole = bytes(read_at(layout, 0, layout.size, Tally()))
    random = np.random.default_rng(seed)
    for start, size in random.integers(0, layout.size, (200, 2)).tolist():
        size = size % 5000
        assert bytes(read_at(layout, start, size, Tally())) == whole[start : start + size]
