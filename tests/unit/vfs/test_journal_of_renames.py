"""What is written to files of ``objects/`` follows a rename of a directory above, if it is killed.

The mounts have a journal.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.renames import UnfinishedRename
from nczfs.engine.spool.space import Spool, Survives
from nczfs.testing.faults import Faulty
from nczfs.tools import recovery
from nczfs.vfs.base import HandleNo
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.contents import objects_of
from tests.support.counted import CountedStore
from tests.support.killed import Kept, copied, left_by, recovered
from tests.support.trees import tree_over
from tests.support.writing import close, open_file, rename

OLD = b"old 1, longer"
STEPS = ("write", "writev", "rename", "fsync", "fdatasync", "unlink")


class Mount:
    """A mount with the directory `a` of a store, in which two files are open.

    `on_step` is called before each step: a request to the store, or a change of the spool.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._monkeypatch = monkeypatch
        self._copies = itertools.count()
        self.store = CountedStore(near=True)
        for name, content in (("f0", b"old 0"), ("f1", OLD)):
            self.store.write(Key(f"a/{name}"), content)
        self.on_step: Callable[[bool], None] = lambda can_write: None
        self.fs = tree_over(
            Faulty(Kept(self.store), before_call=lambda *_: self.on_step(True)),
            VfsOptions(
                engine=EngineOptions(cache_bytes_max=0, metadata_ttl_s=0.0, flush_age_s=3600),
                read_only=False,
                spool_dir=directory / "spool",
                survives=Survives.KILL,
            ),
        )
        names = ("f1", "new")
        self._handles = {name: self._open(name) for name in names}
        self.files = {"f0": b"old 0", "f1": OLD, "new": b""}

    def _open(self, name: str) -> HandleNo:
        return open_file(self.fs, f"objects/a/{name}", os.O_RDWR | os.O_CREAT)

    def write(self, data: bytes) -> None:
        """Write to both files."""
        for name, handle in self._handles.items():
            self.fs.write(handle, 0, data)
            self.files[name] = data + self.files[name][len(data) :]

    def rename(self) -> None:
        """Rename `a` to `b`, in steps."""
        with self._monkeypatch.context() as patched:
            for name in STEPS:
                patched.setattr(os, name, self._before(getattr(os, name), False))
            patched.setattr(Spool, "sync", self._before(Spool.sync, True))
            rename(self.fs, "objects/a", "objects/b")

    def _before(self, call: Callable[..., Any], can_write: bool) -> Callable[..., Any]:
        def called(*arguments: Any, **named: Any) -> Any:
            self.on_step(can_write)
            return call(*arguments, **named)

        return called

    def killed(self) -> tuple[Path, MemoryZMap]:
        """What a kill leaves: of the spool, and of the store."""
        copy = self._directory / f"killed{next(self._copies)}"
        return left_by(self._directory / "spool", copy), copied(self.store)

    def close(self) -> None:
        for handle in self._handles.values():
            close(self.fs, handle)
        self.fs.close()


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    mount = Mount(tmp_path, monkeypatch)
    yield mount
    mount.close()


def below(prefix: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{prefix}/{name}": content for name, content in files.items()}


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "meanwhile"])
def test_killed_at_any_step_all_is_put_back_below_one_of_the_names(
    mount: Mount, meanwhile: bool
) -> None:
    """SEMANTICS W21, O23."""
    kills: list[tuple[Path, MemoryZMap, dict[str, bytes]]] = []
    is_within: list[bool] = []

    def kill(can_write: bool) -> None:
        if not is_within:  # and not a step of the write
            is_within.append(True)
            if meanwhile and can_write:
                mount.write(f"{len(kills):3}".encode())
            kills.append((*mount.killed(), dict(mount.files)))
            is_within.clear()

    mount.write(b"DIRTY")
    mount.on_step = kill
    mount.rename()
    kill(True)
    mount.on_step = lambda can_write: None
    places = []
    for left, store, files in kills:
        recovered(left, store)
        found = objects_of(store)
        places.append(min(found)[0])
        assert found == below(places[-1], files)
        assert list(left.iterdir()) == []
    assert len(kills) > 20
    assert places == sorted(places)
    assert set(places) == {"a", "b"}


@pytest.mark.parametrize("refused", [1, 100])
def test_where_the_log_cannot_say_where_files_are_the_rename_is_left_to_be_recovered(
    mount: Mount,
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
    refused: int,
) -> None:
    """SEMANTICS W21. A little room is kept for that."""
    moved, writev = LiveFile.moved, os.writev
    refusals = iter(range(refused))

    def full(*arguments: Any) -> int:
        if next(refusals, None) is not None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return writev(*arguments)

    def moving(live: LiveFile, *arguments: Any) -> bool:
        with monkeypatch.context() as patched:
            patched.setattr(os, "writev", full)
            return moved(live, *arguments)

    def write_once(can_write: bool) -> None:
        mount.on_step = lambda can_write: None
        mount.write(b"NEW")

    if refused > 1:
        expected_warnings.add("the log has what it was to replace before")
    mount.write(b"DIRTY")
    monkeypatch.setattr(LiveFile, "moved", moving)
    mount.on_step = lambda can_write: write_once(can_write) if is_copied(mount) else None
    mount.rename()
    monkeypatch.undo()
    left, store = mount.killed()
    renames = [e for e in recovery.entries(left) if isinstance(e.entry, UnfinishedRename)]
    assert len(renames) == (refused > 1)
    recovered(left, store)
    assert mount.files["f1"] == b"NEWTY, longer"
    assert objects_of(store) == below("b", mount.files)
    assert list(left.iterdir()) == []


def is_copied(mount: Mount) -> bool:
    return len([key for key in objects_of(mount.store) if key.startswith("b/")]) == 3
