"""Documents of Zarr v3 beside those of v2, which describe the same chunks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.errors import (
    BadMetadata,
    NotWritable,
    ObjectExists,
    Unavailable,
    Unsupported,
)
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools.metadata_conversion import MetadataConversion
from nczfs.tools.verify.subject import subject_at, subject_of
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

VALUES = np.arange(12, dtype="<i2").reshape(3, 4)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "d.zarr"
    with nczfs.open(str(place), "w", format="zarr2") as root:
        root.attrs["title"] = "t"
        root.create_dimension("y", 3)
        root.create_dimension("x", 4)
        root.create_variable("v", ("y", "x"), "i2", chunks=(2, 2), data=VALUES, fillvalue=-1)
        root["v"].attrs["units"] = "m"
        del root["v"].attrs["_FillValue"]
        root.create_group("g").create_variable("s", (), "f8", data=1.5)
    return place


@contextmanager
def conversion(
    place: Path | str, **options: bool
) -> Iterator[tuple[MetadataConversion, list[str]]]:
    told: list[str] = []
    with subject_at(str(place)) as subject:
        subject.zmap.prepare_writing()
        yield MetadataConversion(subject, told.append, **options), told


def convert(place: Path, **options: bool) -> int:
    with conversion(place, **options) as (made, _):
        made.check()
        return made.run()


def document(place: Path, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / path / "zarr.json").read_text())
    return found


def files(place: Path, name: str = "*") -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob(name) if p.is_file()}


def test_a_dataset_reads_the_same_from_documents_of_zarr_v3(place: Path) -> None:
    before = files(place)
    assert convert(place) == 4
    after = files(place)
    assert {key: after[key] for key in before} == before
    assert after.keys() - before.keys() == {f"{p}zarr.json" for p in ("", "v/", "g/", "g/s/")}
    with nczfs.open(str(place)) as root:
        assert root.header.format == "zarr3"
        assert root.attrs["title"] == "t"
        assert root["v"].dimensions == ("y", "x")
        assert root["v"].attrs["units"] == "m"
        assert root.variables["v"][...].tolist() == VALUES.tolist()
        assert root.groups["g"].variables["s"][...].tolist() == 1.5
    shared = document(place, "v")
    assert shared["dimension_names"] == ["y", "x"]
    assert "_ARRAY_DIMENSIONS" not in shared["attributes"]


def test_attributes_keep_their_spelling(place: Path) -> None:
    (place / "v/.zattrs").write_text(
        '{"_ARRAY_DIMENSIONS": ["y", "x"], "one": [5], "large": 12345678901234567890123, '
        '"exact": 1.10, "nested": {"a": [null, true]}}'
    )
    convert(place)
    text = (place / "v/zarr.json").read_text()
    assert '"one": [5]' in text
    assert '"large": 12345678901234567890123' in text
    assert '"exact": 1.10' in text
    assert '"nested": {"a": [null,true]}' in text


def test_names_that_are_not_those_of_dimensions_stay_an_attribute(place: Path) -> None:
    (place / "v/.zattrs").write_text('{"_ARRAY_DIMENSIONS": ["y"]}')
    convert(place)
    found = document(place, "v")
    assert found["attributes"] == {"_ARRAY_DIMENSIONS": ["y"]}
    assert "dimension_names" not in found


def test_unlimited_dimensions_and_types_of_netcdf_are_kept_or_reported(tmp_path: Path) -> None:
    place = tmp_path / "n.nczarr"
    with nczfs.open(str(place), "w", format="nczarr") as root:
        root.create_dimension("t", None)
        root.create_variable("v", ("t",), "f4", data=[1.0, 2.0])
        root["v"].attrs["n"] = np.int16(3)
        root["v"].attrs["text"] = "1.50"
        root["v"].attrs["_FillValue"] = np.float32(2.5)
    with conversion(place) as (made, told):
        made.check()
        made.run()
    assert document(place)["attributes"]["_nczfs_unlimited"] == ["t"]
    assert document(place, "v")["attributes"] == {
        "n": 3,
        "text": "1.50",
        "_FillValue": "AAAAAAAABEA=",  # as xarray reads it
    }
    assert told == ["/v: the types of attributes ['n'] are not kept"]


def test_a_consolidated_dataset_is_consolidated_again(tmp_path: Path) -> None:
    place = tmp_path / "c.zarr"
    with nczfs.open(str(place), "w", format="zarr2", consolidated=True) as root:
        root.create_group("g").create_variable("v", (2,), "i1", data=[1, 2])
    convert(place)
    copy = document(place)["consolidated_metadata"]
    assert list(copy["metadata"]) == ["g", "g/v"]
    assert copy["metadata"]["g/v"] == document(place, "g/v")
    assert (copy["kind"], copy["must_understand"]) == ("inline", False)


def test_an_array_alone_is_converted(tmp_path: Path) -> None:
    place = tmp_path / "d.zarr"
    with nczfs.open(str(place), "w", format="zarr2") as root:
        root.create_variable("v", (2,), "i2", data=[1, 2])
    assert convert(place / "v") == 1
    assert document(place / "v")["node_type"] == "array"


def test_what_cannot_be_said_is_refused_before_anything_is_written(place: Path) -> None:
    array = json.loads((place / "v/.zarray").read_text())
    (place / "v/.zarray").write_text(json.dumps(array | {"filters": [{"id": "base64"}]}))
    (place / "g/s/.zarray").write_text(json.dumps(array | {"compressor": {"id": "mine"}}))
    with pytest.raises(Unsupported) as caught:
        convert(place)
    for part in ("v/.zarray: filters[0]", "g/s/.zarray: compressor", "nothing was converted"):
        assert part in str(caught.value)
    assert files(place, "zarr.json") == {}


def test_a_broken_node_is_refused_before_anything_is_written(place: Path) -> None:
    (place / "v/.zarray").write_text("{")
    with pytest.raises(BadMetadata, match=r"/v: .*nothing was converted"):
        convert(place)
    assert files(place, "zarr.json") == {}


def test_a_kill_leaves_a_dataset_of_zarr_v2_which_the_next_run_converts(place: Path) -> None:
    with conversion(place) as (made, _):
        made.check()
        *others, root = made.documents()
    assert root.key == "zarr.json"
    for each in others:
        (place / each.key).write_bytes(each.data)
        with nczfs.open(str(place)) as dataset:
            assert dataset.header.format == "zarr2"
            assert dataset.variables["v"][...].tolist() == VALUES.tolist()
    assert convert(place) == 1


@pytest.mark.parametrize("call", range(4))
def test_a_failure_leaves_nothing_of_zarr_v3(call: int) -> None:
    store = MemoryZMap("memory://d")
    with open_zmap(store, "w", format="zarr2") as root:
        root.create_group("g").create_variable("v", (2,), "i2", data=[1, 2])
        root.create_group("h")
    faulty = Faulty(store, Fault(call, after=bool(call % 2), operations=frozenset({"write"})))
    engine = Engine(EngineOptions())
    try:
        made = MetadataConversion(subject_of(faulty, engine), lambda _: None)
        made.check()
        with pytest.raises(Unavailable):
            made.run()
    finally:
        engine.close()
    assert [stat.key for stat in store.list(ROOT) if stat.key.endswith("zarr.json")] == []


def test_other_documents_are_replaced_only_on_request(place: Path) -> None:
    (place / "v/zarr.json").write_text('{"mine": 1}')
    with pytest.raises(ObjectExists, match=r"v/zarr\.json: is there and differs; --overwrite"):
        convert(place)
    assert list(files(place, "zarr.json")) == ["v/zarr.json"]
    convert(place, overwrite=True)
    assert document(place, "v")["node_type"] == "array"


def test_xarrays_missing_values_are_reported_or_become_an_attribute(place: Path) -> None:
    with conversion(place) as (made, told):
        made.check()
    assert [line.partition(":")[0] for line in told] == [
        "1 array has a fill value and no attribute _FillValue"
    ]
    with conversion(place, adds_fill_values=True) as (made, told):
        made.check()
        made.run()
    assert told == []
    assert document(place, "v")["attributes"]["_FillValue"] == -1
    assert "_FillValue" not in document(place, "g/s").get("attributes", {})


def test_words_that_json_does_not_have_are_reported(place: Path) -> None:
    (place / "v/.zattrs").write_text('{"missing_value": NaN, "_FillValue": -1}')
    with conversion(place) as (made, told):
        made.check()
        made.run()
    assert [line.partition(",")[0] for line in told] == [
        "1 node has NaN or infinities in attributes"
    ]
    assert '"missing_value": NaN' in (place / "v/zarr.json").read_text()


def test_the_old_documents_are_removed_from_what_has_new_ones(place: Path) -> None:
    convert(place)
    (place / "other").mkdir()
    (place / "other/.zgroup").write_text('{"zarr_format": 2}')
    with conversion(place) as (made, _):
        assert made.is_done
        made.check()
        assert list(made.documents()) == []
        assert made.remove_old() == 4
    old = [key for key in files(place) if key.rpartition("/")[2].startswith(".z")]
    assert old == ["other/.zgroup"]
    with nczfs.open(str(place), "a") as root:
        assert root.variables["v"][...].tolist() == VALUES.tolist()
        root["v"].attrs["units"] = "km"
    assert document(place, "v")["attributes"]["units"] == "km"


def test_a_node_that_is_described_twice_keeps_its_metadata_and_takes_values(place: Path) -> None:
    convert(place)
    described = files(place, "zarr.json")
    with nczfs.open(str(place), "a") as root:
        root.variables["v"][0, 0] = 99
        with pytest.raises(NotWritable, match=r"/v: is described twice.*--remove-old"):
            root["v"].attrs["units"] = "km"
    assert files(place, "zarr.json") == described
    (place / "zarr.json").unlink()
    with nczfs.open(str(place), "a") as root:
        assert root.header.format == "zarr2"
        assert root.variables["v"][0, 0] == 99
        with pytest.raises(NotWritable, match="/v: is described twice"):
            root["v"].attrs["units"] = "km"
        root.create_group("new")


@pytest.mark.parametrize("length", [6, 12])
def test_a_length_that_is_refused_changes_no_values(tmp_path: Path, length: int) -> None:
    """What lay beyond a shorter length was overwritten with fill before the documents refused."""
    place = tmp_path / "n.nczarr"
    with nczfs.open(str(place), "w", format="nczarr") as root:
        root.create_dimension("t", None)
        root.create_variable("v", ("t",), "i4", data=np.arange(10), chunks=(4,))
    convert(place)
    before = files(place)
    with nczfs.open(str(place), "a") as root:
        with pytest.raises(NotWritable, match="is described twice"):
            root.resize_dimension("t", length)
        with pytest.raises(NotWritable, match="is described twice"):
            root.variables["v"][10:13] = 7
    assert files(place) == before


def test_a_variable_that_is_described_once_grows_in_a_group_that_is_described_twice(
    tmp_path: Path,
) -> None:
    place = tmp_path / "o.zarr"
    with nczfs.open(str(place), "w", format="zarr3") as root:
        root.create_dimension("t", None)
        root.create_variable("v", ("t",), "i4", data=np.arange(10), chunks=(4,))
    (place / ".zgroup").write_text('{"zarr_format": 2}')
    with nczfs.open(str(place), "a") as root:
        root.variables["v"][10:13] = 7
        root.resize_dimension("t", 11)
    with nczfs.open(str(place)) as root:
        assert root.variables["v"][...].tolist() == [*range(10), 7]


@pytest.mark.parametrize("path", ["v", "g", "g/s"])
def test_nothing_is_removed_or_renamed_in_a_group_that_is_described_twice(
    tmp_path: Path, path: str
) -> None:
    """The documents of v2 listed what was gone: their readers saw fill, or an error."""
    place = tmp_path / "c.zarr"
    with nczfs.open(str(place), "w", format="zarr2", consolidated=True) as root:
        root.create_variable("v", (3,), "i2", data=[1, 2, 3])
        root.create_group("g").create_variable("s", (), "f8", data=1.5)
    convert(place)
    before = files(place)
    with nczfs.open(str(place), "a") as root:
        with pytest.raises(NotWritable, match=r"is described twice.*nothing in it is renamed"):
            root.editor.rename(path, "other")
        with pytest.raises(NotWritable, match=r"is described twice.*nothing can be removed"):
            root.editor.remove(path)
    assert files(place) == before
    with conversion(place) as (made, _):
        made.check()
        made.remove_old()
    with nczfs.open(str(place), "a") as root:
        root.editor.remove(path)


def test_verify_names_documents_of_another_version(place: Path) -> None:
    convert(place)
    with subject_at(str(place)) as subject:
        found = [finding.line for finding in Verification(subject).run()]
    assert sorted(line.partition(": ")[0] for line in found) == [
        "note / .zgroup",
        "note /g g/.zgroup",
        "note /g/s g/s/.zarray",
        "note /v v/.zarray",
    ]
