"""Dependent arrays that programs declare in attributes and in hierarchies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nczfs.errors import BadArgument, BadValue, NotPermitted
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from tests.support.dependents import DECLARED, DOT, write_dependents_sample
from tests.support.trees import listing, read
from tests.support.writing import mkdir, write

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
    """SEMANTICS D30."""
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


def test_the_info_json_of_a_new_variable_declares_by_the_same_rules(fs: TreeFileSystem) -> None:
    """SEMANTICS D30, W13."""
    new = "datasets/d.zarr/new"
    mkdir(fs, new)
    info = json.loads(read(fs, "datasets/d.zarr/t.q/info.json"))
    declarations: list[Any] = [{"twin": {}}, {"a": COLLIDING, "b": COLLIDING}, {"bad": []}, "a"]
    for refused in declarations:
        info["attributes"] = {"dependent-arrays": refused}
        with pytest.raises(BadArgument, match=r"same keys|not an object"):
            write(fs, f"{new}/info.json", json.dumps(info).encode())
        assert "values.raw" not in listing(fs, new)
    write(fs, f"{new}/attributes/dependent-arrays", b'{"twin": {}}')
    info["attributes"] = {}
    with pytest.raises(BadArgument, match="not an object"):  # a text of the group, which stays
        write(fs, f"{new}/info.json", json.dumps(info).encode())
    info["attributes"] = {"dependent-arrays": {"a": COLLIDING, "b": FREE}}
    write(fs, f"{new}/info.json", json.dumps(info).encode())
    assert json.loads(read(fs, f"{new}/info.json"))["dependents"] == ["a", "b"]


def test_a_hierarchy_declares_by_the_same_rules(fs: TreeFileSystem) -> None:
    """SEMANTICS D30, D34."""
    place = "datasets/d.zarr/zom.json"
    tree = json.loads(read(fs, place))
    attributes = tree["members"]["t"]["attributes"]
    attributes["dependent-arrays"] = with_new(COLLIDING)
    with pytest.raises(NotPermitted, match="/t/mask has chunks of the same keys"):
        write(fs, place, json.dumps(tree).encode())
    attributes["dependent-arrays"] = with_new(FREE)
    write(fs, place, json.dumps(tree).encode())
    assert dependents(fs) == ["mask", "q", "twin", "new"]


def test_a_hierarchy_declares_in_a_new_dataset_by_the_same_rules(fs: TreeFileSystem) -> None:
    """SEMANTICS D30, D33, D34."""
    tree = json.loads(read(fs, "datasets/d.zarr/zom.json"))
    attributes = tree["members"]["t"]["attributes"]
    new = "datasets/new.zarr"
    mkdir(fs, new)
    attributes["dependent-arrays"] = {"a": COLLIDING, "b": COLLIDING}
    with pytest.raises(NotPermitted, match=r"/t/(a|b) has chunks of the same keys"):
        write(fs, f"{new}/zom.json", json.dumps(tree).encode())
    assert "t" not in listing(fs, new)
    attributes["dependent-arrays"] = {"a": COLLIDING, "b": FREE}
    write(fs, f"{new}/zom.json", json.dumps(tree).encode())
    assert json.loads(read(fs, f"{new}/t/info.json"))["dependents"] == ["a", "b"]
