"""``nczfs rm``, on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main


def run(*words: str | Path) -> int:
    return main([str(word) for word in words])


@pytest.fixture(params=["nczarr-L3", "zarr2"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "store/d.zarr"
    with nczfs.open(str(path), "w", format=request.param, consolidated=True) as root:
        for name in ("v", "w"):
            root.create_variable(name, (4,), "<f4", np.ones(4, "f4"), chunks=(2,))
        root.create_group("g").create_variable("a", (4,), "<f4")
    return path


def files(path: Path) -> list[str]:
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


def test_a_variable_by_its_url(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = [name for name in files(dataset) if not name.startswith("v/")]
    gone = len(files(dataset)) - len(left)
    assert run("rm", dataset / "v", "--dry-run") == 0
    assert capsys.readouterr().out == f"{dataset}/v: {gone} objects would be removed\n"
    assert len(files(dataset)) == len(left) + gone
    assert run("rm", dataset / "v") == 0
    assert capsys.readouterr().out == f"{dataset}/v: {gone} objects removed\n"
    assert files(dataset) == left
    assert '"v/' not in (dataset / ".zmetadata").read_text()
    with nczfs.open(str(dataset)) as root:
        assert list(root.variables) == ["w"]


def test_paths_below_a_url(dataset: Path) -> None:
    assert run("rm", dataset, "v", "g/a") == 0
    with nczfs.open(str(dataset)) as root:
        assert list(root.variables) == ["w"]
        assert list(root["g"].variables) == []  # type: ignore[union-attr]


def test_a_path_that_is_the_url_itself_is_none(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(dataset)
    assert run("rm", "-r", dataset, "/") == 2
    assert "PATH '/'" in capsys.readouterr().err
    assert files(dataset) == before


@pytest.mark.parametrize("path", ["", "g"])
def test_what_holds_more_than_a_variable_needs_a_word_more(
    dataset: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(dataset)
    assert run("rm", dataset / path) == 2
    assert "-r removes it" in capsys.readouterr().err
    assert files(dataset) == before
    assert run("rm", "-r", dataset / path) == 0
    assert [name for name in files(dataset) if name.startswith(path)] == []
    assert bool(files(dataset)) == bool(path)


def test_all_of_a_dataset_is_counted(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = len(files(dataset))
    assert run("rm", "-r", dataset, "--dry-run") == run("rm", "-r", dataset) == 0
    assert capsys.readouterr().out.count(f": {count} objects ") == 2
    assert not dataset.exists()


@pytest.mark.parametrize("path", ["", "d.zarr/nosuch", "d.zarr/notes", "nosuch"])
def test_what_is_no_node_is_refused(
    dataset: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset / "notes").mkdir()
    (dataset / "notes/one.txt").touch()
    before = files(dataset)
    assert run("rm", "-r", dataset.parent / path) == 1
    assert "no " in capsys.readouterr().err
    assert files(dataset) == before


def test_the_same_again_removes_what_was_left(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEMANTICS W18."""
    chunk = (dataset / "v/0").read_bytes()
    assert run("rm", dataset / "v") == 0
    (dataset / "v").mkdir()
    (dataset / "v/0").write_bytes(chunk)
    run("verify", dataset)
    assert "v/0" in capsys.readouterr().out
    assert run("rm", dataset / "v") == 0
    assert not (dataset / "v").exists()


def test_an_array_that_no_group_lists_is_a_variable_all_the_same(tmp_path: Path) -> None:
    """SEMANTICS W18."""
    for name in ("d", "e"):
        with nczfs.open(str(tmp_path / name), "w") as root:
            root.create_variable("v", (4,), "<f4", np.ones(4, "f4"))
    (tmp_path / "e/v").rename(tmp_path / "d/left")
    assert run("rm", tmp_path / "d/left") == 0
    assert not (tmp_path / "d/left").exists()
    assert (tmp_path / "d/v/0").exists()


def test_a_variable_that_cannot_be_read_is_removed(dataset: Path) -> None:
    (dataset / "v/.zarray").write_text("{")
    assert run("rm", dataset / "v") == 0
    assert not (dataset / "v").exists()
    with nczfs.open(str(dataset)) as root:
        assert root.problems == ()


def test_a_dataset_that_is_an_array(tmp_path: Path) -> None:
    with nczfs.open(str(tmp_path / "d"), "w", format="zarr2") as root:
        root.create_variable("v", (4,), "<f4", np.ones(4, "f4"))
    array = tmp_path / "array"
    (tmp_path / "d/v").rename(array)
    assert run("rm", array) == 2
    assert run("rm", "-r", array) == 0
    assert files(array) == []


def test_in_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "a.zip"
    with nczfs.open(str(archive), "w") as root:
        for name in ("v", "w"):
            root.create_variable(name, (4,), "<f4", np.ones(4, "f4"))
    assert run("rm", archive, "v") == 0
    with nczfs.open(str(archive)) as root:
        assert list(root.variables) == ["w"]
        assert root.problems == ()


def test_where_nothing_can_be_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "a.zip"
    with nczfs.open(str(archive), "w") as root:
        root.create_variable("v", (4,), "<f4", np.ones(4, "f4"))
    before = archive.read_bytes()
    assert run("rm", archive, "v", "--zip-write-once") == 1
    assert "a.zip" in capsys.readouterr().err
    assert archive.read_bytes() == before


def test_files_of_others_beside_a_dataset_are_named_and_nothing_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A directory of anything, in which a .zgroup was left by mistake."""
    home = tmp_path / "home"
    (home / "photos/2024").mkdir(parents=True)
    (home / ".zgroup").write_text('{"zarr_format": 2}')
    (home / "thesis.tex").write_text("x")
    (home / "photos/2024/1").write_text("x")
    with nczfs.open(str(home / "sst"), "w", format="zarr2") as root:
        root.create_variable("v", (4,), "<f4", np.ones(4, "f4"))
    before = files(home)
    assert run("rm", "-r", home) == 1
    refused = capsys.readouterr()
    assert refused.out == ""
    assert "2 objects belong to no dataset (" in refused.err
    assert "thesis.tex" in refused.err
    assert "photos/2024/1" in refused.err
    assert "nothing was removed; --force removes" in refused.err
    assert run("rm", "-r", "--dry-run", home) == 1
    foretold = capsys.readouterr().out
    assert f"{home}/thesis.tex: belongs to no dataset and stays\n" in foretold
    assert f"{home}/photos/2024/1: belongs to no dataset and stays\n" in foretold
    assert f"{home}: nothing would be removed" in foretold
    assert files(home) == before
    assert run("rm", "-r", "--force", "--dry-run", home) == 0
    assert f"{home}: {len(before) - 2} objects would be removed\n" in capsys.readouterr().out
    assert files(home) == before
    assert run("rm", "-r", "--force", home) == 0
    assert capsys.readouterr().out == f"{home}: {len(before) - 2} objects removed\n"
    assert files(home) == ["photos/2024/1", "thesis.tex"]


@pytest.mark.parametrize(
    "mark", ["{}", '{"command": "cp", "plan": "", "host": "", "process": null}']
)
def test_files_of_others_beside_what_is_unfinished_stay(
    mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy that was ended has no documents, and a stray mark is no permission to delete files."""
    place = tmp_path / "b.zarr"
    for name in ("v/0.0", "w/c/0/1", "0", "thesis.tex", "docs/readme.md"):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    (place / ".nczfs_unfinished").write_text(mark)
    (place / "v/.zattrs").write_text("{}")
    before = files(place)
    assert run("rm", "-r", "--dry-run", place) == 1
    foretold = capsys.readouterr().out
    assert f"{place}/thesis.tex: belongs to no dataset and stays\n" in foretold
    assert f"{place}: nothing would be removed" in foretold
    for words in (("rm", "-r"), ("create", "--overwrite")):
        assert run(*words, place) == 1
        error = capsys.readouterr().err
        assert "2 objects belong to no dataset (" in error
        assert "nothing was removed" in error
        assert files(place) == before
    assert run("rm", "-r", "--force", place) == 0
    assert capsys.readouterr().out == f"{place}: 5 objects removed\n"
    assert files(place) == ["docs/readme.md", "thesis.tex"]


def test_a_dataset_is_removed_with_an_unfinished_member(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose chunks are there, and its documents are not."""
    (dataset / "new").mkdir()
    for name in (".nczfs_unfinished", "0.0", "0.1"):
        (dataset / "new" / name).touch()
    assert run("rm", "-r", dataset) == 0
    assert files(dataset) == []


def test_names_of_files_of_others_cannot_forge_lines(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dataset / "a\nb: 3 objects removed \x1b[2J").touch()
    assert run("rm", "-r", "--dry-run", dataset) == 1
    assert capsys.readouterr().out.count("\n") == 2
    assert run("rm", "-r", dataset) == 1
    assert "\x1b" not in capsys.readouterr().err
