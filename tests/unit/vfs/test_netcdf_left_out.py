"""The info.json names what netCDF files leave out; a file that would show nothing is not there."""

from __future__ import annotations

import json
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.errors import ObjectTooLarge, TooManyNodes
from nczfs.vfs.base import FileSystem
from nczfs.vfs.datasets import nodefiles
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.views.netcdf.hdf5 import templates
from tests.support.trees import listing, read


def array(place: Path, dtype: str, *filters: str) -> None:
    """Make an array of two elements, without dimension names and chunks."""
    place.mkdir(parents=True, exist_ok=True)
    document = {
        "zarr_format": 2,
        "shape": [2],
        "chunks": [2],
        "dtype": dtype,
        "fill_value": None,
        "order": "C",
        "compressor": None,
        "filters": [{"id": name} for name in filters],
    }
    (place / ".zarray").write_text(json.dumps(document))


def problems(fs: FileSystem, path: str) -> list[str]:
    found: list[str] = json.loads(read(fs, f"{path}/info.json"))["problems"]
    return found


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    """A group with a number, lists of bytes, and a group of complex numbers."""
    place = tmp_path / "d.zarr"
    array(place / "number", "<f8")
    array(place / "lists", "|O", "vlen-bytes")
    array(place / "sub/waves", "<c16")
    for group in (place, place / "sub"):
        (group / ".zgroup").write_text('{"zarr_format": 2}')
    return place


def test_the_problems_of_a_group_name_what_its_files_leave_out(dataset: Path) -> None:
    """SEMANTICS D20."""
    fs = mount_tree(str(dataset))
    assert problems(fs, "datasets/d.zarr") == [
        "d.nc leaves out /lists: is of type |O bytes",
        "d.classic.nc leaves out /sub: is a group",
        "d.classic.nc leaves out /lists: is of type |O bytes",
    ]
    assert problems(fs, "datasets/d.zarr/sub") == [
        "sub.classic.nc leaves out /waves: is of type <c16"
    ]
    fs.close()


MANY = json.dumps({f"a{n}": 0 for n in range((1 << 18) + 1)})
DEEP = '{"a":' + "[" * 101 + "]" * 101 + "}"


@pytest.mark.parametrize(
    ("attributes", "why"),
    [(MANY, "members"), (DEEP, "levels"), ('{"": 1, "b": 2}', "an attribute without a name")],
    ids=["many", "deep", "nameless"],
)
@pytest.mark.parametrize("node", ["number", "sub", ""])
def test_attributes_that_cannot_be_shown_are_named_where_they_are_missing(
    dataset: Path, attributes: str, why: str, node: str
) -> None:
    """SEMANTICS D20."""
    (dataset / node / ".zattrs").write_text(attributes)
    fs = mount_tree(str(dataset))
    places = ["datasets/d.zarr/d.nc", "datasets/d.zarr/d.classic.nc"]
    if node == "number":
        places.append("datasets/d.zarr/number/number.nc")
    for place in places:
        if node == "sub" and place.endswith(".classic.nc"):
            continue  # it has no groups
        with netCDF4.Dataset("memory", memory=read(fs, place)) as file:
            lines = file.getncattr("nczfs_omitted").splitlines()
        key = f"{node}/.zattrs".lstrip("/")
        (line,) = [line for line in lines if "lacks attributes" in line]
        assert line.startswith(f"/{node}: lacks attributes: {key}: ")
        assert why in line
        if "/number/" not in place:
            name = place.rpartition("/")[2]
            assert f"{name} leaves out {line}" in problems(fs, "datasets/d.zarr")
    fs.close()


def test_what_is_wrong_with_metadata_beside_the_attributes_is_not_left_out(dataset: Path) -> None:
    """SEMANTICS D20."""
    (dataset / "number/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["x", "x", "y"], "b": 2}')
    fs = mount_tree(str(dataset))
    assert problems(fs, "datasets/d.zarr/number")
    with netCDF4.Dataset("memory", memory=read(fs, "datasets/d.zarr/number/number.nc")) as file:
        assert file["number"].ncattrs() == ["b"]
        assert "nczfs_omitted" not in file.ncattrs()
    fs.close()


def test_the_problems_are_of_files_that_the_mount_shows(dataset: Path) -> None:
    """SEMANTICS D20."""
    fs = mount_tree(str(dataset), options=VfsOptions(views=frozenset({"info.json", "nc"})))
    assert problems(fs, "datasets/d.zarr") == ["d.nc leaves out /lists: is of type |O bytes"]
    fs.close()


def test_a_variable_that_netcdf_cannot_hold_has_no_file(dataset: Path) -> None:
    """SEMANTICS D21."""
    fs = mount_tree(str(dataset))
    assert "number.nc" in listing(fs, "datasets/d.zarr/number")
    assert problems(fs, "datasets/d.zarr/number") == []
    assert "lists.nc" not in listing(fs, "datasets/d.zarr/lists")
    assert problems(fs, "datasets/d.zarr/lists") == ["lists.nc: is of type |O bytes"]
    fs.close()


def test_a_group_of_too_many_members_has_no_netcdf_file(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS A7, D20."""
    monkeypatch.setattr(nodefiles, "NODES_MAX", 3)
    fs = mount_tree(str(dataset))
    with pytest.raises(TooManyNodes, match="at most 3"):
        read(fs, "datasets/d.zarr/d.nc")
    found = problems(fs, "datasets/d.zarr")
    assert [line.partition(":")[0] for line in found] == ["d.nc", "d.classic.nc"]
    assert all("d.zarr" in line and "at most 3" in line for line in found)
    assert read(fs, "datasets/d.zarr/number/number.nc")
    assert read(fs, "datasets/d.zarr/sub/sub.nc")
    fs.close()


def test_the_problems_name_a_file_that_is_too_large(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS D20."""
    monkeypatch.setattr(templates, "MEMBERS_MAX", 3)
    fs = mount_tree(str(dataset))
    with pytest.raises(ObjectTooLarge, match="at most 3"):
        read(fs, "datasets/d.zarr/d.nc")
    found = problems(fs, "datasets/d.zarr")
    assert found[0].startswith("d.nc: cannot be made: a netCDF file of ")
    fs.close()


def test_a_group_of_nothing_but_groups_has_no_classic_file(tmp_path: Path) -> None:
    """SEMANTICS D21."""
    with nczfs.open(str(tmp_path / "d.zarr"), "w") as root:
        inner = root.create_group("outer/inner")
        inner.create_dimension("x", 2)
        inner.create_variable("v", ("x",), data=np.arange(2.0))
    fs = mount_tree(str(tmp_path / "d.zarr"))
    assert {"outer.nc", "outer.cdl"} <= set(listing(fs, "datasets/d.zarr/outer"))
    assert "outer.classic.nc" not in listing(fs, "datasets/d.zarr/outer")
    assert "inner.classic.nc" in listing(fs, "datasets/d.zarr/outer/inner")
    fs.close()


def test_an_array_that_is_a_dataset_by_itself_has_the_name_of_the_file(tmp_path: Path) -> None:
    array(tmp_path / "sst.zarr", "<f8")
    fs = mount_tree(str(tmp_path / "sst.zarr"))
    with netCDF4.Dataset("memory", memory=read(fs, "datasets/sst.zarr/sst.nc")) as file:
        assert list(file.variables) == ["sst"]
        assert file["sst"].ncattrs() == []
    fs.close()


def test_an_array_that_is_a_dataset_by_itself_names_the_file_that_it_lacks(tmp_path: Path) -> None:
    """SEMANTICS D21."""
    array(tmp_path / "lists.zarr", "|O", "vlen-bytes")
    fs = mount_tree(str(tmp_path / "lists.zarr"))
    assert problems(fs, "datasets/lists.zarr") == ["lists.nc: is of type |O bytes"]
    fs.close()
