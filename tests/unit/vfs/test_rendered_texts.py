"""Texts of elements of variable length: made once, however often they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import mount_tree
from nczfs.views import catalog
from nczfs.zmap.memory import MemoryZMap
from tests.support.copies import new_url
from tests.support.trees import find, listing, read_inode

TEXTS = np.array(["a", "bc", "", "d"] * 1000, object)
PLACE = "datasets/d.zarr/s"


@pytest.fixture
def fs(monkeypatch: pytest.MonkeyPatch) -> Iterator[TreeFileSystem]:
    """A mount of a far store, whose answers are believed for a while."""
    far = replace(MemoryZMap().features, near=False)
    monkeypatch.setattr(MemoryZMap, "features", property(lambda _: far))
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w", format="zarr2") as root:
        root.create_variable("s", (len(TEXTS),), str, data=TEXTS, chunks=(100,))
    tree = mount_tree(url)
    yield tree
    tree.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The variables whose lines were made."""
    names: list[str] = []
    lines_of_all = catalog._lines_of_all

    def noted(dataset: Any, variable: Any) -> bytes:
        names.append(variable.name)
        return lines_of_all(dataset, variable)

    monkeypatch.setattr(catalog, "_lines_of_all", noted)
    return names


def test_a_listing_makes_no_text_and_a_look_makes_it_once(
    fs: TreeFileSystem, made: list[str]
) -> None:
    listing(fs, PLACE)
    assert made == []
    ino = find(fs, f"{PLACE}/values.txt").ino
    for _ in range(3):  # as `ls -l` does
        listing(fs, PLACE)
        size = fs.getattr(ino).size
    text = read_inode(fs, ino, 0, 1 << 20)
    assert made == ["s"]
    assert len(text) == size
    assert text.splitlines()[:4] == [b'"a"', b'"bc"', b'""', b'"d"']


def test_the_description_of_a_variable_is_made_once(
    fs: TreeFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    info = catalog._info

    def noted(*arguments: Any) -> Any:
        made.append(arguments)
        return info(*arguments)

    monkeypatch.setattr(catalog, "_info", noted)
    find(fs, f"{PLACE}/info.json")
    for _ in range(3):
        listing(fs, PLACE)
    assert len(made) == 1
