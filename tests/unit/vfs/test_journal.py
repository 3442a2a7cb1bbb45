"""Files of ``objects/`` that were written and not stored when the mount was killed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from nczfs.engine.spool.log import BEFORE
from nczfs.engine.spool.objects import KeptObject
from nczfs.engine.spool.records import packed
from nczfs.engine.spool.space import LOCK, Survives
from nczfs.errors import NoSpace, NoSuchObject, SpoolError, StaleHandle, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import open_store
from tests.conftest import ExpectedWarnings
from tests.support.killed import Kept, left_by, recovered
from tests.support.trees import find, read, tree_over
from tests.support.writing import close, open_file, split

OLD = bytes(range(1, 201))
_stores = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory://journal{next(_stores)}"


@pytest.fixture
def store(url: str) -> ZMap:
    store = open_store(url)
    store.write(Key("old"), OLD)
    return store


@pytest.fixture
def spool_dir(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def mounted(store: ZMap, url: str, spool_dir: Path) -> Iterator[Callable[..., TreeFileSystem]]:
    trees: list[TreeFileSystem] = []

    def mount(**options: Any) -> TreeFileSystem:
        usual = VfsOptions(read_only=False, spool_dir=spool_dir, survives=Survives.KILL)
        trees.append(tree_over(Kept(store), replace(usual, **options), url))
        return trees[-1]

    yield mount
    for tree in trees:
        tree.close()


@pytest.fixture
def fs(mounted: Callable[..., TreeFileSystem]) -> TreeFileSystem:
    return mounted()


@pytest.fixture
def killed(spool_dir: Path, tmp_path: Path) -> Callable[[], Path]:
    copies = itertools.count()
    return lambda: left_by(spool_dir, tmp_path / f"killed{next(copies)}")


def content(store: ZMap, key: str) -> bytes | None:
    try:
        return bytes(store.read(Key(key)).data)
    except NoSuchObject:
        return None


def test_a_new_file_is_put_back_as_it_was_written(
    fs: TreeFileSystem, store: ZMap, killed: Callable[[], Path]
) -> None:
    handle = open_file(fs, "objects/new", os.O_RDWR | os.O_CREAT)
    fs.write(handle, 5, b"some")
    fs.write(handle, 9, b" bytes")
    assert recovered(killed(), store) == ["new: 15 bytes"]
    assert content(store, "new") == bytes(5) + b"some bytes"
    store.delete(Key("new"))
    close(fs, handle)


def test_what_was_never_fetched_comes_from_the_version_that_is_replaced(
    fs: TreeFileSystem, store: ZMap, killed: Callable[[], Path]
) -> None:
    handle = open_file(fs, "objects/old")
    fs.write(handle, 50, b"one")
    fs.write(handle, 150, b"two")
    fs.write(handle, 151, b"TWO")
    assert recovered(killed(), store) == ["old: 200 bytes"]
    wanted = bytearray(OLD)
    wanted[50:53], wanted[150:154] = b"one", b"tTWO"
    assert content(store, "old") == bytes(wanted)


@pytest.mark.parametrize("key", ["old", "new"])
def test_what_arrived_without_an_answer_is_no_other_clients(
    mounted: Callable[..., TreeFileSystem],
    store: ZMap,
    killed: Callable[[], Path],
    key: str,
    expected_warnings: ExpectedWarnings,
) -> None:
    """Whoever is killed then has written more to the file since it was sent."""
    expected_warnings.add("not stored")
    lost = Fault(0, after=True, operations=frozenset({"write", "write_parts"}), repeats=100)
    faulty = Faulty(Kept(store))
    with mock.patch("tests.unit.vfs.test_journal.Kept", return_value=faulty):
        fs = mounted()
    handle = open_file(fs, f"objects/{key}", os.O_RDWR | os.O_CREAT)
    fs.write(handle, 50, b"one")
    faulty.arm(lost)
    with pytest.raises(Unavailable):
        fs.fsync(handle, data_only=False)
    faulty.arm()
    fs.write(handle, 60, b"two")
    left = killed()
    sent = bytearray(OLD if key == "old" else bytes(53))
    sent[50:53] = b"one"
    assert content(store, key) == bytes(sent)
    others = left_by(left, left.with_name("others"))
    recovered(left, store)
    wanted = bytearray(sent.ljust(63, b"\0"))
    wanted[60:63] = b"two"
    assert content(store, key) == bytes(wanted)
    store.write(Key(key), b"theirs")
    with pytest.raises(SpoolError, match="6 bytes there"):
        recovered(others, store)


def test_what_was_cut_off_does_not_come_back(
    fs: TreeFileSystem, store: ZMap, killed: Callable[[], Path]
) -> None:
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"new")
    for cut in (120, 10, 30):
        fs.setattr(find(fs, "objects/old").ino, AttributeChanges(size=cut), handle)
    assert recovered(killed(), store) == ["old: 30 bytes"]
    assert content(store, "old") == b"new" + OLD[3:10] + bytes(20)


def test_what_is_stored_is_not_put_back_and_what_is_written_then_is(
    fs: TreeFileSystem, store: ZMap, killed: Callable[[], Path]
) -> None:
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    fs.fsync(handle, data_only=False)
    assert recovered(killed(), store) == []
    fs.write(handle, 1, b"two")
    left = killed()
    (found,) = recovery.entries(left)
    assert isinstance(found.entry, KeptObject)
    assert found.entry.replaces == store.stat(Key("old")).version
    recovered(left, store)
    assert content(store, "old") == b"otwo" + OLD[4:]


def test_a_file_that_is_renamed_is_put_back_under_its_new_name(
    fs: TreeFileSystem, store: ZMap, killed: Callable[[], Path]
) -> None:
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    fs.rename(*split(fs, "objects/old"), *split(fs, "objects/renamed"), replace=True)
    assert recovered(killed(), store) == []
    fs.write(handle, 0, b"two")
    assert recovered(killed(), store) == ["renamed: 200 bytes"]
    assert content(store, "renamed") == b"two" + OLD[3:]


@pytest.mark.parametrize("how", ["removed", "opened with O_TRUNC", "only read"])
def test_what_goes_nowhere_is_not_put_back(
    fs: TreeFileSystem, store: ZMap, killed: Callable[[], Path], how: str
) -> None:
    """SEMANTICS O8, O10."""
    handle = open_file(fs, "objects/old", os.O_RDWR | (os.O_TRUNC if "TRUNC" in how else 0))
    if how == "removed":
        fs.write(handle, 0, b"one")
        fs.unlink(*split(fs, "objects/old"))
        fs.write(handle, 0, b"two")
    left = killed()
    assert recovery.entries(left) == []
    assert list(left.iterdir()) == []


def test_nothing_is_left_when_all_is_closed(fs: TreeFileSystem, spool_dir: Path) -> None:
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    assert len(list(spool_dir.glob(f"*/{BEFORE}*"))) == 1
    close(fs, handle)
    assert [path.stat().st_size for path in spool_dir.glob(f"*/{BEFORE}*")] == [0]
    assert list(spool_dir.glob("*/[0-9]*")) == []
    fs.close()
    assert list(spool_dir.iterdir()) == []


def test_torn_anywhere_the_log_gives_a_state_that_the_file_had(
    fs: TreeFileSystem, store: ZMap, killed: Callable[[], Path]
) -> None:
    handle = open_file(fs, "objects/old")
    for at in (20, 100, 60):
        fs.write(handle, at, b"new")
    (log,) = killed().glob(f"*/{BEFORE}*")
    content_of_log = log.read_bytes()
    missing: list[int] = []
    for size in range(len(content_of_log) + 1):
        left = killed()
        (log,) = left.glob(f"*/{BEFORE}*")
        log.write_bytes(content_of_log[:size])
        missing += [
            sum(b - a for a, b in found.entry.missing)
            for found in recovery.entries(left)
            if isinstance(found.entry, KeptObject)
        ]
    assert sorted(set(missing)) == [191, 194, 197]
    assert missing == sorted(missing, reverse=True)


def test_ended_at_any_step_it_is_done_again(
    fs: TreeFileSystem,
    store: ZMap,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("this: cannot be kept for the programs that have it open")
    for steps in itertools.count(1):
        store.write(Key("this"), OLD)
        handle = open_file(fs, "objects/this")
        fs.write(handle, 50, b"one")
        left = killed()
        with monkeypatch.context() as patched:
            calls = itertools.count(1)
            for name in ("writev", "rename", "fsync", "fdatasync", "unlink", "rmdir"):
                patched.setattr(os, name, _ending(getattr(os, name), calls, steps))
            with suppress(Ended):
                recovered(left, store)
            is_whole = next(calls) <= steps
        recovered(left, store)
        assert content(store, "this") == OLD[:50] + b"one" + OLD[53:]
        assert list(left.iterdir()) == []
        fs.unlink(*split(fs, "objects/this"))
        close(fs, handle)
        if is_whole:
            break
    assert steps > 5


class Ended(BaseException):
    """The process ends here."""


def _ending(call: Callable[..., Any], calls: Iterator[int], steps: int) -> Callable[..., Any]:
    def counting(*arguments: Any, **named: Any) -> Any:
        if next(calls) >= steps:
            raise Ended
        return call(*arguments, **named)

    return counting


def test_a_record_that_had_no_room_comes_with_the_next(
    mounted: Callable[..., TreeFileSystem],
    store: ZMap,
    spool_dir: Path,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fs = mounted()
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", _full)
        for at in (50, 100):
            with pytest.raises(NoSpace):
                fs.write(handle, at, b"two")
    fs.write(handle, 50, b"TWO")
    recovered(killed(), store)
    assert content(store, "old") == b"one" + OLD[3:50] + b"TWO" + OLD[53:100] + b"two" + OLD[103:]


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("is_write", [False, True])
def test_a_file_whose_change_had_no_room_for_its_record_is_stored_as_it_is_shown(
    mounted: Callable[..., TreeFileSystem],
    store: ZMap,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_first: bool,
    is_write: bool,
) -> None:
    """SEMANTICS O13: what was written before stays, and can be read and stored."""
    fs = mounted()
    handle = open_file(fs, "objects/old")
    if not is_first:
        fs.write(handle, 0, b"one")

    def change() -> None:
        if is_write:
            fs.write(handle, len(OLD) - 2, b"longer")
        else:
            fs.setattr(find(fs, "objects/old").ino, AttributeChanges(size=150), handle)

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", _full)
        with pytest.raises(NoSpace):
            change()
    shown = bytes(fs.read(handle, 0, 1000))
    assert shown[:150] == (OLD if is_first else b"one" + OLD[3:])[:150]
    assert find(fs, "objects/old").size == len(shown)
    fs.fsync(handle, data_only=False)
    assert content(store, "old") == shown
    close(fs, handle)


def test_the_budget_refuses_a_write_before_anything_of_it_is_done(
    mounted: Callable[..., TreeFileSystem], store: ZMap
) -> None:
    """SEMANTICS O13: the record of what was written is not refused when it is written."""
    fs = mounted(spool_bytes_max=400)
    handle = open_file(fs, "objects/old")
    expected, refused = bytearray(OLD), 0
    for at in range(0, 190, 9):
        try:
            fs.write(handle, at, b"two")
        except NoSpace:
            refused += 1
        else:
            expected[at : at + 3] = b"two"
    assert refused
    fs.fsync(handle, data_only=False)
    assert content(store, "old") == bytes(expected)
    close(fs, handle)


def _full(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_a_log_that_makes_no_sense_leaves_the_file_to_whoever_looks_at_it(
    fs: TreeFileSystem, killed: Callable[[], Path]
) -> None:
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    left = killed()
    (log,) = left.glob(f"*/{BEFORE}*")
    with log.open("ab") as file:
        file.write(b"".join(packed({"is": "cut", "size": "?"})))
    assert all(found.entry is None for found in recovery.entries(left))
    with pytest.raises(SpoolError, match="killed before the file was closed"):
        recovery.entries(left)[0].describe()


def test_the_disk_is_waited_for_where_a_power_failure_is_to_be_survived(
    mounted: Callable[..., TreeFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = mounted(survives=Survives.POWER)
    handle = open_file(fs, "objects/new", os.O_RDWR | os.O_CREAT)
    synced: list[str] = []
    fdatasync = os.fdatasync

    def note(fd: int) -> None:
        synced.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fdatasync(fd)

    monkeypatch.setattr(os, "fdatasync", note)
    for offset in (0, 4):
        fs.write(handle, offset, b"some")
    assert synced == [LOCK, "1-new", f"{BEFORE}1", "1-new"]
    close(fs, handle)


def test_a_mount_says_that_something_of_an_earlier_one_is_not_stored(
    fs: TreeFileSystem,
    mounted: Callable[..., TreeFileSystem],
    spool_dir: Path,
    killed: Callable[[], Path],
    caplog: pytest.LogCaptureFixture,
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("not stored")
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    mounted()
    assert caplog.messages == []
    left = killed()
    for survives in Survives:
        caplog.clear()
        mounted(spool_dir=left, survives=survives)
        (message,) = caplog.messages
        assert "1 pieces of what was written in an earlier mount" in message
        assert "`nczfs recover`" in message
    close(fs, handle)


def test_a_mount_says_what_a_killed_one_without_a_journal_left(
    mounted: Callable[..., TreeFileSystem],
    killed: Callable[[], Path],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "nczfs")
    fs = mounted(survives=Survives.NOTHING)
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    fs.fsync(handle, data_only=False)
    mounted(spool_dir=killed())
    (message,) = caplog.messages
    assert "killed while programs had 1 file open for writing; the store has what" in message
    close(fs, handle)


def test_without_the_option_the_log_says_nothing(
    mounted: Callable[..., TreeFileSystem], spool_dir: Path
) -> None:
    fs = mounted(survives=Survives.NOTHING)
    handle = open_file(fs, "objects/old")
    fs.write(handle, 0, b"one")
    assert [path.stat().st_size for path in spool_dir.glob(f"*/{BEFORE}*")] == [0]
    assert read(fs, "objects/old") == b"one" + OLD[3:]
    close(fs, handle)


@pytest.mark.parametrize("survives", Survives)
def test_a_directory_waits_for_the_disk_where_the_journal_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survives: Survives
) -> None:
    (tmp_path / "store").mkdir()
    options = VfsOptions(read_only=False, spool_dir=tmp_path / "spool", survives=survives)
    fs = mount_tree(str(tmp_path / "store"), options=options)
    handle = open_file(fs, "objects/new", os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"some")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    close(fs, handle)
    assert bool(synced) == (survives is Survives.POWER)
    monkeypatch.undo()
    fs.close()


@pytest.mark.parametrize("key", ["old", "new"])
def test_what_is_written_while_a_file_is_stored_is_put_over_what_was_stored(
    fs: TreeFileSystem,
    store: ZMap,
    killed: Callable[[], Path],
    key: str,
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
) -> None:
    """SEMANTICS O7, W21."""
    expected_warnings.add("not stored")  # what recover has put back is of another client
    handle = open_file(fs, f"objects/{key}", os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"first")
    left = [b"second"]

    def meanwhile(do: Callable[..., Any]) -> Callable[..., Any]:
        def done(zmap: Kept, *words: Any, **names: Any) -> Any:
            while left:
                fs.write(handle, 3, left.pop())
            return do(zmap, *words, **names)

        return done

    for name in ("write", "write_parts"):
        monkeypatch.setattr(Kept, name, meanwhile(getattr(Kept, name)))
    fs.flush(handle)
    assert not left
    stored = content(store, key)
    assert stored is not None
    assert stored[:5] == b"first"
    assert recovered(killed(), store) == [f"{key}: {len(OLD) if key == 'old' else 9} bytes"]
    assert content(store, key) == b"firsecond" + (OLD[9:] if key == "old" else b"")
    with suppress(StaleHandle):
        close(fs, handle)
