"""Renames in a store whose times are whole seconds: what is written meanwhile is put back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from nczfs.engine.dataset import Dataset
from nczfs.engine.spool import saved as saved_chunks
from nczfs.engine.spool.entries import write_records
from nczfs.engine.spool.records import Packed
from nczfs.engine.spool.space import Survives
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.renaming import _Renaming
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.zmap.base import Features, Stat
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.support.killed import Kept, recovered
from tests.unit.engine.spool.test_journal_of_renames import FIELD, NEW, Mount, first_values

SECOND_NS = 10**9


class BySeconds(MemoryZMap):
    """A store whose times are whole seconds, and that gives a copy a version of its own."""

    @property
    def features(self) -> Features:
        return replace(super().features, time_resolution_ns=SECOND_NS)

    def stat(self, key: Key) -> Stat:
        return _cut(super().stat(key))

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return map(_cut, super().list(prefix))


def _cut(stat: Stat) -> Stat:
    assert stat.mtime_ns is not None
    return stat._replace(mtime_ns=stat.mtime_ns // SECOND_NS * SECOND_NS)


@pytest.fixture
def kind() -> type[MemoryZMap]:
    return BySeconds


@pytest.fixture
def zmap(kind: type[MemoryZMap]) -> MemoryZMap:
    zmap = kind()
    with open_zmap(Kept(zmap), "w", format="nczarr-L3") as root:
        root.create_variable("v", FIELD.shape, "i4", FIELD, chunks=(2, 3))
    return zmap


@pytest.fixture
def survives() -> Survives:
    return Survives.KILL


@pytest.fixture
def mount(zmap: MemoryZMap, tmp_path: Path, survives: Survives) -> Iterator[Mount]:
    mount = Mount(zmap, tmp_path, "v", survives)
    yield mount
    mount.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.mark.parametrize("saving", [False, True], ids=["journal", "entry"])
@pytest.mark.parametrize("known", ["unknown", "stored here", "old"])
@pytest.mark.parametrize("when", ["copied", "noted", "moved", "renamed"])
def test_a_first_write_after_the_copy_was_made(
    mount: Mount,
    zmap: MemoryZMap,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
    known: str,
    saving: bool,
) -> None:
    """SEMANTICS W21, W20."""
    if known == "old":
        time.sleep(2.1)  # older than the write, as the store's times tell
    if known == "stored here":
        mount.put(-2)
        mount.engine.writeback.flush()
    note, moved = _Renaming.note_copies, Dataset.moved

    def at(moment: str) -> None:
        if moment == when:
            mount.put(-1)
            if saving:
                mount.save()

    def noting(renaming: _Renaming) -> None:
        at("copied")
        note(renaming)
        at("noted")

    def moving(dataset: Dataset, path: str, goal: str) -> None:
        moved(dataset, path, goal)
        at("moved")

    monkeypatch.setattr(_Renaming, "note_copies", noting)
    monkeypatch.setattr(Dataset, "moved", moving)
    Editor(mount.dataset, ".").rename("v", NEW)
    at("renamed")
    recovered(mount.kill(), zmap)
    assert first_values(zmap) == {NEW: -1}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_write_during_a_flush_that_ends_after_its_chunk_was_copied(
    mount: Mount,
    zmap: MemoryZMap,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    is_late: bool,
) -> None:
    """SEMANTICS W21: the store has answered, and the mount has not noted that yet."""
    is_stored, may_end = Event(), Event()
    flushes: list[Future[None]] = []
    rounds: list[_Renaming] = []
    store, note = _Renaming.store, _Renaming.note_copies

    def asked(operation: str, key: str) -> None:
        if rounds and not is_stored.is_set() and (operation, key) == ("write", "v/0.0"):
            mount.put(-1)

    def on_stored() -> None:
        is_stored.set()
        if is_late:
            assert may_end.wait(60)

    def storing(renaming: _Renaming) -> None:
        store(renaming)
        rounds.append(renaming)
        if len(rounds) == 2:
            mount.put(-2)
            mount.array.stored.on_stored = on_stored
            flushes.append(threads.submit(mount.engine.writeback.flush))
            assert is_stored.wait(60)
            if not is_late:
                flushes[0].result(60)

    def noting(renaming: _Renaming) -> None:
        note(renaming)
        may_end.set()
        flushes[0].result(60)

    mount.faulty._before_call = asked
    monkeypatch.setattr(_Renaming, "store", storing)
    monkeypatch.setattr(_Renaming, "note_copies", noting)
    Editor(mount.dataset, ".").rename("v", NEW)
    recovered(mount.kill(), zmap)
    assert first_values(zmap) == {NEW: -1}


@pytest.mark.parametrize("kind", [MemoryZMap, BySeconds])
@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL])
def test_what_was_stored_is_not_put_over_the_copy_of_what_another_client_stored_later(
    mount: Mount, zmap: MemoryZMap, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS W51, W21: an entry is begun during the last flush before the copy."""
    is_begun, go_on = Event(), Event()
    saves: list[Future[None]] = []
    rounds: list[_Renaming] = []
    store = _Renaming.store

    def slowly(path: Path, records: list[Packed]) -> Path:
        is_begun.set()
        assert go_on.wait(60)
        return write_records(path, records)

    def asked(operation: str, key: str) -> None:
        if len(rounds) == 2 and not saves and (operation, key) == ("write", "v/0.0"):
            mount.array.write_box(Box((0, 1), (1, 2)), np.array([[2]], "i4"))
            saves.append(threads.submit(mount.save))
            assert is_begun.wait(60)

    def other() -> None:
        if saves:
            mount.array.stored.on_stored = lambda: None
            with open_zmap(Kept(zmap), "r+") as root:
                root.variables["v"][0, 0] = 9

    def storing(renaming: _Renaming) -> None:
        rounds.append(renaming)
        if len(rounds) == 2:
            mount.put(1)
            mount.array.stored.on_stored = other
        store(renaming)

    monkeypatch.setattr(saved_chunks, "write_records", slowly)
    mount.faulty._before_call = asked
    monkeypatch.setattr(_Renaming, "store", storing)
    Editor(mount.dataset, ".").rename("v", NEW)
    go_on.set()
    saves[0].result(60)
    recovered(mount.kill(), zmap, refusing=True)
    assert first_values(zmap) == {NEW: 9}
