"""The worked examples of dependent arrays are resolved as they say, and other programs, which know
nothing of the convention, read the same values by the resolved documents.

The examples are found below ``NCZFS_REFERENCE_DATA``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nczfs.formats.base import FormatOptions
from nczfs.formats.zarr3.format import Zarr3Format
from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import collisions, keys_of, path_conflicts
from nczfs.testing.documents import DictDocuments
from tests.support.reference import reference_root

ROOT = reference_root()
CASES = sorted((ROOT / "dependent-arrays").glob("*.json")) if ROOT else []


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    path: Path = request.param
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def node_of(document: object, path: str = "p") -> Variable:
    node = Zarr3Format(FormatOptions()).read_node(path, DictDocuments({"p/zarr.json": document}))
    assert isinstance(node, Variable)
    return node


def test_each_example_is_resolved_as_it_says(case: dict[str, Any]) -> None:
    primary = node_of(case["primary"])
    if "error" in case:
        assert primary.dependents == ()
        assert primary.problems
        name = case["error"]["dependent"]
        assert name is None or f"dependent array {name!r}" in primary.problems[0]
        return
    assert primary.problems == ()
    assert [each.name for each in primary.dependents] == list(case["resolved"])
    for dependent in primary.dependents:
        as_primary = node_of(case["resolved"][dependent.name])
        assert repr(dependent.array) == repr(as_primary.array)  # NaN equals nothing
        assert dependent.attributes == as_primary.attributes
        assert dependent.dimensions == as_primary.dimensions
        assert repr(node_of(case["primary"], dependent.path)) == repr(dependent)


def test_the_keys_and_their_conflicts_are_those_of_each_example(case: dict[str, Any]) -> None:
    primary = node_of(case["primary"])
    if "error" in case:
        assert list(collisions([primary, *primary.dependents])) == []
        return
    arrays = [primary, *primary.dependents]
    for each in arrays:
        listed = case["keys"]["" if each is primary else each.name]
        assert sorted(keys_of(each.array)) == sorted(listed)

    def told(found: Any) -> list[list[str]]:
        return [[each.one[2:], each.other[2:], each.key] for each in found]

    assert told(collisions(arrays)) == case["collisions"]
    assert told(path_conflicts(arrays)) == [each[:3] for each in case["path_conflicts"]]
