"""What several programs or mounts have left of one file, each over one version of its object."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.log import BEFORE
from nczfs.engine.spool.space import Survives
from nczfs.errors import AccessDenied, Unavailable
from nczfs.plaindata import frozen
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.vfs.base import AttributeChanges, FileSystem, HandleNo
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from tests.conftest import ExpectedWarnings
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.killed import Kept, copied, left_by, recovered
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file, rename

KEY, PATH = Key("f"), "objects/f"
OLD = bytes(range(30))
WRITES = frozenset({"write", "write_parts"})
REFUSED = Fault(0, AccessDenied, operations=WRITES, repeats=10**9)

Use: TypeAlias = Callable[[FileSystem, HandleNo], object]


def written(offset: int, data: bytes) -> Use:
    return lambda fs, handle: fs.write(handle, offset, data)


def appended(data: bytes) -> Use:
    return lambda fs, handle: fs.write(handle, find(fs, PATH).size, data)


def cut(size: int) -> Use:
    return lambda fs, handle: fs.setattr(find(fs, PATH).ino, AttributeChanges(size=size), handle)


def read(offset: int, size: int) -> Use:
    return lambda fs, handle: fs.read(handle, offset, size)


def use(fs: FileSystem, uses: Sequence[Use], flags: int = 0) -> HandleNo:
    handle = open_file(fs, PATH, os.O_RDWR | os.O_CREAT | flags)
    for each in uses:
        each(fs, handle)
    return handle


def mounted(store: Faulty | MemoryZMap, spool_dir: Path, survives: Survives) -> TreeFileSystem:
    engine = EngineOptions(cache_bytes_max=0, metadata_ttl_s=0.0, flush_age_s=3600)
    options = VfsOptions(engine=engine, read_only=False, spool_dir=spool_dir, survives=survives)
    return tree_over(Kept(store), options)


def refuse(store: MemoryZMap, spool_dir: Path, programs: Sequence[Sequence[Use]]) -> None:
    """Have programs of one mount use the file, one after the other; the store refuses all."""
    faulty = Faulty(Kept(store))
    fs = mounted(faulty, spool_dir, Survives.NOTHING)
    faulty.arm(REFUSED)
    for uses in programs:
        with suppress(AccessDenied):
            close(fs, use(fs, uses))
    fs.close()


def kill(store: MemoryZMap, spool_dir: Path, uses: Sequence[Use], flags: int = 0) -> None:
    """Have a program use the file in a mount with a journal that is killed then."""
    with tempfile.TemporaryDirectory() as live:
        fs = mounted(copied(store), Path(live), Survives.KILL)
        handle = use(fs, uses, flags)
        for directory in Path(live).iterdir():
            for log in left_by(directory, spool_dir / directory.name).glob(f"{BEFORE}*"):
                os.utime(log)  # no sooner than the one before
        close(fs, handle)
        fs.close()


def put_back(store: MemoryZMap, spool_dir: Path) -> bytes:
    recovered(spool_dir, store)
    assert list(spool_dir.iterdir()) == []
    return bytes(store.read(KEY).data)


@pytest.fixture(autouse=True)
def warned(expected_warnings: ExpectedWarnings) -> None:
    expected_warnings.add("not stored")


@pytest.fixture
def store() -> MemoryZMap:
    store = MemoryZMap()
    store.write(KEY, OLD)
    return store


@pytest.fixture
def spool_dir(tmp_path: Path) -> Path:
    (tmp_path / "spool").mkdir()
    return tmp_path / "spool"


def test_what_two_programs_changed_in_a_file_that_is_refused_is_put_back(
    store: MemoryZMap, spool_dir: Path
) -> None:
    """SEMANTICS O17, O18, W59: the second one sees what the store has."""
    refuse(store, spool_dir, [[written(0, b"FIRST")], [written(10, b"SECOND")]])
    assert put_back(store, spool_dir) == b"FIRST" + OLD[5:10] + b"SECOND" + OLD[16:]


@pytest.mark.parametrize("reading", [[], [read(0, 20)]], ids=["", "read"])
@pytest.mark.parametrize(
    ("first", "wanted"),
    [
        (written(0, b"FIRST"), b"FIRST" + OLD[5:10] + b"SECOND" + OLD[16:]),
        (appended(b"FIRST"), OLD[:10] + b"SECOND" + OLD[16:] + b"FIRST"),
        (cut(20), OLD[:10] + b"SECOND" + OLD[16:20]),
        (cut(12), OLD[:10] + b"SECOND"),
        (cut(5), OLD[:5] + bytes(5) + b"SECOND"),
    ],
    ids=["changed", "appended", "cut behind", "cut within", "cut before"],
)
def test_what_a_later_mount_has_only_read_or_seen_undoes_nothing(
    store: MemoryZMap, spool_dir: Path, first: Use, wanted: bytes, reading: list[Use]
) -> None:
    """SEMANTICS W21, W59."""
    kill(store, spool_dir, [first])
    kill(store, spool_dir, [written(10, b"SECOND"), *reading])
    assert put_back(store, spool_dir) == wanted


def test_a_file_that_a_later_mount_has_made_anew_counts_as_a_whole(
    store: MemoryZMap, spool_dir: Path
) -> None:
    kill(store, spool_dir, [appended(b"FIRST")])
    kill(store, spool_dir, [written(0, b"SECOND")], os.O_TRUNC)
    assert put_back(store, spool_dir) == b"SECOND"


def test_what_has_been_stored_does_not_count_as_written_over_that(
    store: MemoryZMap, spool_dir: Path
) -> None:
    """SEMANTICS W21, W59: of another mount, as it was killed, and of this one, which went on."""
    fs = mounted(store, spool_dir / "live", Survives.KILL)
    handle = use(fs, [written(0, b"stored")], os.O_TRUNC)
    fs.fsync(handle, data_only=False)
    kill(store, spool_dir, [written(0, b"S"), appended(b"!")])
    fs.write(handle, 2, b"O")
    left_by(next((spool_dir / "live").iterdir()), spool_dir / "last")
    later = copied(store)
    close(fs, handle)
    fs.close()
    (spool_dir / "live").rmdir()
    assert put_back(later, spool_dir) == b"StOred!"


def test_what_was_only_emptied_while_an_older_state_was_stored_is_put_back_as_it_was_written(
    tmp_path: Path, spool_dir: Path
) -> None:
    """SEMANTICS W8, W21."""
    store = GatedZMap()
    store.write(KEY, OLD)
    fs = mounted(store, tmp_path / "live", Survives.KILL)
    handle = use(fs, [written(0, b"older")])
    with ThreadPoolExecutor(1) as threads, store.stopping("write", KEY) as gate:
        syncing = threads.submit(fs.fsync, handle, data_only=False)
        assert gate.reached.wait(WAIT_S)
        again = open_file(fs, PATH, os.O_RDWR | os.O_TRUNC)
        gate.open()
        syncing.result(WAIT_S)
    fs.write(again, 0, b"new")
    left = left_by(tmp_path / "live", tmp_path / "left")
    later = copied(store)
    close(fs, handle)
    close(fs, again)
    fs.close()
    assert put_back(later, left) == b"new"


def test_what_was_written_before_a_rename_that_failed_is_put_back_under_the_old_name(
    store: MemoryZMap, spool_dir: Path
) -> None:
    """SEMANTICS O17, W21: the new one was stored, and the old one could not be deleted."""
    faulty = Faulty(Kept(store))
    fs = mounted(faulty, spool_dir, Survives.KILL)
    handle = use(fs, [written(0, b"FIRST")])
    faulty.arm(Fault(0, Unavailable, operations=frozenset({"delete"}), repeats=10**9))
    with pytest.raises(Unavailable):
        rename(fs, PATH, "objects/g")
    faulty.arm(REFUSED)
    fs.write(handle, 10, b"SECOND")
    with pytest.raises(AccessDenied):
        close(fs, handle)
    fs.close()
    assert put_back(store, spool_dir) == b"FIRST" + OLD[5:10] + b"SECOND" + OLD[16:]


def test_by_force_a_file_is_as_its_program_saw_it(store: MemoryZMap, spool_dir: Path) -> None:
    """SEMANTICS O17, W51: another client has replaced the object since."""
    refuse(store, spool_dir, [[written(0, b"FIRST")], [written(10, b"SECOND")]])
    store.write(KEY, b"of another client")
    by_force = recovery.Store(Kept(store), parse_url("memory://store"))
    (group,) = recovery.together(recovery.entries(spool_dir))
    assert all("another client has replaced it" in str(p) for p in by_force.put_back(group))
    assert by_force.put_back(group, force=True) == [None, None]
    by_force.close()
    assert bytes(store.read(KEY).data) == b"FIRST" + OLD[5:10] + b"SECOND" + OLD[16:]


@frozen
class Change:
    """What a program does to a file.

    Attributes
    ----------
    at : where it writes; None: at the end.
    data : None: it sets the size.
    """

    at: int | None
    data: bytes | None

    def use(self, fs: FileSystem, handle: HandleNo) -> None:
        if self.data is None:
            assert self.at is not None
            cut(self.at)(fs, handle)
        elif self.at is None:
            appended(self.data)(fs, handle)
        else:
            written(self.at, self.data)(fs, handle)

    def apply(self, content: bytearray, size: int) -> None:
        """Do the same to bytes, in a place of a file that a program saw with some size."""
        at = size if self.at is None else self.at
        if self.data is None:
            del content[at:]
        if len(content) < at:
            content.extend(bytes(at - len(content)))
        if self.data is not None:
            content[at : at + len(self.data)] = self.data


DATA, PLACES = st.binary(min_size=1, max_size=12), st.integers(0, 45)
CHANGES = st.builds(Change, st.none() | PLACES, DATA) | st.builds(Change, PLACES, st.none())
PROGRAMS = st.lists(
    st.tuples(st.lists(CHANGES, min_size=1, max_size=4), st.booleans(), st.booleans()),
    min_size=1,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(PROGRAMS, st.booleans())
@example([([Change(None, b"a")], True, False), ([Change(40, b"b")], True, False)], True)
@example([([Change(5, None)], False, False), ([Change(20, b"b")], False, True)], True)
def test_a_file_is_as_if_all_had_changed_it_one_after_the_other(
    programs: list[tuple[list[Change], bool, bool]], is_there: bool
) -> None:
    """SEMANTICS O17, W21, W59. Each one is killed or refused, and may have read the whole file."""
    store = MemoryZMap()
    if is_there:
        store.write(KEY, OLD)
    wanted = bytearray(OLD if is_there else b"")
    with tempfile.TemporaryDirectory() as directory:
        spool_dir = Path(directory)
        for changes, is_killed, has_read in programs:
            seen = bytearray(OLD if is_there else b"")
            if not is_there:  # it makes a file of its own
                wanted.clear()
                changes = [Change(0, b"new"), *changes]
            uses: list[Use] = [read(0, 100)] * has_read + [each.use for each in changes]
            for change in changes:
                change.apply(wanted, len(seen))
                change.apply(seen, len(seen))
            if is_killed:
                kill(store, spool_dir, uses)
            else:
                refuse(store, spool_dir, [uses])
        assert put_back(store, spool_dir) == wanted
