"""``nczfs convert-metadata``, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nczfs
from nczfs.cli.main import main
from tests.support.dependents import DOT, write_dependents_sample


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    path = tmp_path / "d.zarr"
    with nczfs.open(str(path), "w", format="zarr2") as root:
        root.create_group("g").create_variable("v", (2,), "i2", data=[1, 2])
    return path


def run(*words: str | Path) -> int:
    return main(["convert-metadata", *map(str, words)])


def test_a_dry_run_prints_the_keys_and_writes_nothing(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(dataset, "--dry-run") == 0
    *keys, summary = capsys.readouterr().out.splitlines()
    assert keys == ["g/v/zarr.json", "g/zarr.json", "zarr.json"]
    assert summary == f"{dataset}: 3 documents would be written"
    assert not list(dataset.rglob("zarr.json"))


def test_the_old_documents_are_removed_at_once_or_later(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(dataset) == 0
    assert capsys.readouterr().out == f"{dataset}: 3 documents written\n"
    assert run(dataset) == 2
    assert "has documents of Zarr v3; --remove-old removes" in capsys.readouterr().err
    assert run(dataset, "--remove-old") == 0
    assert capsys.readouterr().out == f"{dataset}: the documents of Zarr v2 of 3 nodes removed\n"
    assert not list(dataset.rglob(".z*"))
    with nczfs.open(str(dataset)) as root:
        assert root.groups["g"].variables["v"][...].tolist() == [1, 2]


def test_what_arrays_declare_stays_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEMANTICS D22: an attribute of Zarr v2 is one of v3, and dependents are in v3 already."""
    dataset, mask = tmp_path / "d.zarr", {"mask": {"chunk_key_encoding": DOT}}
    with nczfs.open(str(dataset), "w", format="zarr2") as root:
        root.create_variable("v", (2, 2), "u1", [[1, 2], [3, 4]])
    (dataset / "v/.zattrs").write_text(json.dumps({"dependent-arrays": mask}))
    write_dependents_sample(tmp_path / "s.zarr")
    before = {p: p.read_bytes() for p in (tmp_path / "s.zarr").rglob("*") if p.is_file()}
    assert (run(dataset), run(dataset, "--remove-old"), run(tmp_path / "s.zarr")) == (0, 0, 2)
    assert "has documents of Zarr v3" in capsys.readouterr().err
    assert {p: p.read_bytes() for p in before} == before
    with nczfs.open(str(dataset)) as root:
        assert list(root.variables["v"].dependents) == ["mask"]
        assert root.variables["v"][...].tolist() == [[1, 2], [3, 4]]


def test_a_refusal_is_one_line_and_status_1(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = dataset / "g/v/.zarray"
    document.write_text(document.read_text().replace("<i2", "|V0"))
    assert run(dataset) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(dataset.rglob("zarr.json"))
