"""Commands that look into a store without a mount, on the sample dataset."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs as nczfs_library
from nczfs.cli.demo import SAMPLE
from nczfs.cli.main import main
from nczfs.engine.structure.ownership import UNFINISHED
from tests.support.mounts import nczfs


def out(*arguments: str | Path) -> str:
    done = nczfs(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    """The values as netcdf-c reads them."""
    with netCDF4.Dataset(f"file://{SAMPLE}#mode=nczarr,file") as dataset:
        dataset.set_auto_maskandscale(False)
        return {name: variable[...] for name, variable in dataset.variables.items()}


def test_ls_names_the_members() -> None:
    names = ["latitude", "longitude", "surface_temperature", "time", "time_bnds"]
    assert out("ls", SAMPLE).split() == names


def test_ls_long_tells_types_and_dimensions() -> None:
    row = "surface_temperature (time: 12, latitude: 18, longitude: 432)"
    (line,) = [line for line in out("ls", "-l", SAMPLE).splitlines() if line.endswith(row)]
    assert line.startswith("int16 ")


def test_ls_and_info_show_types_and_dimensions_as_the_dataset_has_them(tmp_path: Path) -> None:
    text = 'netcdf a { dimensions: t = UNLIMITED; variables: string s(t); data: s = "a", "b"; }'
    (tmp_path / "a.cdl").write_text(text)
    assert nczfs("import", tmp_path / "a.cdl", tmp_path / "d").returncode == 0
    assert out("ls", "-l", tmp_path / "d").splitlines()[1].split()[0] == "string"
    (dimension,) = json.loads(out("info", tmp_path / "d/s"))["dimensions"]
    assert dimension["unlimited"] is True


def test_ls_json_is_for_programs() -> None:
    rows = {row["name"]: row for row in json.loads(out("ls", "--json", SAMPLE))}
    assert rows["surface_temperature"]["shape"] == [12, 18, 432]
    assert rows["latitude"]["dtype"] == "float32"


def test_ls_of_what_is_no_dataset_names_what_is_there(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "store/ostia.zarr")
    (tmp_path / "store/README").write_text("hello")
    assert out("ls", tmp_path / "store") == "README\nostia.zarr/\n"
    lines = [line.split() for line in out("ls", "-l", tmp_path / "store").splitlines()[1:]]
    assert lines == [["object", "-", "5B", "-", "README"], ["prefix", "-", "-", "-", "ostia.zarr/"]]


def test_ls_of_an_empty_store_says_that_it_is_empty(tmp_path: Path) -> None:
    done = nczfs("ls", tmp_path)
    assert (done.returncode, done.stderr) == (1, f"nczfs: {tmp_path}: is empty\n")


def test_a_place_below_a_file_is_told_to_be_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    done = nczfs("cat", tmp_path / "empty.zip/v")
    assert "empty.zip/v: no such directory (a file is in its place, or above it)" in done.stderr


def test_a_variable_in_an_archive_in_an_archive_is_read(tmp_path: Path) -> None:
    inner = shutil.make_archive(str(tmp_path / "inner"), "zip", SAMPLE)
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.write(inner, "inner.zip")
    assert out("cat", "--json", tmp_path / "outer.zip/inner.zip/time") == out(
        "cat", "--json", SAMPLE / "time"
    )


def test_ls_of_nothing_is_an_error_of_one_line(tmp_path: Path) -> None:
    done = nczfs("ls", tmp_path / "absent")
    assert done.returncode == 1
    assert done.stderr.startswith("nczfs: ")
    assert done.stderr.count("\n") == 1


def test_info_is_the_documents_of_the_mount() -> None:
    info = json.loads(out("info", SAMPLE / "surface_temperature"))
    assert info["shape"] == [12, 18, 432]
    assert info["attributes"]["units"] == "K"
    assert json.loads(out("info", SAMPLE))["attributes"]["Conventions"] == "CF-1.5"


def test_cat_text_is_a_line_a_value(reference: dict[str, np.ndarray]) -> None:
    lines = out("cat", "--text", SAMPLE / "time").splitlines()
    assert [float(line) for line in lines] == reference["time"].tolist()
    assert len({len(line) for line in lines}) == 1


def test_cat_takes_a_box(reference: dict[str, np.ndarray]) -> None:
    text = out("cat", "--json", "--box", "1, 10:16:3, ...", SAMPLE / "surface_temperature")
    assert json.loads(text) == reference["surface_temperature"][1, 10:16:3].tolist()
    assert out("cat", "--text", "-b", "0", SAMPLE / "time").strip() == "348804"


def test_cat_of_a_group_names_the_variables() -> None:
    done = nczfs("cat", SAMPLE)
    assert done.returncode == 2
    assert "name one of its variables (surface_temperature, time" in done.stderr


def test_a_box_outside_is_an_error_of_one_line() -> None:
    done = nczfs("cat", "-b", "12", SAMPLE / "time")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_dump_h_names_what_netcdf_c_finds() -> None:
    text = out("dump", "-h", SAMPLE)
    assert text.startswith("netcdf ostia {\n")
    with netCDF4.Dataset(f"file://{SAMPLE}#mode=nczarr,file") as dataset:
        for name, dimension in dataset.dimensions.items():
            assert f"\t{name} = {dimension.size} ;\n" in text
        for name, variable in dataset.variables.items():
            assert f" {name}({', '.join(variable.dimensions)}) ;\n" in text
            assert all(f"\t\t{name}:{attribute} = " in text for attribute in variable.ncattrs())


@pytest.mark.parametrize("command", ["ls", "ls -l", "du"])
def test_an_unfinished_dataset_is_said_to_be_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.zarr/v").mkdir(parents=True)
    (tmp_path / "d.zarr/v/0").write_bytes(b"chunk")
    (tmp_path / "d.zarr" / UNFINISHED).write_text('{"command": "cp"}')
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/notes").write_text("mine")
    assert main([*command.split(), str(tmp_path / "d.zarr")]) == 0
    assert "d.zarr: is unfinished: a copy or an import is running" in capsys.readouterr().err
    assert main([*command.split(), str(tmp_path)]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("nczfs: d.zarr: is unfinished: ")
    assert told.err.count("\n") == 1
    if command == "ls -l":
        kinds = {line.split()[-1]: line.split()[0] for line in told.out.splitlines()[1:]}
        assert kinds == {"d.zarr/": "unfinished", "plain/": "prefix"}


@pytest.mark.parametrize("layout", ["zarr2", "nczarr-L3"])
@pytest.mark.parametrize("command", ["ls", "ls -R", "du", "tree"])
def test_an_unfinished_member_of_a_dataset_is_said_to_be_one(
    command: str, layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with nczfs_library.open(str(tmp_path / "d.zarr"), "w", format=layout) as root:
        root.create_dimension("x", 2)
        root.create_variable("v", ("x",), data=np.zeros(2, "i2"))
        root.create_group("g")
    for path in ("copy", "g/copy"):
        (tmp_path / "d.zarr" / path).mkdir()
        (tmp_path / "d.zarr" / path / UNFINISHED).write_text('{"command": "cp"}')
    (tmp_path / "d.zarr/notes").mkdir()
    (tmp_path / "d.zarr/notes/README").write_text("mine")
    assert main([*command.split(), str(tmp_path / "d.zarr")]) == 0
    told = capsys.readouterr()
    found = {line.split(":")[1].strip() for line in told.err.splitlines()}
    assert found == ({"copy"} if command == "ls" else {"copy", "g/copy"})
    assert "notes" not in told.err
    if command == "tree":
        assert told.out.count("copy/  (unfinished)") == 2
