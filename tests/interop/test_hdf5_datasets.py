"""NetCDF-4 files of datasets, compared with the files that these were made of."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5netcdf
import h5py
import iris_sample_data
import netCDF4
import numpy as np
import pytest

import nczfs as library
from nczfs.buffers import Values
from nczfs.engine.options import Tally
from nczfs.library.api import Group
from nczfs.model.hierarchy import Variable
from nczfs.views.elements import ArrayElements
from nczfs.views.layout import Layout
from nczfs.views.netcdf.fitting import file_content
from nczfs.views.netcdf.hdf5.layout import hdf5_layout
from nczfs.views.netcdf.hdf5.templates import Templates
from nczfs.views.netcdf.kinds import NETCDF4
from nczfs.views.reader import read_at
from nczfs.views.writer import write_at
from tests.support.mounts import nczfs
from tests.support.netcdf import assert_same, ncdump, stored
from tests.support.netcdf_contents import write_file
from tests.support.reference import load, reference_root, zarr2_cases

SAMPLES = Path(iris_sample_data.path)
REAL = [
    *(
        path
        for path in sorted((reference_root() or Path("/nowhere")).glob("real/*.nc"))
        if path.stem != "eraint_uvz"  # with fill values that netCDF-4 does not take: NaN of a short
    ),
    *(SAMPLES / name for name in ("SOI_Darwin.nc", "hybrid_height.nc", "vlstr_type.nc")),
]


def values(group: Group, path: str) -> Values:
    found = group[path]
    assert isinstance(found, library.Variable)
    return np.asarray(found[...])


def layout_of(group: Group) -> Layout:
    def texts(variable: Variable) -> tuple[str, ...]:
        return tuple(np.ravel(values(group, variable.path)).tolist())

    dataset = group.engine_dataset
    content = file_content(group.tree(), NETCDF4, texts)
    return hdf5_layout(content, lambda v: ArrayElements(dataset.array(v), v), Templates())


def written(group: Group, path: Path) -> Path:
    write_file(layout_of(group), path)
    return path


def imported(original: Path, directory: Path) -> str:
    nczfs("import", str(original), str(directory / "d.zarr")).check_returncode()
    return str(directory / "d.zarr")


def native(path: Path) -> Path:
    """A file of netCDF-C with groups, unlimited dimensions, and every type of elements."""
    types = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "S1"]
    with netCDF4.Dataset(path, "w") as file:
        for group in (file, file.createGroup("g"), file["g"].createGroup("deep")):
            group.createDimension("time", None)
            group.createDimension("x", 3)
            group.title = "Höhe"
            group.setncattr_string("list", ["a", "", "größe"])
            group.numbers = np.array([1, 2], "u2")
            group.empty = ""
            time = group.createVariable("time", "f8", ("time",))
            time.units = "days since 2000-01-01"
            for code in types:
                made = group.createVariable(f"of_{code}", code, ("time", "x"))
                made.units = "1"
                numbers = np.arange(6, dtype="u1").reshape(2, 3)
                made[...] = numbers.view("S1") if code == "S1" else numbers.astype(code)
            time[:] = [0.5, 1.5]
            group.createVariable("text", str, ("x",))[:] = np.array(["a", "", "größe"], object)
            group.createVariable("scalar", "i4", ())[...] = 7
            group.createVariable("filled", "i2", ("x",), fill_value=-9)[:] = [1, -9, 3]
            group.createVariable("never", "i2", ("x",))
    return path


def test_every_kind_of_member_is_shown_as_in_the_file_of_netcdf_c(tmp_path: Path) -> None:
    original = native(tmp_path / "native.nc")
    with library.open(imported(original, tmp_path)) as group:
        file = written(group, tmp_path / "ours.nc")
    with stored(original) as one, stored(file) as other:
        assert_same(one, other)
    assert ncdump(original) == ncdump(file)
    with netCDF4.Dataset(file) as dataset:
        assert dataset["g/deep/filled"][:].mask.tolist() == [False, True, False]
        assert dataset["g/never"][:].mask.all()


@pytest.mark.parametrize("original", REAL, ids=lambda path: path.stem)
def test_the_file_of_an_imported_file_is_shown_as_that(original: Path, tmp_path: Path) -> None:
    with library.open(imported(original, tmp_path)) as group:
        file = written(group, tmp_path / original.name)
    with stored(original) as one, stored(file) as other:
        assert_same(one, other)
    assert ncdump(original) == ncdump(file)


@pytest.mark.filterwarnings("ignore:WARNING. variable 'V3' has unsupported datatype")  # opaque
@pytest.mark.parametrize("case", zarr2_cases(), ids=lambda case: case.name)
def test_every_array_of_the_reference_is_read(case: Path, tmp_path: Path) -> None:
    known = load(case)
    with library.open(str(known.store)) as group:
        file = written(group, tmp_path / "d.nc")
    ncdump(file)
    with stored(file) as found, h5netcdf.File(file, "r") as read:
        for name, variable in found.variables.items():
            wanted = known.values.get(name, known.values.get(""))
            assert name in read.variables
            if wanted is not None and wanted.dtype.kind in "iufM":
                np.testing.assert_array_equal(np.asarray(variable[...]), wanted)
                np.testing.assert_array_equal(np.asarray(read[name][...]), wanted)


def test_an_edit_by_netcdf4_python_changes_only_its_elements(tmp_path: Path) -> None:
    """What netCDF-C leaves in a real file, written to the layout as a whole."""
    place = imported(native(tmp_path / "native.nc"), tmp_path)
    with library.open(place, "r+") as group:
        layout = layout_of(group)
        file = tmp_path / "ours.nc"
        write_file(layout, file)
        with netCDF4.Dataset(file, "r+") as dataset:
            dataset["of_f4"][1, 1:] = [50, 60]
            dataset["g/deep/of_S1"][0, 0] = b"z"
            dataset["time"][1] = 9.5
            dataset["scalar"][...] = 8
        write_at(layout, 0, file.read_bytes())
        assert bytes(read_at(layout, 0, layout.size, Tally())) == file.read_bytes()
    with library.open(place) as group:
        assert values(group, "of_f4").tolist() == [[0, 1, 2], [3, 50, 60]]
        assert values(group, "g/deep/of_S1")[0].tolist() == [b"z", b"\1", b"\2"]
        assert values(group, "time").tolist() == [0.5, 9.5]
        assert values(group, "scalar") == 8


def test_a_copy_by_another_library_is_the_same(tmp_path: Path) -> None:
    """h5py opens, follows and copies every object."""
    with library.open(imported(native(tmp_path / "native.nc"), tmp_path)) as group:
        file = written(group, tmp_path / "ours.nc")
    with h5py.File(file) as one, h5py.File(tmp_path / "copy.nc", "w", track_order=True) as other:
        for name in one:
            one.copy(name, other)
        assert list(other["g/deep"]) == list(one["g/deep"])
        np.testing.assert_array_equal(other["g/deep/of_f8"][...], one["g/deep/of_f8"][...])
    shutil.copy(file, tmp_path / "again.nc")
    assert ncdump(tmp_path / "again.nc") == ncdump(file)
