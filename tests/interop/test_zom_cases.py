"""The Zarr Object Model against hand-made cases, and hierarchies of other programs.

The reference data are named by ``NCZFS_REFERENCE_DATA`` alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pydantic_zarr.v2
import pydantic_zarr.v3
import pytest

from nczfs.errors import BadMetadata
from nczfs.formats.zom.documents import node_of
from nczfs.zom import (
    applied,
    consolidated,
    diff,
    dumps,
    flat_json,
    from_flat,
    from_store,
    json_of,
    like,
    loads,
    read,
    read_flat,
    to_flat,
    to_v3,
    validate,
)
from tests.support.reference import reference_root

ROOT = reference_root()
CASES: list[dict[str, Any]] = (
    json.loads((ROOT / "zom/cases.json").read_text()) if ROOT is not None else []
)
STORES: list[Path] = sorted((ROOT / "zom/store").glob("*.json")) if ROOT is not None else []
FLAT: list[Path] = sorted((ROOT / "zom/flat").glob("*.json")) if ROOT is not None else []


def of(operation: str) -> list[Any]:
    return [pytest.param(c, id=c["note"]) for c in CASES if c["op"] == operation]


def check_error(case: dict[str, Any], run: Any) -> None:
    """Run something that is to fail at the pointer that a case names, if it names one."""
    if "error" not in case:
        run()
        return
    with pytest.raises(BadMetadata) as refused:
        run()
    assert refused.value.pointer == case["error"]


@pytest.mark.parametrize("case", of("normalise"))
def test_json_gets_its_normal_form(case: dict[str, Any]) -> None:
    assert json_of(read(case["in"])) == case["out"]


@pytest.mark.parametrize("case", of("valid"))
def test_a_hierarchy_is_valid_or_refused_at_its_place(case: dict[str, Any]) -> None:
    check_error(case, lambda: read(case["in"]))


@pytest.mark.parametrize("case", of("collide"))
def test_a_member_called_members_gets_another_name(case: dict[str, Any]) -> None:
    node = node_of({"zarr.json": json.dumps(case["in"]).encode()}, "")
    assert node is not None
    assert json_of(node) | {"members": {}} == case["out"]


@pytest.mark.parametrize("case", of("v2-to-v3"))
def test_an_array_of_v2_is_said_in_v3(case: dict[str, Any]) -> None:
    def run() -> None:
        assert json_of(to_v3(read(case["in"]))) == case["out"]

    check_error(case, run)


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.stem)
def test_the_answer_of_pydantic_zarr_is_the_same_hierarchy(path: Path) -> None:
    case = json.loads(path.read_text())
    assert read(case["zom"], strict=True) == read(case["pydantic"], strict=True)


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.stem)
def test_a_store_holds_the_hierarchy_that_its_documents_say(path: Path) -> None:
    assert ROOT is not None
    case = json.loads(path.read_text())
    found = from_store(str(ROOT / "zarr" / case["store"]))
    assert not found.problems
    assert found.node == read(case["zom"], strict=True)


@pytest.mark.parametrize("path", FLAT, ids=lambda path: path.stem)
def test_a_hierarchy_has_the_flat_form_and_the_consolidated_metadata(path: Path) -> None:
    case = json.loads(path.read_text())
    node = read(case["zom"])
    flat = flat_json(to_flat(node))
    assert {path: normal(each) for path, each in case["flat"].items()} == flat
    assert read_flat(case["flat"]) == from_flat(to_flat(node)) == node
    wanted = case["consolidated"]
    wanted = wanted["metadata"] if node.zarr_format == 2 else wanted
    metadata: Any = consolidated(node)["metadata"]
    assert {key: normal(each) for key, each in metadata.items()} == {
        key: normal(each) for key, each in wanted.items()
    }


def normal(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the members that have their default."""
    return {
        name: value
        for name, value in document.items()
        if (name, value) not in (("dimension_separator", "."), ("storage_transformers", []))
    }


@pytest.mark.parametrize("case", of("like"))
def test_hierarchies_are_alike(case: dict[str, Any]) -> None:
    given_, names = case["in"], {"include", "exclude"}
    wanted = {name: value for name, value in given_.items() if name in names}
    assert like(read(given_["a"]), read(given_["b"]), **wanted) is case["out"]


@pytest.mark.parametrize("case", of("diff"))
def test_a_difference_has_its_pointers(case: dict[str, Any]) -> None:
    a, b = read(case["in"]["a"]), read(case["in"]["b"])
    assert diff(a, b).pointers() == case["out"]
    assert applied(a, diff(a, b)) == b


@pytest.mark.parametrize("case", of("xarray"))
def test_a_hierarchy_follows_the_rules_of_xarray(case: dict[str, Any]) -> None:
    faults = [fault.pointer for fault in validate(read(case["in"]), "xarray")]
    assert faults == ([case["error"]] if "error" in case else [])


def test_no_case_is_left_out() -> None:
    known = {"normalise", "valid", "collide", "v2-to-v3", "like", "diff", "xarray"}
    assert {case["op"] for case in CASES} <= known


@pytest.mark.parametrize("path", STORES + FLAT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_pydantic_zarr_reads_our_json_and_we_read_its_own(path: Path) -> None:
    node = read(json.loads(path.read_text())["zom"])
    model = pydantic_zarr.v2 if node.zarr_format == 2 else pydantic_zarr.v3
    theirs = model.GroupSpec.model_validate_json(dumps(node))
    assert loads(theirs.model_dump_json(), strict=True) == node
    flat = {path: model_of(each) for path, each in theirs.to_flat().items()}
    assert flat == flat_json(to_flat(node))


def model_of(spec: Any) -> dict[str, Any]:
    """Return the normal form of one of pydantic-zarr's nodes, without members."""
    found = json_of(read(json.loads(spec.model_dump_json())))
    found.pop("members", None)
    return found
