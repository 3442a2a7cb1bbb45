"""Classic files of a dataset, read by programs that know netCDF, and compared with netCDF's own."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import netCDF4
import numpy as np
import pytest
import scipy.io
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

import nczfs as library
from nczfs.engine.options import Tally
from nczfs.library.api import Group
from nczfs.model.hierarchy import Variable
from nczfs.tools.transfer.netcdf_kinds import Format
from nczfs.views.elements import ArrayElements
from nczfs.views.layout import Layout
from nczfs.views.netcdf.classic.layout import classic_layout
from nczfs.views.netcdf.classic.plan import planned
from nczfs.views.netcdf.content import FileContent
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.kinds import CLASSIC
from nczfs.views.reader import read_at
from tests.support import hierarchies
from tests.support.classicfile import parse
from tests.support.groups import group as group_of
from tests.support.groups import variable
from tests.support.mounts import nczfs
from tests.support.netcdf import assert_same, ncdump, stored
from tests.support.reference import load, zarr2_cases

FORMATS: dict[int, Format] = {
    1: "NETCDF3_CLASSIC",
    2: "NETCDF3_64BIT_OFFSET",
    5: "NETCDF3_64BIT_DATA",
}


def content_of(group: Group) -> FileContent:
    def texts(variable: Variable) -> tuple[str, ...]:
        return tuple(np.asarray(group.variables[variable.path][...]).reshape(-1).tolist())

    return file_content(group.tree(), CLASSIC, texts)


def layout_of(group: Group, content: FileContent) -> Layout:
    dataset = group.engine_dataset
    return classic_layout(content, lambda v: ArrayElements(dataset.array(v), v))


def written(group: Group, path: Path) -> Path:
    layout = layout_of(group, content_of(group))
    path.write_bytes(read_at(layout, 0, layout.size, Tally()))
    return path


def native(path: Path, version: int) -> Path:
    """A file that netcdf-c writes, with all that a version has."""
    later = ["u1", "u2", "u4", "i8", "u8"] if version == 5 else []
    types = ["i1", "S1", "i2", "i4", "f4", "f8", *later]
    with netCDF4.Dataset(path, "w", format=FORMATS[version]) as file:
        for name, size in (("x", 3), ("time", None), ("długość", 5), ("one", 1)):
            file.createDimension(name, size)
        file.title = "title"
        file.numbers = np.array([1, 2, 3], "i2")
        file.empty = ""
        for code in types:
            for name, dimensions in (
                ("scalar", ()),
                ("fixed", ("x", "długość")),
                ("record", ("time", "x")),
                ("odd", ("time",)),
            ):
                made = file.createVariable(f"{name}_{code}", code, dimensions)
                made.units = "m s-1"
                if code != "S1":
                    made.valid_range = np.array([0, 100], code)
                values = np.arange(15).reshape(3, 5)[:, : (5 if name == "fixed" else 3)]
                shown = values.astype("u1").view("S1") if code == "S1" else values.astype(code)
                if name == "scalar":
                    made[...] = shown[0, 0]
                elif name == "odd":
                    made[...] = shown[:2, 0]
                else:
                    made[...] = shown if name == "fixed" else shown[:2]
    return path


def without_offsets(data: bytes) -> bytes:
    """The header of a file, with zeros for where the variables begin."""
    found, header = parse(data), bytearray(data)
    for at, size in found.begins:
        header[at : at + size] = bytes(size)
    return bytes(header[: found.size])


@pytest.mark.parametrize("version", [1, 5])
def test_the_header_is_that_of_netcdf_c_but_for_the_offsets(tmp_path: Path, version: int) -> None:
    """Only the offsets are free: ours leave room up to a whole page."""
    original = native(tmp_path / "native.nc", version)
    nczfs("import", str(original), str(tmp_path / "d.zarr")).check_returncode()
    with library.open(str(tmp_path / "d.zarr")) as group:
        ours = written(group, tmp_path / "ours.nc")
    assert without_offsets(original.read_bytes()) == without_offsets(ours.read_bytes())
    with stored(original) as one, stored(ours) as other:
        assert_same(one, other)
    assert ncdump(original) == ncdump(ours)


@pytest.mark.parametrize(
    ("version", "length"), [(1, 2**31 - 8192), (2, 2**31 - 4), (2, 2**32 - 4), (5, 2**32)]
)
def test_the_header_of_a_large_file_is_that_of_netcdf_c(
    tmp_path: Path, version: int, length: int
) -> None:
    with netCDF4.Dataset(tmp_path / "native.nc", "w", format=FORMATS[version]) as file:
        file.set_fill_off()
        file.createDimension("t", None)
        file.createDimension("y", length // 4)
        file.createDimension("x", 4)
        file.createVariable("v", "i1", ("t", "y", "x"))
        file.createVariable("w", "f8", ("t",))
    content = file_content(
        group_of(
            "",
            variable("v", "|i1", {"t": 0, "y": length // 4, "x": 4}, unlimited=("t",)),
            variable("w", "<f8", {"t": 0}, unlimited=("t",)),
        ),
        CLASSIC,
        lambda _: (),
    )
    plan = planned(content)
    native = (tmp_path / "native.nc").read_bytes()
    assert without_offsets(plan.header) == without_offsets(native)


def mixed(place: str) -> None:
    """A dataset of pure Zarr, with types that netCDF-3 does not have."""
    with library.open(place, "w", format="zarr2") as group:
        group.attrs["title"] = "mixed"
        group.create_dimension("x", 4)
        group.create_dimension("y", 3)
        x = np.arange(4)
        group.create_variable("flag", ("x",), data=x % 2 == 0)
        group.create_variable("half", ("x",), data=x.astype("f2") / 3, fillvalue=np.float16(-1))
        group.create_variable("text", ("x",), data=np.array(["a", "żółw", "", "日本"]))
        group.create_variable("bytes", ("x",), data=np.array([b"one", b"", b"three", b"x"]))
        group.create_variable(
            "list", ("x",), str, data=np.array(["", "a", "żółw", "b" * 9], object)
        )
        group.create_variable("z", ("x",), data=x + 1j)
        group.create_variable("t2m", ("x", "y"), ">f4", data=np.ones((4, 3)), fillvalue=np.nan)


def test_types_that_classic_files_do_not_have_are_read_for_what_they_are(tmp_path: Path) -> None:
    mixed(str(tmp_path / "d.zarr"))
    with library.open(str(tmp_path / "d.zarr")) as group:
        file = written(group, tmp_path / "d.nc")
        with netCDF4.Dataset(file) as found:
            assert found.file_format == FORMATS[1]
            assert found.nczfs_omitted == "/z: is of type <c16"
            assert found["flag"][:].tolist() == [1, 0, 1, 0]
            assert found["flag"].getncattr("dtype") == "bool"
            np.testing.assert_array_equal(found["half"][:], group.variables["half"][:])
            assert found["half"]._FillValue == -1
            assert found["text"][:].tolist() == ["a", "żółw", "", "日本"]
            assert found["list"][:].tolist() == ["", "a", "żółw", "b" * 9]
            assert found["bytes"][:].tolist() == ["one", "", "three", "x"]
            assert np.isnan(found["t2m"]._FillValue)
        with scipy.io.netcdf_file(file, mmap=False) as read:
            np.testing.assert_array_equal(read.variables["half"][:], group.variables["half"][:])
            assert read.variables["text"].dimensions == ("x", "string16")
        ncdump(file)


def test_xarray_reads_times_spans_and_flags(tmp_path: Path) -> None:
    with library.open(str(tmp_path / "d.zarr"), "w", format="zarr2") as group:
        group.create_dimension("n", 3)
        times = np.array(["1400-01-01", "2024-02-29", "NaT"], "M8[s]")
        group.create_variable("time", ("n",), data=times)
        group.create_variable("step", ("n",), data=np.array([1, 2, "NaT"], "m8[ms]"))
        group.create_variable("flag", ("n",), data=np.array([True, False, True]))
        file = written(group, tmp_path / "d.nc")
        coder = xarray.coders.CFDatetimeCoder(time_unit="s")  # nanoseconds end in 1677
        with xarray.open_dataset(file, engine="netcdf4", decode_times=coder) as found:
            assert found["time"].values.astype("M8[s]").tolist() == times.tolist()
            assert (
                found["step"].values.astype("m8[ms]").tolist()
                == group.variables["step"][:].tolist()
            )
            assert found["flag"].dtype == bool


def test_a_file_of_ten_tebibytes_is_read_at_its_far_end(tmp_path: Path) -> None:
    far = {"t": 2500, "y": 1 << 19, "x": 1 << 11}
    whole = group_of(
        "",
        variable("a", "<f4", far, unlimited=("t",)),
        variable("t", "<f8", {"t": 2500}, unlimited=("t",)),
    )
    content = file_content(whole, CLASSIC, lambda _: ())
    plan = planned(content)
    last = plan.places[0].begin + 2500 * plan.record_bytes - 4 - 8
    with open(tmp_path / "far.nc", "wb") as file:
        file.write(plan.header)
        file.seek(last - plan.places[0].begin % 4)
        file.write(np.array([7.5], ">f4").tobytes() + np.array([2.25], ">f8").tobytes())
        assert file.tell() == plan.size
    with netCDF4.Dataset(tmp_path / "far.nc") as found:
        assert found.file_format == FORMATS[5]
        assert found["a"].shape == tuple(far.values())
        assert found["a"][-1, -1, -2:].tolist() == [0, 7.5]
        assert found["t"][-2:].tolist() == [0, 2.25]
    header = ncdump(tmp_path / "far.nc", "-h")
    assert "t = UNLIMITED ; // (2500 currently)" in header


@pytest.mark.parametrize("case", zarr2_cases(), ids=lambda case: case.name)
def test_every_array_of_the_reference_is_read_by_netcdf_c(case: Path, tmp_path: Path) -> None:
    known = load(case)
    with library.open(str(known.store)) as group:
        file = written(group, tmp_path / "d.nc")
        dumped = ncdump(file)
        with stored(file) as found:
            for name, variable in found.variables.items():
                assert f" {name}" in dumped
                values = known.values.get(name, known.values.get(""))
                if values is not None and values.dtype.kind in "iufM":
                    np.testing.assert_array_equal(np.asarray(variable[...]), values)


@settings(max_examples=40)
@given(data=st.data(), layout=st.sampled_from(["nczarr-L3", "nczarr-L1", "zarr2"]))
def test_datasets_at_random_are_read_by_netcdf_c_as_they_are(
    data: st.DataObject, layout: str
) -> None:
    wanted = data.draw(hierarchies.groups(layout, {}))
    with TemporaryDirectory() as folder:
        place = Path(folder)
        with library.open(str(place / "d.zarr"), "w", format=layout) as group:
            hierarchies.make(group, wanted)
        with library.open(str(place / "d.zarr")) as group:
            content = content_of(group)
            with stored(written(group, place / "d.nc")) as found:
                assert_shown(content, group, found)


def assert_shown(content: FileContent, group: Group, found: Any) -> None:
    """An open file has the names of a content, and the values of a group's variables."""
    root = content.root
    assert found.ncattrs() == [attribute.name for attribute in root.attributes]
    assert list(found.dimensions) == [dimension.name for dimension in root.dimensions]
    assert list(found.variables) == [variable.name for variable in root.variables]
    for shown in root.variables:
        read = found[shown.name]
        assert read.ncattrs() == [attribute.name for attribute in shown.attributes]
        assert read.dimensions == tuple(dimension.name for dimension in shown.dimensions)
        assert read.shape == shown.shape
        stated = shown.values.variable
        values = np.asarray(group.variables[stated.path][...])
        elements = np.asarray(read[...])
        if len(shown.dimensions) > len(stated.dimensions):  # text
            rows = elements.reshape(values.size, shown.shape[-1])
            texts = [
                text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
                for text in values.reshape(-1).tolist()
            ]
            assert [row.tobytes().rstrip(b"\0") for row in rows] == texts
        else:
            native = elements.astype(elements.dtype.newbyteorder("="))
            assert native.tobytes() == np.ascontiguousarray(values).tobytes()
