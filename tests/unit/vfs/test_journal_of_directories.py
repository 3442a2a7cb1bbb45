"""Files of ``objects/`` that were written while a directory above them was being renamed.

The mount is killed meanwhile: a copy of the store and of the spool at that moment is all that is
left. The mount itself goes on, so that its threads end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.renames import UnfinishedRename
from nczfs.engine.spool.space import Survives
from nczfs.errors import NoSpace, SpoolError, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from tests.conftest import ExpectedWarnings
from tests.support.contents import objects_of
from tests.support.counted import CountedStore
from tests.support.killed import Kept, copied, left_by, recovered
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, rename

OLD = {"f0": b"old 0", "f1": b"old 1, longer", "f2": b"old 2"}
WRITTEN = b"NEW"
NEVER = 10**9


class Ended(BaseException):
    """The process that puts back ends here."""


class Mount:
    """A mount with a journal, which a hook can have written to and killed before any request.

    Parameters
    ----------
    name : of the file that is open.
    """

    def __init__(self, store: MemoryZMap, directory: Path, name: str) -> None:
        self.left: Path | None = None
        self._directory = directory
        self._lock = threading.Lock()
        self._steps = 0
        self._kill_at = self._write_at = NEVER
        self.store = store
        self.spool_dir = directory / "spool"
        self.faulty = Faulty(Kept(store), before_call=lambda *_: self._step())
        engine = EngineOptions(cache_bytes_max=0, metadata_ttl_s=0.0, flush_age_s=3600)
        options = VfsOptions(
            engine=engine, read_only=False, spool_dir=self.spool_dir, survives=Survives.KILL
        )
        self.fs: TreeFileSystem = tree_over(self.faulty, options)
        for each, data in OLD.items():
            store.write(Key(f"a/{each}"), data)
        self.handle = open_file(self.fs, f"objects/a/{name}", os.O_RDWR | os.O_CREAT)

    def rename(self, goal: str = "b", *, kill_at: int, write_at: int = NEVER) -> bool:
        """Rename the directory. Returns whether there were so many requests."""
        self._steps, self._kill_at, self._write_at = 0, kill_at, write_at
        rename(self.fs, "objects/a", f"objects/{goal}")
        self._kill_at = self._write_at = NEVER
        return self.left is not None

    def write(self) -> None:
        self.fs.write(self.handle, 2, WRITTEN)

    def kill(self) -> None:
        self.left = left_by(self.spool_dir, self._directory / "left")
        self.remains = copied(self.store)

    def close(self) -> None:
        close(self.fs, self.handle)
        self.fs.close()

    def _step(self) -> None:
        with self._lock:
            self._steps += 1
            if self._steps == self._write_at:
                self.write()
            if self._steps == self._kill_at:
                self.kill()


Make = Callable[[str], Mount]


@pytest.fixture(params=["near", "far"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Make a mount in which a file of a directory is open."""
    mounts: list[Mount] = []

    def made(name: str) -> Mount:
        directory = tmp_path / str(len(mounts))
        directory.mkdir()
        near = request.param == "near"
        mounts.append(Mount(CountedStore(near=near), directory, name))
        return mounts[-1]

    yield made
    for mount in mounts:
        mount.close()


def unchanged(mount: Mount, data: bytes) -> bytes:
    return data


def written(mount: Mount, data: bytes) -> bytes:
    mount.fs.write(mount.handle, 0, b"DIRTY")
    return b"DIRTY" + data[5:]


def replaced(mount: Mount, data: bytes) -> bytes:
    mount.fs.write(mount.handle, 0, b"other " * 5)
    return b"other " * 5


def shortened(mount: Mount, data: bytes) -> bytes:
    path = find(mount.fs, "objects/a/f1")
    mount.fs.setattr(path.ino, AttributeChanges(size=6), mount.handle)
    return data[:6]


BEFORE = {
    "clean": ("f1", unchanged),
    "unsaved": ("f1", written),
    "replaced": ("f1", replaced),
    "shortened": ("f1", shortened),
    "new": ("new", written),
}


def begun(make: Make, before: str) -> tuple[Mount, str, bytes]:
    """A mount whose file is clean, or not stored; its name, and its bytes."""
    name, change = BEFORE[before]
    mount = make(name)
    return mount, name, change(mount, OLD.get(name, b""))


def below(directory: str, **changed: bytes) -> dict[str, bytes]:
    return {f"{directory}/{name}": data for name, data in (OLD | changed).items()}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("is_early", [True, False])
def test_killed_at_any_request_of_a_rename_it_is_put_back_under_the_name_that_this_leaves(
    make: Make, before: str, *, is_early: bool
) -> None:
    """SEMANTICS O23, W21. What was written just before the kill, or after the first request."""
    places = []
    for step in count(1):
        mount, name, data = begun(make, before)
        if not mount.rename(kill_at=step, write_at=1 if is_early else step):
            break
        assert mount.left is not None
        recovered(mount.left, mount.remains)
        data = data[:2] + WRITTEN + data[2 + len(WRITTEN) :]
        found = objects_of(mount.remains)
        places.append("b" if f"b/{name}" in found else "a")
        assert found == below(places[-1], **{name: data}), step
        assert list(mount.left.iterdir()) == []
    assert places == sorted(places)
    assert set(places) == {"a", "b"}


@pytest.mark.parametrize("before", BEFORE)
def test_killed_at_any_request_of_a_rename_what_was_written_before_is_put_back(
    make: Make, before: str
) -> None:
    """SEMANTICS O23, W21."""
    for step in count(1):
        mount, name, data = begun(make, before)
        if not mount.rename(kill_at=step):
            break
        assert mount.left is not None
        recovered(mount.left, mount.remains)
        found = objects_of(mount.remains)
        assert found == below("b" if f"b/{name}" in found else "a", **{name: data}), step


def test_a_rename_of_what_is_not_stored_at_all_is_ended_too(make: Make) -> None:
    """SEMANTICS O23, W21."""
    for step in count(1):
        mount, _, data = begun(make, "new")
        for each in OLD:
            mount.store.delete(Key(f"a/{each}"))
        if not mount.rename(kill_at=step):
            break
        assert mount.left is not None
        recovered(mount.left, mount.remains)
        assert list(objects_of(mount.remains).values()) == [data], step


@pytest.mark.parametrize("before", ["clean", "unsaved", "new"])
def test_ended_at_any_step_it_is_put_back_again(
    make: Make,
    before: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for step in count(3, 3):
        mount, name, data = begun(make, before)
        if not mount.rename(kill_at=step, write_at=step):
            break
        assert mount.left is not None
        data = data[:2] + WRITTEN + data[2 + len(WRITTEN) :]
        for end in count(1):
            store, left = copied(mount.remains), left_by(mount.left, mount.left.parent / f"{end}")
            steps = count(1)

            def end_at(*_: Any, steps: Iterator[int] = steps, end: int = end) -> None:
                if next(steps) >= end:
                    raise Ended

            with monkeypatch.context() as patched:
                for call in ("write", "writev", "rename", "fsync", "unlink", "rmdir"):
                    patched.setattr(os, call, _after(end_at, getattr(os, call)))
                with suppress(Ended):
                    recovered(left, Faulty(store, before_call=end_at))
                is_whole = next(steps) <= end
            recovered(left, store)
            found = objects_of(store)
            assert found == below("b" if f"b/{name}" in found else "a", **{name: data}), (step, end)
            if is_whole:
                break
        assert end > 3


def _after(first: Callable[[], None], call: Callable[..., Any]) -> Callable[..., Any]:
    def both(*arguments: Any, **named: Any) -> Any:
        first()
        return call(*arguments, **named)

    return both


def renames_left_by(mount: Mount) -> list[UnfinishedRename]:
    assert mount.left is not None
    found = [each.entry for each in recovery.entries(mount.left)]
    return [each for each in found if isinstance(each, UnfinishedRename)]


def states(make: Make, before: str) -> Iterator[Mount]:
    """Mounts that were killed at each request of the rename that has an entry in the spool."""
    for step in count(1):
        mount, *_ = begun(make, before)
        if not mount.rename(kill_at=step, write_at=step):
            break
        if renames_left_by(mount):
            yield mount


def put_back(mount: Mount, *, force: bool = False) -> list[str]:
    """Why something is not put back, of what is left by a mount."""
    assert mount.left is not None
    problems: list[str] = []
    store = recovery.Store(Kept(mount.remains), parse_url("memory://store"))
    for group in recovery.together(recovery.entries(mount.left)):
        for found, problem in zip(group, store.put_back(group, force=force), strict=True):
            if problem is None:
                found.remove()
            else:
                problems.append(str(problem))
    store.close()
    return problems


@pytest.mark.parametrize("before", ["clean", "unsaved", "replaced"])
def test_what_another_client_has_stored_since_is_not_overwritten_but_by_force(
    make: Make, before: str
) -> None:
    """SEMANTICS W51: wherever the rename has left the file. Force needs all of its bytes."""
    at = []
    for mount in states(make, before):
        (rename,) = renames_left_by(mount)
        at.append("b/f1" if rename.copies else "a/f1")
        mount.remains.write(Key(at[-1]), b"theirs")
        problems = put_back(mount)
        assert problems[0].startswith(f"{at[-1]}: another client has replaced it since")
        assert objects_of(mount.remains)[at[-1]] == b"theirs"
        if before == "replaced":
            assert put_back(mount, force=True) == []
            data = b"otNEW " + b"other " * 4
            assert objects_of(mount.remains) == below("b", f1=data)
    assert set(at) == {"a/f1", "b/f1"}


def test_what_another_client_has_stored_under_the_old_name_after_the_copies_stays_there(
    make: Make,
) -> None:
    """SEMANTICS O23, O26."""
    count_of_states = 0
    for mount in states(make, "clean"):
        (rename,) = renames_left_by(mount)
        if rename.copies:
            count_of_states += 1
            mount.remains.write(Key("a/f1"), b"theirs")
            (problem,) = put_back(mount)
            assert "a: 1 objects stay there: a/f1 is newer than the rename" in problem
            found = objects_of(mount.remains)
            assert found == below("b", f1=b"olNEW, longer") | {"a/f1": b"theirs"}
    assert count_of_states > 3


def test_what_another_client_has_stored_under_the_new_name_meanwhile_stays(make: Make) -> None:
    """SEMANTICS O23: what was written is put back under the old name then."""
    for mount in states(make, "clean"):
        if "b/f1" in objects_of(mount.remains):
            break
        mount.remains.write(Key("b/f1"), b"theirs")
        (problem,) = put_back(mount)
        assert "a: 1 objects stay there: a/f1 is newer than the rename" in problem
        found = objects_of(mount.remains)
        assert found == below("b", f1=b"theirs") | {"a/f1": b"olNEW, longer"}


def test_what_is_still_in_the_spool_keeps_the_rename_there(make: Make) -> None:
    for mount in states(make, "clean"):
        assert mount.left is not None
        for found in recovery.entries(mount.left):
            if isinstance(found.entry, UnfinishedRename):
                with pytest.raises(SpoolError, match="where other entries of the mount belong"):
                    found.remove()
        store = recovery.Store(
            Faulty(Kept(mount.remains), Fault(0, operations=frozenset({"write_parts"}))),
            parse_url("memory://store"),
        )
        (group,) = recovery.together(recovery.entries(mount.left))
        problems = store.put_back(group)
        store.close()
        assert "the rename to b ends when what was written to a/f1 is" in str(problems[-1])
        assert isinstance(problems[0], Unavailable)
        assert put_back(mount) == []
        assert objects_of(mount.remains) == below("b", f1=b"olNEW, longer")


def test_after_a_failed_rename_it_is_put_back_under_the_old_name(
    make: Make, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS O23, W21: what is made under the old name since does not move, either."""
    for call in count(0):
        mount, _, data = begun(make, "unsaved")
        fault = Fault(call, operations=frozenset({"write", "copy", "delete"}))
        mount.faulty.arm(fault)
        try:
            mount.rename(kill_at=NEVER)
        except Unavailable:
            pass
        else:
            break
        is_old = any(key == "a/f1" for key in objects_of(mount.store))
        new = open_file(mount.fs, "objects/a/later", os.O_RDWR | os.O_CREAT)
        mount.fs.write(new, 0, b"later")
        mount.kill()
        close(mount.fs, new)
        problems = put_back(mount)
        found = objects_of(mount.remains)
        place = "a/f1" if is_old else "b/f1"
        assert found[place] == data
        assert found["a/later"] == b"later"
        assert all("is newer than the rename" in each for each in problems)
        assert len(problems) == 1
    assert call > 3


def test_after_a_failed_rename_another_one_decides(make: Make) -> None:
    """SEMANTICS O23, W21."""
    is_noted = False
    for step in count(1):
        mount, _, data = begun(make, "unsaved")
        mount.faulty.arm(Fault(0, operations=frozenset({"copy"})))
        with pytest.raises(Unavailable):
            mount.rename(kill_at=NEVER)
        if not mount.rename("c", kill_at=step):
            break
        is_begun = any(each.goal == "c" for each in renames_left_by(mount))
        problems = put_back(mount)
        if is_begun:
            is_noted = True
            assert problems == []
            found = objects_of(mount.remains)  # some of the first try's copies are there, too
            assert {k: v for k, v in found.items() if k[0] != "b"} == below("c", f1=data)
        elif not is_noted:
            assert objects_of(mount.remains)["a/f1"] == data
    assert is_noted


@pytest.mark.parametrize("place", ["a", "b"])
def test_what_a_later_mount_has_written_under_either_name_is_put_back_with_it(
    make: Make, expected_warnings: ExpectedWarnings, place: str
) -> None:
    expected_warnings.add("pieces of what was written in an earlier mount are not stored")
    count_of_states = 0
    for mount in states(make, "clean"):
        assert mount.left is not None
        if f"{place}/f1" not in objects_of(mount.remains):
            continue
        count_of_states += 1
        options = VfsOptions(read_only=False, spool_dir=mount.left, survives=Survives.KILL)
        later = tree_over(Kept(copied(mount.remains)), options)
        handle = open_file(later, f"objects/{place}/f1")
        later.write(handle, 5, b"LATER")
        both = left_by(mount.left, mount.left.parent / "both")
        close(later, handle)
        later.close()
        recovered(both, mount.remains)
        assert objects_of(mount.remains) == below("b", f1=b"olNEWLATERger")
    assert count_of_states > 3


def test_without_room_for_the_note_of_the_copies_nothing_is_deleted(
    make: Make, monkeypatch: pytest.MonkeyPatch, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS W21: a kill after that would lose what is written."""
    expected_warnings.add("does not say that the rename has failed")

    def full(*_: Any, **named: Any) -> None:
        raise NoSpace("no space left on device")

    mount, _, data = begun(make, "unsaved")
    with monkeypatch.context() as patched:
        patched.setattr("nczfs.engine.spool.renames.add_record", full)
        with pytest.raises(NoSpace):
            mount.rename(kill_at=NEVER)
    assert set(below("a")) <= set(objects_of(mount.store))
    mount.fs.fsync(mount.handle, data_only=False)
    assert objects_of(mount.store)["a/f1"] == data
