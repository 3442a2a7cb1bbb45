"""``nczfs import``, on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal

import h5py
import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.cli.transfers import READ_WRONGLY

CDL = """netcdf small {
dimensions: t = UNLIMITED; x = 3;
variables: float v(t, x); v:units = "K"; string s(x);
data: v = 1, 2, 3, 4, 5, 6; s = "one", "three", ""; }"""


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as dataset:
        dataset.createDimension("t", None)
        dataset.createDimension("x", 3)
        dataset.createVariable("v", "f4", ("t", "x"))[:] = np.arange(6).reshape(2, 3)
    return tmp_path / "a.nc"


def line(capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on stderr."""
    error = capsys.readouterr().err
    assert error.startswith("nczfs: ")
    assert error.count("\n") == 1
    return error


def test_a_file_becomes_a_dataset(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = file.parent / "d"
    assert run("import", file, target) == 0
    assert capsys.readouterr() == ("", f"nczfs: {READ_WRONGLY}\n")
    with nczfs.open(str(target)) as dataset:
        assert dataset.variables["v"][...].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert dataset.header.format == "nczarr-L3"


@pytest.mark.parametrize("kind", ["NETCDF4", "NETCDF3_CLASSIC"])
@pytest.mark.parametrize("words", [[], ["--consolidated"], ["--format", "zarr"]])
def test_verify_says_nothing_of_what_was_just_imported(
    kind: Literal["NETCDF4", "NETCDF3_CLASSIC"],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fills = {"f4": np.nan, "f8": 1e20, "i2": -32768, "i1": False, "i4": None, "S1": "x"}
    with netCDF4.Dataset(tmp_path / "a.nc", "w", format=kind) as dataset:
        dataset.title = "clean"
        dataset.createDimension("t", None)
        dataset.createDimension("x", 3)
        for dtype, fill in fills.items():
            variable = dataset.createVariable(f"v_{dtype}", dtype, ("t", "x"), fill_value=fill)
            variable.units = "K"
            variable[0] = np.zeros(3, dtype)
        dataset.createVariable("hole", "f4", ("t", "x"), fill_value=-999.0)
        dataset.createVariable("scalar", "f8", ())[...] = 3
        if kind == "NETCDF4":
            dataset.createGroup("g").createVariable("s", str, ("x",))[0] = "text"
            dataset.createGroup("notes").comment = "a group of attributes"
    assert run("import", tmp_path / "a.nc", tmp_path / "d", *words) == 0
    assert run("verify", tmp_path / "d") == 0
    out, error = capsys.readouterr()
    assert out == ""
    assert error.endswith(": 0 errors, 0 notes\n")


@pytest.mark.parametrize("name", ["small.cdl", "small.txt"])
def test_cdl_is_known_by_its_name_or_by_how_it_begins(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("// a comment\n" + CDL)
    assert run("import", tmp_path / name, tmp_path / "d") == 0
    with nczfs.open(str(tmp_path / "d")) as dataset:
        assert dataset.variables["s"][...].tolist() == ["one", "three", ""]


@pytest.mark.parametrize(
    ("fragment", "words", "format_name"),
    [
        ("", [], "nczarr-L3"),
        ("#mode=zarr,file", [], "zarr2"),
        ("#mode=nczarr,file", [], "nczarr-L3"),
        ("#mode=nczarr,file", ["--format", "zarr"], "zarr2"),
        ("", ["--format", "nczarr"], "nczarr-L3"),
        ("", ["--format", "nczarr-L2l"], "nczarr-L2l"),
    ],
)
def test_the_format_is_that_of_the_option_or_of_the_url(
    file: Path, fragment: str, words: list[str], format_name: str
) -> None:
    assert run("import", file, f"file://{file.parent}/d{fragment}", *words) == 0
    with nczfs.open(str(file.parent / "d")) as dataset:
        assert dataset.header.format == format_name


def test_chunks_codecs_and_fixed_dimensions_are_taken_from_the_options(file: Path) -> None:
    target = file.parent / "d"
    words = ["--chunks", "t=4,x=2", "--codecs", "shuffle,zstd:3", "--fixed", "--consolidated"]
    assert run("import", file, target, *words) == 0
    with nczfs.open(str(target)) as dataset:
        variable = dataset.variables["v"]
        assert variable.chunks == (2, 2)
        names = [codec.name for codec in variable.description.array.codecs.codecs]
        assert names == ["shuffle", "zstd"]
        assert not dataset.dimensions["t"].unlimited
    assert (target / ".zmetadata").exists()


def test_a_string_that_is_too_long_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.cdl").write_text(CDL)
    assert run("import", tmp_path / "s.cdl", tmp_path / "d", "--string-bytes", "4") == 1
    told, error = capsys.readouterr().err.splitlines()
    assert told.endswith("what was written there has been removed")
    assert error.startswith("nczfs: /s: ")
    assert "'three' has 5 bytes, an element 4" in error
    assert run("import", tmp_path / "s.cdl", tmp_path / "d", "--string-bytes", "9") == 0
    with nczfs.open(str(tmp_path / "d")) as dataset:
        assert dataset.variables["s"].description.array.dtype.item_size == 9


def test_a_dataset_is_replaced_only_when_told(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = file.parent / "d"
    (file.parent / "s.cdl").write_text(CDL)
    assert run("import", file.parent / "s.cdl", target, "--codecs", "none") == 0
    assert run("import", file, target) == 1
    assert "--overwrite replaces the dataset" in line(capsys)
    assert run("import", file, target, "--overwrite") == 0
    assert not (target / "s").exists()


def test_a_dataset_is_no_file_to_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.cdl").write_text(CDL)
    for name in ("d", "z.zip"):
        assert run("import", tmp_path / "a.cdl", tmp_path / name, "--codecs", "none") == 0
        assert run("import", tmp_path / name, tmp_path / "new") == 2
        assert "`nczfs cp` copies datasets" in line(capsys)


def test_a_directory_that_is_made_above_the_dataset_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.cdl").write_text(CDL)
    assert run("import", tmp_path / "a.cdl", tmp_path / "typo/d", "--codecs", "none") == 0
    assert line(capsys) == f"nczfs: {tmp_path}/typo: did not exist, and was made\n"


def test_an_archive_that_took_nothing_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a.cdl").write_text(CDL)
    words = [
        sys.executable,
        "-m",
        "nczfs.cli.main",
        "import",
        tmp_path / "a.cdl",
        tmp_path / "b.zip",
    ]
    done = subprocess.run(
        ["prlimit", "--fsize=1000", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.endswith("b.zip: File too large\n")
    assert os.listdir(tmp_path) == ["a.cdl"]


def test_what_is_no_dataset_is_never_overwritten(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file.parent / "d").mkdir()
    (file.parent / "d/letter").write_text("dear")
    assert run("import", file, file.parent / "d", "--overwrite") == 1
    assert "nothing was deleted or written" in line(capsys)
    assert os.listdir(file.parent / "d") == ["letter"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file"),
        (b"hello", "NetCDF: Unknown file format"),
        (b"CDF\1abc", "NetCDF"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5 cannot read it"),
        (b"netcdf a { dimensions: x = ; }", "a.nc:1: "),
    ],
)
def test_a_file_that_is_none_is_named_and_nothing_is_made(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "a.nc").write_bytes(content)
    assert run("import", tmp_path / "a.nc", tmp_path / "d") == 1
    error = line(capsys)
    assert str(tmp_path / "a.nc") in error
    assert message in error
    assert not (tmp_path / "d").exists()


def test_a_place_that_cannot_be_written_is_named(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("import", file, "/proc/nothing/d") == 1
    assert "/proc/nothing/d: cannot be created" in line(capsys)


@pytest.mark.parametrize(
    "words",
    [
        ["--format", "hdf5"],
        ["--chunks", "time"],
        ["--chunks", "nosuch=3"],
        ["--codecs", "zip"],
        ["--string-bytes", "0"],
    ],
)
def test_wrong_options_are_wrong_usage(
    words: list[str], file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("import", file, file.parent / "d", *words) == 2
    line(capsys)
    assert not (file.parent / "d").exists()


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A file with a chunk in its middle that cannot be decoded."""
    path = tmp_path / "broken.nc"
    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 200_000)
        variable = file.createVariable("v", "f8", ("x",), zlib=True, chunksizes=(10_000,))
        variable[:] = np.random.default_rng(0).random(200_000)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 100_000] = bytes(100_000)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("target", ["new.zarr", "a/b/new.zarr", "new.zip"])
def test_an_import_that_fails_leaves_nothing_that_was_not_there(broken: Path, target: str) -> None:
    assert run("import", broken, broken.parent / target) == 1
    assert os.listdir(broken.parent) == ["broken.nc"]


def test_an_import_that_fails_leaves_a_store_that_was_there_as_it_was(
    broken: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    (kept / "empty").mkdir(parents=True)
    (kept / "a").mkdir()
    assert run("create", kept / "a/b.zarr") == 0
    before = tree_of(kept)
    assert run("import", broken, kept / "empty") == 1
    assert run("import", broken, kept / "a/c.zarr") == 1
    assert run("import", broken, kept / "a/b.zarr") == 1
    assert tree_of(kept) == before


def tree_of(top: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else None
        for path in top.rglob("*")
    }


def test_a_file_that_would_end_the_library_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "loop.nc", "w", track_order=True) as file:
        file.create_group("g", track_order=True)["up"] = file["/"]
    assert run("import", tmp_path / "loop.nc", tmp_path / "d") == 1
    error = capsys.readouterr().err
    assert "loop.nc: " in error
    assert "the group '/' contains itself" in error
    assert not (tmp_path / "d").exists()


def test_an_attribute_that_no_document_can_hold_is_named_by_its_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with netCDF4.Dataset(tmp_path / "a.nc", "w") as file:
        file.long = "a" * (17 << 20)
    assert run("import", tmp_path / "a.nc", tmp_path / "d") == 1
    assert "bytes is not read (max 16777216)" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
