"""An empty group becomes a variable, wherever that is interrupted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest

from nczfs.errors import AccessDenied, NczfsError, StructureChanged, Unavailable
from nczfs.formats.registry import FORMATS
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.vfs.datasets.making import Making
from nczfs.views.declaration import wanted_node
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.contents import objects_of

CHANGES = frozenset({"write", "delete"})
INFO = {
    "shape": [4],
    "dtype": "<i4",
    "dimensions": ["x"],
    "attributes": {"units": "m"},
}
WANTED = wanted_node("v", json.dumps(INFO).encode())


def begun(zmap: ZMap, format: str) -> None:
    with open_zmap(zmap, "w", format=format) as root:
        root.create_group("v", {"title": "t"})
        root.create_group("other")


def make(root: OpenDataset) -> None:
    Making(root.editor, takes_copies=True).make("v", WANTED)


def finished(format: str) -> dict[str, bytes]:
    zmap = MemoryZMap()
    begun(zmap, format)
    with open_zmap(zmap, "r+") as root:
        make(root)
    return objects_of(zmap)


def check_nothing_is_lost(zmap: ZMap) -> bool:
    """Return whether readers find the variable."""
    with open_zmap(zmap) as root:
        assert root.problems == ()
        assert {*root.groups, *root.variables} == {"v", "other"}
        node = root["v"]
        assert node.problems == ()
        assert node.attrs["title"] == "t"
        if "v" in root.variables:
            assert (root.variables["v"].dimensions, node.attrs["units"]) == (("x",), "m")
        return "v" in root.variables


def _same(zmap: ZMap) -> ZMap:
    return zmap


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("format", FORMATS.names)
@pytest.mark.parametrize("store", ["memory", "directory"])
def test_a_kill_at_any_request_leaves_the_group_or_the_variable_and_the_next_call_completes_it(
    store: str, format: str, after: bool, tmp_path: Path
) -> None:
    seen = set()
    for call in itertools.count():
        directory = tmp_path / str(call)
        directory.mkdir()
        opened: Callable[[], ZMap] = partial(DirectoryZMap, directory)
        if store == "memory":
            opened = partial(_same, MemoryZMap())
        begun(opened(), format)
        faulty = Faulty(opened(), Fault(call, after=after, operations=CHANGES, repeats=1000))
        with suppress(NczfsError), open_zmap(faulty, "r+") as root:
            make(root)
        seen.add(check_nothing_is_lost(opened()))
        with open_zmap(opened(), "r+") as root:
            make(root)
        assert check_nothing_is_lost(opened())
        with closing(opened()) as zmap:
            assert objects_of(zmap) == finished(format)
        if not faulty.fired:
            break
    assert call >= (1 if format == "zarr3" else 3)
    assert seen == {False, True} or after


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("format", FORMATS.names)
def test_whichever_request_fails_the_next_sync_completes_it(format: str, after: bool) -> None:
    for call in itertools.count():
        zmap = MemoryZMap()
        begun(zmap, format)
        faulty = Faulty(zmap)
        with open_zmap(faulty, "r+") as root:
            faulty.arm(Fault(call, Unavailable, after=after, operations=CHANGES))
            with suppress(NczfsError):
                make(root)
            has_failed = bool(faulty.fired)
            faulty.arm()
            root.sync()
            make(root)
        assert objects_of(zmap) == finished(format)
        if not has_failed:
            break


@pytest.mark.parametrize("format", FORMATS.names)
def test_whichever_request_is_refused_for_good_the_group_or_the_variable_is_there(
    format: str,
) -> None:
    for call in itertools.count():
        zmap = MemoryZMap()
        begun(zmap, format)
        before = objects_of(zmap)
        faulty = Faulty(zmap, Fault(call, AccessDenied, operations=CHANGES))
        with suppress(AccessDenied), open_zmap(faulty, "r+") as root:
            make(root)
        if not check_nothing_is_lost(zmap) and format == "zarr3":
            assert objects_of(zmap)["v/zarr.json"] == before["v/zarr.json"]
        with open_zmap(zmap, "r+") as root:
            make(root)
        assert objects_of(zmap) == finished(format)
        if not faulty.fired:
            break


@pytest.mark.parametrize("format", FORMATS.names)
def test_a_store_that_removes_nothing_keeps_a_variable_that_readers_find(format: str) -> None:
    """What is left of the group is reported, and goes as soon as the store allows it."""
    zmap = MemoryZMap()
    begun(zmap, format)
    refused = Fault(0, AccessDenied, operations=frozenset({"delete"}), repeats=1000)
    with (
        pytest.raises(AccessDenied) if format != "zarr3" else nullcontext(),
        open_zmap(Faulty(zmap, refused), "r+") as root,
    ):
        make(root)
    assert check_nothing_is_lost(zmap)
    with open_zmap(zmap) as root:
        assert [*root.variables] == ["v"]
    with open_zmap(zmap, "r+") as root:
        make(root)
    assert objects_of(zmap) == finished(format)


@pytest.mark.parametrize("format", FORMATS.names)
def test_a_group_that_another_client_changes_meanwhile_keeps_that(format: str) -> None:
    """An attribute becomes one of the variable; where a member is listed, the group stays."""
    for what in ("attribute", "member"):
        zmap = MemoryZMap()
        begun(zmap, format)
        has_changed = False

        def change(operation: str, key: str, zmap: ZMap = zmap, what: str = what) -> None:
            nonlocal has_changed
            if operation in CHANGES and not has_changed:
                has_changed = True
                with open_zmap(zmap, "r+") as other:
                    if what == "attribute":
                        other["v"].attrs["theirs"] = "s"
                    else:
                        other.create_group("v/theirs")

        with open_zmap(Faulty(zmap, before_call=change), "r+") as root:
            is_refused = what == "member" and root._dataset.format.declares
            with pytest.raises(NczfsError) if is_refused else suppress(StructureChanged):
                make(root)
        with open_zmap(zmap) as root:
            assert root["v"].attrs["title"] == "t"
            if what == "attribute":
                assert dict(root["v"].attrs) == {"title": "t", "theirs": "s", "units": "m"}
            elif is_refused:
                assert [*root.groups["v"].groups] == ["theirs"]
        assert zmap.stat(parse_key(next(k for k in objects_of(zmap) if k.startswith("v/"))))
