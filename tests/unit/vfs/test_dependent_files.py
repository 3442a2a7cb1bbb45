"""Dependent arrays that programs declare in attributes and in hierarchies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nczfs.errors import BadValue, NotPermitted
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.dependents import DECLARED, DOT, write_dependents_sample
from tests.support.trees import read
from tests.support.writing import write

T = "datasets/d.zarr/t"
ATTRIBUTE = f"{T}/attributes/dependent-arrays"
SLASH = {"name": "v2", "configuration": {"separator": "/"}}
COLLIDING, FREE = {"chunk_key_encoding": DOT}, {"chunk_key_encoding": SLASH}


@pytest.fixture
def fs(tmp_path: Path) -> Iterator[TreeFileSystem]:
    write_dependents_sample(tmp_path / "d.zarr")
    fs = mount_tree(str(tmp_path), None, VfsOptions(read_only=False))
    yield fs
    fs.close()


def with_new(entry: Any) -> dict[str, Any]:
    return {**DECLARED, "new": entry}


def dependents(fs: TreeFileSystem) -> list[str]:
    found: list[str] = json.loads(read(fs, f"{T}/info.json"))["dependents"]
    return found


def test_an_attribute_declares_by_the_rules_of_an_info_json(fs: TreeFileSystem) -> None:
    """SEMANTICS D22."""
    before = read(fs, ATTRIBUTE)
    for refused in (json.dumps(with_new(COLLIDING)), json.dumps(with_new([])), "{}}", "[]"):
        with pytest.raises(BadValue):
            write(fs, ATTRIBUTE, refused.encode())
        assert any("dependent-arrays" in each for each in problems(fs)), refused
        assert read(fs, ATTRIBUTE) == before
    write(fs, ATTRIBUTE, json.dumps(with_new(FREE)).encode())
    assert dependents(fs) == ["mask", "q", "twin", "new"]


def problems(fs: TreeFileSystem) -> list[str]:
    found: list[str] = json.loads(read(fs, f"{T}/info.json"))["problems"]
    return [each for each in found if "bad" not in each]


def test_a_hierarchy_declares_by_the_same_rules(fs: TreeFileSystem) -> None:
    """SEMANTICS D22, D23."""
    place = "datasets/d.zarr/zom.json"
    tree = json.loads(read(fs, place))
    attributes = tree["members"]["t"]["attributes"]
    attributes["dependent-arrays"] = with_new(COLLIDING)
    with pytest.raises(NotPermitted, match="/t/mask has chunks of the same keys"):
        write(fs, place, json.dumps(tree).encode())
    attributes["dependent-arrays"] = with_new(FREE)
    write(fs, place, json.dumps(tree).encode())
    assert dependents(fs) == ["mask", "q", "twin", "new"]
