"""The log of a mount: what holds is in it, however many files it has had, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nczfs.engine.process import this_process
from nczfs.engine.spool import log as spool_log
from nczfs.engine.spool.contents import LogContents, logs_in
from nczfs.engine.spool.log import FORMAT
from nczfs.engine.spool.objects import KeptObject
from nczfs.engine.spool.records import free, packed
from nczfs.engine.spool.space import LOCK, SUFFIX, Spool, Survives
from nczfs.engine.spool.staged import Staged
from nczfs.errors import NczfsError, NoSpace, Unavailable
from nczfs.model.ranges import END
from nczfs.tools import recovery
from nczfs.vfs.staging import Base, StagedFile, stage
from nczfs.zmap.base import ABSENT, Stat, Version
from nczfs.zmap.keys import Key
from tests.conftest import ExpectedWarnings
from tests.support.descriptors import descriptors_left
from tests.support.killed import left_by
from tests.support.power import Disk

URL = "memory://store"


@pytest.fixture(autouse=True)
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_log, "FILE_BYTES", 1000)


def journaling(directory: Path, survives: Survives = Survives.KILL) -> Spool:
    return Spool(directory / "spool", URL, survives=survives)


def begun(spool: Spool, key: str, size: int = 100) -> StagedFile:
    """A file of which everything comes from a version in the store."""
    base = Base(Stat(Key(key), size, Version("v1")), lambda a, b: b"o" * (b - a), 10)
    staged = stage(spool, key, size, base)
    staged.note_unsaved(key, Version("v1"))
    return staged


def found_in(left: Path) -> dict[str, KeptObject]:
    found = {}
    for each in recovery.entries(left):
        assert isinstance(each.entry, KeptObject), each
        found[each.entry.key] = each.entry
    return found


def test_what_holds_goes_from_file_to_file(tmp_path: Path) -> None:
    spool = journaling(tmp_path)
    first, second = begun(spool, "first"), begun(spool, "second")
    for at in range(0, 100, 2):
        first.write(at, b"n")
    second.truncate(30)
    for number in range(20):
        other = begun(spool, f"other{number}")
        other.write(0, b"x")
        other.note_saved()
        other.discard()
    assert len(logs_in(spool.directory)) == 1
    assert logs_in(spool.directory)[0].name != "log.1"
    found = found_in(left_by(tmp_path / "spool", tmp_path / "left"))
    assert found["first"].missing == tuple((at, at + 1) for at in range(1, 100, 2))
    assert (found["second"].missing, found["second"].data.size) == (((0, 30),), 30)
    assert set(found) == {"first", "second"}
    for staged in (first, second):
        staged.note_saved()
        staged.discard()
    assert spool.bytes_used == 0
    spool.close()
    assert not spool.directory.exists()


def test_a_mount_and_who_reads_its_log_know_the_same(tmp_path: Path) -> None:
    spool = journaling(tmp_path)
    staged = begun(spool, "key")
    for at in (50, 20, 75):
        staged.write(at, b"new")
        staged.truncate(at + 20)
        said = staged._log._said
        assert said is not None
        found = LogContents(logs_in(spool.directory)).staged[staged.path.name]
        assert found.document("") == said.document("")
    staged.discard()


@pytest.mark.parametrize(
    ("survives", "call"), [(Survives.POWER, "fdatasync"), (Survives.KILL, "writev")]
)
def test_what_was_done_when_the_disk_failed_is_said_with_what_is_done_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: Survives, call: str
) -> None:
    """SEMANTICS W21: the program tries again, and the disk takes it."""

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def fail(change: Callable[[], None]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(os, call, failing)
            with pytest.raises(Unavailable):
                change()

    spool = journaling(tmp_path, survives)
    written, cut = begun(spool, "written"), begun(spool, "cut")
    fail(lambda: written.write(10, b"new"))
    written.write(10, b"new")
    fail(lambda: cut.truncate(30))
    cut.truncate(100)
    found = found_in(left_by(tmp_path / "spool", tmp_path / "left"))
    assert found["written"].missing == ((0, 10), (13, 100))
    assert (found["cut"].missing, found["cut"].data.size) == (((0, 30),), 100)
    for staged in (written, cut):
        staged.note_saved()
        staged.discard()
    spool.close()


@pytest.mark.parametrize("survives", Survives)
def test_what_is_kept_is_found_however_long_the_mount_goes_on(
    tmp_path: Path, survives: Survives
) -> None:
    spool = journaling(tmp_path, survives)
    kept = [begun(spool, f"key{number}") for number in range(30)]
    paths = [staged.keep(f"key{n}", Version("v1"), "no way") for n, staged in enumerate(kept)]
    paths[7].unlink()
    wanted = {f"key{number}" for number in range(30)} - {"key7"}
    assert set(found_in(tmp_path / "spool")) == wanted
    spool.close()
    assert set(found_in(tmp_path / "spool")) == wanted


def test_where_no_descriptor_is_left_the_file_of_the_log_goes_on(tmp_path: Path) -> None:
    spool = journaling(tmp_path)
    files = [begun(spool, f"key{number}") for number in range(20)]
    with descriptors_left(0):
        for number, staged in enumerate(files):
            staged.keep(f"key{number}", Version("v1"), "no way" * 20)
    spool.close()
    assert len(found_in(tmp_path / "spool")) == 20


def test_what_was_kept_and_is_put_back_meanwhile_leaves_nothing(tmp_path: Path) -> None:
    spool = journaling(tmp_path, Survives.NOTHING)
    begun(spool, "key").keep("key", ABSENT, "no way")
    (found,) = recovery.entries(tmp_path / "spool")
    found.remove()
    assert recovery.entries(tmp_path / "spool") == []
    spool.close()
    assert not spool.directory.exists()


def test_a_file_that_a_damaged_log_does_not_name_is_shown_and_left_alone(tmp_path: Path) -> None:
    spool = journaling(tmp_path)
    begun(spool, "key").write(0, b"new")
    left = left_by(tmp_path / "spool", tmp_path / "left")
    (log,) = left.glob("*/log.*")
    content = bytearray(log.read_bytes())
    content[60] ^= 1
    log.write_bytes(content)
    for _ in range(2):
        of_log, found = sorted(
            recovery.entries(left), key=lambda each: each.path == log, reverse=True
        )
        assert "log.1: damaged at byte 0" in of_log.problem
        assert "the log does not say what it is: " in found.problem
        assert found.path.read_bytes()[:3] == b"new"


def test_what_another_version_has_written_is_refused_and_left_alone(tmp_path: Path) -> None:
    """SEMANTICS W20."""
    for name, text in (("bare", "memory://store"), ("older", json.dumps({"format": 2}))):
        directory = tmp_path / "spool" / name
        directory.mkdir(parents=True)
        (directory / LOCK).write_text(text)
        for file in ("journal-1-values", "log-of-2-key", "2-key", f"3-v%2F0{SUFFIX}"):
            (directory / file).write_bytes(b"data")
    before = sorted((tmp_path / "spool").rglob("*"))
    found = recovery.entries(tmp_path / "spool", force=True)
    assert len(found) == 8
    assert all("another version of nczfs has written it" in each.problem for each in found)
    assert len(recovery.left_of(tmp_path / "spool", URL)) == 4
    assert sorted((tmp_path / "spool").rglob("*")) == before


def test_of_what_does_not_say_what_was_written_all_that_is_there_was_written() -> None:
    """An earlier version of nczfs has said it."""
    said = {
        "key": "key",
        "replaces": "v1",
        "missing": [[10, 20], [30, 40]],
        "sent": [],
        "kept": None,
    }
    staged = Staged.parsed(said)
    staged.take({"is": "filled", "ranges": [[12, 14]]})
    assert [*staged.changed.within(0, END)] == [(0, 10), (12, 14), (20, 30), (40, END)]
    with pytest.raises(ValueError, match="3 to 2 is no range"):
        Staged.parsed({**said, "changed": [[3, 2]]})


def test_a_log_of_another_version_is_refused(tmp_path: Path) -> None:
    spool = journaling(tmp_path)
    begun(spool, "key").write(0, b"new")
    left = left_by(tmp_path / "spool", tmp_path / "left")
    (lock,) = left.glob(f"*/{LOCK}")
    lock.write_text(json.dumps({"format": 99, "url": URL}))
    assert [found.entry for found in recovery.entries(left)] == [None, None]


def test_no_key_makes_a_file_an_entry(tmp_path: Path) -> None:
    """Whoever writes an object chooses its name and its bytes."""
    spool = journaling(tmp_path, Survives.NOTHING)
    real = begun(spool, "real").keep("real", ABSENT, "no way")
    named = [stage(spool, f"evil{end}") for end in (SUFFIX, ".kept")]
    for staged in named:
        staged.write(0, logs_in(spool.directory)[0].read_bytes())
    left = left_by(tmp_path / "spool", tmp_path / "left")
    found = recovery.entries(left)
    assert [each.is_leftover for each in found if each.path.name != real.name] == [True, True]
    assert {each.entry.key for each in found if each.entry} == {"real", "evil.unsaved", "evil.kept"}
    shutil.rmtree(left)
    for staged in named:
        staged.discard()


def test_what_recover_says_goes_into_a_file_of_its_own(
    tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    spool = journaling(tmp_path)
    begun(spool, "key").write(0, b"new")
    left = left_by(tmp_path / "spool", tmp_path / "left")
    (log,) = left.glob("*/log.*")
    with log.open("ab") as file:
        file.write(log.read_bytes()[:50])  # torn
    (found,) = recovery.entries(left)
    found.home.say({"is": "done", "file": found.path.name})
    assert LogContents(logs_in(found.home.directory)).staged == {}
    assert os.listdir(left) != []


def test_what_recover_says_survives_a_power_failure(tmp_path: Path) -> None:
    spool = journaling(tmp_path)
    begun(spool, "key").write(0, b"new")
    left = left_by(tmp_path / "spool", tmp_path / "left")
    (found,) = recovery.entries(left)
    disk = Disk(left)
    with disk.watched():
        found.home.say({"is": "done", "file": found.path.name})
    after = disk.after_failure(tmp_path / "after") / found.home.directory.name
    assert LogContents(logs_in(after)).staged == {}


def test_where_the_lock_says_nothing_a_log_of_another_version_is_left_alone(tmp_path: Path) -> None:
    """The lock is not synced: a power failure may have emptied it."""
    directory = tmp_path / "spool/mount"
    directory.mkdir(parents=True)
    (directory / LOCK).touch()
    (directory / "log.1").write_bytes(b"".join(packed({"is": "log", "format": 99})))
    for _ in range(2):
        (found,) = recovery.entries(tmp_path / "spool")
        assert f"format 99 instead of {FORMAT}" in found.problem


def test_a_file_whose_log_a_power_failure_took_away_is_shown(tmp_path: Path) -> None:
    spool = journaling(tmp_path)
    begun(spool, "key").write(0, b"new")
    left = left_by(tmp_path / "spool", tmp_path / "left")
    (log,) = left.glob("*/log.*")
    log.unlink()
    for _ in range(2):
        (found,) = recovery.entries(left)
        assert found.path.read_bytes()[:3] == b"new"


class Budget:
    """A budget that can be full, and the log that is written in it."""

    def __init__(self, directory: Path) -> None:
        self.used = 0
        self.is_full = False
        self.directory = directory
        self.log = spool_log.Log(directory, {"url": URL}, lambda: None, self.reserve, None)
        self.log.hold(spool_log.VALUES, lambda: [packed({"is": "chunk"})])

    def reserve(self, count: int, *, always: bool = False) -> None:
        if self.is_full and count >= 0 and not always:
            raise NoSpace("no room")
        self.used += count

    def append(self, count: int) -> None:
        for number in range(count):
            self.log.append([packed({"is": "wrote", "number": number, "text": "x" * 50})])

    @property
    def files(self) -> list[int]:
        """The numbers of the files of the log."""
        names = (path.name.removeprefix(spool_log.BEFORE) for path in self.directory.iterdir())
        return sorted(map(int, names))

    @property
    def content(self) -> bytes:
        return b"".join(path.read_bytes() for path in self.directory.iterdir())


@pytest.fixture
def budget(tmp_path: Path) -> Budget:
    return Budget(tmp_path)


def test_files_of_a_log_whose_values_are_stored_go_and_the_later_ones_stay(budget: Budget) -> None:
    log = budget.log
    log.open()
    assert log.ended() is None
    budget.append(90)
    first, *later = budget.files
    assert len(later) > 1
    assert log.ended() == later[-2]
    log.drop(first)
    assert budget.files == later
    log.drop(later[-2])
    assert budget.files == later[-1:]
    assert budget.used == len(budget.content)
    assert log.ended() is None
    log.close()


def test_files_that_the_disk_does_not_remove_are_emptied_with_the_others(
    budget: Budget, monkeypatch: pytest.MonkeyPatch, expected_warnings: ExpectedWarnings
) -> None:
    """Else what is stored seems not to be, once nothing says any more that it is."""
    expected_warnings.add("the spool still holds data that are stored")

    def failing(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    budget.append(90)
    number = budget.log.ended()
    assert number is not None
    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", failing)
        budget.log.drop(number)
        budget.log.release(spool_log.VALUES)
    assert (budget.content, budget.used) == (b"", 0)
    budget.log.close()
    assert budget.files == []


def test_what_holds_stays_when_the_values_in_older_files_are_stored(budget: Budget) -> None:
    log = budget.log
    log.hold("file", lambda: [packed({"is": "file", "file": "name"})])
    budget.append(90)
    last = budget.files[-1]
    assert not log.release(spool_log.VALUES)
    assert budget.files == [last]
    assert b'"name"' in budget.content
    assert log.release("file")
    assert (budget.files, budget.used) == ([last], 0)
    log.close()
    assert budget.files == []


def test_a_file_that_is_long_enough_takes_more_when_no_descriptor_is_left(budget: Budget) -> None:
    with descriptors_left(0), pytest.raises(NczfsError):
        budget.append(1)
    budget.append(1)
    with descriptors_left(0):
        budget.append(60)
    assert len(budget.files) == 1
    assert len(budget.content) > 3 * spool_log.FILE_BYTES
    budget.append(1)
    assert len(budget.files) == 2
    budget.log.close()


def test_however_much_a_full_disk_left_unsaid_is_said_when_it_has_room(
    budget: Budget, monkeypatch: pytest.MonkeyPatch, expected_warnings: ExpectedWarnings
) -> None:
    """The kernel takes 1,024 buffers in one call."""
    expected_warnings.add("No space left on device")

    def full(fd: int, parts: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    budget.append(1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", full)
        for number in range(2000):
            budget.log.note({"is": "stored", "number": number})
    budget.append(1)
    assert budget.content.count(b'"stored"') == 2000
    budget.log.close()


def test_a_new_file_begins_with_however_much_holds(budget: Budget) -> None:
    for number in range(2000):
        said = [packed({"is": "file", "file": str(number)})]
        budget.log.hold(str(number), lambda said=said: said)  # type: ignore[misc]
    budget.append(1)
    assert budget.content.count(b'"file":') == 2000
    budget.log.close()


def test_nothing_is_said_in_a_file_whose_name_a_power_failure_could_take_away(
    tmp_path: Path,
) -> None:
    synced: list[bool] = []

    def sync() -> None:
        synced.append(len(synced) > 0)
        if not synced[-1]:
            raise Unavailable("the disk fails")

    log = spool_log.Log(tmp_path, {"url": URL}, lambda: None, free, sync)
    with pytest.raises(Unavailable):
        log.append([packed({"is": "grown"})])
    assert list(tmp_path.iterdir()) == []
    log.append([packed({"is": "grown"})])
    assert synced == [False, True]
    assert b"grown" in (tmp_path / "log.1").read_bytes()
    log.close()


def test_numbers_that_were_said_before_a_file_began_anew_never_seem_to_hold(budget: Budget) -> None:
    """Else values would be put back into another chunk."""
    log, ages = budget.log, []
    for turn in range(4):
        log.hold(spool_log.VALUES, list)
        ages.append(log.open())
        budget.append(10 * (turn + 1))
        if log.open() != ages[-1]:
            ages.append(log.open())
        assert log.release(spool_log.VALUES)
    assert len(ages) > 5
    assert len(set(ages)) == len(ages)
    log.close()


def test_what_voids_records_is_said_and_files_go_without_room_in_the_budget(budget: Budget) -> None:
    log = budget.log
    budget.append(30)
    budget.is_full = True
    with pytest.raises(NoSpace):
        budget.append(1)
    log.note({"is": "stored", "number": 29})
    log.owe({"is": "done", "file": "name"})
    ended = log.ended()
    assert ended is not None
    log.drop(ended)
    assert len(budget.files) == 1
    assert b"stored" in budget.content
    assert b"done" in budget.content
    log.close()


def test_a_log_names_the_process_that_writes_it(tmp_path: Path) -> None:
    """Others tell by it whether the mount lives."""
    spool = journaling(tmp_path)
    begun(spool, "key")
    assert LogContents(logs_in(spool.directory)).process == this_process()
    spool.close()
