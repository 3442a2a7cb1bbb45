"""``nczfs export``, on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.cli.export import kind_name
from nczfs.cli.main import main
from nczfs.errors import UsageError
from nczfs.model.hierarchy import CodecSpec, Json
from nczfs.tools.transfer.netcdf_kinds import HDF5_ATTRIBUTES
from tests.support.mounts import nczfs as process
from tests.support.refusing import small_disk

CDL = """netcdf a {
dimensions: t = UNLIMITED; x = 4;
variables: float v(t, x); v:_DeflateLevel = 3; int other;
data: v = 1, 2, 3, 4; other = 5; }"""


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    (tmp_path / "a.cdl").write_text(CDL)
    assert run("import", tmp_path / "a.cdl", tmp_path / "d") == 0
    (tmp_path / "a.cdl").unlink()
    return tmp_path / "d"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("netcdf4", "netcdf4"),
        ("nc4", "netcdf4"),
        ("netCDF-4", "netcdf4"),
        ("nc7", "netcdf4-classic"),
        ("netCDF-4 classic model", "netcdf4-classic"),
        ("nc3", "classic"),
        ("64-bit offset", "64bit-offset"),
        ("cdf5", "64bit-data"),
        ("64-bit data", "64bit-data"),
    ],
)
def test_kinds_have_the_names_that_nccopy_knows(word: str, kind: str) -> None:
    assert kind_name(word) == kind


def test_an_unknown_kind_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="known are netcdf4, netcdf4-classic"):
        kind_name("nc9")


def test_the_file_has_the_values_chunks_and_filters(dataset: Path) -> None:
    target = dataset.parent / "b.nc"
    assert run("export", dataset, target) == 0
    with netCDF4.Dataset(target) as file:
        assert file["v"][...].tolist() == [[1, 2, 3, 4]]
        assert file["v"].chunking() == [1, 4]
        assert file["v"].filters()["complevel"] == 3
        assert file.dimensions["t"].isunlimited()
    assert sorted(os.listdir(dataset.parent)) == ["b.nc", "d"]


def test_chunks_and_codecs_can_be_chosen(dataset: Path) -> None:
    target = dataset.parent / "b.nc"
    assert run("export", dataset, target, "--chunks", "t=7,x=2", "--codecs", "zstd:2") == 0
    with netCDF4.Dataset(target) as file:
        assert file["v"].chunking() == [7, 2]
        assert file["v"].filters()["zstd"]


def test_a_file_is_replaced_only_when_told(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = dataset.parent / "b.nc"
    target.write_text("precious")
    assert run("export", dataset, target) == 1
    assert "exists already; --overwrite replaces it" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert run("export", dataset, target, "--overwrite") == 0
    assert target.read_bytes().startswith(b"\x89HDF")


def test_after_a_failure_the_file_that_was_there_is_there_still(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = dataset.parent / "b.nc"
    target.write_text("precious")
    (chunk,) = (path for path in (dataset / "v").iterdir() if path.name == "0.0")
    chunk.write_bytes(b"not zlib")
    assert run("export", dataset, target, "--overwrite") == 1
    assert "v/0.0" in capsys.readouterr().err
    assert target.read_text() == "precious"
    assert sorted(os.listdir(dataset.parent)) == ["b.nc", "d"]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("nosuch", "b.nc", "no such directory"),
        ("d/nosuch", "b.nc", "no group or variable is there"),
        ("d", "nosuch/b.nc", "nosuch: no such directory"),
    ],
)
def test_places_that_are_not_there_are_named(
    source: str,
    target: str,
    message: str,
    dataset: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("export", dataset.parent / source, dataset.parent / target) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_wrong_options_are_wrong_usage(dataset: Path) -> None:
    assert run("export", dataset, dataset.parent / "b.nc", "--kind", "nc9") == 2
    assert run("export", dataset, dataset.parent / "b.nc", "--chunks", "y=1") == 2
    assert os.listdir(dataset.parent) == ["d"]


DECOMPOSED = "e\u0301"


def stored(top: Path, key: str, document: object) -> None:
    path = top / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """A dataset with names that netCDF takes, and names that it does not."""
    top = tmp_path / "names.zarr"
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<i4", "order": "C"}
    array |= {"compressor": None, "fill_value": 7, "filters": None}
    stored(top, ".zgroup", {"zarr_format": 2})
    stored(top, ".zattrs", {"a/b": 1, "tab\t": 1, "x" * 256: 1, "fine": 1, "with blank": 1})
    for name, dimension in (("v", "x"), ("-w", "x"), ("u", "y "), (DECOMPOSED, "x")):
        stored(top, f"{name}/.zarray", array)
        stored(top, f"{name}/.zattrs", {"_ARRAY_DIMENSIONS": [dimension], "/": "of v"})
    for group in ("g", "+g"):
        stored(top, f"{group}/.zgroup", {"zarr_format": 2})
    return top


@pytest.mark.parametrize("kind", ["netcdf4", "classic"])
def test_names_that_netcdf_cannot_hold_are_named_and_left_out(
    names: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    target = names.parent / "b.nc"
    assert run("export", names, target, "-k", kind) == 1
    assert "--skip-unsupported" in capsys.readouterr().err
    assert not target.exists()
    assert run("export", names, target, "-k", kind, "--skip-unsupported") == 0
    told = capsys.readouterr().err
    for words in (
        "/ has an attribute 'a/b' (it contains a slash): left out",
        r"/ has an attribute 'tab\t' (it contains a control character): left out",
        "(it has more than 255 bytes): left out",
        "/ has a dimension 'y ' (it ends with a blank): left out",
        "/ has a variable '-w' (it does not begin with a letter, a digit or an underscore): left",
        "/u has the dimension '/y ': left out",
        "/v has an attribute '/' (",
    ):
        assert words in told
    assert ("/ has a group '+g' (it" in told) == (kind == "netcdf4")
    with netCDF4.Dataset(target) as file:
        assert file.ncattrs() == ["fine", "with blank"]
        assert set(file.variables) == {"v", "é"}
        assert set(file.dimensions) == {"x"}
        assert set(file.groups) == ({"g"} if kind == "netcdf4" else set())
        file.set_auto_mask(False)
        assert file["é"][...].tolist() == [7, 7]


def test_a_name_that_netcdf_takes_for_another_one_is_left_out(
    names: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(names, "é/.zgroup", {"zarr_format": 2})
    assert run("export", names, names.parent / "b.nc", "--skip-unsupported") == 0
    assert "(it is the same as another one in normal form C): left out" in capsys.readouterr().err


def test_attributes_that_netcdf_c_keeps_for_itself_are_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reserved = HDF5_ATTRIBUTES - {"_NCProperties"}  # NCZarr's own, so not shown either
    stored(tmp_path / "d", ".zgroup", {"zarr_format": 2})
    stored(tmp_path / "d", ".zattrs", dict.fromkeys(reserved, 1))
    assert run("export", tmp_path / "d", tmp_path / "b.nc", "--skip-unsupported") == 0
    assert capsys.readouterr().err.count("(netCDF reserves it): left out") == len(reserved)
    with netCDF4.Dataset(tmp_path / "c.nc", "w") as file:
        for name in HDF5_ATTRIBUTES:
            with pytest.raises(AttributeError, match="in use"):
                file.setncattr(name, 1)
    assert run("export", tmp_path / "d", tmp_path / "d.nc", "-k", "classic") == 0
    with netCDF4.Dataset(tmp_path / "d.nc") as file:
        assert set(file.ncattrs()) == reserved


def blosc_dataset(path: Path, values: np.ndarray[Any, Any]) -> Path:
    with nczfs.open(str(path), "w") as root:
        root.create_dimension("x", values.size)
        root.create_variable(
            "v", ("x",), data=values, chunks=(1 << 17,), codecs=[CodecSpec("blosc", BLOSC)]
        )
    return path


@pytest.fixture
def rough(tmp_path: Path) -> Path:
    """Some 3.5 MiB that blosc makes of 4."""
    return blosc_dataset(tmp_path / "rough.zarr", np.random.default_rng(0).random(1 << 19))


BLOSC: dict[str, Json] = {"cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
KINDS = ["netcdf4", "netcdf4-classic", "classic", "64bit-data"]


@pytest.mark.parametrize("room_bytes", [0, 3 << 20], ids=["from the start", "later"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_disk_is_named_and_nothing_is_left(
    rough: Path, tmp_path: Path, kind: str, room_bytes: int
) -> None:
    with small_disk(tmp_path / "disk", 4):
        target = tmp_path / "disk/b.nc"
        (tmp_path / "disk/other").write_bytes(bytes((4 << 20) - room_bytes))
        done = process("export", rough, target, "-k", kind)
        assert done.stderr == f"nczfs: {target}: No space left on device\n"
        assert done.returncode == 1
        assert os.listdir(tmp_path / "disk") == ["other"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_of_sizes_of_files_is_named_too(rough: Path, tmp_path: Path, kind: str) -> None:
    words = [sys.executable, "-m", "nczfs.cli.main", "export", rough, tmp_path / "b.nc", "-k", kind]
    done = subprocess.run(
        ["prlimit", "--fsize=100000", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.stderr == f"nczfs: {tmp_path / 'b.nc'}: File too large\n"
    assert done.returncode == 1
    assert os.listdir(tmp_path) == ["rough.zarr"]


def test_what_libraries_print_does_not_reach_users(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(-128, 128, 1 << 20, "i1")
    noise = blosc_dataset(tmp_path / "noise.zarr", values)  # incompressible
    done = process("export", noise, tmp_path / "b.nc")
    assert done.returncode == 0
    assert re.fullmatch(
        rf"nczfs: {tmp_path}/b.nc: /v: .*; netcdf-c cannot store incompressible chunks with blosc: "
        r"zlib is used instead\n",
        done.stderr,
    )


def test_texts_without_a_fill_value_are_strings(tmp_path: Path) -> None:
    """Object arrays of zarr-python have ``"fill_value": null``."""
    dataset = tmp_path / "d.zarr"
    with nczfs.open(dataset, "w", format="zarr2") as root:
        root.create_dimension("x", 3)
        root.create_variable("v", ("x",), data=np.array(["a", "", "\N{EURO SIGN}"], object))
    document = dataset / "v" / ".zarray"
    document.write_text(json.dumps({**json.loads(document.read_bytes()), "fill_value": None}))
    assert run("export", dataset, tmp_path / "d.nc") == 0
    with netCDF4.Dataset(tmp_path / "d.nc") as file:
        assert file["v"][:].tolist() == ["a", "", "\N{EURO SIGN}"]
