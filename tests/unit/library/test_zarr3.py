"""Datasets of Zarr v3: made, changed and read by this library, and read by others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import xarray as xr
import zarr

import nczfs
from nczfs.cli.main import main
from nczfs.errors import NotWritable
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.model.smallnumbers import SMALL_NUMBERS
from nczfs.zmap.base import Features
from nczfs.zmap.memory import MemoryZMap

FIELD = np.arange(12, dtype="f4").reshape(3, 4)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "d.zarr")


@pytest.fixture
def made(place: str) -> str:
    """A consolidated dataset with an unlimited dimension, a group below, and text."""
    with nczfs.open(place, "w", format="zarr3", consolidated=True) as root:
        root.attrs["title"] = "t"
        root.create_dimension("time", None)
        root.create_dimension("x", 4)
        root.create_variable("v", ("time", "x"), "<f4", FIELD, chunks=(2, 4), fillvalue=-9.0)
        group = root.create_group("g")
        group.create_variable("w", ("x",), "<i2", [1, 2, 3, 4])
        group.create_variable("names", ("x",), str, ["a", "bb", "", "\u00f8"])
    return place


def document(place: str, path: str = "") -> Any:
    return json.loads((Path(place) / path / "zarr.json").read_bytes())


def copy_of(place: str) -> dict[str, Any]:
    found: dict[str, Any] = document(place)["consolidated_metadata"]["metadata"]
    return found


def check_copy(place: str) -> None:
    """Check that the consolidated metadata repeat the documents, all and only those."""
    below = [path.parent for path in Path(place).rglob("zarr.json")]
    paths = {path.relative_to(place).as_posix() for path in below} - {"."}
    assert {path: document(place, path) for path in paths} == copy_of(place)


def variable(root: nczfs.OpenDataset, path: str) -> Variable:
    found = root[path]
    assert isinstance(found, Variable)
    return found


def test_other_programs_read_what_is_made(made: str) -> None:
    root = zarr.open_group(made, mode="r", zarr_format=3)
    assert root.attrs["title"] == "t"
    assert np.array_equal(np.asarray(root["v"]), FIELD)
    assert np.asarray(root["g/names"]).tolist() == ["a", "bb", "", "\u00f8"]
    for path, values in (("v", FIELD), ("g/w", [1, 2, 3, 4])):
        kvstore = {"driver": "file", "path": f"{made}/{path}"}
        found = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
        assert np.array_equal(found.read().result(), values)
    with xr.open_zarr(made) as dataset:
        assert dataset["v"].dims == ("time", "x")
        assert np.array_equal(dataset["v"].encoding["_FillValue"], -9.0)


def test_it_is_read_again_with_its_unlimited_dimension(made: str) -> None:
    with nczfs.open(made) as root:
        assert root.header.format == "zarr3"
        found = {dimension.name: dimension.unlimited for dimension in root.tree().dimensions}
        assert found == {"time": True, "x": False}


def test_a_dimension_that_no_variable_has_yet_stays_unlimited(place: str) -> None:
    with nczfs.open(place, "w", format="zarr3") as root:
        root.create_dimension("time", None)
    with nczfs.open(place, "r+") as root:
        created = root.create_variable("v", ("time",), "i4")
        created[0:3] = [1, 2, 3]
    with nczfs.open(place) as root:
        assert variable(root, "v")[...].tolist() == [1, 2, 3]
        assert variable(root, "v").stored.dimensions[0].unlimited
    assert document(place)["attributes"] == {"_nczfs_unlimited": ["time"]}


def test_writing_beyond_the_end_extends_all_variables(made: str) -> None:
    with nczfs.open(made, "r+") as root:
        root.create_variable("t", ("time",), "i4", [1, 2, 3])
        variable(root, "v")[4] = 7
    with nczfs.open(made) as root:
        assert variable(root, "t").shape == (5,)
        assert variable(root, "v")[3].tolist() == [-9.0] * 4
    assert np.asarray(zarr.open_group(made, mode="r")["v"])[4].tolist() == [7.0] * 4
    check_copy(made)


def test_the_copy_follows_every_change(made: str) -> None:
    check_copy(made)
    with nczfs.open(made, "r+") as root:
        root.attrs["title"] = "another"
        variable(root, "v").attrs["units"] = "K"
        root.create_group("h").create_variable("n", (), "i4", 3)
    check_copy(made)
    assert document(made)["attributes"]["title"] == "another"
    with nczfs.open(made, "r+") as root:
        root.editor.rename("g", "k")
    check_copy(made)
    with nczfs.open(made, "r+") as root:
        del root["h"]
        del root["k/w"]
    check_copy(made)
    assert sorted(copy_of(made)) == ["k", "k/names", "v"]
    with nczfs.open(made, "r+") as root:
        for name in ("v", "k"):
            del root[name]
    assert copy_of(made) == {}
    with nczfs.open(made, "r+") as root:
        root.create_group("again")
    check_copy(made)


def test_a_dataset_without_a_copy_gets_none(place: str) -> None:
    with nczfs.open(place, "w", format="zarr3") as root:
        root.create_group("g")
    assert "consolidated_metadata" not in document(place)


def test_values_without_a_codec_that_readers_may_ignore_are_read_and_not_written(
    made: str,
) -> None:
    """A write was taken, and could never be stored, nor anything else after it."""
    path = Path(made) / "g/w/zarr.json"
    found = document(made, "g/w")
    found["codecs"] = [found["codecs"][0], {"name": "strange", "must_understand": False}]
    path.write_text(json.dumps(found))
    path.with_name("c").joinpath("0").write_bytes(np.array([1, 2, 3, 4], "<i2").tobytes())
    with nczfs.open(made, "a") as root:
        w = root.groups["g"].variables["w"]
        with pytest.raises(NotWritable, match=r"g/w: codec 'strange' is not known, and without it"):
            w[1] = 7
        w.attrs["units"] = "m"
        root.variables["v"][0, 0] = 5
        root.sync()
        assert w[...].tolist() == [1, 2, 3, 4]


def test_an_array_with_such_a_codec_is_cut_between_its_chunks_alone(tmp_path: Path) -> None:
    """A length within a chunk failed late: no later sync of the dataset succeeded."""
    made = str(tmp_path / "d.zarr")
    with nczfs.open(made, "w", format="zarr3") as root:
        root.create_dimension("t", None)
        for name in ("u", "v"):
            root.create_variable(name, ("t",), "<i2", data=np.arange(12), chunks=(4,))
    found = document(made, "v")
    found["codecs"] = [found["codecs"][0], {"name": "strange", "must_understand": False}]
    (Path(made) / "v/zarr.json").write_text(json.dumps(found))
    for chunk, values in enumerate(np.arange(12, dtype="<i2").reshape(3, 4)):
        (Path(made) / f"v/c/{chunk}").write_bytes(values.tobytes())
    with nczfs.open(made, "a") as root:
        with pytest.raises(NotWritable, match="/v: codec 'strange' is not known, and without it"):
            root.resize_dimension("t", 6)
        root.sync()
        assert root.variables["u"][...].tolist() == [*range(12)]
        root.resize_dimension("t", 8)
    with nczfs.open(made) as root:
        for name in ("u", "v"):
            assert root.variables[name][...].tolist() == [*range(8)]
    assert not (Path(made) / "v/c/2").exists()


def test_a_whole_dataset_is_removed(made: str) -> None:
    assert main(["rm", "-r", made]) == 0
    assert [path for path in Path(made).rglob("*") if path.is_file()] == []


class FarStore(MemoryZMap):
    """A store whose requests are round trips; it notes which objects are read."""

    def __init__(self) -> None:
        super().__init__("memory://far")
        self.asked: list[str] = []

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def read(self, key: Any, *args: Any, **how: Any) -> Any:
        self.asked.append(key)
        return super().read(key, *args, **how)


def test_a_far_dataset_is_read_from_its_root_alone() -> None:
    store = FarStore()
    with open_zmap(store, "w", format="zarr3", consolidated=True) as root:
        root.create_dimension("x", 2)
        root.create_group("g").create_variable("v", ("/x",), "i4", [1, 2])
    store.asked.clear()
    with open_zmap(store) as root:
        (group,) = root.tree().groups
        assert [variable.path for variable in group.variables] == ["g/v"]
    assert set(store.asked) == {"zarr.json", ".zmetadata"}


@pytest.mark.parametrize("source", ["zarr2", "nczarr-L3", "zarr3"])
@pytest.mark.parametrize("target", ["zarr2", "nczarr-L3", "zarr3"])
def test_copies_between_formats_have_the_same_values_and_missing_ones(
    tmp_path: Path, source: str, target: str
) -> None:
    one, other = str(tmp_path / "a"), str(tmp_path / "b")
    with nczfs.open(one, "w", format=source) as root:
        root.create_dimension("t", None)
        root.create_dimension("x", 6)
        root.create_variable("marked", ("t", "x"), "f8", np.eye(3, 6), fillvalue=0.0)
        root.create_variable("hollow", ("x",), "i2", chunks=(2,), fillvalue=7)[0] = 1
    assert main(["cp", one, other, "--format", target]) == 0
    with nczfs.open(one) as a, nczfs.open(other) as b:
        assert b.header.format == target
        for name in ("marked", "hollow"):
            assert np.array_equal(variable(a, name)[...], variable(b, name)[...])
            assert variable(b, name).attrs["_FillValue"] == variable(a, name).attrs["_FillValue"]
        is_kept = target != "zarr2" and source != "zarr2"
        assert variable(b, "marked").stored.dimensions[0].unlimited is is_kept


def test_a_fill_value_of_zarr_3_marks_no_values_as_missing(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    root = zarr.create_group(one, zarr_format=3)
    array = root.create_array("v", shape=(4,), chunks=(2,), dtype="i4", dimension_names=["x"])
    array[:2] = [0, 1]
    for target in ("nczarr-L3", "zarr2", "nc"):
        place = f"{other}.{target}"
        words = ["export", str(one), place] if target == "nc" else ["cp", str(one), place]
        assert main([*words, *([] if target == "nc" else ["--format", target])]) == 0
        engine = {"engine": "netcdf4"} if target == "nc" else {"engine": "zarr"}
        with xr.open_dataset(place, **engine) as dataset:  # type: ignore[arg-type]
            assert dataset["v"].values.tolist() == [0, 1, 0, 0]


def test_verify_reports_documents_of_another_version(
    made: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", made]) == 0
    (Path(made) / "g" / ".zgroup").write_text('{"zarr_format": 2}')
    (Path(made) / "v" / ".zarray").write_text("{}")
    capsys.readouterr()
    assert main(["verify", made]) == 0
    lines = capsys.readouterr().out
    assert "note /g g/.zgroup: of another version of Zarr; not read" in lines
    assert "note /v v/.zarray: of another version of Zarr; not read" in lines


@pytest.mark.parametrize("is_text", [True, False])
def test_a_hierarchy_is_read_through_references(made: str, is_text: bool) -> None:
    with nczfs.open(made, "r+") as root:
        root.create_variable("s", ("time", "x"), "<f4", FIELD, chunks=(1, 2), shards=(2, 4))
    data, references = b"", {}
    for path in sorted(Path(made).rglob("*")):
        key = path.relative_to(made).as_posix()
        if path.name == "zarr.json":
            references[key] = path.read_text() if is_text else json.loads(path.read_bytes())
        elif path.is_file():
            references[key] = ["all.bin", len(data), path.stat().st_size]
            data += path.read_bytes()
    Path(made).with_name("all.bin").write_bytes(data)
    document = Path(made).with_name("refs.json")
    document.write_text(json.dumps({"version": 1, "refs": references}))
    with nczfs.open(str(document)) as root:
        assert root.header.format == "zarr3"
        for name in ("v", "s"):
            assert np.array_equal(variable(root, name)[...], FIELD)
        assert variable(root, "g/names")[...].tolist() == ["a", "bb", "", "\u00f8"]
    assert main(["verify", str(document)]) == 0


def test_codecs_and_numbers_are_those_of_zarr_3(place: str) -> None:
    gzip = {"name": "gzip", "configuration": {"level": 1}}
    bfloat16 = SMALL_NUMBERS["bfloat16"]
    with nczfs.open(place, "w", format="zarr3") as root:
        root.create_variable("v", (3,), bfloat16, [1, 2, 3], codecs=[gzip])
    stored = document(place, "v")
    assert stored["data_type"] == "bfloat16"
    assert stored["codecs"][1:] == [gzip]
    kvstore = {"driver": "file", "path": f"{place}/v"}
    found = tensorstore.open({"driver": "zarr3", "kvstore": kvstore}).result()
    assert np.asarray(found.read().result()).astype("f4").tolist() == [1, 2, 3]
    other = f"{place}-other"
    assert main(["cp", place, other, "--codecs", "zstd:1"]) == 0
    assert document(other, "v")["data_type"] == "bfloat16"
