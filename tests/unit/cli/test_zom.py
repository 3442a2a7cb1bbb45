"""``nczfs zom``, on the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.zom import from_store, loads
from tests.support.commands import printed


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "a.zarr"
    with nczfs.open(str(path), "w", format="zarr2") as root:
        root.attrs["title"] = "δοκιμή \x9b31m"
        root.create_dimension("x", 2)
        root.create_group("g").create_variable("v", ("x",), "i2", data=[1, 2])
    return path


def run(*words: str | Path) -> int:
    return main(["zom", *map(str, words)])


def zom(*words: str | Path) -> Any:
    return json.loads(printed("zom", *words))


def piped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_reader_that_had_enough_is_no_error(tmp_path: Path) -> None:
    """More than a pipe holds, and of which one line is read."""
    tree = {"zarr_format": 2, "attributes": {f"a{n}": "b" * 9 for n in range(10_000)}}
    document = tmp_path / "tree.json"
    document.write_text(json.dumps({**tree, "members": {}}))
    done = subprocess.run(
        f"{sys.executable} -m nczfs.cli.main zom show {document} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_what_is_shown_makes_the_same_hierarchy_elsewhere(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed("zom", "show", dataset)
    assert "\x9b" not in text
    assert loads(text) == from_store(str(dataset)).node
    piped(text, monkeypatch)
    other = tmp_path / "b.zarr"
    assert run("create", other, "-") == 0
    assert run("diff", dataset, other) == run("like", other, dataset) == 0
    assert zom("show", dataset / "g") == zom("show", dataset)["members"]["g"]
    assert zom("show", dataset / "g/v") == zom("show", dataset / "g")["members"]["v"]
    assert zom("show", dataset, "--depth", "0")["members"] is None


def test_differences_have_the_status_of_diff_and_a_patch_for_programs(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = zom("show", dataset)
    b = json.loads(json.dumps(a))
    b["attributes"] = {"title": "\x1b[31m"}
    b["members"]["g"]["members"]["v"]["shape"] = [3]
    b["members"]["new"] = {"zarr_format": 2}
    del b["members"]["g"]["attributes"]
    file = tmp_path / "b.json"
    file.write_text(json.dumps(b))
    assert run("diff", dataset, file) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        "~ /attributes/title",
        "~ /members/g/members/v/shape/0",
        "+ /members/new",
    ]
    assert "\x1b" not in "".join(lines)
    assert run("diff", dataset, file, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["same"] is False
    assert found["added"] == ["/members/new"]
    patched = jsonpatch.apply_patch(a, found["patch"])
    assert loads(json.dumps(patched)) == loads(json.dumps(b | {"members": b["members"]}))
    assert run("like", dataset, file) == 1
    assert run("like", dataset, file, "--include", "dtype,chunks", "--exclude", "members") == 0
    assert run("diff", dataset, tmp_path / "none.zarr") == 2
    assert run("like", dataset, file, "--exclude", "none") == 2


def test_colours_are_for_terminals(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert run("diff", dataset, dataset / "g") == 1
    assert "\x1b[31m- /attributes/title: " in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert run("diff", dataset, dataset / "g") == 1
    assert "\x1b" not in capsys.readouterr().out


def test_another_hierarchy_stays_unless_it_may_be_overwritten(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.json"
    file.write_text('{"zarr_format": 2, "attributes": {"a": 1}}')
    assert run("create", dataset, file) == 1
    assert "nothing was written" in capsys.readouterr().err
    assert run("create", dataset, file, "--overwrite") == 0
    assert run("create", dataset, file) == 0
    assert "is there already" in capsys.readouterr().err
    assert zom("show", dataset)["members"] == {}


def test_a_node_is_not_made_where_the_dataset_above_would_not_know_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.json"
    file.write_text('{"zarr_format": 2}')
    places: tuple[tuple[str, Any], ...] = (
        ("n", {}),
        ("c", {"format": "zarr2", "consolidated": True}),
    )
    for name, options in places:
        nczfs.open(str(tmp_path / name), "w", **options).close()
        assert run("create", tmp_path / name / "g", file) == 2
        assert not (tmp_path / name / "g").exists()
    plain = tmp_path / "plain"
    with nczfs.open(str(plain), "w", format="zarr2") as root:
        root.create_variable("x", (2,), "i4")
    for place, why in (("x/g", "is an array"), ("none/g", "has no such group")):
        assert run("create", plain / place, file) == 2
        assert why in capsys.readouterr().err
    other = tmp_path / "other.json"
    other.write_text('{"zarr_format": 3, "node_type": "group"}')
    assert run("create", plain / "g", other) == 2
    assert "is Zarr v3, and " in capsys.readouterr().err
    assert not list(plain.rglob("g"))
    assert run("create", plain / "g", file) == 0


def test_hierarchies_are_validated_and_each_fault_has_a_line(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("validate", dataset, "--convention", "xarray") == 0
    assert run("validate", dataset, "--convention", "xarray", "--convention", "cf") == 1
    assert capsys.readouterr().out == "/attributes/Conventions: is missing\n"
    pattern = tmp_path / "p.json"
    pattern.write_text('{"members": {"h": {}}}')
    assert run("validate", dataset, "--convention", pattern, "--json") == 1
    assert json.loads(capsys.readouterr().out)[0]["pointer"] == "/members/h"
    pattern.write_text('{"members": {"h": {"shap": 1}}}')
    assert run("validate", dataset, "--convention", pattern) == 1
    assert "p.json: /members/h/shap: " in capsys.readouterr().err


def test_hierarchies_are_converted(dataset: Path, tmp_path: Path) -> None:
    v3 = zom("convert", dataset, "--to", "zarr3")
    assert v3["members"]["g"]["members"]["v"]["dimension_names"] == ["x"]
    flat = zom("convert", dataset, "--to", "flat")
    assert list(flat) == ["", "/g", "/g/v"]
    file = tmp_path / "flat.json"
    file.write_text(json.dumps(flat))
    assert zom("convert", file, "--to", "tree") == zom("show", dataset)
    assert "g/v/.zarray" in zom("convert", dataset, "--to", "consolidated")["metadata"]
    assert zom("schema")["$schema"].endswith("2020-12/schema")


def test_slips_are_noticed_and_refused_when_strict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "slip.json"
    file.write_text('{"zarr_version": 2}')
    assert run("show", file) == 0
    assert capsys.readouterr().err == "nczfs: /zarr_version: is called zarr_format\n"
    assert run("show", file, "--strict") == 1


def test_a_broken_member_is_named_and_the_rest_is_shown(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset / "g/v/.zarray").write_text("{")
    assert run("show", dataset) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["members"]["g"]["members"] == {}
    assert shown.err.startswith("nczfs: /g/v: g/v/.zarray: ")


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("show", "a", "b"),
        ("diff", "a"),
        ("diff", "-", "-"),
        ("schema", "a"),
        ("show", "a", "--to", "flat"),
        ("convert", "a.json"),
        ("show", "a", "--depth", "two"),
        ("create", "-", "a"),
        ("paint", "a"),
    ],
)
def test_wrong_usage_has_status_2(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text('{"zarr_format": 2}')
    assert run(*words) == 2
