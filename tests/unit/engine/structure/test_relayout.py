"""Empty groups get the documents of another format."""

from __future__ import annotations

import itertools
from contextlib import suppress

import numpy as np
import pytest

from nczfs.errors import NczfsError, NotWritable
from nczfs.formats.base import FormatOptions
from nczfs.formats.registry import FORMATS
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.madeonce import made_once

CHANGES = frozenset({"write", "delete", "delete_many"})


@made_once
def made(format: str) -> MemoryZMap:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format=format) as root:
        root.attrs["title"] = "t"
        root.attrs["n"] = np.int32(3)
        root.create_group("g").create_group("inner").attrs["deep"] = 2.5
        root.create_group("h")
    return zmap


def change(root: OpenDataset, wanted: str) -> None:
    root.editor.change_format(FORMATS.named(wanted, FormatOptions()))


def described(zmap: ZMap) -> tuple[str, str]:
    with open_zmap(zmap) as root:
        assert root.problems == ()
        text = repr(root.tree())
        return root.stored.format, text


@pytest.mark.parametrize("wanted", FORMATS.names)
@pytest.mark.parametrize("format", FORMATS.names)
def test_groups_and_attributes_are_those_of_a_dataset_made_in_the_format(
    format: str, wanted: str
) -> None:
    zmap = made(format)
    with open_zmap(zmap, "r+") as root:
        change(root, wanted)
        root.create_dimension("x", 2)
        root.create_variable("v", ("x",), "<f4")
    other = made(wanted)
    with open_zmap(other, "r+") as root:
        root.create_dimension("x", 2)
        root.create_variable("v", ("x",), "<f4")
    assert described(zmap) == described(other)
    assert keys(zmap) == keys(other)
    for key in keys(zmap):
        assert bytes(zmap.read(parse_key(key)).data) == bytes(other.read(parse_key(key)).data)


def keys(zmap: ZMap) -> list[str]:
    return sorted(stat.key for stat in zmap.list(ROOT))


def test_a_dataset_with_variables_keeps_its_format() -> None:
    zmap = made("nczarr-L3")
    with open_zmap(zmap, "r+") as root:
        root["g"].create_variable("v", (), "<f4")  # type: ignore[union-attr]
        root.create_dimension("x", 3)
        with pytest.raises(NotWritable, match="stays nczarr-L3"):
            change(root, "zarr2")
    assert described(zmap)[0] == "nczarr-L3"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("format", "wanted"), [("nczarr-L3", "zarr2"), ("zarr2", "nczarr-L1")])
def test_whichever_request_fails_it_is_changed_by_the_next_call(
    format: str, wanted: str, after: bool
) -> None:
    for call in itertools.count():
        zmap = made(format)
        faulty = Faulty(zmap)
        with open_zmap(faulty, "r+") as root:
            faulty.arm(Fault(call, after=after, operations=CHANGES))
            with suppress(NczfsError):
                change(root, wanted)
            has_failed = bool(faulty.fired)
            faulty.arm()
            change(root, wanted)
        assert described(zmap) == described(made(wanted))
        if not has_failed:
            break
    assert call > 3
