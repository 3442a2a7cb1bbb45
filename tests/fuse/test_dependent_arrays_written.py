"""Dependent arrays that programs copy and declare in real mounts."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nczfs
from tests.support.dependents import DOT, V2, VALUES, write_dependents_sample
from tests.support.mounts import mounted

NAME = "d.zarr"


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)


def info(place: Path) -> Any:
    return json.loads((place / "info.json").read_text())


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The datasets of a mount for copies, and its store."""
    store = tmp_path_factory.mktemp("store")
    write_dependents_sample(store / NAME)
    options = ("--views", "copy", "-o", "write_dependents,allow_delete")
    refused = r"may no longer match|E(PERM|INVAL): .*|mkdir"
    with mounted(store, *options, expect=refused) as mount:
        yield mount / "datasets", store


def values_at(root: Path, path: str) -> dict[str, bytes]:
    """Return the values of a primary in a store and of its dependents, by their paths from t."""
    with nczfs.open(str(root)) as opened:
        primary: Any = opened[path]
        assert list(primary.dependents) == ["mask", "q", "twin"]
        found: dict[str, Any] = {name: opened[f"{path}{name[1:]}"] for name in VALUES}
        return {name: each[...].tobytes() for name, each in found.items()}


EXPECTED = {name: values.tobytes() for name, values in VALUES.items()}
COPIERS = {
    "cp": ("cp", "-rT"),
    "rsync": ("rsync", "-r"),
    "rsync-in-place": ("rsync", "-r", "--inplace"),
    "tar": ("sh", "-c", "mkdir $2 && tar -C $1 -cf - . | tar -C $2 -xf -", "sh"),
}


@pytest.mark.parametrize("copier", COPIERS)
def test_programs_copy_a_primary_with_its_dependents(datasets: Any, copier: str) -> None:
    """SEMANTICS D31. cp copies in the order of inode numbers: they must not come with looking."""
    place, store = datasets
    assert (place / NAME / "t/mask/why/values.raw").stat().st_size == 48
    first, second, whole = (f"{each}-by-{copier}" for each in ("first", "second", "whole"))
    copies = (
        (f"{NAME}/t", f"{NAME}/{first}"),
        (f"{NAME}/{first}", f"{NAME}/{second}"),
        (NAME, f"{whole}.zarr"),
    )
    for source, goal in copies:
        # rsync would put the source itself into the goal without the slash.
        copied = run(*COPIERS[copier], f"{place / source}/", place / goal)
        assert (copied.returncode, copied.stderr) == (0, "")
    assert values_at(store / NAME, second) == EXPECTED
    for path in ("t", first):
        assert values_at(store / f"{whole}.zarr", path) == EXPECTED
    # The values of a twin are those of its primary, and are not copied a second time.
    assert [each.name for each in (place / NAME / second / "twin").iterdir()] == ["info.json"]


def test_directories_and_documents_may_come_at_the_same_time(datasets: Any) -> None:
    """One process of rsync makes the directories, while another one writes the documents."""
    place, store = datasets
    for number in range(8):
        goal = f"together {number}"
        words = ("rsync", "-r", *["--inplace"] * (number % 2))
        copied = run(*words, f"{place / NAME}/t/", place / NAME / goal)
        assert (copied.returncode, copied.stderr) == (0, "")
        assert values_at(store / NAME, goal) == EXPECTED


def test_the_same_files_once_more_change_nothing(datasets: Any) -> None:
    place, store = datasets
    source, goal = place / NAME / "t", place / NAME / "again"
    once = run("cp", "-r", source, goal)
    files = {p for p in (store / NAME / "again").rglob("*") if p.is_file()}
    before = {p: p.read_bytes() for p in files}
    assert len(files) > 16
    twice = run("cp", "-rT", source, goal)
    assert [each.stderr for each in (once, twice)] == ["", ""]
    assert {p: p.read_bytes() for p in files} == before


def test_directories_that_come_before_the_primary_become_those_of_its_arrays(datasets: Any) -> None:
    place, store = datasets
    source, goal = place / NAME / "t", place / NAME / "early"
    (goal / "mask/why").mkdir(parents=True)
    for name in ("", "mask"):
        (goal / name / "info.json").write_bytes((source / name / "info.json").read_bytes())
        (goal / name / "values.raw").write_bytes((source / name / "values.raw").read_bytes())
    assert (goal / "mask/values.raw").read_bytes() == VALUES["t/mask"].tobytes()
    assert not (store / NAME / "early/mask").exists()


def test_an_info_json_of_another_array_is_refused_in_a_copy(datasets: Any) -> None:
    place, _ = datasets
    mask = place / NAME / "t/mask"
    document = info(mask)
    (mask / "info.json").write_text(json.dumps(document))
    document["attributes"]["flag_meanings"] = "other"
    with pytest.raises(OSError, match="Errno 1"):
        (mask / "info.json").write_text(json.dumps(document))


def test_an_info_json_declares_an_array_in_a_directory_of_its_primary(tmp_path: Path) -> None:
    """SEMANTICS D29."""
    write_dependents_sample(tmp_path / NAME)
    with mounted(tmp_path, "-o", "write_dependents", expect="E(PERM|INVAL): ") as mount:
        t, alone = mount / "datasets" / NAME / "t", mount / "datasets" / NAME / "t.q"
        script = 'mkdir n && cd n && cp "$1" info.json && ls && cat info.json > /dev/null'
        wanted = tmp_path / "n.json"
        wanted.write_text(json.dumps({"chunk_key_encoding": DOT, "fill_value": 7}))
        done = subprocess.run(
            ["sh", "-c", script, "sh", wanted],
            cwd=alone,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "values.raw" in done.stdout.split()
        assert (alone / "n/values.raw").read_bytes() == b"\7\7"
        (alone / "n/values.raw").write_bytes(b"\1\2")
        assert info(alone)["dependents"] == ["n"]
        (alone / "q").mkdir()
        assert list((alone / "q").iterdir()) == []
        shown = (t / "q/info.json").read_text()
        (alone / "q/info.json").write_text(shown)
        assert {**info(alone / "q"), "path": 0, "primary": 0} == {
            **json.loads(shown),
            "path": 0,
            "primary": 0,
        }
        (alone / "b").mkdir()
        (alone / "b/info.json").write_text(json.dumps({"dtype": "|b1", "chunk_key_encoding": V2}))
        assert (info(alone / "b")["dtype"], info(alone / "b")["shape"]) == ("|b1", [2])
        (alone / "r").mkdir()
        for refused, why in (
            ("{}", "chunks of the same keys"),
            ('{"dtype": "<f8", "x": 1}', "'x' is not known"),
            (json.dumps({"shape": [1, 1]}), "rank|dimensions"),
        ):
            with pytest.raises(OSError, match="Errno 22"):
                (alone / "r/info.json").write_text(refused)
            assert any("r/info.json" in each for each in info(alone)["problems"])
            assert why
        (alone / "r").rmdir()
        assert set(info(alone)["dependents"]) == {"b", "n", "q"}
        for refused in ("chunks", "n"):
            with pytest.raises(OSError, match=r"Errno (1|17)\]"):
                (alone / refused).mkdir()
        with pytest.raises(PermissionError):
            (t / "mask/more").mkdir()
    assert (tmp_path / NAME / "t.q/c.0").read_bytes() == b"\1\2"
    with nczfs.open(str(tmp_path / NAME)) as root:
        found: Any = root["t.q"]
        assert np.array_equal(found.dependents["n"][...], [1, 2])
