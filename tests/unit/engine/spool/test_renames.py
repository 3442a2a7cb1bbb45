"""Renames of prefixes that did not end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nczfs.engine.spool.contents import read_entry
from nczfs.engine.spool.entries import heading, write_records
from nczfs.engine.spool.records import packed
from nczfs.engine.spool.renames import UnfinishedRename, noted
from nczfs.engine.spool.space import SUFFIX, Spool, Survives
from nczfs.errors import Conflict, SpoolError, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.support.contents import objects_of

OLD = {"a/x": b"1", "a/y/z": b"2", "other": b"3"}
NEW = {"b/x": b"1", "b/y/z": b"2", "other": b"3"}


@pytest.fixture
def store() -> MemoryZMap:
    store = MemoryZMap()
    for key, data in OLD.items():
        store.write(Key(key), data)
    return store


def begun() -> UnfinishedRename:
    """A rename that is under way from now on."""
    return UnfinishedRename(**heading("memory://s", "a", "it was not completed"), goal=Prefix("b"))


def test_a_rename_is_noted_until_it_has_ended(tmp_path: Path) -> None:
    """SEMANTICS O23."""
    spool = Spool(tmp_path, "memory://s")
    with noted(spool, Prefix("a"), Prefix("b")):
        (path,) = tmp_path.glob(f"*/*{SUFFIX}")
        entry = read_entry(path)
        assert isinstance(entry, UnfinishedRename)
        assert (entry.url, entry.key, entry.goal) == ("memory://s", "a", "b")
        assert entry.files == (path,)
    assert not path.exists()
    with pytest.raises(Unavailable), noted(spool, Prefix("a"), Prefix("b")):
        raise Unavailable("no connection")
    (path,) = tmp_path.glob(f"*/*{SUFFIX}")
    entry = read_entry(path)
    assert isinstance(entry, UnfinishedRename)
    assert entry.has_failed
    assert not entry.is_cut_above("a/x")
    spool.close()


def test_copies_are_noted_whole_or_not_at_all(tmp_path: Path) -> None:
    """A kill may come while they are."""
    spool = Spool(tmp_path, "memory://s", survives=Survives.KILL)
    copies = {(Key("a/x"), Version("1")): Version("2"), (Key("a/y"), ABSENT): Version("3")}
    with noted(spool, Prefix("a"), Prefix("b")) as note:
        (path,) = tmp_path.glob(f"*/*{SUFFIX}")
        before = path.read_bytes()
        note.copied(copies)
        whole = path.read_bytes()
        for size in range(len(before), len(whole) + 1):
            path.write_bytes(whole[:size])
            entry = read_entry(path)
            assert isinstance(entry, UnfinishedRename)
            assert entry.is_cut_above("a/x")
            assert entry.copies == (copies if size == len(whole) else {})
    spool.close()


@pytest.mark.parametrize("done", [[], ["x"], ["x", "y/z"]])
@pytest.mark.parametrize("deleted", [[], ["x"]])
def test_a_rename_is_ended_from_wherever_it_stopped(
    store: MemoryZMap, done: list[str], deleted: list[str]
) -> None:
    """SEMANTICS O23."""
    for name in done:
        store.write(Key(f"b/{name}"), OLD[f"a/{name}"])
    for name in deleted if len(done) == 2 else []:
        store.delete(Key(f"a/{name}"))
    begun().end(store)
    assert objects_of(store) == NEW


def test_a_failure_while_it_is_ended_loses_nothing(store: MemoryZMap) -> None:
    faulty = Faulty(store)
    entry = begun()
    for call in range(100):
        faulty.arm(Fault(call))
        try:
            entry.end(faulty)
        except Unavailable:
            found = objects_of(store)
            assert {found.get(f"a/{n}", found.get(f"b/{n}")) for n in ("x", "y/z")} == {b"1", b"2"}
        else:
            break
    assert call > 3
    assert objects_of(store) == NEW


def test_what_is_newer_than_the_rename_is_neither_moved_nor_replaced_but_by_force(
    store: MemoryZMap,
) -> None:
    """SEMANTICS O23."""
    store.write(Key("b/x"), b"1")
    entry = begun()
    store.write(Key("a/new"), b"4")
    store.write(Key("b/x"), b"5")
    with pytest.raises(SpoolError, match=r"a: 2 objects stay there: .*; --force moves them to b"):
        entry.end(store)
    assert objects_of(store) == {
        "a/x": b"1", "a/new": b"4", "b/x": b"5", "b/y/z": b"2", "other": b"3"
    }  # fmt: skip
    entry.end(store, force=True)
    assert objects_of(store) == NEW | {"b/new": b"4"}


def test_what_is_stored_below_the_old_name_after_the_copy_stays_there(store: MemoryZMap) -> None:
    """SEMANTICS O23."""
    entry = begun()

    def write(operation: str, key: str) -> None:
        if operation == "delete" and key == "a/x":
            store.write(Key("a/x"), b"new")

    with pytest.raises(SpoolError, match="a: 1 objects stay there: a/x is newer than the rename"):
        entry.end(Faulty(store, before_call=write))
    assert objects_of(store) == NEW | {"a/x": b"new"}


def test_what_another_client_removes_meanwhile_keeps_nothing_else_under_the_old_name(
    store: MemoryZMap,
) -> None:
    """SEMANTICS O11, O23."""

    def delete(operation: str, key: str) -> None:
        if operation == "delete" and key == "a/x":
            store.delete(Key("a/x"))

    begun().end(Faulty(store, before_call=delete))
    assert objects_of(store) == NEW


@pytest.mark.parametrize("force", [False, True])
def test_what_another_client_stores_under_a_new_name_meanwhile_is_not_overwritten(
    store: MemoryZMap, *, force: bool
) -> None:
    """SEMANTICS O23: even by force, which is about what was there before."""
    if force:
        store.write(Key("b/x"), b"another object")
    entry = begun()

    def write(operation: str, _: str) -> None:
        if operation == "copy":
            store.write(Key("b/x"), b"theirs")
            store.write(Key("b/y/z"), b"theirs")

    with pytest.raises(Conflict):
        entry.end(Faulty(store, before_call=write), force=force)
    assert objects_of(store) == OLD | {"b/x": b"theirs", "b/y/z": b"theirs"}


@pytest.mark.parametrize("other", [b"5", b"another length"])
def test_another_object_under_a_new_name_is_named(store: MemoryZMap, other: bytes) -> None:
    """SEMANTICS O23."""
    store.write(Key("b/x"), other)
    with pytest.raises(SpoolError, match="stay there: b/x exists, and is another object"):
        begun().end(store)


class Marked(MemoryZMap):
    """A store with markers of directories."""

    def __init__(self, *marked: str) -> None:
        super().__init__()
        self.marked = set(map(Prefix, marked))

    def mark(self, prefix: Prefix) -> None:
        self.marked.add(prefix)

    def unmark(self, prefix: Prefix) -> None:
        self.marked.discard(prefix)

    def markers(self, prefix: Prefix) -> Iterator[Prefix]:
        return (each for each in self.marked if each == prefix or each.startswith(f"{prefix}/"))


def test_markers_of_directories_move_with_what_is_below() -> None:
    """SEMANTICS O5, O16."""
    store = Marked("a", "a/empty/deep", "other")
    store.write(Key("a/x"), b"1")
    begun().end(store)
    assert objects_of(store) == {"b/x": b"1"}
    assert store.marked == {"b", "b/empty/deep", "other"}


def test_a_copy_that_was_made_before_is_known_by_its_bytes(store: MemoryZMap) -> None:
    entry = begun()
    copies = {key: store.write(Key(key), data) for key, data in NEW.items()}
    entry.end(store)
    assert {key: store.stat(Key(key)).version for key in NEW} == copies
    assert objects_of(store) == NEW


@pytest.mark.parametrize(
    ("key", "goal"), [("a", {}), ("a", {"goal": ""}), ("", {"goal": "b"}), ("a", {"goal": "../b"})]
)
def test_an_entry_without_a_goal_renames_nothing(
    tmp_path: Path, key: str, goal: dict[str, str]
) -> None:
    document = {"is": "rename", **heading("memory://s", key, ""), **goal}
    path = write_records(tmp_path / "1", [packed(document)])
    with pytest.raises(SpoolError, match="cannot be understood"):
        read_entry(path)
