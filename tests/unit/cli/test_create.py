"""``nczfs create``, on the command line."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import nczfs
from nczfs.cli.main import main

MANY_CPU_S = 10.0  # ten times what is measured; it was over 30
HEADER = 'netcdf a { dimensions: x = 2; variables: int v(x); :title = "hi"; %s }'


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


def test_without_cdl_it_is_an_empty_group(tmp_path: Path) -> None:
    assert run("create", tmp_path / "d") == 0
    with nczfs.open(str(tmp_path / "d")) as dataset:
        assert list(dataset.variables) == []
        assert dataset.header.format == "nczarr-L3"


@pytest.mark.parametrize(
    ("data", "values", "chunks"),
    [("", [-2147483647] * 2, 0), ("data: v = 1, 2;", [1, 2], 1)],
)
def test_cdl_gives_the_structure_and_the_values_that_it_has(
    data: str, values: list[int], chunks: int, tmp_path: Path
) -> None:
    (tmp_path / "a.cdl").write_text(HEADER % data)
    assert run("create", "--cdl", tmp_path / "a.cdl", tmp_path / "d", "--format", "zarr2") == 0
    with nczfs.open(str(tmp_path / "d")) as dataset:
        assert dataset.attrs["title"] == "hi"
        assert dataset.variables["v"][...].tolist() == values
    assert len(list((tmp_path / "d/v").glob("[0-9]*"))) == chunks


def test_what_is_there_is_kept_unless_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.cdl").write_text(HEADER % "")
    assert run("create", "--cdl", tmp_path / "a.cdl", tmp_path / "d") == 0
    assert run("create", tmp_path / "d") == 1
    assert "--overwrite" in capsys.readouterr().err
    assert run("create", tmp_path / "d", "--overwrite", "--consolidated") == 0
    with nczfs.open(str(tmp_path / "d")) as dataset:
        assert list(dataset.variables) == []
    assert (tmp_path / "d/.zmetadata").exists()


@pytest.mark.parametrize(
    ("before", "each", "count"),
    [("", ":a%d = 1 ;", 4000), ("dimensions:", "d%d = 1 ;", 5000)],
    ids=["attributes", "dimensions"],
)
@pytest.mark.parametrize("form", ["nczarr-L3", "zarr2"])
def test_many_declarations_of_one_group_take_a_moment(
    before: str, each: str, count: int, form: str, tmp_path: Path
) -> None:
    """Their document was encoded anew for each of them: 4,000 attributes took a minute."""
    text = "\n".join(each % number for number in range(count))
    (tmp_path / "a.cdl").write_text(f"netcdf a {{\n{before}\n{text}\n}}\n")
    begun = time.process_time()
    assert run("create", "--cdl", tmp_path / "a.cdl", tmp_path / "d", "--format", form) == 0
    assert time.process_time() - begun < MANY_CPU_S
    with nczfs.open(str(tmp_path / "d")) as dataset:
        names = [f"a{number}" for number in range(count)] if not before else []
        assert list(dataset.attrs) == names
        if before and form != "zarr2":  # which has no dimensions without variables
            assert len(dataset.dimensions) == count


def test_a_mistake_in_the_cdl_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.cdl").write_text("netcdf a {\nvariables: nosuch v; }")
    assert run("create", "--cdl", tmp_path / "a.cdl", tmp_path / "d") == 1
    assert "a.cdl:2: 'nosuch' is not a type" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()
