"""Removing groups and variables: what goes, in which order, and what an end in between leaves."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from functools import partial

import numpy as np
import pytest

from nczfs.engine.options import Tally
from nczfs.engine.structure.removal import planned, remove
from nczfs.errors import (
    ForeignObjects,
    NczfsError,
    NoSuchNode,
    StructureChanged,
    Unavailable,
    UsageError,
)
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.madeonce import made_once
from tests.support.waiting import until

FORMATS = ("nczarr-L1", "nczarr-L2U", "nczarr-L2l", "nczarr-L3", "zarr2")
CHANGES = frozenset({"write", "delete", "list"})
VALUES = np.arange(4, dtype="f4")


@made_once
def made(format: str = "nczarr-L3", *, consolidated: bool = False) -> MemoryZMap:
    """Variables v and w, and a group g with a variable and a group."""
    zmap = MemoryZMap("memory://removal")
    with open_zmap(zmap, "w", format=format, consolidated=consolidated) as root:
        root.create_dimension("x", 4)
        for name in ("v", "w"):
            root.create_variable(name, ("x",), "<f4", VALUES, chunks=(2,))
        group = root.create_group("g", {"title": "t"})
        group.create_variable("a", ("x",), "<i4", np.arange(1, 5, dtype="i4"), chunks=(1,))
        group.create_group("deep").create_variable("b", (), "<i4", np.int32(3))
    return zmap


def keys_of(zmap: ZMap) -> list[str]:
    return sorted(stat.key for stat in zmap.list(ROOT))


def written_again(zmap: ZMap) -> OpenDataset:
    return open_zmap(zmap, "r+")


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("path", ["v", "g", "g/a", "g/deep"])
def test_a_node_goes_with_its_keys_from_its_group_and_from_the_copy(
    format: str, consolidated: bool, path: str
) -> None:
    """SEMANTICS W18."""
    zmap = made(format, consolidated=consolidated)
    others = [key for key in keys_of(zmap) if not key.startswith(f"{path}/")]
    with written_again(zmap) as root:
        del root[path]
        with pytest.raises(KeyError):
            root[path]
    assert keys_of(zmap) == others
    if consolidated:
        copy = json.loads(bytes(zmap.read(parse_key(".zmetadata")).data))["metadata"]
        documents = {key for key in others if key.endswith((".zarray", ".zgroup", ".zattrs"))}
        assert set(copy) == documents
    with open_zmap(zmap) as root:
        assert root.problems == ()
        above, _, name = path.rpartition("/")
        group = root[above] if above else root
        assert name not in [*group.variables, *group.groups]  # type: ignore[union-attr]
        assert root.variables["w"][...].tolist() == VALUES.tolist()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("path", ["new", "g/new"])
@pytest.mark.parametrize("is_group", [False, True])
def test_what_another_client_has_made_since_goes_from_its_group_too(
    format: str, path: str, is_group: bool
) -> None:
    zmap = made(format)
    above, _, name = path.rpartition("/")
    with written_again(zmap) as root:
        assert {*root.groups, *root.groups["g"].groups} == {"g", "deep"}
        with written_again(zmap) as other:
            if is_group:
                other.create_group(path)
            else:
                (other.groups[above] if above else other).create_variable(name, (), "i4")
        remove(root._dataset, path)
    with open_zmap(zmap) as root:
        group = root.groups[above] if above else root
        assert group.problems == ()
        assert name not in [*group.variables, *group.groups]


def test_a_dimension_stays() -> None:
    """SEMANTICS W42."""
    zmap = made()
    with written_again(zmap) as root:
        del root["v"], root["w"], root["g"]
    with open_zmap(zmap) as root:
        assert root.dimensions["x"].size == 4


def test_who_has_the_variable_can_neither_read_nor_write_it() -> None:
    """SEMANTICS W17."""
    zmap = made()
    with written_again(zmap) as root:
        array = root._dataset.array(root.variables["v"].description)
        root.variables["v"][0:1] = 7  # of a chunk that is not whole, so that it waits
        del root["v"]
        with pytest.raises(StructureChanged):
            array.write_run(0, VALUES)
        array.request((1,), Tally())
        with pytest.raises(StructureChanged):
            array.read_run(0, np.empty(4, "f4"), Tally())
        assert root._dataset.engine.writeback.dirty_bytes == 0
    assert not [key for key in keys_of(zmap) if key.startswith("v/")]


def test_another_one_can_be_made_in_its_place() -> None:
    zmap = made()
    with written_again(zmap) as root:
        del root["v"]
        root.create_variable("v", ("x",), "<i2", np.arange(4, dtype="i2"))
        assert root.variables["v"][...].tolist() == [0, 1, 2, 3]
    with open_zmap(zmap) as root:
        assert root.variables["v"].dtype == np.dtype("i2")


def test_what_was_never_stored_is_dropped() -> None:
    zmap = made()
    before = keys_of(zmap)
    with written_again(zmap) as root:
        root.create_group("new").create_variable("n", ("x",), "<i4")
        root["g"].attrs["title"] = "other"
        del root["new"]
    assert keys_of(zmap) == before
    with open_zmap(zmap) as root:
        assert root["g"].attrs["title"] == "other"
        assert list(root.groups) == ["g"]


@pytest.mark.parametrize("removed", ["new", "new/n", "new/deep"])
@pytest.mark.parametrize("format", [*FORMATS, "zarr3"])
def test_chunks_that_are_stored_go_with_a_variable_that_is_not(format: str, removed: str) -> None:
    zmap = MemoryZMap()

    def chunks_below(path: str) -> list[str]:
        return [key for key in keys_of(zmap) if key.startswith(f"{path}/")]

    with open_zmap(zmap, "w", format=format) as root:
        root.create_dimension("x", 4)
        deep = root.create_group("new/deep")
        root.sync()
        for group, name in ((root.groups["new"], "n"), (deep, "m")):
            group.create_variable(name, ("x",), "<f4", VALUES, chunks=(2,))
            until(partial(lambda path: len(chunks_below(path)) == 2, f"{group.path[1:]}/{name}"))
        del root[removed]
        assert chunks_below(removed) == []
    with open_zmap(zmap) as root:
        assert [*root.groups] == ([] if removed == "new" else ["new"])


def test_the_root_is_removed_by_the_editor_alone() -> None:
    zmap = made(consolidated=True)
    count = len(keys_of(zmap))
    with written_again(zmap) as root:
        with pytest.raises(UsageError, match="'w'"):
            del root["/"]
        assert planned(root._dataset, "").count == count
        assert root.editor.remove("") == count
    assert keys_of(zmap) == []


@pytest.mark.parametrize("path", ["nosuch", "v/0", "g/nosuch/deeper"])
def test_what_is_no_node_is_refused(path: str) -> None:
    zmap = made()
    before = keys_of(zmap)
    with written_again(zmap) as root, pytest.raises(NoSuchNode):
        root.editor.remove(path)
    assert keys_of(zmap) == before


def test_chunks_that_belong_to_nothing_are_removed_and_other_keys_are_not() -> None:
    """SEMANTICS W18."""
    zmap = made()
    before = keys_of(zmap)
    for name in ("0.0", "1/2", "c/3", ".zattrs"):
        zmap.write(parse_key(f"left/{name}"), b"{}")
    zmap.write(parse_key("else/0"), b"")
    zmap.write(parse_key("else/notes.txt"), b"")
    with written_again(zmap) as root:
        assert root.editor.remove("left") == 4
        with pytest.raises(NoSuchNode, match=r"notes\.txt"):
            root.editor.remove("else")
    assert keys_of(zmap) == sorted([*before, "else/0", "else/notes.txt"])


def test_a_removal_that_never_began_leaves_the_node_and_what_was_written_to_it() -> None:
    faulty = Faulty(made())
    with written_again(faulty) as root:
        root.variables["v"][0:1] = 7
        faulty.arm(Fault(0, operations=frozenset({"write"})))
        with pytest.raises(Unavailable):
            del root["v"]
        assert list(root.variables) == ["v", "w"]
    with open_zmap(faulty) as root:
        assert root.variables["v"][...].tolist() == [7, 1, 2, 3]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("path", ["v", "g", ""])
@pytest.mark.parametrize("format", ["nczarr-L3", "nczarr-L1", "zarr2"])
def test_whichever_request_fails_nothing_is_broken_and_the_rest_goes_later(
    format: str, path: str, after: bool
) -> None:
    """SEMANTICS W18: fail the n-th change of the store, n = 0, 1, 2, ..."""
    for call in itertools.count():
        store = made(format, consolidated=True)
        faulty = Faulty(store)
        with suppress(NczfsError), written_again(faulty) as root:
            faulty.arm(Fault(call, after=after, operations=CHANGES))
            root.editor.remove(path)
        check_whole(store, path)
        if not faulty.fired:
            break
        if ".zgroup" in keys_of(store):
            with suppress(NoSuchNode), written_again(store) as again:
                again.editor.remove(path)
        assert not [key for key in keys_of(store) if not path or key.startswith(f"{path}/")]
    assert call > 5


def check_whole(store: ZMap, path: str) -> None:
    """What others find is whole, whether it is there or not."""
    keys = keys_of(store)
    if ".zmetadata" in keys:
        copy = json.loads(bytes(store.read(parse_key(".zmetadata")).data))["metadata"]
        assert [key for key in copy if key not in keys] == []
    if not keys:
        return
    with open_zmap(store) as root:
        assert root.problems == ()
        for name, variable in root.variables.items():
            assert variable[...].tolist() == VALUES.tolist(), name
        for group in root.groups.values():
            for variable in group.variables.values():
                assert variable[...].tolist() == [1, 2, 3, 4]
        assert not path or root.variables["w"][...].tolist() == VALUES.tolist()


FOREIGN = (
    "notes.txt",
    "g/mail/1",
    "g/2024/05.csv",
    "v/README",
    "v/01",
    "new3/zarr.json",
    "new3/c/0",
)


def with_foreign(zmap: MemoryZMap) -> MemoryZMap:
    for key in FOREIGN:
        zmap.write(parse_key(key), b"precious")
    return zmap


@pytest.mark.parametrize("format", ["nczarr-L3", "nczarr-L1", "zarr2"])
@pytest.mark.parametrize("path", ["v", "g", ""])
def test_objects_that_belong_to_no_dataset_stop_the_removal_before_it_begins(
    format: str, path: str
) -> None:
    """SEMANTICS W39."""
    zmap = with_foreign(made(format, consolidated=True))
    before = {key: bytes(zmap.read(parse_key(key)).data) for key in keys_of(zmap)}
    foreign = sorted(key for key in FOREIGN if key.startswith(path))
    with written_again(zmap) as root:
        assert sorted(planned(root._dataset, path).foreign) == foreign
        with pytest.raises(ForeignObjects, match=rf"{len(foreign)} objects .*nothing was removed"):
            root.editor.remove(path)
    assert {key: bytes(zmap.read(parse_key(key)).data) for key in keys_of(zmap)} == before


@pytest.mark.parametrize("format", ["nczarr-L3", "nczarr-L1", "zarr2"])
def test_by_force_the_dataset_goes_and_what_is_foreign_stays(format: str) -> None:
    zmap = with_foreign(made(format, consolidated=True))
    with written_again(zmap) as root:
        assert remove(root._dataset, "", force=True) > 10
    assert keys_of(zmap) == sorted(FOREIGN)


def test_a_message_about_very_many_foreign_objects_is_short() -> None:
    zmap = made()
    for number in range(10_000):
        zmap.write(parse_key(f"g/photo{number}.jpg"), b"")
    with written_again(zmap) as root, pytest.raises(ForeignObjects) as refused:
        del root["g"]
    assert "10000 objects belong" in str(refused.value)
    assert "and 9990 more" in str(refused.value)
    assert len(str(refused.value)) < 400


def test_a_dataset_is_not_made_anew_over_files_of_others() -> None:
    zmap = with_foreign(made())
    before = keys_of(zmap)
    with pytest.raises(ForeignObjects, match=r"notes\.txt"):
        open_zmap(zmap, "w")
    assert keys_of(zmap) == before


def test_documents_of_zarr_v3_beside_those_of_v2_are_part_of_the_dataset() -> None:
    zmap = made("zarr2")
    for place in ("g/", "v/"):
        zmap.write(parse_key(f"{place}zarr.json"), b"{}")
    with written_again(zmap) as root:
        root.editor.remove("")
    assert keys_of(zmap) == []
