"""Two clients that make a node of the same name, where an answer to one of them is lost."""

from __future__ import annotations

from typing import Final

import pytest

from nczfs.errors import AccessDenied, NameTaken, Unavailable
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.memory import MemoryZMap

WRITES: Final = frozenset({"write"})


def begun(number: int, *, after: bool, **attributes: int) -> tuple[MemoryZMap, Faulty, OpenDataset]:
    """A dataset of Zarr v2 with a group, to one of whose documents there was no answer.

    Parameters
    ----------
    number : of the document.
    after : whether it is stored.
    """
    memory = MemoryZMap()
    open_zmap(memory, "w", format="zarr2").close()
    faulty = Faulty(memory)
    root = open_zmap(faulty, "r+")
    root.create_group("v", attributes)
    faulty.arm(Fault(number, after=after, operations=WRITES))
    with pytest.raises(Unavailable):
        root.sync()
    faulty.arm()
    return memory, faulty, root


def attributes_of(memory: MemoryZMap) -> dict[str, object]:
    with open_zmap(memory) as root:
        return dict(root["v"].attrs)


def test_a_group_that_another_client_has_made_with_other_attributes_is_not_ones_own() -> None:
    """SEMANTICS W106."""
    memory, _, root = begun(1, after=False, ours=1)
    with open_zmap(memory, "r+") as other:
        other.create_group("v", {"theirs": 2})
    with root:
        with pytest.raises(NameTaken):
            root.sync()
        root.sync()
    assert attributes_of(memory) == {"theirs": 2}


@pytest.mark.parametrize("after", [False, True])
def test_one_with_the_same_attributes_may_be(after: bool) -> None:
    memory, _, root = begun(1, after=after, ours=1)
    if not after:
        with open_zmap(memory, "r+") as other:
            other.create_group("v", {"ours": 1})
    root.close()
    assert attributes_of(memory) == {"ours": 1}


@pytest.mark.parametrize("after", [False, True])
def test_what_another_client_may_have_made_stays(after: bool) -> None:
    """SEMANTICS W106: the bytes are the same, whoever has stored them."""
    memory, faulty, root = begun(0, after=after)
    if not after:
        with open_zmap(memory, "r+") as other:
            other.create_group("v")
    with root:
        root["v"].attrs["ours"] = 1
        faulty.arm(Fault(0, AccessDenied, operations=WRITES))
        with pytest.raises(AccessDenied):
            root.sync()
        faulty.arm()
    assert attributes_of(memory) == {}
