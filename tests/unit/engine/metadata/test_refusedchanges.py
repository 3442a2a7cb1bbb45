"""What a store refuses is told to the thread that wanted it, whichever thread stored it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from nczfs.engine.metadata.changes import NodeChange
from nczfs.engine.metadata.edits import Edits
from nczfs.engine.metadata.refusedchanges import REFUSALS_MAX, RefusedChanges
from nczfs.engine.structure.editor import Editor
from nczfs.errors import AccessDenied, NczfsError, NoSpace, StructureChanged
from nczfs.library.api import OpenDataset
from nczfs.library.opening import open_zmap
from nczfs.model.dtypes import NcType
from nczfs.model.hierarchy import Attribute
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

FORMATS = ("nczarr-L1", "nczarr-L3", "zarr2", "zarr3")
WAIT_S = 60.0


class Stopped(Faulty):
    """A store in which the next write waits, and then is refused."""

    def __init__(self, zmap: MemoryZMap) -> None:
        super().__init__(zmap, before_call=self._wait)
        self.has_come, self._may_go = threading.Event(), threading.Event()
        self._is_armed = False

    def stop(self) -> None:
        self._is_armed = True
        self.arm(Fault(0, AccessDenied, operations=frozenset({"write"})))

    def go(self) -> None:
        self._may_go.set()

    def _wait(self, operation: str, _key: str) -> None:
        if operation == "write" and self._is_armed:
            self._is_armed = False
            self.has_come.set()
            assert self._may_go.wait(WAIT_S)


def begun(metadata_format: str) -> tuple[Stopped, MemoryZMap]:
    memory = MemoryZMap()
    with open_zmap(memory, "w", format=metadata_format) as root:
        root.create_group("g")
        root.create_group("other")
    return Stopped(memory), memory


def editor_of(root: OpenDataset) -> Editor:
    """An editor as each operation of a mount has its own."""
    return Editor(root._dataset, None)


@contextmanager
def stored_by_another(store: Stopped, another: Callable[[], None]) -> Iterator[Future[None]]:
    """Let another thread store what is pending: it stops at the first write, which is refused."""
    with ThreadPoolExecutor(1) as pool:
        store.stop()
        running = pool.submit(another)
        assert store.has_come.wait(WAIT_S)
        yield running


@pytest.mark.parametrize("is_late", [False, True], ids=["meanwhile", "before"])
@pytest.mark.parametrize("metadata_format", FORMATS)
def test_a_group_that_another_thread_could_not_store_is_not_there(
    metadata_format: str, is_late: bool
) -> None:
    """SEMANTICS W27."""
    store, memory = begun(metadata_format)
    with open_zmap(store, "r+") as root:
        mine, theirs = editor_of(root), editor_of(root)
        mine.create_group("a")
        theirs.set_attribute("other", Attribute("x", NcType.INT, (1,)))
        with stored_by_another(store, lambda: theirs.sync("other")) as running:
            if is_late:
                store.go()
                running.result()
            else:
                threading.Timer(0.0, store.go).start()
            with pytest.raises(AccessDenied):
                mine.sync("a", "")
        assert not any(stat.key.startswith("a/") for stat in memory.list(ROOT))
        root.sync()  # nobody else is told of it
    with open_zmap(memory) as root:
        assert {*root.groups} == {"g", "other"}


@pytest.mark.parametrize("metadata_format", FORMATS)
def test_a_group_is_no_moment_neither_pending_nor_refused(
    metadata_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W27."""
    store, _ = begun(metadata_format)
    found: list[BaseException | None] = []
    with open_zmap(store, "r+") as root:
        mine, theirs = editor_of(root), editor_of(root)
        drop = Edits.drop

        def drop_and_look(
            edits: Edits, path: str, settled: Iterable[NodeChange], *why: NczfsError
        ) -> None:
            drop(edits, path, settled, *why)
            if path == "a" and not found:
                with ThreadPoolExecutor(1) as pool:
                    found.append(pool.submit(mine.sync, "a", "").exception(WAIT_S))

        mine.create_group("a")
        theirs.set_attribute("other", Attribute("x", NcType.INT, (1,)))
        store.arm(Fault(0, AccessDenied, operations=frozenset({"write"})))
        with monkeypatch.context() as patched:
            patched.setattr(Edits, "drop", drop_and_look)
            theirs.sync("other")
    assert [type(each) for each in found] == [AccessDenied]


@pytest.mark.parametrize("metadata_format", FORMATS)
def test_so_are_attributes_of_one_node(metadata_format: str) -> None:
    store, memory = begun(metadata_format)
    with open_zmap(store, "r+") as root:
        mine, theirs = editor_of(root), editor_of(root)
        mine.set_attribute("g", Attribute("x", NcType.INT, (1,)))
        theirs.set_attribute("g", Attribute("y", NcType.INT, (2,)))
        with stored_by_another(store, lambda: theirs.sync("g")) as running:
            store.go()
            with pytest.raises(AccessDenied):
                running.result()
        with pytest.raises(AccessDenied):
            mine.sync("g")
        mine.sync("g")
    with open_zmap(memory) as root:
        assert not root["g"].attrs


@pytest.mark.parametrize("metadata_format", FORMATS)
def test_a_sync_of_one_node_leaves_the_refusal_of_another_to_its_own_sync(
    metadata_format: str,
) -> None:
    _, memory = begun(metadata_format)

    def refuse(operation: str, key: str) -> None:
        if operation == "write" and key.startswith("b/"):
            raise AccessDenied(key)

    with open_zmap(Faulty(memory, before_call=refuse), "r+") as root:
        mine = editor_of(root)
        mine.create_group("a")
        mine.create_group("b")
        with suppress(AccessDenied):
            mine.sync("a")
        with pytest.raises(AccessDenied, match="b/"):
            mine.sync("b")
        mine.sync("b")


@pytest.mark.parametrize("metadata_format", FORMATS)
def test_a_removal_that_stores_a_refused_creation_leaves_it_to_the_next_sync(
    metadata_format: str,
) -> None:
    _, memory = begun(metadata_format)
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as root:
        root.create_group("a")
        faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"})))
        if metadata_format.startswith("nczarr"):
            root.editor.remove("other")
            with pytest.raises(AccessDenied):
                root.sync()
        else:  # it changes no list
            with pytest.raises(AccessDenied):
                root.sync()
        root.sync()
        assert "a" not in root._dataset.names("")


@pytest.mark.parametrize("metadata_format", ["nczarr-L1", "nczarr-L2l", "nczarr-L3"])
def test_nothing_is_removed_whose_name_another_thread_could_not_take_from_the_list(
    metadata_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, memory = begun(metadata_format)
    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as root:
        flush = root._dataset.edits.flush

        def flush_late(*args: Any, **options: Any) -> object:
            monkeypatch.undo()
            faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"})))
            with pytest.raises(AccessDenied):
                root._dataset.store(("",))
            return flush(*args, **options)

        monkeypatch.setattr(root._dataset.edits, "flush", flush_late)
        with pytest.raises(AccessDenied):
            root.editor.remove("other")
        assert root._dataset.names("") == ["g", "other"]
    with open_zmap(memory) as root:
        assert not root.problems
        assert {*root.groups} == {"g", "other"}


def test_everyone_who_asks_for_a_node_is_told_and_of_all_others_one() -> None:
    refusals = RefusedChanges()
    first, second, anyone = (refusals.listener() for _ in range(3))
    one, other = AccessDenied("one"), NoSpace("other")
    refusals.note("a", one)
    late = refusals.listener()
    refusals.note("b", other)
    assert refusals.report({"a"}, first) == [one]
    assert refusals.report({"a"}, first) == []
    assert refusals.report({"a"}, late) == []
    assert refusals.report(None, anyone) == [other]
    assert refusals.report(None, anyone) == []
    assert refusals.report({"a", "b"}, first) == [other]
    assert refusals.report({"a", "b"}, second) == [one, other]
    assert refusals.report({"a", "b"}, anyone) == []


def test_very_many_are_not_kept() -> None:
    refusals = RefusedChanges()
    for number in range(REFUSALS_MAX + 2):
        refusals.note(str(number), AccessDenied(str(number)))
    assert len(refusals.report(None, refusals.listener())) == REFUSALS_MAX


def test_lost_values_are_told_rather_than_a_failure_of_the_same_sync() -> None:
    memory = MemoryZMap()
    with open_zmap(memory, "w", format="zarr3") as root:
        for name in ("a", "b"):
            root.create_variable(name, (4,), "i4")
    is_looked_at = threading.Event()

    def before(operation: str, key: str) -> None:
        if key.startswith("b/"):
            is_looked_at.set()
        elif operation == "write":
            assert is_looked_at.wait(WAIT_S)

    faulty = Faulty(memory)
    with open_zmap(faulty, "r+") as root:
        for name in ("a", "b"):
            root.variables[name][1] = 1
        with open_zmap(memory, "r+") as other:
            other.editor.remove("b")
        for _, array in root._dataset._arrays.values():
            array.stored.doubts += 1
        faulty.arm(Fault(0, operations=frozenset({"write"})))
        faulty._before_call = before
        with pytest.raises(StructureChanged, match="b: another client"):
            root.sync()
        root.sync()
    with open_zmap(memory) as root:
        assert {*root.variables} == {"a"}
        assert root.variables["a"][1] == 1
