"""A new node and its name in the list of its group are pending together."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from nczfs.engine.dataset import Dataset
from nczfs.errors import NameTaken
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.vfs.datasets.making import Making
from nczfs.views.declaration import wanted_node
from nczfs.zmap.memory import MemoryZMap

FORMATS = ("nczarr-L3", "nczarr-L2l", "nczarr-L1")
WANTED = wanted_node("g/new", json.dumps({"shape": [4], "dtype": "<i4"}).encode())


def make_group(root: OpenDataset) -> None:
    root.create_group("g/new")


def make_variable(root: OpenDataset) -> None:
    root.groups["g"].create_variable("new", (), "i4")


def make_of_a_group(root: OpenDataset) -> None:
    root.create_group("g/new")
    root.sync()
    Making(root.editor, takes_copies=True).make("g/new", WANTED)


MADE: list[tuple[Callable[[OpenDataset], None], list[str]]] = [
    (make_group, ["groups: new"]),
    (make_variable, ["variables: new"]),
    (make_of_a_group, ["groups: new", "variables: new"]),
]
"""With what the group shows after each time that changes were stored."""


@pytest.fixture(params=FORMATS)
def memory(request: pytest.FixtureRequest) -> MemoryZMap:
    memory = MemoryZMap()
    with open_zmap(memory, "w", format=request.param) as root:
        root.create_group("g")
    return memory


def with_each_change(
    monkeypatch: pytest.MonkeyPatch, root: OpenDataset, do: Callable[[], None]
) -> None:
    """Do something whenever a change has become pending, as the background may at any time."""
    engine = root._dataset.engine
    note, is_busy = engine.note_changes, False

    def noted(dataset: Dataset) -> None:
        nonlocal is_busy
        note(dataset)
        if not is_busy:
            is_busy = True
            do()
            is_busy = False

    monkeypatch.setattr(engine, "note_changes", noted)


@pytest.mark.parametrize(("make", "expected"), MADE)
def test_whenever_changes_are_stored_the_list_has_what_was_made(
    memory: MemoryZMap,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[OpenDataset], None],
    expected: list[str],
) -> None:
    with open_zmap(memory, "r+") as root:
        stored: list[str] = []

        def store() -> None:
            root._dataset.store()
            with open_zmap(memory) as other:
                group = other.groups["g"]
                groups = [f"groups: {name}" for name in group.groups]
                stored.extend(groups + [f"variables: {name}" for name in group.variables] or ["-"])

        with_each_change(monkeypatch, root, store)
        make(root)
    assert list(dict.fromkeys(stored)) == expected


def test_no_list_gets_the_name_of_what_was_refused(
    memory: MemoryZMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Because another client has made a variable there meanwhile."""
    with open_zmap(memory, "r+") as root, open_zmap(memory, "r+") as other:
        other.groups["g"].create_variable("new", (4,), "f8")

        def store() -> None:
            other.sync()
            with suppress(NameTaken):
                root._dataset.store()

        with_each_change(monkeypatch, root, store)
        make_group(root)
    with open_zmap(memory) as root:
        assert root.groups["g"].problems == ()
        assert ([*root.groups["g"].groups], [*root.groups["g"].variables]) == ([], ["new"])
