"""``nczfs export``, on the command line."""

from __future__ import annotations

import os
from pathlib import Path

import netCDF4
import pytest

from nczfs.cli.export import kind_name
from nczfs.cli.main import main
from nczfs.errors import UsageError

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
