"""What is open, by its numbers."""

from __future__ import annotations

import itertools

import pytest

from nczfs.errors import BadHandle
from nczfs.vfs.handles import HandleTable


def test_a_handle_is_good_for_one_kind_until_it_is_given_back() -> None:
    numbers = itertools.count(1)
    files: HandleTable[str] = HandleTable("file", numbers)
    directories: HandleTable[str] = HandleTable("directory", numbers)
    file, directory = files.add("f"), directories.add("d")
    assert (files.get(file), directories.get(directory)) == ("f", "d")
    with pytest.raises(BadHandle, match=f"no open directory has the handle {file}"):
        directories.get(file)
    assert (files.take(file), files.take(file)) == ("f", None)
    with pytest.raises(BadHandle, match="no open file"):
        files.get(file)


def test_all_are_given_back_at_once() -> None:
    table: HandleTable[str] = HandleTable("file", itertools.count(1))
    table.add("one")
    table.add("two")
    assert (len(table), table.all(), table.take_all()) == (2, ["one", "two"], ["one", "two"])
    assert (len(table), table.all()) == (0, [])
