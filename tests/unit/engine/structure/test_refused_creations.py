"""New nodes whose group, or its list of members, the store refuses."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import pytest

from nczfs.errors import AccessDenied, NoSuchNode, Unavailable
from nczfs.library.api import Group, OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.contents import objects_of

LISTS = {"nczarr-L1": (4, ".nczgroup"), "nczarr-L2l": (2, ".zgroup"), "nczarr-L3": (2, ".zattrs")}
"""How many documents of a group with attributes precede the list of the root, and its key."""

LISTING = tuple(LISTS)
ALL = (*LISTING, "zarr2", "zarr3")
WRITES = frozenset({"write"})


def found_below(node: Group) -> Iterator[str]:
    """The paths of the nodes that a reader finds."""
    assert node.problems == ()
    yield from (each.path for each in node.variables.values())
    for each in node.groups.values():
        yield each.path
        yield from found_below(each)


def check_all_is_found(zmap: ZMap) -> None:
    places = {key.rpartition("/")[0] for key in objects_of(zmap)}
    with open_zmap(zmap) as root:
        assert {path.strip("/") for path in found_below(root)} == places - {""}


def group(root: OpenDataset) -> None:
    root.create_group("v", {"a": 1})


def variable(root: OpenDataset) -> None:
    root.create_variable("v", (), "i4", attributes={"a": 1})


def hierarchy(root: OpenDataset) -> None:
    root.create_group("v/g/h", {"a": 1})
    root.groups["v"].groups["g"].create_variable("x", (), "i4")


MAKING = (group, variable, hierarchy)


@pytest.mark.parametrize("make", MAKING)
@pytest.mark.parametrize("metadata_format", ALL)
def test_nothing_is_left_whichever_document_is_refused(
    metadata_format: str, make: Callable[[OpenDataset], None]
) -> None:
    """SEMANTICS W102."""
    for failing in itertools.count():
        memory = MemoryZMap()
        open_zmap(memory, "w", format=metadata_format).close()
        before, faulty = objects_of(memory), Faulty(memory)
        with open_zmap(faulty, "r+") as root:
            make(root)
            faulty.arm(Fault(failing, AccessDenied, operations=WRITES))
            with suppress(AccessDenied):
                root.sync()
            if not faulty.fired:
                break
            root.sync()
            assert root._dataset.edits.pending() == []
            assert make is hierarchy or objects_of(memory) == before
            check_all_is_found(memory)
            if objects_of(memory) == before:
                make(root)
        check_all_is_found(memory)
    assert failing


@pytest.mark.parametrize("metadata_format", LISTING)
def test_a_list_that_has_the_name_already_keeps_the_node(metadata_format: str) -> None:
    """The answer to the first write of the list is lost; another change of it is refused."""
    memory = MemoryZMap()
    open_zmap(memory, "w", format=metadata_format).close()
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as root:
        group(root)
        number, _ = LISTS[metadata_format]
        faulty.arm(Fault(number, Unavailable, after=True, operations=WRITES))
        with pytest.raises(Unavailable):
            root.sync()
        root.create_group("w")
        faulty.arm(Fault(number, AccessDenied, operations=WRITES))
        with pytest.raises(AccessDenied):
            root.sync()
        root.sync()
    with open_zmap(memory) as root:
        assert root.problems == ()
        assert [*root.groups] == ["v"]
        assert root["v"].attrs["a"] == 1
    assert not any(key.startswith("w/") for key in objects_of(memory))


def refuse_a_list_that_others_changed(
    memory: MemoryZMap, metadata_format: str, theirs: Mapping[str, bytes]
) -> None:
    """Make a group; before its name is refused, another client stores documents."""
    number, last = LISTS[metadata_format]

    def others_write(operation: str, key: str) -> None:
        if (operation, key) == ("write", last):
            for each, data in theirs.items():
                memory.write(parse_key(each), data)

    faulty = Faulty(memory, before_call=others_write)
    with open_zmap(faulty, "r+") as root:
        group(root)
        faulty.arm(Fault(number, AccessDenied, operations=WRITES))
        with pytest.raises(AccessDenied):
            root.sync()


@pytest.mark.parametrize("metadata_format", LISTING)
def test_a_node_that_another_client_lists_meanwhile_stays(metadata_format: str) -> None:
    memory, whole = MemoryZMap(), MemoryZMap()
    open_zmap(memory, "w", format=metadata_format).close()
    with open_zmap(whole, "w", format=metadata_format) as root:
        group(root)
    _, last = LISTS[metadata_format]
    refuse_a_list_that_others_changed(memory, metadata_format, {last: objects_of(whole)[last]})
    assert objects_of(memory) == objects_of(whole)


@pytest.mark.parametrize("metadata_format", LISTING)
def test_what_another_client_has_changed_stays(metadata_format: str) -> None:
    memory = MemoryZMap()
    open_zmap(memory, "w", format=metadata_format).close()
    theirs: Mapping[str, bytes] = {"v/.zattrs": b'{"theirs": 1}'}
    refuse_a_list_that_others_changed(memory, metadata_format, theirs)
    assert objects_of(memory).items() >= theirs.items()


@pytest.mark.parametrize("metadata_format", ["nczarr-L2l", "nczarr-L3"])
def test_values_of_a_variable_that_no_list_has_are_told_to_be_lost(metadata_format: str) -> None:
    memory = MemoryZMap()
    with open_zmap(memory, "w", format=metadata_format) as root:
        root.create_dimension("t", None)
    before, faulty = objects_of(memory), Faulty(memory)
    with open_zmap(faulty, "r+") as root:
        made = root.create_variable("v", ("t",), "i4")
        faulty.arm(Fault(2, AccessDenied, operations=WRITES))
        with pytest.raises(AccessDenied):
            root.sync()
        assert objects_of(memory) == before
        with pytest.raises(NoSuchNode):
            made[:3] = 1
        root.sync()
    assert objects_of(memory) == before
