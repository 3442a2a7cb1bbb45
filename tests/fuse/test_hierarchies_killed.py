"""A mount that is killed between two steps of a ``zom.json`` that is copied into a bucket."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from nczfs.zom import ArrayV2, GroupV2, Node, create, diff, dumps, from_store, to_v3
from tests.fuse.test_hierarchies import run
from tests.support.killedcommands import is_copied_before
from tests.support.mounts import mounted
from tests.support.places import bucket_of
from tests.support.servers import Faults
from tests.support.settled import files_in

X = ArrayV2((4,), (2,), "<i4", 0, attributes={"_ARRAY_DIMENSIONS": ["x"], "units": "m"})
OLD_V2 = GroupV2({"g": GroupV2({"x0": X})}, {"title": "old"})
NEW_V2 = GroupV2(
    {"g": GroupV2({"x0": X, "x1": X}, {"more": 1}), "h": GroupV2({}, {"a": 1})}, {"title": "new"}
)
OLD, NEW = to_v3(OLD_V2), to_v3(NEW_V2)


@pytest.mark.parametrize(
    ("present", "new", "method"),
    [(None, NEW, "PUT"), (None, NEW, "DELETE"), (OLD, NEW, "PUT"), (OLD_V2, NEW_V2, "PUT")],
    ids=["new", "another version", "present", "present in version 2"],
)
def test_a_kill_leaves_a_valid_part_and_the_same_copy_adds_the_rest(
    ceph_with_faults: Faults, tmp_path: Path, present: Node | None, new: Node, method: str
) -> None:
    """SEMANTICS D40."""
    place, spool = bucket_of(ceph_with_faults.server), tmp_path / "spool"
    document = tmp_path / "new.json"
    document.write_text(f"{dumps(new)}\n")
    is_whole = False
    for step in itertools.count():
        if is_whole:
            break
        name = f"n{step}.zarr"
        if present is not None:
            create(place.url_of(name), present)
        fault = f"status:503 {method} path=/{name}/ skip={step}"
        copy = f"{name}/zom.json"
        is_whole = is_copied_before(fault, ceph_with_faults, place, spool, document, copy)
        left = from_store(place.url_of(name))
        assert not left.problems
        assert bool(diff(left.node, new)) is not is_whole
        with mounted(place.url, "--spool-dir", str(spool)) as path:
            again = run("cp", document, path / "datasets" / copy)
            assert (again.returncode, again.stderr) == (0, "")
        assert from_store(place.url_of(name)).node == new
        assert place.findings(name) == []
        assert files_in(spool) == []
    assert step > (3 if method == "PUT" else 1)
