"""The worked examples of dependent arrays are resolved as they say, and other programs, which know
nothing of the convention, read the same values by the resolved documents.

The examples are found below ``NCZFS_REFERENCE_DATA``.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr

import nczfs
from nczfs.formats.base import FormatOptions
from nczfs.formats.zarr3.format import Zarr3Format
from nczfs.library.variable import Variable as OpenVariable
from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import keys_of
from nczfs.model.overlaps import collisions, path_conflicts
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


def test_values_are_those_that_other_programs_read_by_the_resolved_documents(
    case: dict[str, Any], tmp_path: Path
) -> None:
    """zarr-python writes each array by itself; then all chunks lie below the primary's prefix."""
    documents = {"": case["primary"]} | case.get("resolved", {})
    if case.get("collisions") or case.get("path_conflicts"):
        documents = {"": case["primary"]}  # their chunks cannot lie in one directory
    place = tmp_path / "p"
    place.mkdir()
    written: dict[str, Any] = {}
    for name, document in documents.items():
        if document["chunk_key_encoding"]["name"] not in ("default", "v2"):
            continue  # zarr-python and tensorstore have no others
        alone = tmp_path / "alone" / (name or "primary")
        alone.mkdir(parents=True)
        (alone / "zarr.json").write_text(json.dumps(document))
        array = zarr.open_array(alone, mode="r+")
        values = np.arange(array.size).reshape(array.shape) + 7 * len(written) + 1
        array[...] = written[name] = values.astype(array.dtype)
        spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(alone)}}
        assert np.array_equal(tensorstore.open(spec).result().read().result(), written[name])
        shutil.copytree(alone, place, dirs_exist_ok=True)
    (place / "zarr.json").write_text(json.dumps(case["primary"]))
    with nczfs.open(str(place)) as opened:
        primary = opened["p"]
        assert isinstance(primary, OpenVariable)
        for name, values in written.items():
            found = primary.dependents[name] if name else primary
            assert np.array_equal(found[...], values)
