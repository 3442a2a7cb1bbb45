"""Uploads of open files of ``objects/``: who shares one, and who is told that it failed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import pytest

from nczfs.errors import Unavailable
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects import livefiles
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.store import ObjectStore
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from tests.conftest import ExpectedWarnings
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.kernels import Kernel
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, unlink, write

KEY, PATH = Key("file"), "objects/file"


class WatchedTurn:
    """A lock that tells who has to wait for it."""

    def __init__(self) -> None:
        self.waiting = threading.Semaphore(0)
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.waiting.release()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.fixture
def turn(monkeypatch: pytest.MonkeyPatch) -> WatchedTurn:
    """The turn of the only file."""
    turn = WatchedTurn()

    class Watched(LiveFile):
        def __init__(self, store: ObjectStore, key: Key, base: Stat | None) -> None:
            super().__init__(store, key, base)
            self.turn = turn  # type: ignore[assignment]

    monkeypatch.setattr(livefiles, "LiveFile", Watched)
    return turn


@pytest.fixture
def store() -> GatedZMap:
    store = GatedZMap()
    store.write(KEY, b"old")
    store.calls.clear()
    return store


@pytest.fixture
def fs(store: GatedZMap, turn: WatchedTurn, tmp_path: Path) -> Iterator[TreeFileSystem]:
    tree = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path))
    yield tree
    tree.close()


def writes(store: GatedZMap) -> int:
    return store.calls.count(("write", KEY))


def test_those_who_wait_for_one_upload_share_its_failure(
    fs: TreeFileSystem, store: GatedZMap, turn: WatchedTurn
) -> None:
    """Each attempt of a store that is away takes as long as its time limit."""
    handle = open_file(fs, PATH)
    fs.write(handle, 0, b"new")
    reached, opened = threading.Event(), threading.Event()
    attempts = []

    def fail(*_: object, **__: object) -> None:
        attempts.append(1)
        reached.set()
        assert opened.wait(WAIT_S)
        raise Unavailable("on purpose")

    with ThreadPoolExecutor(3) as threads, mock.patch.object(GatedZMap, "write", side_effect=fail):
        first = threads.submit(fs.fsync, handle, data_only=False)
        assert reached.wait(WAIT_S)
        others = [threads.submit(fs.fsync, handle, data_only=False) for _ in range(2)]
        for _ in others:
            assert turn.waiting.acquire(timeout=WAIT_S)
        opened.set()
        for each in (first, *others):
            with pytest.raises(Unavailable, match="on purpose"):
                each.result(WAIT_S)
        assert len(attempts) == 2  # it had begun before the others asked
        with pytest.raises(Unavailable):
            fs.fsync(handle, data_only=False)
        assert len(attempts) == 3
    close(fs, handle)
    assert bytes(store.read(KEY).data) == b"new"


def test_who_waits_for_an_upload_of_what_was_written_before_stores_nothing_newer(
    fs: TreeFileSystem, store: GatedZMap, turn: WatchedTurn
) -> None:
    """SEMANTICS O31: what others write meanwhile is theirs to store."""
    handle = open_file(fs, PATH)
    fs.write(handle, 0, b"one")
    with ThreadPoolExecutor(2) as threads, store.stopping("write", KEY) as gate:
        first = threads.submit(fs.fsync, handle, data_only=False)
        assert gate.reached.wait(WAIT_S)
        second = threads.submit(fs.fsync, handle, data_only=False)
        assert turn.waiting.acquire(timeout=WAIT_S)
        fs.write(handle, 0, b"two")
        gate.open()
        for each in (first, second):
            each.result(WAIT_S)
    assert bytes(store.read(KEY).data) == b"one"
    assert writes(store) == 1
    close(fs, handle)
    assert bytes(store.read(KEY).data) == b"two"


@pytest.mark.parametrize("is_removed", [False, True])
def test_the_kernel_forgets_what_was_written_and_could_not_be_stored(
    tmp_path: Path, expected_warnings: ExpectedWarnings, *, is_removed: bool
) -> None:
    """SEMANTICS O18; what was written to a removed file is nobody's loss (O10)."""
    expected_warnings.add("not stored")
    url, kernel = f"memory://{tmp_path.name}", Kernel()
    open_store(url).write(KEY, b"old")
    options = VfsOptions(read_only=False, spool_dir=tmp_path)
    fs = mount_tree(url, options=options, notifier=kernel)
    handle, reading = open_file(fs, PATH), open_file(fs, PATH, os.O_RDONLY)
    fs.write(handle, 0, b"new")
    if is_removed:
        unlink(fs, PATH)
        write(fs, PATH, b"another file")
    else:
        away = Unavailable("on purpose")
        with mock.patch.object(MemoryZMap, "write", side_effect=away), pytest.raises(Unavailable):
            fs.flush(handle)
    ino = find(fs, PATH).ino
    kernel.inodes.clear()
    with mock.patch.object(MemoryZMap, "write", side_effect=Unavailable("on purpose")):
        fs.release(handle)
    assert (ino in kernel.inodes) is not is_removed
    assert bytes(fs.read(reading, 0, 3)) == (b"new" if is_removed else b"old")
    fs.release(reading)
    fs.close()
