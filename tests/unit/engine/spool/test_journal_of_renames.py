"""What is written while a node is being renamed is put back where the rename has left the node.

With a journal everything is; without one, what went to the spool because the store did not take it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.spool import saved as saved_chunks
from nczfs.engine.spool.entries import write_records
from nczfs.engine.spool.records import Packed
from nczfs.engine.spool.space import SUFFIX, Spool, Survives
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.ownership import RENAMING
from nczfs.engine.structure.renaming import _Renaming, has_mark
from nczfs.errors import SpoolError, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.testing.faults import Faulty
from nczfs.zmap.base import ZMap
from nczfs.zmap.directory import DirectoryZMap
from nczfs.zmap.keys import ROOT, Key
from tests.support.counted import CountedStore
from tests.support.killed import Kept, left_by, recovered

FIELD = np.arange(24, dtype="<i4").reshape(4, 6)
NEW = "x"


class Killed(BaseException):
    """The process ends here."""


class Mount:
    """A mount; its writer writes once a rename has stored everything."""

    def __init__(
        self, zmap: ZMap, directory: Path, variable: str, survives: Survives = Survives.KILL
    ) -> None:
        self.left: Path | None = None
        self.step_left = 10**9
        self._directory = directory
        self._is_written = False
        self.refused = ""
        self.faulty = Faulty(zmap, before_call=self.asked)
        self.spool = Spool(directory / "spool", "memory://store", survives=survives)
        self.engine = Engine(EngineOptions(cache_bytes_max=0, flush_age_s=None), self.spool)
        metadata = MetadataCache(self.faulty, self.engine.options, self.engine.pools)
        options = format_options(frozenset(), self.engine.options)
        found = open_dataset(self.engine, metadata, ROOT, options, writable=True)
        assert found is not None
        self.dataset: Dataset = found
        node = found.node(variable)
        assert isinstance(node, Variable)
        self.array = found.array(node)

    def write(self) -> None:
        self.put(-1)
        self._is_written = True

    def put(self, value: int) -> None:
        """Write the first element."""
        self.array.write_box(Box((0, 0), (1, 1)), np.array([[value]], "i4"))

    def save(self) -> None:
        """Put what is dirty into the spool, as when the store fails and memory is short."""
        for chunk in list(self.engine.writeback._dirty.chunks.values()):
            self.engine.writeback._saver.save(chunk)
        assert list(self.spool.directory.glob(f"*{SUFFIX}"))

    def asked(self, operation: str, key: str) -> None:
        """The store is asked, and does not take what is below a refused prefix."""
        self.step()
        if self.refused and operation == "write" and key.startswith(self.refused):
            raise Unavailable("503")

    def step(self) -> None:
        """End at one of the steps that follow the write; a dead process takes no further one."""
        if self.left is not None:
            raise Killed
        if self._is_written:
            self.step_left -= 1
            if self.step_left == 0:
                self.kill()
                raise Killed

    def kill(self) -> Path:
        self.left = left_by(self.spool.directory.parent, self._directory / "left")
        return self.left

    def close(self) -> None:
        self.engine.writeback.drop(self.array.stored, lambda _: False)
        self.engine.close()
        self.spool.close()


@pytest.fixture(params=["directory", "far"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], tuple[ZMap, Path]]:
    """Make a store with v, w and g/v in a format; returns it, and a directory for its mount."""
    numbers = itertools.count()

    def made(format: str) -> tuple[ZMap, Path]:
        place = tmp_path / str(next(numbers))
        (place / "store").mkdir(parents=True)
        zmap = CountedStore() if request.param == "far" else DirectoryZMap(place / "store")
        with open_zmap(Kept(zmap), "w", format=format) as root:
            for group in (root, root.create_group("g")):
                group.create_variable("v", FIELD.shape, "i4", FIELD, chunks=(2, 3))
            root.create_variable("w", FIELD.shape, "i4", FIELD, chunks=(2, 3))
        return zmap, place

    return made


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have a mount write in the last part of a rename, which has a step at each side of its record.

    With `saving`, the spool gets what was written. With `storing`, the chunk was stored a moment
    before, and is copied afterwards.
    """

    def begin(mount: Mount, saving: bool = False, storing: bool = False) -> None:
        copy_rest, copy_changed = _Renaming.copy_rest, _Renaming.copy_changed
        moved = Dataset.moved

        def copying_first(renaming: _Renaming) -> None:
            copy_rest(renaming)
            if storing:
                mount.put(-2)

        def copying(renaming: _Renaming) -> None:
            mount.write()
            if saving:
                mount.save()
            copy_changed(renaming)

        def moving(dataset: Dataset, path: str, goal: str) -> None:
            mount.step()
            moved(dataset, path, goal)
            mount.step()

        monkeypatch.setattr(_Renaming, "copy_rest", copying_first)
        monkeypatch.setattr(_Renaming, "copy_changed", copying)
        monkeypatch.setattr(Dataset, "moved", moving)

    return begin


def kill_before_the_record(
    mount: Mount, monkeypatch: pytest.MonkeyPatch, last: Callable[[], None] = lambda: None
) -> None:
    """Rename v in a mount that is killed after the last request, before the journal says so."""

    def killed(dataset: Dataset, path: str, goal: str) -> Any:
        last()
        mount.kill()
        raise Killed

    monkeypatch.setattr(Dataset, "moved", killed)
    with suppress(Killed):
        Editor(mount.dataset, ".").rename("v", NEW)
    monkeypatch.undo()


def first_values(zmap: ZMap) -> dict[str, int]:
    """The first value of each variable, as readers find them."""
    with open_zmap(Kept(zmap)) as root:
        groups = {"": root, **{f"{name}/": group for name, group in root.groups.items()}}
        return {
            f"{place}{name}": int(np.asarray(variable[0, 0]))
            for place, group in groups.items()
            for name, variable in group.variables.items()
        }


@pytest.mark.parametrize("storing", [False, True], ids=["", "stored before"])
@pytest.mark.parametrize(
    ("format", "variable", "survives", "saving"),
    [
        ("nczarr-L3", "v", Survives.KILL, False),
        ("nczarr-L3", "g/v", Survives.KILL, False),
        ("zarr2", "v", Survives.KILL, False),
        ("zarr2", "g/v", Survives.KILL, False),
        ("zarr2", "g/v", Survives.KILL, True),
        ("nczarr-L3", "v", Survives.NOTHING, True),
    ],
)
def test_killed_at_any_step_of_a_rename_it_is_put_back_where_the_node_is(
    make: Callable[[str], tuple[ZMap, Path]],
    writing: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    format: str,
    variable: str,
    survives: Survives,
    saving: bool,
    storing: bool,
) -> None:
    """SEMANTICS W21, W20."""
    path, _, rest = variable.partition("/")
    goal = f"{NEW}/{rest}".removesuffix("/")
    places = []
    for step in itertools.count(1):
        zmap, directory = make(format)
        mount = Mount(zmap, directory, variable, survives)
        mount.step_left = step
        writing(mount, saving, storing)
        with suppress(Killed):
            Editor(mount.dataset, ".").rename(path, NEW)
        monkeypatch.undo()
        if mount.left is None:
            mount.close()
            break
        is_renamed = goal in (there := first_values(zmap)) and (
            variable not in there or not has_mark(zmap, NEW)
        )
        assert len(recovered(mount.left, zmap)) == 1
        found = first_values(zmap)
        places.append(goal if is_renamed else variable)
        assert found[places[-1]] == -1
        mount.close()
    assert places == sorted(places, key=[variable, goal].index)
    assert set(places) == {variable, goal}


def test_after_a_failed_rename_it_is_put_back_under_the_old_name_whatever_gets_the_new_one(
    make: Callable[[str], tuple[ZMap, Path]],
    writing: Callable[[Mount], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS W21."""
    zmap, directory = make("nczarr-L3")
    mount = Mount(zmap, directory, "v")
    commit = _Renaming.commit

    def failing(renaming: _Renaming) -> None:
        commit(renaming)
        raise Unavailable("no route")

    writing(mount)
    monkeypatch.setattr(_Renaming, "commit", failing)
    with pytest.raises(Unavailable):
        Editor(mount.dataset, ".").rename("v", NEW)
    monkeypatch.undo()
    with open_zmap(Kept(zmap), "r+") as root:
        root.create_variable(NEW, FIELD.shape, "i4", FIELD, chunks=(2, 3))
    left = left_by(mount.spool.directory.parent, directory / "killed")
    assert recovered(left, zmap) == ["v[0:1, 0:1]"]
    assert first_values(zmap) == {"v": -1, "w": 0, NEW: 0, "g/v": 0}
    mount.close()


def test_an_entry_that_is_saved_during_a_rename_follows_it(
    make: Callable[[str], tuple[ZMap, Path]],
    writing: Callable[[Mount], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zmap, directory = make("nczarr-L3")
    mount = Mount(zmap, directory, "v")

    writing(mount)
    kill_before_the_record(mount, monkeypatch, mount.save)
    assert mount.left is not None
    assert recovered(mount.left, zmap) == ["v[0:1, 0:1]; was being renamed to x"]
    assert first_values(zmap) == {NEW: -1, "w": 0, "g/v": 0}
    mount.close()


@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL])
def test_a_chunk_in_the_spool_follows_a_rename_though_another_variable_gets_the_old_name(
    make: Callable[[str], tuple[ZMap, Path]],
    writing: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    survives: Survives,
) -> None:
    """SEMANTICS W20, W32: v becomes x, w becomes v, and the mount ends without the store."""
    zmap, directory = make("nczarr-L3")
    mount = Mount(zmap, directory, "v", survives)
    writing(mount, saving=True)
    Editor(mount.dataset, ".").rename("v", NEW)
    monkeypatch.undo()
    mount.refused = f"{NEW}/"
    Editor(mount.dataset, ".").rename("w", "v")
    mount.spool.close()
    assert recovered(mount.spool.directory.parent, zmap) == ["x[0:1, 0:1]"]
    assert first_values(zmap) == {NEW: -1, "v": 0, "g/v": 0}
    mount.close()


@pytest.mark.parametrize("storing", [False, True], ids=["", "stored before"])
@pytest.mark.parametrize("survives", [Survives.NOTHING, Survives.KILL])
def test_a_chunk_that_is_on_its_way_to_the_spool_follows_a_rename(
    make: Callable[[str], tuple[ZMap, Path]],
    monkeypatch: pytest.MonkeyPatch,
    survives: Survives,
    storing: bool,
) -> None:
    """The last byte of its file is written when the variable has its new name."""
    zmap, directory = make("nczarr-L3")
    mount = Mount(zmap, directory, "v", survives)
    copy_rest, copy_changed = _Renaming.copy_rest, _Renaming.copy_changed
    is_begun, is_renamed = Event(), Event()

    def slowly(path: Path, records: list[Packed]) -> Path:
        is_begun.set()
        assert is_renamed.wait(60)
        return write_records(path, records)

    with ThreadPoolExecutor(1) as threads:

        def copying_first(renaming: _Renaming) -> None:
            copy_rest(renaming)
            if storing:  # so that the chunk is copied when it was written to again
                mount.put(-2)

        def copying(renaming: _Renaming) -> None:
            if not storing:
                copy_changed(renaming)
            mount.write()
            saved.append(threads.submit(mount.save))
            assert is_begun.wait(60)
            if storing:
                copy_changed(renaming)

        saved: list[Future[None]] = []
        monkeypatch.setattr(saved_chunks, "write_records", slowly)
        monkeypatch.setattr(_Renaming, "copy_rest", copying_first)
        monkeypatch.setattr(_Renaming, "copy_changed", copying)
        Editor(mount.dataset, ".").rename("v", NEW)
        is_renamed.set()
        saved[0].result(60)
    monkeypatch.undo()
    with open_zmap(Kept(zmap), "r+") as root:
        root.create_variable("v", FIELD.shape, "i4", FIELD, chunks=(2, 3))
    assert recovered(mount.kill(), zmap) == ["x[0:1, 0:1]"]
    assert first_values(zmap) == {NEW: -1, "v": 0, "w": 0, "g/v": 0}
    mount.close()


def test_where_both_names_are_taken_since_it_is_kept(
    make: Callable[[str], tuple[ZMap, Path]],
    writing: Callable[[Mount], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zmap, directory = make("zarr2")
    mount = Mount(zmap, directory, "v")

    writing(mount)
    kill_before_the_record(mount, monkeypatch)
    zmap.delete(Key(f"v/{RENAMING}"))
    assert mount.left is not None
    with pytest.raises(
        SpoolError, match=r"v: was being renamed to x .* under both names; --export"
    ):
        recovered(mount.left, zmap)
    assert first_values(zmap) == {"v": 0, NEW: 0, "w": 0, "g/v": 0}
    mount.close()
