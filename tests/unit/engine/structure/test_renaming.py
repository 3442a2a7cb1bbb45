"""Renaming groups and variables: what has the new name, and what an end in between leaves."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.metadata.hierarchy import LoadedNode
from nczfs.engine.opennode import NodePlaces
from nczfs.engine.structure.ownership import RENAMING
from nczfs.errors import (
    NameTaken,
    NczfsError,
    NoSuchNode,
    NotWritable,
    Unavailable,
    UsageError,
)
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools.verify.findings import Finding, FindingKind, Severity
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.madeonce import made_once
from tests.support.verifying import verify

FORMATS = ("nczarr-L1", "nczarr-L2U", "nczarr-L2l", "nczarr-L3", "zarr2")
CHANGES = frozenset({"write", "delete", "copy", "list"})
VALUES = np.arange(4, dtype="f4")
FOREVER = 10**6


@made_once
def made(format: str = "nczarr-L3", *, consolidated: bool = False) -> MemoryZMap:
    """Variables x, v and w, and a group g with a dimension, variables and a group."""
    zmap = MemoryZMap("memory://renaming")
    with open_zmap(zmap, "w", format=format, consolidated=consolidated) as root:
        root.create_dimension("x", 4)
        for name in ("x", "v", "w"):
            root.create_variable(name, ("x",), "<f4", VALUES, attributes={"n": name}, chunks=(2,))
        group = root.create_group("g", {"title": "t"})
        group.create_dimension("y", 3)
        group.create_variable("a", ("y",), "<i4", np.arange(3, dtype="i4"), chunks=(1,))
        deep = group.create_group("deep")
        if format != "zarr2":  # there dimensions belong to the groups of their variables
            deep.create_variable("b", ("y", "x"), "<i4", np.ones((3, 4), "i4"))
        deep.create_variable("c", (), "<i4", np.int32(3))
    return zmap


def keys_of(zmap: ZMap, below: str = "") -> list[str]:
    return sorted(s.key for s in zmap.list(ROOT) if not below or s.key.startswith(f"{below}/"))


def opened(zmap: ZMap) -> OpenDataset:
    return open_zmap(zmap, "r+")


def content(zmap: ZMap, path: str) -> dict[str, Any]:
    """All that a reader finds at a path and below it; paths count from there."""
    with open_zmap(zmap) as root:
        assert root.problems == ()
        listed = _below(root)
        found = {
            name[len(path) :]: (
                np.asarray(variable[...]).tolist(),
                dict(variable.attrs),
                [
                    (d.name, d.size, d.group.removeprefix(path))
                    for d in variable.description.dimensions
                ],
            )
            for name, variable in listed.items()
            if name == path or name.startswith(f"{path}/")
        }
        if not found:
            raise KeyError(path)
        return found


def _below(group: Any, place: str = "") -> dict[str, Any]:
    found = {f"{place}{name}": variable for name, variable in group.variables.items()}
    for name, each in group.groups.items():
        found |= _below(each, f"{place}{name}/")
    return found


@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("path", ["v", "x", "g", "g/a", "g/deep"])
def test_a_node_is_found_under_its_new_name_alone(
    format: str, consolidated: bool, path: str
) -> None:
    """SEMANTICS W32."""
    zmap = made(format, consolidated=consolidated)
    before, keys = content(zmap, path), keys_of(zmap)
    goal = f"{path.rpartition('/')[0]}/new".lstrip("/")
    with opened(zmap) as root:
        assert root.editor.rename(path, "new") == goal
        with pytest.raises(KeyError):
            root[path]
        assert root[goal] is not None
    assert content(zmap, goal) == before
    renamed = [f"{goal}{k[len(path) :]}" if k.startswith(f"{path}/") else k for k in keys]
    assert keys_of(zmap) == sorted(renamed)
    if consolidated:
        copy = json.loads(bytes(zmap.read(parse_key(".zmetadata")).data))["metadata"]
        documents = {k for k in renamed if k.endswith((".zarray", ".zgroup", ".zattrs"))}
        assert set(copy) == documents
    engine = Engine()
    assert not [f for f in verify(zmap, engine) if f.severity is Severity.ERROR]
    engine.close()


def test_a_dimension_keeps_its_name() -> None:
    """SEMANTICS W83."""
    zmap = made()
    with opened(zmap) as root:
        root.editor.rename("x", "longitude")
    with open_zmap(zmap) as root:
        assert [d.name for d in root.variables["longitude"].description.dimensions] == ["x"]
        assert list(root.dimensions) == ["x"]


@pytest.mark.parametrize(
    ("path", "name", "error", "message"),
    [
        ("v", "w", NameTaken, "exists already"),
        ("v", "g", NameTaken, "exists already"),
        ("v", "stray", NameTaken, "objects are there already"),
        ("none", "new", NoSuchNode, "no group or variable"),
        ("", "new", NotWritable, "whole dataset"),
        ("v", ".zarray", UsageError, "cannot be a name"),
        ("v", "a/b", UsageError, "slash"),
        ("v", "u\N{COMBINING DIAERESIS}", UsageError, "normal form"),
        ("g", "new", NotWritable, "/v2 lies outside of it, and uses one of its dimensions"),
    ],
)
def test_what_cannot_be_renamed_stays(
    path: str, name: str, error: type[NczfsError], message: str
) -> None:
    """SEMANTICS W84, W97."""
    zmap = made()
    zmap.write(parse_key("stray/0"), b"bytes")
    if path == "g":
        with opened(zmap) as root:
            root.create_variable("v2", ("/g/y",), "<i4")
    before = {key: bytes(zmap.read(parse_key(key)).data) for key in keys_of(zmap)}
    with opened(zmap) as root, pytest.raises(error, match=message):
        root.editor.rename(path, name)
    assert {key: bytes(zmap.read(parse_key(key)).data) for key in keys_of(zmap)} == before


def test_what_is_no_part_of_the_dataset_goes_with_its_group() -> None:
    """SEMANTICS W32."""
    zmap = made()
    zmap.write(parse_key("g/README"), b"text")
    with opened(zmap) as root:
        root.editor.rename("g", "new")
    assert bytes(zmap.read(parse_key("new/README")).data) == b"text"
    assert not keys_of(zmap, "g")


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("path", ["v", "g"])
@pytest.mark.parametrize("format", ["nczarr-L3", "nczarr-L1", "zarr2"])
def test_whichever_request_fails_the_old_or_the_new_one_is_whole(
    format: str, path: str, after: bool, is_killed: bool, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W33: fail the n-th change of the store, n = 0, 1, 2, ...; or all from then on."""
    expected_warnings.add("not all of it could be removed|was not completed")
    before = content(made(format), path)
    engine = Engine()
    outcomes = set()
    for call in itertools.count():
        store = made(format, consolidated=True)
        faulty = Faulty(store)
        is_renamed = False
        with suppress(NczfsError), opened(faulty) as root:
            repeats = FOREVER if is_killed else 1
            faulty.arm(Fault(call, after=after, operations=CHANGES, repeats=repeats))
            root.editor.rename(path, "new")
            is_renamed = True
        outcomes.add(check_left(store, engine, path, before, is_renamed=is_renamed))
        if not faulty.fired:
            break
    assert call > 10
    assert outcomes == ({"old", "new"})
    engine.close()


def check_left(
    store: ZMap, engine: Engine, path: str, before: dict[str, Any], *, is_renamed: bool
) -> str:
    """The old one is whole or the new one is, and what is left besides is named, and can go."""
    findings = verify(store, engine)
    renames = [finding for finding in findings if finding.kind is FindingKind.RENAME]
    others = [
        f for f in findings if f.severity is Severity.ERROR and f.kind is not FindingKind.RENAME
    ]
    # A copy that could not be brought up to date says so, and single documents are read then.
    assert {finding.kind for finding in others} <= {FindingKind.CONSOLIDATED}
    left = {place for place in (path, "new") if keys_of(store, place)}
    if len(left) == 2:
        assert named_in(findings) & left, findings
    for place in {finding.path.removeprefix("/") for finding in renames}:
        with opened(store) as root:
            root.editor.remove(place)
    alone = [place for place in (path, "new") if is_whole(store, place, before)]
    assert len(alone) == 1, (alone, findings)
    assert alone == ["new"] or not is_renamed
    for finding in verify(store, engine):
        assert finding.severity is not Severity.ERROR or finding.kind is FindingKind.CONSOLIDATED
    return "old" if alone == [path] else "new"


def named_in(findings: list[Finding]) -> set[str]:
    """The top of each place that a finding names, by its path or key."""
    named = {finding.path for finding in findings} | {f"/{f.key}" for f in findings}
    return {place.split("/")[1] for place in named}


def is_whole(store: ZMap, path: str, before: dict[str, Any]) -> bool:
    try:
        return content(store, path) == before
    except KeyError:
        return False


def test_marks_of_any_content_are_told_of() -> None:
    """docs/verify.md."""
    engine = Engine()
    for mark in (b"", b"{", b"[]", b'{"to": 3}', b'{"from": "a/b"}', b"[" * 10**5):
        store = made()
        store.write(parse_key(f"v/{RENAMING}"), mark)
        assert [f.kind for f in verify(store, engine)] == [FindingKind.RENAME], mark
    store = made()
    store.write(parse_key(f"v/{RENAMING}"), b'{"to": "new"}')
    assert [f.kind for f in verify(store, engine)] == [FindingKind.STRAY]
    engine.close()


def test_what_others_change_meanwhile_is_renamed_too() -> None:
    """SEMANTICS W32."""
    store = made()
    other = store
    chunk = bytes(store.read(parse_key("v/1")).data)
    done: list[str] = []

    def meddle(operation: str, key: str) -> None:
        if operation == "copy" and key == "new/1" and not done:
            done.append(key)
            other.write(parse_key("v/0"), chunk)
            other.write(parse_key("v/.zattrs"), bytes(other.read(parse_key("w/.zattrs")).data))

    with opened(Faulty(store, before_call=meddle)) as root:
        root.editor.rename("v", "new")
    assert done
    with open_zmap(store) as root:
        assert root.variables["new"][...].tolist() == [2, 3, 2, 3]
        assert root.variables["new"].attrs["n"] == "w"


def test_no_value_is_lost_that_is_written_while_it_is_renamed() -> None:
    """SEMANTICS W32: whatever was written before a flush that succeeded is there afterwards."""
    store = made("zarr2")
    count = 400
    with opened(store) as root:
        root.create_dimension("n", count)
        root.create_variable("busy", ("n",), "<i4", np.zeros(count, "i4"), chunks=(10,))
    with opened(store) as root:
        stop, errors = threading.Event(), list[Exception]()
        written: list[int] = []

        def write() -> None:
            try:
                for number in itertools.cycle(range(count)):
                    if stop.is_set():
                        return
                    array.write_run(number, np.array([len(written) + 1], "i4"))
                    array.flush()
                    written.append(number)
            except Exception as error:  # noqa: BLE001 - the test tells of it
                errors.append(error)

        array = root._dataset.array(root.variables["busy"].description)
        thread = threading.Thread(target=write)
        thread.start()
        for name in ("one", "two", "three", "four"):
            enough = len(written) + 50
            wait_for(lambda: len(written) >= enough or bool(errors))  # noqa: B023
            path = next(n for n in root.variables if n in ("busy", "one", "two", "three"))
            root.editor.rename(path, name)
        stop.set()
        thread.join()
        assert not errors
    expected = np.zeros(count, "i4")
    for turn, number in enumerate(written):
        expected[number] = turn + 1
    with open_zmap(store) as root:
        np.testing.assert_array_equal(root.variables["four"][...], expected)
    assert not [key for key in keys_of(store) if key.startswith(("busy", "one", "two", "three"))]


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_open_finds_its_node_as_soon_as_it_knows_the_new_place(
    format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W32."""
    found: list[LoadedNode | None] = []
    move = NodePlaces.move

    def move_and_read(places: NodePlaces, zmap: ZMap, prefix: Prefix, goal: Prefix) -> None:
        move(places, zmap, prefix, goal)
        found.append(units.follow(dataset.load))

    with opened(made(format)) as root:
        dataset = root._dataset
        units = dataset.open_node("g/a")
        assert dataset.load("new/a") is None
        monkeypatch.setattr(NodePlaces, "move", move_and_read)
        root.editor.rename("g", "new")
    [loaded] = found
    assert loaded is not None
    assert loaded.node.path == "new/a"


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("in vain")


def test_a_store_that_is_away_leaves_everything_as_it_was() -> None:
    """SEMANTICS W33."""
    store = made()
    faulty = Faulty(store)
    with opened(faulty) as root:
        faulty.arm(Fault(0, operations=frozenset({"copy"})))
        with pytest.raises(Unavailable):
            root.editor.rename("v", "new")
        assert root.variables["v"][...].tolist() == VALUES.tolist()
        root.variables["v"][0:1] = 7
    assert not keys_of(store, "new")
    assert content(store, "v")[""][0] == [7, 1, 2, 3]
