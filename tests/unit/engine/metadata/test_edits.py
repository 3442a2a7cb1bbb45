"""Pending changes of metadata on their way into the store; others write, and calls fail."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from nczfs.engine.metadata.changes import AddMember, MemberChange, RemoveMember, RenameMember
from nczfs.engine.options import EngineOptions
from nczfs.errors import (
    AccessDenied,
    DeadlinePassed,
    NameTaken,
    NoSuchNode,
    StoreError,
    StructureChanged,
    Unavailable,
)
from nczfs.formats.base import Node
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.late import LateZMap

FORMATS = ("nczarr-L3", "nczarr-L2l", "nczarr-L1", "zarr2")
WRITES = frozenset({"write"})


@pytest.fixture(params=FORMATS)
def layout(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def memory(layout: str) -> MemoryZMap:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=layout) as dataset:
        dataset.attrs["title"] = "t"
        dataset.attrs["version"] = 1
        dataset.create_dimension("x", 4)
        variable = dataset.create_variable("v", ("x",), "i4", chunks=(2,), fillvalue=-1)
        variable.attrs["units"] = "m"
        dataset.create_group("g")
    return zmap


@pytest.fixture
def dataset(memory: MemoryZMap) -> Iterator[OpenDataset]:
    with open_zmap(memory, "r+") as dataset:
        yield dataset


@pytest.fixture
def other(memory: MemoryZMap) -> Iterator[OpenDataset]:
    with open_zmap(memory, "r+") as dataset:
        yield dataset


def documents(memory: MemoryZMap) -> dict[str, bytes]:
    found = (stat.key for stat in memory.list(ROOT))
    return {str(key): bytes(memory.read(key).data) for key in found if "/." in f"/{key}"}


def seen(memory: MemoryZMap, look: Callable[[OpenDataset], Any]) -> Any:
    with open_zmap(memory) as dataset:
        return look(dataset)


def test_a_change_is_seen_at_once_here_and_elsewhere_after_sync(
    memory: MemoryZMap, dataset: OpenDataset
) -> None:
    before = documents(memory)
    variable = dataset.variables["v"]
    variable.attrs["units"], dataset.attrs["new"] = "km", [1, 2]
    assert variable.attrs["units"] == dataset.variables["v"].attrs["units"] == "km"
    assert list(dataset.attrs) == ["title", "version", "new"]
    assert documents(memory) == before
    dataset.sync()
    assert seen(memory, lambda d: d.variables["v"].attrs["units"]) == "km"
    assert seen(memory, lambda d: list(d.attrs)) == ["title", "version", "new"]


def test_what_two_clients_changed_of_one_node_is_all_there(
    memory: MemoryZMap, dataset: OpenDataset, other: OpenDataset
) -> None:
    assert dataset.attrs["title"] == other.attrs["title"] == "t"
    dataset.attrs["title"], other.attrs["version"] = "T", 2
    dataset.attrs["mine"], other.attrs["theirs"] = "m", "t"
    del other.variables["v"].attrs["units"]
    dataset.variables["v"].attrs["long_name"] = "l"
    dataset.sync()
    other.sync()
    found = seen(memory, lambda d: dict(d.attrs))
    assert found == {"title": "T", "version": 2, "mine": "m", "theirs": "t"}
    attrs = seen(memory, lambda d: dict(d.variables["v"].attrs))
    assert attrs == {"_FillValue": -1, "long_name": "l"}


def test_a_change_between_reading_and_replacing_a_document_is_kept(memory: MemoryZMap) -> None:
    intruded: list[str] = []

    def intrude(operation: str, key: str) -> None:
        if operation == "write" and not intruded:
            intruded.append(key)
            with open_zmap(memory, "r+") as intruder:
                intruder.attrs["theirs"] = "t"

    with open_zmap(Faulty(memory, before_call=intrude), "r+") as dataset:
        dataset.attrs["mine"] = "m"
    assert intruded
    found = seen(memory, lambda d: dict(d.attrs))
    assert found == {"title": "t", "version": 1, "mine": "m", "theirs": "t"}


def test_two_clients_make_different_members_of_one_group(
    memory: MemoryZMap, dataset: OpenDataset, other: OpenDataset
) -> None:
    for client, name in ((dataset, "a"), (other, "b")):
        client.create_variable(f"v{name}", ("x",), "i2")
        client.create_group(f"g/{name}")
        client.create_dimension(f"d{name}", 3)
    dataset.sync()
    other.sync()
    assert seen(memory, lambda d: set(d.variables)) == {"v", "va", "vb"}
    assert seen(memory, lambda d: set(d.groups["g"].groups)) == {"a", "b"}


def test_who_makes_a_variable_of_a_name_that_is_taken_meanwhile_is_told(
    memory: MemoryZMap, dataset: OpenDataset
) -> None:
    with open_zmap(memory, "r+") as other:
        dataset.create_variable("new", ("x",), "i2")
        other.create_variable("new", ("x",), "f8")
        other.sync()
        with pytest.raises(NameTaken, match="/new: another client has created it meanwhile"):
            dataset.sync()
    assert seen(memory, lambda d: d.variables["new"].dtype.str) == "<f8"
    assert dataset.variables["new"].dtype.str == "<f8"
    assert dataset._dataset.edits.pending() == [], "what cannot be had is not asked for again"
    dataset.attrs["title"] = "T"
    dataset.close()
    assert seen(memory, lambda d: d.attrs["title"]) == "T"


@pytest.mark.parametrize("name", ["a", "c"])
def test_a_refusal_is_told_though_something_else_of_the_same_sync_only_failed(name: str) -> None:
    """The failure is told again by the next sync, the refusal is not."""
    memory = MemoryZMap()
    open_zmap(memory, "w", format="zarr3").close()
    failing = {("write", f"{name}/zarr.json")}

    def fail(operation: str, key: str) -> None:
        if (operation, key) in failing:
            raise Unavailable("failed on purpose")

    with open_zmap(Faulty(memory, before_call=fail), "r+") as dataset:
        dataset.create_variable(name, (), "i2")
        dataset.create_variable("b", (), "i2")
        with open_zmap(memory, "r+") as other:
            other.create_variable("b", (), "f8")
        for error in (NameTaken, Unavailable):
            with pytest.raises(error):
                dataset.sync()
        failing.clear()
        dataset.sync()
    assert seen(memory, lambda d: d.variables["b"].dtype.str) == "<f8"
    assert seen(memory, lambda d: d.variables[name].dtype.str) == "<i2"


@pytest.mark.parametrize("change", [RemoveMember("new"), RenameMember("new", "other")])
def test_a_change_of_a_name_that_another_client_made_outlasts_the_refused_creation_of_it(
    change: MemberChange,
) -> None:
    memory = MemoryZMap()
    open_zmap(memory, "w", format="nczarr-L3").close()
    with open_zmap(memory, "r+") as dataset:
        dataset.create_group("new")
        with open_zmap(memory, "r+") as other:
            other.create_variable("new", (), "f8")
        dataset._dataset.edits.add("", change)
        with pytest.raises(NameTaken):
            dataset.sync()
        dataset.sync()
    assert "new" not in seen(memory, lambda d: [*d.variables, *d.groups])


def test_a_variable_that_is_made_again_replaces_none_that_another_client_made_meanwhile(
    memory: MemoryZMap, dataset: OpenDataset
) -> None:
    """Although this client has stored documents of a variable of that name before."""
    dataset.variables["v"].attrs["units"] = "km"
    dataset.sync()
    with open_zmap(memory, "r+") as other:
        del other["v"]
        dataset._dataset.forget_clean()
        dataset.create_variable("v", (4,), "i2")
        other.create_variable("v", (4,), "f8")
        other.sync()
        with pytest.raises(NameTaken, match="/v: another client has created it meanwhile"):
            dataset.sync()
    assert seen(memory, lambda d: d.variables["v"].dtype.str) == "<f8"


def test_what_was_stored_of_a_variable_replaces_none_that_another_client_made_since(
    memory: MemoryZMap,
) -> None:
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as dataset, open_zmap(memory, "r+") as other:
        dataset.create_variable("new", (4,), "i2", attributes={"units": "m"})
        faulty.arm(Fault(1, operations=WRITES))
        with pytest.raises(StoreError):
            dataset.sync()
        assert memory.stat(parse_key("new/.zattrs")).size
        other.create_variable("new", (4,), "f8", attributes={"units": "K"})
        other.sync()
        with pytest.raises(NameTaken, match="/new: another client has created it meanwhile"):
            dataset.sync()
    assert seen(memory, lambda d: d.variables["new"].dtype.str) == "<f8"
    assert seen(memory, lambda d: d.variables["new"].attrs["units"]) == "K"


@pytest.mark.parametrize("call", range(5))
@pytest.mark.parametrize("format_", ["nczarr", "zarr3"])
def test_a_variable_is_ones_own_though_an_attempt_to_change_it_failed_after_it_was_stored(
    format_: str, call: int
) -> None:
    """It has none of the bytes that were sent last, and is not what was created at first."""
    memory = MemoryZMap()
    with open_zmap(memory, "w", format=format_) as dataset:
        dataset.create_dimension("t", None)
        dataset.create_variable("v", ("t",), "i2")
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as dataset:
        dataset.create_variable("new", ("t",), "i2")
        dataset.resize_dimension("t", 2)
        faulty.arm(Fault(call, operations=WRITES, after=True))
        with suppress(StoreError):
            dataset.sync()
        dataset.resize_dimension("t", 4)
        faulty.arm(Fault(0, operations=WRITES, repeats=100))
        with pytest.raises(StoreError):
            dataset.sync()
        faulty.arm()
        dataset.sync()
    assert seen(memory, lambda d: d.variables["new"].shape) == (4,)


@pytest.mark.parametrize("gone", ["variable", "group"])
def test_a_change_of_what_another_client_removed_keeps_nothing_else_from_being_stored(
    memory: MemoryZMap, dataset: OpenDataset, gone: str
) -> None:
    node = dataset.variables["v"] if gone == "variable" else dataset.groups["g"]
    node.attrs["units"] = "km"
    dataset.attrs["title"] = "T"
    with open_zmap(memory, "r+") as other:
        del other["v" if gone == "variable" else "g"]
    with pytest.raises(NoSuchNode):
        dataset.sync()
    assert seen(memory, lambda d: d.attrs["title"]) == "T"
    dataset.attrs["title"] = "U"
    dataset.sync()
    assert seen(memory, lambda d: d.attrs["title"]) == "U"


def test_a_change_of_a_replaced_variable_keeps_nothing_else_from_being_stored(
    memory: MemoryZMap,
) -> None:
    """SEMANTICS W27: also where another change of the new variable is stored with it."""
    with open_zmap(memory, "r+", options=EngineOptions(metadata_ttl_s=0.0)) as dataset:
        dataset.variables["v"].attrs["units"] = "km"
        dataset.attrs["title"] = "T"
        with open_zmap(memory, "r+") as other:
            del other["v"]
            other.sync()
            other.create_variable("v", (), "f8", fillvalue=None)
        dataset.variables["v"].attrs["long_name"] = "of the new one"
        with pytest.raises(StructureChanged):
            dataset.sync()
        assert not dataset._dataset.edits.pending()
    assert seen(memory, lambda d: d.attrs["title"]) == "T"
    assert seen(memory, lambda d: dict(d.variables["v"].attrs)) == {"long_name": "of the new one"}


def test_a_change_that_the_store_refuses_is_withdrawn_and_a_length_is_not(
    memory: MemoryZMap, layout: str
) -> None:
    """SEMANTICS W27."""
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as dataset:
        if layout in ("nczarr-L3", "nczarr-L2l"):
            dataset.create_dimension("t", None)
            dataset.create_variable("r", ("t",), "i4", chunks=(2,))
            dataset.sync()
        else:
            dataset.create_variable("r", (0,), "i4", chunks=(2,))
            dataset.sync()
        dataset.attrs["title"] = "T"
        faulty.arm(Fault(0, AccessDenied, operations=WRITES, repeats=1000))
        with pytest.raises(AccessDenied):
            dataset.sync()
        assert dataset.attrs["title"] == "t"
        faulty.arm()
        dataset.sync()
        if layout in ("nczarr-L3", "nczarr-L2l"):
            faulty.arm(Fault(0, AccessDenied, operations=WRITES, repeats=1000))
            dataset.resize_dimension("t", 3)
            with pytest.raises(AccessDenied):
                dataset.sync()
            faulty.arm()
            dataset.sync()
            assert seen(memory, lambda d: d.variables["r"].shape) == (3,)


@pytest.mark.parametrize("error", [AccessDenied, Unavailable])
def test_the_consolidated_copy_is_owed_until_it_is_stored(
    memory: MemoryZMap, error: type[StoreError]
) -> None:
    with open_zmap(memory, "r+", consolidated=True) as dataset:
        dataset.attrs["title"] = "T"
    faulty = Faulty(memory)

    def refuse(operation: str, key: str) -> None:
        if operation == "write" and key == ".zmetadata":
            raise error("on purpose")

    def copied() -> Any:
        return json.loads(bytes(memory.read(parse_key(".zmetadata")).data))["metadata"]

    with open_zmap(faulty, "r+", options=EngineOptions(flush_age_s=3600.0)) as dataset:
        inner = dataset._dataset
        dataset.variables["v"].attrs["units"] = "km"
        faulty._before_call = refuse
        with pytest.raises(error):
            dataset.sync()
        assert inner.has_changes
        assert inner.edits.pending() == []
        trouble = inner.engine.trouble
        assert trouble is not None
        assert "on purpose" in trouble.error
        assert trouble.pause_s is not None
        assert 0 < trouble.pause_s <= 3600.0
        inner.store(["g"])  # nothing of that is owed
        with pytest.raises(error):
            inner.store(["v"])
        with pytest.raises(error):
            dataset.sync()
        assert seen(memory, lambda d: d.variables["v"].attrs["units"]) == "km"
        assert copied()["v/.zattrs"]["units"] == "m"
        faulty._before_call = None
        inner.store(["g"])
        assert not inner.has_changes
        assert inner.engine.trouble is None
        assert copied()["v/.zattrs"]["units"] == "km"


@pytest.mark.parametrize("change", ["attribute", "length"])
def test_a_document_that_arrives_without_an_answer_is_copied(change: str) -> None:
    late = LateZMap()
    with open_zmap(late, "w", consolidated=True) as made:
        made.create_dimension("t", None)
        made.create_variable("r", ("t",), "i4", chunks=(2,))

    def copied(name: str) -> Any:
        return json.loads(bytes(late.read(parse_key(".zmetadata")).data))["metadata"][f"r/{name}"]

    with open_zmap(late, "r+") as dataset:
        if change == "attribute":
            dataset.variables["r"].attrs["units"] = "km"
        else:
            dataset.resize_dimension("t", 3)
        late.delay(1)
        with pytest.raises(DeadlinePassed):
            dataset.sync()
        late.delay(0)
        assert late.land() == 1
        dataset.sync()
    if change == "attribute":
        assert copied(".zattrs")["units"] == "km"
    else:
        assert copied(".zarray")["shape"] == [3]


def change_much(dataset: OpenDataset) -> None:
    """Several changes of several nodes, new and old ones."""
    dataset.attrs["title"] = "T"
    dataset.create_dimension("y", 2)
    new = dataset.create_variable("new", ("y", "x"), "f4", chunks=(1, 4), attributes={"units": "K"})
    new[...] = 5
    dataset.variables["v"].attrs["units"] = "km"
    dataset.variables["v"][1] = 7
    group = dataset.create_group("g/h/i", {"deep": 1})
    group.create_variable("w", (), "i4", data=3)


def state(dataset: OpenDataset) -> dict[str, Any]:
    """All nodes that can be seen: attributes, shape and values."""
    found: dict[str, Any] = {}

    def look(group: Any, path: str) -> None:
        found[path] = dict(group.attrs)
        for name, variable in group.variables.items():
            assert not variable.problems
            found[f"{path}{name} attributes"] = dict(variable.attrs)
            found[f"{path}{name} values"] = variable[...].tolist()
        for name, below in group.groups.items():
            look(below, f"{path}{name}/")

    look(dataset, "")
    return found


@pytest.mark.parametrize("after", [False, True], ids=["refused", "answer lost"])
def test_whichever_write_fails_each_node_is_old_or_new_and_the_next_sync_completes_it(
    layout: str, memory: MemoryZMap, after: bool
) -> None:
    image = {stat.key: bytes(memory.read(stat.key).data) for stat in memory.list(ROOT)}
    old = seen(memory, state)
    change_only = MemoryZMap()
    for key, data in image.items():
        change_only.write(key, data)
    with open_zmap(change_only, "r+") as dataset:
        change_much(dataset)
    new = seen(change_only, state)
    failures = 0
    while True:
        store = MemoryZMap()
        for key, data in image.items():
            store.write(key, data)
        faulty = Faulty(store)
        with open_zmap(faulty, "r+") as dataset:
            # A failure may come while whole chunks are written, before sync.
            change_much(dataset)
            faulty.arm(Fault(failures, after=after, operations=WRITES))
            try:
                dataset.sync()
            except StoreError:
                assert faulty.fired
            else:
                break
            # Crashed now, somebody who opens the dataset finds every node old or new.
            for path, found in seen(store, state).items():
                assert found in (old.get(path), new.get(path)), (failures, path)
            # Not crashed, all is seen here, and the next sync stores it.
            assert state(dataset) == new
            dataset.sync()
            assert seen(store, state) == new
            assert dataset._dataset.edits.pending() == []
        failures += 1
    assert failures > 5
    assert seen(store, state) == new


@pytest.mark.parametrize("call", range(0, 12, 2))
def test_any_failing_call_of_a_sync_leaves_it_to_the_next_one(
    memory: MemoryZMap, call: int
) -> None:
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as dataset:
        change_much(dataset)
        wanted = state(dataset)
        faulty.arm(Fault(call, repeats=3))
        with pytest.raises(Unavailable):
            dataset.sync()
        faulty.arm()
        dataset.sync()
    assert seen(memory, state) == wanted


def test_what_makes_a_node_visible_is_written_last(layout: str) -> None:
    memory = MemoryZMap()
    keys: list[str] = []

    def note(operation: str, key: str) -> None:
        if operation == "write":
            keys.append(key)

    with open_zmap(Faulty(memory, before_call=note), "w", format=layout) as dataset:
        keys.clear()
        group = dataset.create_group("g")
        group.create_dimension("x", 4)
        group.create_variable("v", ("x",), "i4", chunks=(2,))[1:3] = 1

    def last(prefix: str) -> int:
        return max(i for i, key in enumerate(keys) if key.startswith(prefix))

    first_of_group = min(i for i, key in enumerate(keys) if key.startswith("g/."))
    assert last("g/v/") < first_of_group
    assert max(keys.index("g/v/0"), keys.index("g/v/1")) < keys.index("g/v/.zarray")
    assert keys.index("g/v/.zarray") == last("g/v/")
    if layout != "zarr2":
        assert last("g/") < min(i for i, key in enumerate(keys) if key.startswith("."))


def test_what_others_keep_in_the_documents_survives(layout: str, memory: MemoryZMap) -> None:
    for key in (".zgroup", "v/.zarray", "v/.zattrs"):
        found = json.loads(bytes(memory.read(parse_key(key)).data))
        member = "foreign" if key != "v/.zattrs" else "_foreign"
        document = {member: {"kept": [1, 2.50, None]}, **found}
        memory.write(parse_key(key), json.dumps(document, indent=1).encode())
    with open_zmap(memory, "r+") as dataset:
        change_much(dataset)
    for key in (".zgroup", "v/.zarray", "v/.zattrs"):
        found = json.loads(bytes(memory.read(parse_key(key)).data))
        kept = found.get("foreign", found.get("_foreign"))
        assert kept == {"kept": [1, 2.50, None]}, key


def test_a_document_that_does_not_change_is_not_written(memory: MemoryZMap) -> None:
    versions = {stat.key: stat.version for stat in memory.list(ROOT)}
    with open_zmap(memory, "r+") as dataset:
        dataset.attrs["title"] = "t"
        dataset.attrs.pop("none", None)
        dataset.sync()
    assert {stat.key: stat.version for stat in memory.list(ROOT)} == versions


@pytest.mark.parametrize("layout", ["nczarr-L3", "nczarr-L2l"])
def test_many_new_variables_are_stored_in_linear_time(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them needs the lengths of its group, but not all members of it."""
    count = 100
    applied = 0
    apply = AddMember.apply

    def counted(change: AddMember, node: Node | None) -> Node:
        nonlocal applied
        applied += 1
        return apply(change, node)

    monkeypatch.setattr(AddMember, "apply", counted)
    with open_zmap(MemoryZMap(), "w", format=layout) as dataset:
        dataset.create_dimension("t", None)
        for number in range(count):
            dataset.create_variable(f"v{number}", ("t",), "i4", chunks=(2,))
    assert applied <= 4 * count


@pytest.mark.parametrize("format_", [*FORMATS, "zarr3"])
@pytest.mark.parametrize("node", ["k", "k/w"])
def test_what_another_client_changes_of_a_new_node_is_kept_while_that_waits_for_its_group(
    format_: str, node: str
) -> None:
    memory = MemoryZMap()
    open_zmap(memory, "w", format=format_).close()
    is_there = False

    def refuse_the_group(operation: str, key: str) -> None:
        awaited = "k" if node == "k/w" else ""
        if operation == "write" and key.rpartition("/")[0] == awaited and not is_there:
            raise Unavailable("the group cannot be stored yet")

    with open_zmap(Faulty(memory, before_call=refuse_the_group), "r+") as dataset:
        group = dataset.create_group("k", {"units": "m"})
        group.create_variable("w", (4,), "i2", attributes={"units": "m"})
        if node == "k" and not dataset._dataset.format.declares:
            dataset.attrs["title"] = "t"
        with pytest.raises(Unavailable):
            dataset.sync()
        with open_zmap(memory, "r+") as other:
            other.editor.set_attributes(node, [Attribute("units", NcType.CHAR, "K")])
            if node == "k":
                other.editor.create_group("k/theirs")
            other.sync()
        is_there = True
        dataset.sync()
        assert dataset[node].attrs["units"] == "K"
    assert seen(memory, lambda d: d[node].attrs["units"]) == "K"
    members = seen(memory, lambda d: {*d.groups["k"].variables, *d.groups["k"].groups})
    assert members == ({"w", "theirs"} if node == "k" else {"w"})
