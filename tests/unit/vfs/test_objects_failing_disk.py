"""Files of ``objects/`` when a use of the spool's disk fails, each one in turn."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.spool.space import Survives
from nczfs.errors import NczfsError, NoSpace
from nczfs.vfs.base import AttributeChanges, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.failingdisk import FailingDisk, failing_disk
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.killed import copied, left_by, recovered
from tests.support.trees import find, tree_over
from tests.support.waiting import until
from tests.support.writing import open_file

KEY, PATH = Key("file"), "objects/file"
OLD = bytes(range(256)) * 1200  # of three steps of fetching
USES_MAX = 200


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    expected_warnings.add("")


class Content:
    """What a file is. Of a write that failed, any byte may have been written."""

    def __init__(self, content: bytes, read: Callable[[], bytes], disk: FailingDisk) -> None:
        self.now = content
        self.disk = disk
        self._read = read

    def change(self, what: Callable[[], object], effect: Callable[[bytes], bytes]) -> None:
        before, after = self.now, effect(self.now)
        try:
            what()
        except NoSpace:
            self.disk.is_full = False
            self.now = self._read()
            assert self.now in (before, after) or _is_between(before, self.now, after)
        else:
            self.now = after


def _is_between(before: bytes, now: bytes, after: bytes) -> bool:
    if not len(before) == len(now) == len(after):
        return False
    one, found, other = (np.frombuffer(each, np.uint8) for each in (before, now, after))
    return bool(((found == one) | (found == other)).all())


def written(offset: int, data: bytes) -> Callable[[bytes], bytes]:
    return lambda old: old[:offset].ljust(offset, b"\0") + data + old[offset + len(data) :]


def cut(size: int) -> Callable[[bytes], bytes]:
    return lambda old: old[:size].ljust(size, b"\0")


def mounted(store: MemoryZMap, spool_dir: Path, survives: Survives) -> TreeFileSystem:
    options = VfsOptions(read_only=False, spool_dir=spool_dir, survives=survives)
    return tree_over(store, options)


def change(fs: TreeFileSystem, handle: HandleNo, content: Content, store: GatedZMap) -> None:
    """Write and cut a file, some of it while it is being stored."""
    ino = find(fs, PATH).ino

    def write(offset: int, data: bytes) -> None:
        content.change(lambda: fs.write(handle, offset, data), written(offset, data))

    def truncate(size: int) -> None:
        resize = AttributeChanges(size=size)
        content.change(lambda: fs.setattr(ino, resize, handle), cut(size))

    write(10, b"first")
    write(200_000, b"second" * 100)
    truncate(250_000)
    with ThreadPoolExecutor(1) as threads:
        with store.stopping("write", KEY) as gate:
            storing = threads.submit(fs.fsync, handle, data_only=False)
            until(lambda: gate.reached.is_set() or storing.done())
            write(200_010, b"third")
            truncate(200_100)
            write(5, b"fourth" * 10)
            gate.open()
        with suppress(NczfsError):
            storing.result(WAIT_S)
    content.disk.is_full = False
    truncate(300_000)
    write(299_000, b"fifth")
    truncate(299_500)
    write(250_000, b"sixth")


def whole(fs: TreeFileSystem, handle: HandleNo) -> bytes:
    return bytes(fs.read(handle, 0, 2 * len(OLD)))


def stored(store: MemoryZMap) -> bytes:
    return bytes(store.read(KEY).data)


@pytest.mark.parametrize("partly", [False, True], ids=["not", "half"])
@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL, Survives.POWER])
def test_whichever_use_of_the_disk_fails_nothing_that_was_acknowledged_is_lost(
    tmp_path: Path, survives: Survives, *, partly: bool
) -> None:
    """SEMANTICS O6, O13, O17, W21."""
    with failing_disk(partly=partly) as disk:
        fail_each(disk, tmp_path, survives)


def fail_each(disk: FailingDisk, tmp_path: Path, survives: Survives) -> None:
    for number in range(USES_MAX):
        store, spool_dir = GatedZMap(), tmp_path / f"spool{number}"
        store.write(KEY, OLD)
        fs = mounted(store, spool_dir, survives)
        handle = open_file(fs, PATH, os.O_RDWR)
        content = Content(OLD, partial(whole, fs, handle), disk)
        disk.fails_at = disk.uses + number
        change(fs, handle, content, store)
        has_failed, disk.fails_at, disk.is_full = disk.uses > disk.fails_at, None, False
        assert whole(fs, handle) == content.now, number
        if survives is not Survives.NOTHING:
            left, copy = left_by(spool_dir, tmp_path / f"killed{number}"), copied(store)
            recovered(left, copy)
            assert stored(copy) == content.now, number
        fs.fsync(handle, data_only=False)
        assert stored(store) == content.now, number
        fs.flush(handle)
        fs.release(handle)
        fs.close()
        assert stored(store) == content.now, number
        assert list(spool_dir.iterdir()) == [], number
        if not has_failed:
            break
    assert 5 < number < USES_MAX - 1
