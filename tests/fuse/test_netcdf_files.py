"""Groups as netCDF files on a real mount, read by programs that know netCDF alone."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from siphon.cdmr import ncstream as siphon

import nczfs
from tests.support.looking import store_served
from tests.support.mounts import Served, mounted
from tests.support.mounts import nczfs as nczfs_command
from tests.support.netcdf import assert_same, ncdump, stored

FILES = ("d.nc", "d.classic.nc")
FIELD = np.arange(7 * 5 * 6, dtype="f4").reshape(7, 5, 6)


def write_dataset(url: str, layout: str = "nczarr-L2l") -> None:
    with nczfs.open(url, "w", format=layout) as root:
        root.create_dimension("time", None)
        root.create_dimension("lat", 5)
        root.create_dimension("lon", 6)
        root.attrs["title"] = "a field"
        hours = {"units": "hours since 2020-01-01", "calendar": "standard"}
        root.create_variable("time", ("time",), "f8", attributes=hours)
        for name, count in (("lat", 5), ("lon", 6)):
            values = np.linspace(0, 10, count)
            units = {"units": f"degrees_{'north' if name == 'lat' else 'east'}"}
            root.create_variable(name, (name,), data=values, attributes=units)
        root.create_variable("t2m", ("time", "lat", "lon"), "f4", chunks=(2, 5, 6))
        root.create_variable("count", ("time",), "i2")
        root.resize_dimension("time", 7)
        root.variables["time"][:] = np.arange(7.0)
        root.variables["t2m"][:] = FIELD
        root.variables["count"][:] = np.arange(7)
        root.create_variable("height", (), data=np.float32(2.5), attributes={"units": "m"})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("store")
    write_dataset(str(directory / "d.zarr"))
    return directory


@pytest.fixture(scope="module")
def mount(store: Path) -> Iterator[Path]:
    with mounted(store) as path:
        yield path


def test_a_group_is_a_stream_for_siphon_and_for_copies(mount: Path, tmp_path: Path) -> None:
    """SEMANTICS D24."""
    group = mount / "datasets/d.zarr"
    subprocess.run(["cp", group / "d.ncs", tmp_path], check=True, timeout=60)
    data = (tmp_path / "d.ncs").read_bytes()
    assert os.stat(group / "d.ncs").st_size == len(data)
    header, *arrays = siphon.read_ncstream_messages(io.BytesIO(data[4:-4]))
    found = dict(zip([v.name for v in header.root.vars], arrays, strict=True))
    for name, values in found.items():
        np.testing.assert_array_equal(
            values.reshape(-1), np.load(group / f"{name}/values.npy").reshape(-1)
        )


@pytest.mark.parametrize("name", FILES)
def test_a_group_is_a_netcdf_file(mount: Path, store: Path, tmp_path: Path, name: str) -> None:
    live = mount / "datasets/d.zarr" / name
    real = tmp_path / "real.nc"
    kind = "netcdf4" if name == "d.nc" else "classic"
    done = nczfs_command("export", "--kind", kind, store / "d.zarr", real)
    assert done.returncode == 0, done.stderr
    with stored(live) as one, stored(real) as other:
        assert_same(one, other)
    assert ncdump(live, "-h") == ncdump(real, "-h")


@pytest.mark.parametrize("name", FILES)
def test_the_file_has_the_size_that_stat_tells_and_the_same_bytes_in_every_mount(
    mount: Path, store: Path, name: str
) -> None:
    """SEMANTICS D17."""
    place = f"datasets/d.zarr/{name}"
    data = (mount / place).read_bytes()
    assert (mount / place).stat().st_size == len(data)
    with mounted(store, "--read-only") as other:
        assert (other / place).read_bytes() == data


def test_a_variable_has_a_file_with_its_coordinates(mount: Path) -> None:
    """SEMANTICS D17."""
    with stored(mount / "datasets/d.zarr/t2m/t2m.nc") as file:
        assert sorted(file.variables) == ["lat", "lon", "t2m", "time"]
        np.testing.assert_array_equal(file["t2m"][:], FIELD)
        assert file["time"].units == "hours since 2020-01-01"


@pytest.mark.parametrize("name", FILES)
def test_values_are_changed_in_place(tmp_path: Path, name: str) -> None:
    """SEMANTICS W48."""
    write_dataset(str(tmp_path / "d.zarr"))
    with mounted(tmp_path) as mount:
        with netCDF4.Dataset(mount / "datasets/d.zarr" / name, "r+") as file:
            file["t2m"][3, 2, 1:4] = [1, 2, 3]
            file["height"][...] = 10
        changed = FIELD.copy()
        changed[3, 2, 1:4] = [1, 2, 3]
        with nczfs.open(str(tmp_path / "d.zarr")) as root:
            np.testing.assert_array_equal(np.asarray(root["t2m"]), changed)
            assert np.asarray(root["height"]) == 10


@pytest.mark.parametrize("name", FILES)
def test_a_new_variable_is_refused_and_nothing_has_changed(tmp_path: Path, name: str) -> None:
    """SEMANTICS W48."""
    write_dataset(str(tmp_path / "d.zarr"))
    with mounted(tmp_path, expect="EPERM") as mount:
        live = mount / "datasets/d.zarr" / name
        before = live.read_bytes()
        code = (
            "import netCDF4, sys; f = netCDF4.Dataset(sys.argv[1], 'r+'); "
            "f.createVariable('new', 'f4', ('lat',))[:] = 1; f.close()"
        )
        subprocess.run([sys.executable, "-c", code, str(live)], capture_output=True, check=False)
        assert live.read_bytes() == before
        assert not (mount / "datasets/d.zarr/new").exists()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", [("cp", "NEW", "LIVE"), ("truncate", "-s", "100", "LIVE")])
def test_a_file_of_a_group_with_content_is_not_replaced(
    store: Path, tmp_path: Path, name: str, command: tuple[str, ...]
) -> None:
    """SEMANTICS W49."""
    with mounted(store, expect="EPERM") as mount:
        live = mount / "datasets/d.zarr" / name
        before = live.read_bytes()
        new = tmp_path / "new.nc"
        shutil.copy(live, new)
        words = [word.replace("NEW", str(new)).replace("LIVE", str(live)) for word in command]
        done = subprocess.run(words, capture_output=True, check=False, text=True)
        assert done.returncode == 1
        assert "Operation not permitted" in done.stderr
        assert live.read_bytes() == before


@pytest.mark.parametrize("name", FILES)
def test_a_program_that_opens_the_file_after_records_were_added_sees_them(
    tmp_path: Path, name: str
) -> None:
    """SEMANTICS D18."""
    write_dataset(str(tmp_path / "d.zarr"))
    with mounted(tmp_path) as mount:
        live = mount / "datasets/d.zarr" / name
        with stored(live) as old:
            with nczfs.open(str(tmp_path / "d.zarr"), "r+") as root:
                root.resize_dimension("time", 8)
                root.variables["t2m"][7] = 99
            with stored(live) as new:
                assert new["t2m"].shape == (8, 5, 6)
                assert (new["t2m"][7] == 99).all()
            # What was open goes on as it was.
            np.testing.assert_array_equal(old["t2m"][:], FIELD)


def test_a_pipe_is_enough_to_read_a_classic_file(mount: Path) -> None:
    live = mount / "datasets/d.zarr/d.classic.nc"
    copied = subprocess.run(["cat", str(live)], capture_output=True, check=True).stdout
    with netCDF4.Dataset("memory", memory=copied) as file:
        np.testing.assert_array_equal(file["t2m"][:], FIELD)


def test_a_listing_reads_no_member(store: Path) -> None:
    with store_served(store) as served:
        assert isinstance(served, Served)
        names = os.listdir(served.path / "datasets/d.zarr")
    assert set(FILES) <= set(names)


def test_dimensions_of_pure_zarr_become_unlimited_by_option(tmp_path: Path) -> None:
    write_dataset(str(tmp_path / "d.zarr"), "zarr2")
    with (
        mounted(tmp_path, "--record-dim", "time") as mount,
        stored(mount / "datasets/d.zarr/d.nc") as file,
        stored(mount / "datasets/d.zarr/d.classic.nc") as classic,
    ):
        assert file.dimensions["time"].isunlimited()
        assert classic.dimensions["time"].isunlimited()
