"""Dependent arrays of Zarr v3 as the library and the commands show them."""

from __future__ import annotations

import json
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.engine.options import EngineOptions
from nczfs.engine.structure import dependents as structure
from nczfs.errors import BadValue, NameTaken, NoContent, NotADataset, NotWritable
from nczfs.library.variable import Variable
from tests.conftest import ExpectedWarnings
from tests.support.dependents import (
    BEFORE_Q,
    DECLARED,
    FLAT,
    VALUES,
    array_document,
    put,
    write_dependents_sample,
)
from tests.support.sample import upload, zip_up
from tests.support.servers import S3Server


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_dependents_sample(tmp_path / "d")
    return tmp_path / "d"


def at(root: Any, path: str) -> Variable:
    found = root[path]
    assert isinstance(found, Variable)
    return found


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("consolidated", [False, True])
def test_each_is_a_variable_below_its_primary(tmp_path: Path, consolidated: bool) -> None:
    """SEMANTICS D22."""
    write_dependents_sample(tmp_path / "d", consolidated=consolidated)
    with nczfs.open(str(tmp_path / "d")) as root:
        for path, values in VALUES.items():
            variable = at(root, path)
            assert variable[...].tobytes() == values.tobytes()
            assert variable.path == f"/{path}"
        t = at(root, "t")
        assert list(t.dependents) == ["mask", "q", "twin"]
        assert t.dependents["mask"].dependents["why"].path == "/t/mask/why"
        assert dict(t.dependents["mask"].attrs) != dict(t.attrs)
        assert t.dependents["q"].attrs["units"] == "m"
        assert list(t.dependents["twin"].attrs) == []
        (problem,) = t.problems
        assert "dependent array 'bad'" in problem
        assert list(root.variables) == ["t", "t.q"]
        for missing in ("t/bad", "t/other", "t/mask/other", "other/mask"):
            with pytest.raises(KeyError):
                root[missing]


def test_twins_with_other_fill_values_and_shapes_do_not_share_chunks(tmp_path: Path) -> None:
    twin = {"fill_value": 9, "shape": [10, 6]}
    attributes = {"dependent-arrays": {"twin": twin}}
    document = array_document() | {"attributes": attributes}
    put(tmp_path / "d/zarr.json", json.dumps(document).encode())
    with nczfs.open(str(tmp_path / "d")) as root:
        assert at(root, "d")[...].max() == 0
        assert at(root, "d/twin")[...].min() == 9
        assert at(root, "twin").shape == (10, 6)


def test_a_url_leads_to_a_dependent_array(place: Path) -> None:
    """SEMANTICS D22."""
    for path in ("t/q", "t/mask/why"):
        with nczfs.open(str(place / path)) as root:
            (variable,) = root.variables.values()
            assert variable.name == path.rpartition("/")[2]
            assert variable[...].tobytes() == VALUES[path].tobytes()
    for missing in ("t/nope", "nope/mask"):
        with pytest.raises((NotADataset, NoContent), match=missing):
            nczfs.open(str(place / missing))


def test_values_are_only_written_when_that_was_asked_for(
    place: Path, caplog: pytest.LogCaptureFixture, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS D39."""
    expected_warnings.add("may no longer match")
    with nczfs.open(str(place), "r+") as root:
        with pytest.raises(NotWritable, match="write_dependents"):
            at(root, "t/mask")[0, 0] = 1
        with pytest.raises(NotWritable):
            at(root, "t/mask").attrs["units"] = "K"
        at(root, "t")[0, 0] = 76
        at(root, "t")[0, 0] = 77
    (warning,) = [each.message for each in caplog.records if "dependent" in each.message]
    assert "may no longer match it: mask, q, twin (logged once)" in warning
    options = EngineOptions(writes_dependents=True)
    with nczfs.open(str(place), "r+", options=options) as root:
        with pytest.raises(NotWritable, match="/t has chunks of the same keys"):
            at(root, "t/twin")[0, 0] = 1
        at(root, "t/q")[0, 0] = 5.5
        at(root, "t/mask/why")[7] = 3
    with nczfs.open(str(place)) as root:
        assert at(root, "t/q")[0, 0] == 5.5
        assert at(root, "t/mask/why")[7].tolist() == [3] * 6
        assert at(root, "t")[0, 0] == 77
        assert at(root, "t/mask")[0, 0] == 0
    assert not list(place.rglob("t/*/zarr.json"))


def test_a_twin_shows_what_is_stored_through_its_primary(
    place: Path, swift: S3Server, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS D22. A bucket is not asked again for what was read a moment ago."""
    expected_warnings.add("may no longer match")
    with nczfs.open(in_bucket(swift, place), "r+") as root:
        before = at(root, "t/twin")[0, 0]
        at(root, "t")[0, 0] = before + 1
        root.sync()
        assert at(root, "t/twin")[0, 0] == before + 1


def in_bucket(server: S3Server, place: Path) -> str:
    """The URL of a copy of a dataset."""
    bucket = server.new_bucket()
    with closing(server.client()) as client:
        upload(client, bucket, "d", place)
    return server.url(bucket, "d")


def test_a_dependent_array_is_neither_removed_nor_renamed_alone(place: Path) -> None:
    with nczfs.open(str(place), "r+") as root:
        with pytest.raises(NotWritable, match="nczfs dependents"):
            del root["t/mask"]
        with pytest.raises(NotWritable):
            root.editor.rename("t/mask", "other")


def test_removing_and_renaming_a_primary_takes_everything_along(place: Path) -> None:
    """SEMANTICS D27."""
    with nczfs.open(str(place), "r+") as root:
        root.editor.rename("t", "u")
    assert not (place / "t").exists()
    with nczfs.open(str(place), "r+") as root:
        for path, values in VALUES.items():
            assert at(root, f"u{path[1:]}")[...].tobytes() == values.tobytes()
        del root["u"]
    assert not (place / "u").exists()


def test_commands_show_them(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """SEMANTICS D22."""
    listed = printed(capsys, "ls", place).split()
    assert listed == ["t", "t.q", "t/mask", "t/mask/why", "t/q", "t/twin"]
    assert printed(capsys, "ls", place / "t/mask").split() == ["mask", "mask/why"]
    rows = json.loads(printed(capsys, "ls", "-l", "--json", place))
    stored = {row["name"]: row["stored_bytes"] for row in rows}
    assert stored["t/q"] == 192
    assert stored["t"] == stored["t/mask"] == 48
    info = json.loads(printed(capsys, "info", place / "t"))
    assert info["dependents"] == ["mask", "q", "twin"]
    tree = printed(capsys, "tree", place)
    assert "t/mask/why" in tree
    assert printed(capsys, "cat", place / "t/mask").split()[:3] == ["0", "1", "0"]
    digests = printed(capsys, "verify", "--digest", place).split()
    assert digests[digests.index("/t") - 1] == digests[digests.index("/t/twin") - 1]
    assert "/t/mask/why" in digests


def test_flat_formats_show_each_beside_its_primary(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEMANTICS D22."""
    text = printed(capsys, "dump", place)
    for name in FLAT.values():
        assert f" {name}(y, x) ;".replace("~", "\\~") in text
    assert "dependent-arrays" not in text
    printed(capsys, "export", place, tmp_path / "o.nc")
    with netCDF4.Dataset(tmp_path / "o.nc") as file:
        file.set_auto_maskandscale(False)
        assert list(file.variables) == [*FLAT.values(), "t.q"]
        for path, name in FLAT.items():
            assert np.array_equal(file[name][...], VALUES[path])


def test_copies_keep_the_declaration_or_make_variables(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEMANTICS D27."""
    printed(capsys, "cp", place, tmp_path / "same")
    documents = [json.loads((p / "t/zarr.json").read_text()) for p in (place, tmp_path / "same")]
    assert documents[0]["attributes"] == documents[1]["attributes"]
    assert printed(capsys, "diff", place, tmp_path / "same") == ""
    for words in (("--format", "zarr2"), ("--chunks", "y=8")):
        other = tmp_path / words[1]
        printed(capsys, "cp", place, other, *words)
        with nczfs.open(str(other)) as root:
            for path, name in FLAT.items():
                assert at(root, name)[...].tobytes() == VALUES[path].tobytes()
                assert "dependent-arrays" not in at(root, name).attrs


def test_one_variable_is_copied_with_its_dependents(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "cp", place / "t", tmp_path / "n/v")
    printed(capsys, "cp", place / "t/q", tmp_path / "q")
    with nczfs.open(str(tmp_path / "n/v/mask/why")) as root:
        assert at(root, "why")[...].tobytes() == VALUES["t/mask/why"].tobytes()
    with nczfs.open(str(tmp_path / "q")) as root:
        assert at(root, "q")[...].tobytes() == VALUES["t/q"].tobytes()


def test_verify_tells_which_arrays_are_in_each_others_way(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(place / "t/q/zarr.json", json.dumps({"zarr_format": 3, "node_type": "group"}).encode())
    put(place / "t/left", b"x")
    document = json.loads((place / "t/zarr.json").read_text())
    attributes = document["attributes"]["dependent-arrays"]
    attributes["sum"] = SUM
    (place / "t/zarr.json").write_text(json.dumps(document))
    assert main(["verify", str(place)]) == 1
    found = capsys.readouterr().out.splitlines()
    assert "note /t: /t/twin has chunks of the same keys, such as c/0/0" in found
    assert "note /t/sum: no directory can hold its chunk c and those of /t below that" in found
    assert "note /t/q: /t declares it; a node of this path hides it" in found
    assert "note /t t/left: not a document or a chunk; ignored" in found
    assert sum("dependent array 'bad'" in line for line in found) == 1
    assert not any("t/c.0.0" in line or "t/0.0" in line for line in found)


SUM = {
    "shape": [],
    "dimension_names": [],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
}


@pytest.mark.parametrize("store", ["zip", "s3"])
def test_conflicts_of_directories_are_told_in_stores_that_have_none(
    place: Path, store: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Because a copy of it into a directory would fail."""
    document = json.loads((place / "t/zarr.json").read_text())
    document["attributes"]["dependent-arrays"] = {"sum": SUM}
    (place / "t/zarr.json").write_text(json.dumps(document))
    if store == "zip":
        zip_up(place, place.with_suffix(".zip"))
        url = str(place.with_suffix(".zip"))
    else:
        url = in_bucket(request.getfixturevalue("swift"), place)
    main(["verify", url])
    why = "no directory can hold its chunk c and those of /t below that"
    assert f"note /t/sum: {why}" in capsys.readouterr().out.splitlines()


V2 = '{"chunk_key_encoding": {"name": "v2"}}'
DOT = '{"chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}}}'


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """An array of Zarr v3 with a chunk, in a consolidated dataset."""
    with nczfs.open(str(tmp_path / "n"), "w", format="zarr3", consolidated=True) as root:
        root.create_variable("v", (4, 3), "u1", VALUES["t"][:4, :3], attributes={"units": "m"})
    return tmp_path / "n/v"


def test_arrays_are_declared_listed_checked_and_removed(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(capsys, "dependents", "add", alone, "mask", DOT)
    with nczfs.open(str(alone.parent), "r+", options=EngineOptions(writes_dependents=True)) as root:
        at(root, "v/mask")[...] = 3
    assert (alone / "c.0.0").exists()
    listed = printed(capsys, "dependents", "list", alone).split()
    assert listed[-4:] == ["uint8", "4x3", "c.0.0", "mask"]
    assert printed(capsys, "dependents", "check", alone) == ""
    assert printed(capsys, "verify", alone.parent) == ""  # nor are the consolidated metadata stale
    (alone.parent / "f.json").write_text("{}")
    printed(capsys, "dependents", "add", alone, "twin", alone.parent / "f.json", "--share-keys")
    assert main(["dependents", "check", str(alone)]) == 1
    assert "/twin has chunks of the same keys, such as c/0/0" in capsys.readouterr().out
    assert printed(capsys, "dependents", "remove", alone, "twin") == "twin: 0 objects removed\n"
    assert printed(capsys, "dependents", "remove", alone, "mask") == "mask: 1 object removed\n"
    assert (alone / "c/0/0").exists()
    assert not (alone / "c.0.0").exists()
    assert json.loads((alone / "zarr.json").read_text())["attributes"] == {"units": "m"}


def test_an_array_that_is_not_declared_cannot_be_removed(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another one of the primary has the fill value NaN, which equals nothing."""
    before = (place / "t/zarr.json").read_bytes()
    assert main(["dependents", "remove", str(place / "t"), "none"]) == 1
    assert "/t: declares no array 'none'" in capsys.readouterr().err
    assert (place / "t/zarr.json").read_bytes() == before


def test_problems_of_each_document_are_checked(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((alone / "zarr.json").read_text())
    entry = json.loads(DOT) | {"fill_value": None}
    document["attributes"]["dependent-arrays"] = {"mask": entry}
    (alone / "zarr.json").write_text(json.dumps(document))
    assert main(["dependents", "check", str(alone)]) == 1
    assert "'mask': fill_value is missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "document", "why"),
    [
        ("twin", "{}", "has chunks of the same keys, such as c/0/0"),
        ("a/b", DOT, "contains a slash"),
        ("bad", '{"shape": [1]}', "chunk_shape has 2 dimensions"),
        ("bad", json.dumps(json.loads(DOT) | {"fill_value": None}), "fill_value is null"),
        ("bad", "[]", "not an object"),
        ("bad", "{", "JSON"),
    ],
)
def test_nothing_is_written_of_what_is_refused(
    alone: Path, name: str, document: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (alone / "zarr.json").read_bytes()
    assert main(["dependents", "add", str(alone), name, document]) != 0
    assert why in capsys.readouterr().err
    assert (alone / "zarr.json").read_bytes() == before


REFUSED: list[tuple[Any, str]] = [
    ({"twin": {}}, "has chunks of the same keys, such as c/0/0"),
    ({"mask": json.loads(DOT), "other": json.loads(DOT)}, "/v/(mask|other) has chunks of the same"),
    ({"a/b": json.loads(DOT)}, "contains a slash"),
    ({"bad": {"shape": [1]}}, "chunk_shape has 2 dimensions"),
    ({"bad": json.loads(DOT) | {"fill_value": None}}, "fill_value is null"),
    ({"bad": []}, "not an object"),
    ("mask", "not an object"),
]


@pytest.mark.parametrize(("declared", "why"), REFUSED)
def test_an_attribute_declares_by_the_same_rules(alone: Path, declared: Any, why: str) -> None:
    before = (alone / "zarr.json").read_bytes()
    with nczfs.open(str(alone.parent), "r+") as root, pytest.raises(BadValue, match=why):
        at(root, "v").attrs["dependent-arrays"] = declared
    assert (alone / "zarr.json").read_bytes() == before


@pytest.mark.parametrize(("declared", "why"), REFUSED)
def test_a_new_variable_declares_by_the_same_rules(tmp_path: Path, declared: Any, why: str) -> None:
    attributes = {"dependent-arrays": declared}
    free = {"mask": json.loads(DOT)}
    with nczfs.open(str(tmp_path / "n"), "w", format="zarr3") as root:
        with pytest.raises(BadValue, match=why):
            root.create_variable("v", (4, 3), "u1", attributes=attributes)
        root.create_variable("v", (4, 3), "u1", attributes={"dependent-arrays": free})
        root.create_variable("w", (4, 3), "u1", attributes={"dependent-arrays": free})
    with nczfs.open(str(tmp_path / "n")) as root:
        assert [list(at(root, name).dependents) for name in "vw"] == [["mask"], ["mask"]]


def test_an_attribute_keeps_what_is_declared_whatever_it_is(place: Path) -> None:
    """A twin and a bad entry stay; a new array may be in the way of none of them."""
    declared = {**DECLARED, "fresh": {"chunk_key_encoding": BEFORE_Q}}
    with nczfs.open(str(place), "r+") as root:
        with pytest.raises(BadValue, match="/t/q has chunks of the same keys"):
            at(root, "t").attrs["dependent-arrays"] = declared
        declared["fresh"] = {"chunk_key_encoding": {**BEFORE_Q, "name": "suffix"}}
        declared["fresh"]["chunk_key_encoding"]["configuration"] = {"suffix": ".s"}
        at(root, "t").attrs["dependent-arrays"] = declared
    with nczfs.open(str(place)) as root:
        assert list(at(root, "t").dependents) == ["mask", "q", "twin", "fresh"]


@pytest.mark.parametrize(
    ("theirs", "ours", "error"),
    [
        ("other", DOT, BadValue),  # chunks of the same keys
        ("mask", V2, NameTaken),
        ("mask", DOT, None),  # the same: both get it
        ("other", V2, None),
    ],
)
def test_what_another_client_declares_meanwhile_is_seen(
    alone: Path,
    monkeypatch: pytest.MonkeyPatch,
    theirs: str,
    ours: str,
    error: type[Exception] | None,
) -> None:
    """Between the comparison of keys and the write."""
    url, first = str(alone.parent), True

    def checked(*arguments: Any, **options: Any) -> Any:
        nonlocal first
        change = compare(*arguments, **options)
        if first:
            first = False
            with nczfs.open(url, "r+") as other:
                structure.declare(other.engine_dataset, "v", theirs, json.loads(DOT))
        return change

    compare = structure._checked
    monkeypatch.setattr(structure, "_checked", checked)
    with nczfs.open(url, "r+") as root:
        outcome = nullcontext() if error is None else pytest.raises(error)
        with outcome:
            structure.declare(root.engine_dataset, "v", "mask", json.loads(ours))
    with nczfs.open(url) as root:
        assert list(at(root, "v").dependents) == sorted(
            {theirs} if error else {theirs, "mask"}, reverse=True
        )
