"""An fsync while the background finds that another client has removed the variable."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from nczfs.engine.metadata.edits import Edits
from nczfs.engine.options import EngineOptions
from nczfs.engine.writing.dirtymap import DirtyMap
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import StructureChanged
from nczfs.library.opening import open_zmap
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.wrappers import Prefixed
from tests.conftest import ExpectedWarnings
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import tree_and_engine_over
from tests.support.writing import open_file

RAW = "datasets/d.zarr/v/values.raw"


@dataclass(frozen=True)
class Mount:
    """A mount that stores nothing by itself, and its store."""

    fs: TreeFileSystem
    memory: GatedZMap
    writeback: WriteBack

    def written(self) -> int:
        """Return a file to which something was written."""
        handle = open_file(self.fs, RAW, os.O_RDWR)
        self.fs.write(handle, 4, bytes(4))
        return handle

    def replace(self) -> None:
        """Replace the variable, as another client."""
        with open_zmap(Prefixed(self.memory, parse_prefix("d.zarr")), "r+") as root:
            del root["v"]
            root.create_variable("v", ("x",), "<f8")[:] = 7

    def store_in_background(self) -> None:
        self.writeback._store_aged(time.monotonic())


@pytest.fixture
def mount(tmp_path: Path, expected_warnings: ExpectedWarnings) -> Iterator[Mount]:
    for text in ("has removed or replaced it since it was opened", "not stored at its last close"):
        expected_warnings.add(text)
    memory = GatedZMap()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w") as root:
        root.create_dimension("x", 6)
        root.create_variable("v", ("x",), "<i4", chunks=(6,))[:] = 1
    engine_options = EngineOptions(flush_age_s=None)
    options = VfsOptions(engine=engine_options, read_only=False, spool_dir=tmp_path / "spool")
    fs, engine = tree_and_engine_over(memory, options)
    yield Mount(fs, memory, engine.writeback)
    fs.close()


def fails(mount: Mount, handle: Any) -> None:
    for _ in range(2):
        with pytest.raises(StructureChanged):
            mount.fs.fsync(handle, data_only=False)
    with pytest.raises(StructureChanged):
        mount.fs.flush(handle)
    mount.fs.release(handle)


def test_an_fsync_that_waits_for_the_background_fails_as_that_does(mount: Mount) -> None:
    """SEMANTICS W1, W22."""
    handle: Any = mount.written()
    waits, wait = threading.Event(), DirtyMap.wait_until_landed

    def waiting(self: DirtyMap, units: Any) -> None:
        units = list(units)
        if any(unit.flying for unit in units):
            waits.set()
        wait(self, units)
        background.result(WAIT_S)  # all that the background does comes first

    with (
        mount.memory.stopping("write", "d.zarr/v/0") as gate,
        ThreadPoolExecutor(2) as threads,
        mock.patch.object(DirtyMap, "wait_until_landed", waiting),
    ):
        background = threads.submit(mount.store_in_background)
        assert gate.reached.wait(WAIT_S)
        mount.replace()
        syncing = threads.submit(mount.fs.fsync, handle, data_only=False)
        assert waits.wait(WAIT_S)
        gate.open()
        with pytest.raises(StructureChanged):
            syncing.result(WAIT_S)
    fails(mount, handle)


def test_an_fsync_after_the_background_has_failed_meanwhile_fails_too(mount: Mount) -> None:
    """SEMANTICS W1, W22."""
    handle: Any = mount.written()
    flush = WriteBack.flush

    def late(self: WriteBack, *wanted: Callable[[Any], bool]) -> None:
        mount.store_in_background()
        flush(self, *wanted)

    mount.replace()
    with (
        mock.patch.object(WriteBack, "flush", late),
        pytest.raises(StructureChanged),
    ):
        mount.fs.fsync(handle, data_only=False)
    fails(mount, handle)


def test_an_fsync_hears_of_it_whenever_the_new_length_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W1, W27: the values of the records are stored by then, and their length is not."""
    expected_warnings.add("not stored at its last close")
    memory = GatedZMap()

    def make(dtype: str) -> None:
        with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w", format="zarr3") as root:
            root.create_dimension("t", None)
            root.create_variable("v", ("t",), dtype, chunks=(2,), fillvalue=0)

    make("<i4")
    engine_options = EngineOptions(cache_bytes_max=0, flush_age_s=None)
    options = VfsOptions(engine=engine_options, read_only=False, spool_dir=tmp_path)
    fs, engine = tree_and_engine_over(memory, options)
    handle = open_file(fs, RAW)
    fs.write(handle, 0, bytes([1, 0, 0, 0]))
    engine.writeback.flush()
    make("<f8")
    drop, found = Edits.drop, list[BaseException | None]()

    def drop_and_sync(edits: Edits, path: str, *given: Any) -> None:
        drop(edits, path, *given)
        if path == "v" and not found:
            with ThreadPoolExecutor(1) as pool:
                synced = pool.submit(fs.fsync, handle, data_only=False)
                found.append(synced.exception(WAIT_S))

    with monkeypatch.context() as patched, suppress(StructureChanged):
        patched.setattr(Edits, "drop", drop_and_sync)
        engine.changed()[0].store()
    assert [type(each) for each in found] == [StructureChanged]
    with suppress(StructureChanged):
        fs.flush(handle)
    fs.release(handle)
    fs.close()
