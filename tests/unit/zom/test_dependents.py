"""Hierarchies whose new arrays declare dependent arrays."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nczfs.cli.main import main
from nczfs.engine.structure.editor import Editor
from nczfs.errors import BadValue, NotWritable
from nczfs.formats.zom.nodes import NamedConfig
from nczfs.library.opening import open_zmap
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from nczfs.zom import ArrayV3, GroupV3, Node, create, dumps, from_store, loads
from nczfs.zom.creation import create_in
from nczfs.zom.declaring import declare
from tests.support.dependents import DOT, GROUP, V2, array_document

REFUSED: list[tuple[Any, str]] = [
    ({"twin": {}}, "has chunks of the same keys, such as c/0/0"),
    ({"a": {"chunk_key_encoding": DOT}, "b": {"chunk_key_encoding": DOT}}, "such as c.0.0"),
    ({"n": {"chunk_key_encoding": V2, "attributes": {"dependent-arrays": {"m": {}}}}}, "same keys"),
    ({"a/b": {"chunk_key_encoding": DOT}}, "contains a slash"),
    ({"bad": {"shape": [1]}}, "chunk_shape has 2 dimensions"),
    ("a", "not an object"),
]
FREE = {"a": {"chunk_key_encoding": DOT}, "b": {"chunk_key_encoding": V2}}


def tree(declared: Any) -> Node:
    array = array_document() | {"attributes": {"dependent-arrays": declared}}
    group = {**GROUP, "attributes": {}, "members": {"t": array}}
    return loads(json.dumps({**group, "members": {"g": group}}))


@pytest.mark.parametrize(("declared", "why"), REFUSED)
@pytest.mark.parametrize("spelling", ["dependent-arrays", "dependent_arrays"])
def test_arrays_in_each_others_way_are_refused_before_anything_is_written(
    declared: Any, why: str, spelling: str
) -> None:
    """SEMANTICS D30, D34."""
    node = loads(dumps(tree(declared)).replace("dependent-arrays", spelling))
    zmap = MemoryZMap()
    with pytest.raises(BadValue, match=why):
        create_in(zmap, node)
    assert not list(zmap.list(ROOT))
    create_in(zmap, GroupV3({}, {"old": 1}))
    before = [(each.key, each.version) for each in zmap.list(ROOT)]
    with pytest.raises(BadValue, match=why):
        create_in(zmap, node, overwrite=True)
    with open_zmap(zmap, "r+") as opened:
        dataset, more = opened.engine_dataset, replace(node, attributes={"old": 1})
        with pytest.raises(NotWritable, match=why):
            declare(dataset, "", more, Editor(dataset, None))
    assert [(each.key, each.version) for each in zmap.list(ROOT)] == before


def test_those_that_are_apart_are_made() -> None:
    zmap = MemoryZMap()
    create_in(zmap, tree(FREE))
    with open_zmap(zmap) as root:
        found: Any = root["g/t"]
        assert list(found.dependents) == ["a", "b"]


def test_the_hierarchy_of_a_dataset_with_a_twin_is_made_if_keys_may_be_shared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = str(tmp_path / "old.zarr"), str(tmp_path / "new.zarr")
    create(old, tree({"twin": {}}), shares_keys=True)
    (tmp_path / "old.json").write_text(dumps(from_store(old).node))
    words = ["zom", "create", new, str(tmp_path / "old.json")]
    assert main(words) == 1
    assert "/g/t has chunks of the same keys" in capsys.readouterr().err
    assert not Path(new).exists()
    assert main([*words, "--share-keys"]) == 0
    assert from_store(new).node == from_store(old).node
    assert main(words) == 0  # the same is there


def test_an_array_that_nczfs_cannot_read_is_not_judged() -> None:
    array = ArrayV3(
        (2,),
        NamedConfig("of.another", {}),
        NamedConfig("regular", {"chunk_shape": [2]}),
        NamedConfig("default", {"separator": "/"}),
        None,
        (NamedConfig("of.another"),),
        attributes={"dependent-arrays": {"twin": {}}},
    )
    zmap = MemoryZMap()
    create_in(zmap, GroupV3({"x": array}))
    assert list(zmap.list(ROOT))
