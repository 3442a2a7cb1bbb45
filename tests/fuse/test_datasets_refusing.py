"""Shells, editors and other programs write what does not fit, and find out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.settled import settled

REFUSED = r"EINVAL|not stored at its last close|EPERM"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    with nczfs.open(str(directory / "n.zarr"), "w") as root:
        attributes = {"units": "K", "count": np.int16(3)}
        root.create_variable("v", (), "<f4", attributes=attributes)
        root.create_group("g")
    return directory


@pytest.fixture
def group(store: Path, tmp_path: Path) -> Iterator[Path]:
    with settled(store, tmp_path / "spool", expect=REFUSED) as mount:
        yield mount.path / "datasets/n.zarr"


def bash(script: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script], cwd=directory, capture_output=True, text=True, check=False
    )


def problems(path: Path) -> list[str]:
    found: list[str] = json.loads((path / "info.json").read_text())["problems"]
    return found


@pytest.mark.parametrize(
    "script",
    [
        "echo x > attributes/count",
        "echo 40000 > attributes/count",
        "printf '%s\\n' 1 2.5 > attributes/count",
        "echo none > attributes/_FillValue",
    ],
)
def test_a_shell_is_told_of_a_value_that_does_not_fit(group: Path, script: str) -> None:
    """SEMANTICS W9, W36."""
    done = bash(script, group / "v")
    assert done.returncode == 1
    assert "write error: Invalid argument" in done.stderr
    assert len(problems(group / "v")) == 1
    assert (group / "v/attributes/count").read_text() == "3\n"
    assert bash("echo 4 > attributes/count && cat attributes/count", group / "v").stdout == "4\n"


@pytest.mark.parametrize(
    "document",
    [
        '{"shape": [2], "dtype": "float12"}',
        '{"shape": [2], "dtype": "<f4", "codecs": [{"id": "nope"}]}',
        '{"shape": [2] "dtype": "<f4"}',
        "[]",
    ],
)
def test_a_shell_is_told_of_a_wrong_declaration(group: Path, document: str) -> None:
    """SEMANTICS W13."""
    done = bash(f"echo '{document}' > info.json", group / "g")
    assert done.returncode == 1
    assert "write error: Invalid argument" in done.stderr
    (problem,) = problems(group / "g")
    assert problem.startswith("/g/info.json: ")
    done = bash('echo \'{"shape": [2], "dtype": "<f4"}\' > info.json', group / "g")
    assert (done.returncode, done.stderr) == (0, "")
    assert problems(group / "g") == []


def test_what_a_shell_does_not_look_at_is_told_by_sync_and_by_the_problems(group: Path) -> None:
    """SEMANTICS W25."""
    assert bash("sync attributes/count info.json", group / "v").returncode == 0
    assert bash("printf 2.5 > attributes/count", group / "v").returncode == 0
    done = bash("sync attributes/count", group / "v")
    assert done.returncode == 1
    assert "Invalid argument" in done.stderr
    (problem,) = problems(group / "v")
    assert problem.startswith("attribute 'count': short cannot hold fractions")
    assert bash("printf '{\"shape\": [2]' > info.json", group / "g").returncode == 0
    assert bash("sync info.json", group / "g").returncode == 1
    (problem,) = problems(group / "g")
    assert "not JSON at character 13" in problem
    assert bash("printf 25 > attributes/count; sync attributes/count", group / "v").returncode == 0
    assert problems(group / "v") == []


def test_python_dd_and_cp_are_told(group: Path, tmp_path: Path) -> None:
    """SEMANTICS W9, W13."""
    count, info = group / "v/attributes/count", group / "g/info.json"
    with pytest.raises(OSError, match="Invalid argument"):
        count.write_text("many")
    with pytest.raises(OSError, match="Invalid argument"), info.open("w") as file:
        json.dump({"shape": [2], "dtype": "<f4", "fill_value": "no"}, file)
    text = tmp_path / "text"
    text.write_text("7 8.5\n")
    for command in (f"dd if={text} of={count} bs=1 status=none", f"cp {text} {count}"):
        done = bash(command, group)
        assert done.returncode == 1
        assert "Invalid argument" in done.stderr
    assert count.read_text() == "3\n"


def test_vim_says_that_a_value_was_not_written_and_writes_one_that_fits(
    group: Path, tmp_path: Path
) -> None:
    """SEMANTICS W9."""
    count = group / "v/attributes/count"

    def vim(new: str) -> subprocess.CompletedProcess[str]:
        keys = ["-c", f"s/.*/{new}/", "-c", "wq", "-c", "cq"]
        command = ["vim", "-u", "NONE", "-i", "NONE", "-n", "-es", *keys, str(count)]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )

    assert vim("seven").returncode != 0
    assert count.read_text() == "3\n"
    assert vim("7").returncode == 0
    assert count.read_text() == "7\n"
    assert sorted(p.name for p in count.parent.iterdir()) == ["count", "units"]
