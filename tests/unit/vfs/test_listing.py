"""Directories while they are open."""

from __future__ import annotations

from itertools import islice

from nczfs.vfs.appearance import Appearance
from nczfs.vfs.inodes import InodeTable
from nczfs.vfs.listing import OpenDirectory
from nczfs.vfs.nodes import FixedDirectory

NAMES = [b"a", b"b", b"c", b"d", b"e"]


def table_of(names: list[bytes]) -> InodeTable:
    return InodeTable(FixedDirectory({name.decode(): FixedDirectory({}, 0) for name in names}, 0))


def opened(table: InodeTable) -> OpenDirectory:
    return OpenDirectory(table.root, table, Appearance())


def test_whoever_goes_on_or_back_finds_the_same_listing() -> None:
    directory = opened(table_of(NAMES))
    first = list(islice(directory.read(0), 3))
    assert [entry.name for entry in directory.read(first[-1].cookie)] == NAMES[3:]
    assert [entry.name for entry in directory.read(first[0].cookie)] == NAMES[1:]
    assert list(directory.read(0))[:3] == first


def test_nothing_is_listed_before_somebody_begins() -> None:
    assert list(opened(table_of(NAMES)).read(3)) == []


def test_inodes_of_a_listing_stay_when_they_were_taken_and_go_otherwise() -> None:
    table = table_of(NAMES)
    directory = opened(table)
    entries = list(directory.read(0))
    table.remember(entries[1].attributes.ino)
    assert len(table) == 1 + len(NAMES)
    directory.close()
    assert len(table) == 2
    assert table.get(entries[1].attributes.ino).name == "b"
