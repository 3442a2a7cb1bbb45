"""A copy is proven equal: a netCDF file and datasets that netcdf-c and others wrote of it."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import netCDF4
import numpy as np
import pytest
import xarray

from nczfs.cli.demo import SAMPLE
from tests.support.mounts import nczfs

TEXTS = ["Zürich", "", "a longer name", "日本"]
FIELD = np.sin(np.arange(7 * 30 * 11)).reshape(7, 30, 11)


def write(target: str | Path) -> None:
    """A dataset of all that both the file and the store can hold; netcdf-c writes it."""
    with netCDF4.Dataset(target, "w") as dataset:
        for name, size in {"t": 7, "y": 30, "x": 11, "n": 4, "c": 6}.items():
            dataset.createDimension(name, size)
        field = dataset.createVariable(
            "t2m", "f4", ("t", "y", "x"), zlib=True, chunksizes=(2, 7, 11)
        )
        field[:] = FIELD
        packed = dataset.createVariable("packed", "i2", ("y", "x"), fill_value=-1)
        packed.scale_factor, packed.add_offset = 0.5, 10.0
        packed.set_auto_maskandscale(False)
        packed[:20] = np.arange(220, dtype="i2").reshape(20, 11)
        for code in ("i1", "u1", "u2", "i4", "u4", "i8", "u8", "f8"):
            dataset.createVariable(code, code, ("n",))[:] = np.arange(100, 104)
        text = dataset.createVariable("text", "S1", ("n", "c"))
        text[:] = np.array([list("abcdef"), list("gh    "), [""] * 6, list("xyz\0\0\0")], "S1")
        dataset.createVariable("level", "f8", ())[...] = 2.5
        group = dataset.createGroup("ocean").createGroup("deep")
        group.createVariable("salt", ">f4", ("y", "x"), endian="big")[:] = FIELD[0]
        names = group.createVariable("names", str, ("n",))
        names[:] = np.array(TEXTS, object)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same as a netCDF-4 file, and as a dataset of NCZarr."""
    place = tmp_path_factory.mktemp("copies")
    write(place / "a.nc")
    write(f"file://{place}/a.zarr#mode=nczarr,file")
    return place / "a.nc", place / "a.zarr"


def digests(*arguments: str | Path) -> dict[str, str]:
    done = nczfs("verify", "--digest", *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = [line.split("  ", 1) for line in done.stdout.splitlines()]
    assert [path for _, path in lines] == sorted(path for _, path in lines)
    return {path: value for value, path in lines}


def test_a_file_and_its_copy_as_nczarr_have_the_same_digests(copies: tuple[Path, Path]) -> None:
    file, store = copies
    of_file = digests(file)
    assert of_file == digests(store)
    assert len(of_file) == 14
    assert of_file["/t2m"] == hashlib.sha256(FIELD.astype("<f4").tobytes()).hexdigest()
    texts = b"".join(len(t.encode()).to_bytes(4, "little") + t.encode() for t in TEXTS)
    assert of_file["/ocean/deep/names"] == hashlib.sha256(texts).hexdigest()
    assert of_file["/text"] == hashlib.sha256(b"abcdefgh    \0\0\0\0\0\0xyz\0\0\0").hexdigest()


def test_a_part_has_the_digests_of_the_whole(copies: tuple[Path, Path]) -> None:
    file, store = copies
    assert digests(store / "t2m") == {"/t2m": digests(file)["/t2m"]}


def test_a_classic_file_and_its_copy_by_xarray_have_the_same_digests(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "c.nc", "w", format="NETCDF3_64BIT_OFFSET") as dataset:
        dataset.createDimension("time", None)
        dataset.createDimension("x", 11)
        dataset.createVariable("v", "i2", ("time", "x"))[:30] = np.arange(330).reshape(30, 11)
        dataset.createVariable("x", "f8", ("x",))[:] = np.linspace(0, 1, 11)
    with xarray.open_dataset(tmp_path / "c.nc", mask_and_scale=False) as found:
        found.to_zarr(tmp_path / "c.zarr", zarr_format=2, encoding={"v": {"chunks": (7, 4)}})
    assert digests(tmp_path / "c.nc") == digests(tmp_path / "c.zarr")


def test_a_value_that_differs_is_seen(copies: tuple[Path, Path], tmp_path: Path) -> None:
    file, _ = copies
    changed = tmp_path / "changed.nc"
    changed.write_bytes(file.read_bytes())
    before = digests(file)
    with netCDF4.Dataset(changed, "a") as dataset:
        dataset["ocean/deep/salt"][29, 10] = 0.0
    after = digests(changed)
    assert {path for path in before if before[path] != after[path]} == {"/ocean/deep/salt"}


def test_types_that_a_user_defined_are_refused_by_name_and_alone(tmp_path: Path) -> None:
    with netCDF4.Dataset(tmp_path / "u.nc", "w") as dataset:
        dataset.createDimension("n", 3)
        dataset.createVariable("plain", "i4", ("n",))[:] = [1, 2, 3]
        ragged = dataset.createVLType("i4", "ragged_t")
        dataset.createVariable("ragged", ragged, ("n",))
        flags = dataset.createEnumType("u1", "flag_t", {"off": 0, "on": 1})
        dataset.createVariable("flags", flags, ("n",))[:] = np.zeros(3, "u1")
    done = nczfs("verify", "--digest", tmp_path / "u.nc")
    assert done.returncode == 1
    assert (
        done.stdout
        == hashlib.sha256(np.array([1, 2, 3], "<i4").tobytes()).hexdigest() + "  /plain\n"
    )
    assert [line.split(":")[0] for line in done.stderr.splitlines()] == [
        "error /flags",
        "error /ragged",
    ]
    assert "'ragged_t'" in done.stderr


def test_a_variable_that_netcdf4_leaves_out_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "o.cdl").write_text(
        "netcdf o { types: opaque(4) blob_t; dimensions: n = 2; "
        "variables: blob_t blob(n); int x(n); data: x = 1, 2; }"
    )
    subprocess.run(["ncgen", "-4", "-o", "o.nc", "o.cdl"], check=True, cwd=tmp_path)
    done = nczfs("verify", "--digest", tmp_path / "o.nc")
    assert done.returncode == 1
    assert done.stdout.endswith("  /x\n")
    assert done.stderr.count("\n") == 1
    assert "variable 'blob' has unsupported datatype" in done.stderr


def test_a_broken_file_is_an_error_of_one_line(copies: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "torn.nc").write_bytes(copies[0].read_bytes()[:3000])
    done = nczfs("verify", "--digest", tmp_path / "torn.nc")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "torn.nc" in done.stderr.splitlines()[-1]


def test_a_file_is_no_store_to_be_verified(copies: tuple[Path, Path]) -> None:
    done = nczfs("verify", copies[0])
    assert done.returncode == 2
    assert "is a netCDF file, not a store; `nczfs verify --digest` prints" in done.stderr


def test_netcdf_c_reads_the_sample_to_the_same_digests() -> None:
    found = digests(SAMPLE)
    with netCDF4.Dataset(f"file://{SAMPLE}#mode=nczarr,file") as dataset:
        dataset.set_auto_maskandscale(False)
        expected = {
            f"/{name}": hashlib.sha256(
                variable[...].astype(variable.dtype.newbyteorder("<")).tobytes()
            ).hexdigest()
            for name, variable in dataset.variables.items()
        }
    assert found == expected
