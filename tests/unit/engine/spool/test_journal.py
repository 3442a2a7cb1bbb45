"""The journal: what was written to chunks is there after a kill, and what is stored is not."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from nczfs.buffers import Values
from nczfs.engine.arrays.array import Array
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.spool import log
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.chunks import KeptChunk
from nczfs.engine.spool.found import Found
from nczfs.engine.spool.records import RecordFile, packed, read_log
from nczfs.engine.spool.space import SUFFIX, Spool, Survives
from nczfs.engine.structure.editor import Editor
from nczfs.engine.structure.renaming import _Renaming
from nczfs.engine.writing.dirty import DirtyChunk
from nczfs.engine.writing.saving import Saver
from nczfs.errors import AccessDenied, NoSpace, OutOfDescriptors, SpoolError, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.model.boxes import Box
from nczfs.model.hierarchy import Variable
from nczfs.testing.faults import Fault, Faulty
from nczfs.tools import recovery
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from tests.conftest import ExpectedWarnings
from tests.support.killed import Kept, copied, left_by, recovered

FIELD = np.arange(24, dtype="<i4").reshape(4, 6)
CHUNKS = (2, 3)
URL = "memory://store"
DOWN = Fault(0, operations=frozenset({"write"}), repeats=10**9)


class Mount:
    """An engine as a mount with the option has it, over a store that can fail."""

    def __init__(self, memory: MemoryZMap, spool: Spool, age_s: float | None = None) -> None:
        self.memory = memory
        self.faulty = Faulty(memory)
        self.spool = spool
        self.engine = Engine(EngineOptions(cache_bytes_max=0, flush_age_s=age_s), spool)
        metadata = MetadataCache(self.faulty, self.engine.options, self.engine.pools)
        options = format_options(frozenset(), self.engine.options)
        found = open_dataset(self.engine, metadata, ROOT, options, writable=True)
        assert found is not None
        self.dataset: Dataset = found
        self.editor = Editor(found, ".")

    def variable(self, name: str = "v") -> Variable:
        node = self.dataset.node(name)
        assert isinstance(node, Variable)
        return node

    def array(self, name: str = "v") -> Array:
        return self.dataset.array(self.variable(name))

    def write(self, start: tuple[int, ...], values: Any, name: str = "v") -> None:
        array = self.array(name)
        given = np.asarray(values, array.description.dtype.native)
        stop = tuple(a + n for a, n in zip(start, given.shape, strict=True))
        array.write_box(Box(start, stop), given)

    def flush(self) -> None:
        self.engine.writeback.flush()

    def segments(self) -> list[Path]:
        return sorted(self.spool.directory.glob(f"{log.BEFORE}*"))


@pytest.fixture
def memory() -> MemoryZMap:
    memory = MemoryZMap()
    with open_zmap(Kept(memory), "w") as root:
        root.create_dimension("t", None)
        root.create_variable("scalar", (), "i8", 5)
        for name in ("v", "w"):
            root.create_variable(name, (4, 6), "i4", FIELD, chunks=CHUNKS)
        root.create_variable("r", ("t", 3), "i4", FIELD[:2, :3], chunks=(2, 3))
    return memory


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool", URL, survives=Survives.KILL)
    yield spool
    spool.close()


@pytest.fixture
def mount(memory: MemoryZMap, spool: Spool) -> Iterator[Mount]:
    mount = Mount(memory, spool)
    yield mount
    mount.faulty.arm()
    mount.editor.sync()
    mount.engine.close()
    spool.close()
    assert list(spool.directory.parent.glob("*")) == []
    assert spool.bytes_used == 0


@pytest.fixture
def killed(mount: Mount, tmp_path: Path) -> Callable[[], Path]:
    return lambda: left_by(
        mount.spool.directory.parent, tmp_path / f"killed{len(list(tmp_path.iterdir()))}"
    )


def elements(found: Found) -> tuple[Values, Values]:
    """The values of a chunk, and which were written."""
    assert isinstance(found.entry, KeptChunk)
    return found.entry.values(np.dtype("<i4")), found.entry.flags()


def stored(memory: MemoryZMap, name: str = "v") -> Values:
    with open_zmap(Kept(memory)) as root:
        return np.array(root.variables[name][...])


def test_what_was_written_is_put_back_over_what_others_wrote_before(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]
) -> None:
    with open_zmap(Kept(memory), "r+") as root:
        root.variables["v"][0, :2] = 77
    mount.write((0, 1), [[-1, -2, -3]])
    mount.write((1, 1), [[-4]])
    mount.write((0, 2), [[-5]])
    left = killed()
    wanted = FIELD.copy()
    wanted[0, :4] = 77, -1, -5, -3
    wanted[1, 1] = -4
    assert sorted(recovered(left, memory)) == [
        "v[0:1, 3:4]",
        "v[0:2, 1:3]: 3 of 4 elements",
    ]
    np.testing.assert_array_equal(stored(memory), wanted)
    assert list(left.iterdir()) == []


def test_what_was_sent_without_an_answer_is_no_other_clients(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]
) -> None:
    mount.write((0, 0), [[-1]])
    mount.faulty.arm(Fault(0, after=True, operations=frozenset({"write"})))
    with pytest.raises(Unavailable):
        mount.flush()
    mount.write((1, 1), [[-2]])
    recovered(killed(), memory)
    wanted = FIELD.copy()
    wanted[0, 0], wanted[1, 1] = -1, -2
    np.testing.assert_array_equal(stored(memory), wanted)


def test_of_what_was_stored_meanwhile_only_newer_values_of_others_are_kept(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold(operation: str, key: str) -> None:
        if operation == "write" and not begun.is_set():
            begun.set()
            assert go_on.wait(120)

    mount.faulty._before_call = hold
    mount.write((0, 0), [[-1]])
    flushing = threading.Thread(target=mount.flush)
    flushing.start()
    assert begun.wait(120)
    mount.write((1, 1), [[-2]])
    go_on.set()
    flushing.join()
    left = killed()
    others = left_by(left, left.with_name("others"))
    recovered(left, memory)
    assert stored(memory)[:2, :2].tolist() == [[-1, 1], [6, -2]]
    with open_zmap(Kept(memory), "r+") as root:
        root.variables["v"][0, 0] = 77
        root.variables["v"][1, 1] = 78
    with pytest.raises(SpoolError, match=r"1 elem.* \[1, 1\]: the store has 78, the spool -2;"):
        recovered(others, memory)


@pytest.mark.parametrize("store", ["flush", "drop", "through"])
def test_what_is_stored_is_not_put_back(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path], store: str
) -> None:
    mount.write((0, 0), [[-1]])
    mount.write((0, 0), [[-1]], "w")
    array = mount.array().stored
    if store == "drop":
        mount.engine.writeback.drop(array, lambda _: False)
    else:
        mount.engine.writeback.flush(lambda known: known is array)
    if store == "through":
        mount.write((0, 0), np.full(CHUNKS, -2))
    before = stored(memory)
    with open_zmap(Kept(memory), "r+") as root:
        root.variables["v"][0, 0] = 77
    before[0, 0] = 77
    assert recovered(killed(), memory) == ["w[0:1, 0:1]"]
    np.testing.assert_array_equal(stored(memory), before)


def test_a_scalar_is_put_back(mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]) -> None:
    mount.editor.sync()
    mount.faulty.arm(DOWN)
    mount.write((), -7, "scalar")
    assert recovered(killed(), memory) == ["scalar: 1 elements"]
    assert stored(memory, "scalar") == -7
    mount.faulty.arm()
    mount.flush()


def test_it_is_empty_when_nothing_is_dirty(mount: Mount, killed: Callable[[], Path]) -> None:
    for value in range(3):
        mount.write((0, 0), [[value]])
        mount.flush()
        assert mount.spool.bytes_used == 0
    assert recovery.entries(killed()) == []


def test_a_write_that_has_no_room_is_refused_and_leaves_nothing(
    memory: MemoryZMap, tmp_path: Path
) -> None:
    spool = Spool(tmp_path / "small", URL, 10, Survives.KILL)
    mount = Mount(memory, spool)
    with pytest.raises(NoSpace, match="--max-spool-size 10"):
        mount.write((0, 0), [[-1]])
    assert mount.engine.writeback.unsaved == 0
    mount.engine.close()
    spool.close()
    np.testing.assert_array_equal(stored(memory), FIELD)


def test_torn_anywhere_it_gives_the_writes_before(mount: Mount, killed: Callable[[], Path]) -> None:
    for value in range(5):
        mount.write((0, 0), [[value + 100]])
    left = killed()
    (segment,) = left.glob(f"*/{log.BEFORE}*")
    content = segment.read_bytes()
    seen = []
    for size in range(len(content) + 1):
        segment.parent.mkdir(exist_ok=True)
        segment.write_bytes(content[:size])
        found = recovery.entries(left)
        assert len(found) < 2
        seen.append(0)
        for each in found:
            seen[-1] = int(elements(each)[0][0, 0])
    assert seen == sorted(seen)
    assert set(seen) == {0, 100, 101, 102, 103, 104}


def test_a_length_that_is_not_stored_is_put_back_though_the_records_are(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]
) -> None:
    mount.editor.grow(mount.variable("r"), (4, 3))
    mount.write((2, 0), FIELD[:2, :3] - 50, "r")
    mount.flush()
    left = killed()
    mount.write((3, 1), [[-1]], "r")
    longer = killed()
    assert stored(memory, "r").shape == (2, 3)
    assert recovered(longer, memory) == ["r[3:4, 1:2]"]
    wanted = np.concatenate([FIELD[:2, :3], FIELD[:2, :3] - 50])
    wanted[3, 1] = -1
    np.testing.assert_array_equal(stored(memory, "r"), wanted)
    assert recovered(left, memory) == ["r: its shape, (4, 3)"]
    np.testing.assert_array_equal(stored(memory, "r"), wanted)


def test_a_length_that_is_stored_is_not_kept(mount: Mount, killed: Callable[[], Path]) -> None:
    mount.editor.grow(mount.variable("r"), (4, 3))
    mount.write((2, 0), FIELD[:2, :3], "r")
    mount.write((0, 0), [[-1]])
    mount.editor.sync()
    assert mount.spool.bytes_used == 0
    assert recovery.entries(killed()) == []


def test_a_length_of_one_of_two_datasets_is_settled(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]
) -> None:
    mount.write((0, 0), [[-1]])
    assert mount.engine.journal is not None
    is_pending = [True]
    mount.engine.journal.grown(
        mount.array("r").writer().prefix, mount.array("r").description, lambda: is_pending[0]
    )
    mount.engine.writeback.settled()
    assert sorted(recovered(killed(), memory)) == ["r: its shape, (2, 3)", "v[0:1, 0:1]"]
    is_pending.clear()
    is_pending.append(False)
    mount.engine.writeback.settled()
    assert recovered(killed(), memory) == ["v[0:1, 0:1]"]


def test_lengths_and_chunks_that_are_stored_are_void_while_something_else_holds(
    mount: Mount, memory: MemoryZMap, spool: Spool, killed: Callable[[], Path]
) -> None:
    """As a file does that is being written: then the log is not emptied."""
    assert mount.engine.journal is not None
    spool.log.hold("file", list)
    mount.write((0, 0), [[-1]])
    array = mount.array("r")
    mount.engine.journal.grown(array.writer().prefix, array.description, lambda: False)
    mount.flush()
    assert recovered(killed(), memory) == []
    spool.log.release("file")


def test_a_length_holds_in_the_next_file_too(
    mount: Mount,
    memory: MemoryZMap,
    spool: Spool,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log, "FILE_BYTES", 500)
    journal, array, is_pending = mount.engine.journal, mount.array("r"), [True]
    assert journal is not None
    prefix = array.writer().prefix
    assert not journal.keeps_length(prefix, 0, 2)
    journal.grown(prefix, array.description, lambda: bool(is_pending))
    assert [journal.keeps_length(prefix, 0, length) for length in (1, 2, 3)] == [True, True, False]
    assert not journal.keeps_length(mount.array().writer().prefix, 0, 2)
    for value in range(20):
        mount.write((0, 0), [[value]])
    ended = spool.log.ended()
    assert ended is not None
    spool.log.drop(ended)
    assert "r: its shape, (2, 3)" in recovered(killed(), memory)
    is_pending.clear()


def test_a_disk_that_takes_a_few_bytes_at_a_time_gets_all_of_them(
    mount: Mount,
    memory: MemoryZMap,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def few(fd: int, parts: list[memoryview]) -> int:
        return os.write(fd, b"".join(parts)[:7])

    values = [[-1, -2, -3], [-4, -5, -6]]
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", few)
        mount.write((0, 0), values)
    recovered(killed(), memory)
    assert stored(memory)[:2, :3].tolist() == values


def test_a_chunk_and_its_basis_are_said_once(mount: Mount) -> None:
    """Each write takes no more room than its values need."""
    for column in range(3):
        mount.write((0, column), [[-1]])
    (segment,) = mount.segments()
    said = [record.document["is"] for record in read_log(segment)]
    assert said == ["log", "chunk", "basis", "wrote", "wrote", "wrote"]


def test_a_chunk_that_was_stored_has_its_new_version_for_a_basis(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]
) -> None:
    mount.write((0, 0), [[-1]], "w")
    mount.write((0, 0), [[-1]])
    array = mount.array().stored
    mount.engine.writeback.flush(lambda known: known is array)
    mount.write((0, 1), [[-2]])
    (entry,) = (each.entry for each in recovery.entries(killed()) if each.whole.key == "v")
    assert isinstance(entry, KeptChunk)
    io = mount.array().writer()
    assert entry.basis.versions == (memory.stat(io.key((0, 0))).version,)


def test_chunks_of_one_object_are_stored_one_after_the_other(
    mount: Mount, killed: Callable[[], Path]
) -> None:
    journal, io, other = mount.engine.journal, mount.array().writer(), mount.array("w").writer()
    assert journal is not None
    place, value, basis = Box((0, 0), (1, 1)), np.ones((1, 1), "i4"), Basis()
    with mock.patch.object(type(io), "unit", return_value=(0, 0)):
        for index in ((0, 0), (0, 1)):
            journal.wrote(io, index, place, value, basis, 0, 1)
        journal.wrote(other, (0, 0), place, value, basis, 0, 1)
        for index in ((0, 0), (0, 1)):
            journal.stored(io, index, is_last=False)
        (found,) = recovery.entries(killed())
        assert found.whole.key == "w"
        journal.stored(other, (0, 0), is_last=True)


def test_a_chunk_is_as_old_as_its_first_write_that_is_not_stored(
    mount: Mount, killed: Callable[[], Path]
) -> None:
    """What others have stored after that is newer."""
    journal, io = mount.engine.journal, mount.array().writer()
    assert journal is not None
    for written_ns in (9, 11):
        values = np.full((1, 1), written_ns, "i4")
        journal.wrote(io, (0, 0), Box((0, 0), (1, 1)), values, Basis(5), written_ns, 1)
    (found,) = recovery.entries(killed())
    assert found.whole.written_ns == 9
    journal.stored(io, (0, 0), is_last=True)


def test_elements_of_variable_length_are_stored_before_the_writer_is_told(
    tmp_path: Path,
) -> None:
    memory = MemoryZMap()
    with open_zmap(Kept(memory), "w", format="zarr2") as root:
        root.create_variable("text", (4,), str, chunks=(4,))
    spool = Spool(tmp_path / "spool", URL, survives=Survives.KILL)
    mount = Mount(memory, spool)
    values = np.array(["abc"], object)
    mount.array("text").write_box(Box((1,), (2,)), values)
    assert stored(memory, "text").tolist() == ["", "abc", "", ""]
    mount.faulty.arm(DOWN)
    with pytest.raises(Unavailable):
        mount.array("text").write_box(Box((2,), (3,)), values)
    mount.faulty.arm()
    mount.flush()
    mount.engine.close()


def test_old_segments_go_when_everything_was_stored(
    memory: MemoryZMap,
    spool: Spool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("what was written is kept, and tried again")
    monkeypatch.setattr(log, "FILE_BYTES", 1000)
    mount = Mount(memory, spool, age_s=3600)
    mount.faulty.arm(DOWN)
    for value in range(40):
        mount.write((0, 0), [[value]])
        mount.write((2, 4), [[-value]], "w")
    assert len(mount.segments()) > 5
    left = left_by(spool.directory.parent, tmp_path / "killed")
    assert recovered(left, memory) == ["v[0:1, 0:1]", "w[2:3, 4:5]"]
    assert (stored(memory)[0, 0], stored(memory, "w")[2, 4]) == (39, -39)
    mount.faulty.arm()
    end = time.monotonic() + 30
    value = 1000
    while len(mount.segments()) > 1:
        assert time.monotonic() < end
        value += 1
        mount.write((0, 0), [[value]])
        time.sleep(0.01)
    left = left_by(spool.directory.parent, tmp_path / "later")
    recovered(left, memory)
    assert (stored(memory)[0, 0], stored(memory, "w")[2, 4]) == (value, -39)
    mount.flush()
    mount.engine.close()
    spool.close()
    assert not spool.directory.exists()


def test_a_file_of_the_log_that_begins_late_names_the_chunks_of_its_values(
    mount: Mount,
    memory: MemoryZMap,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No descriptor is left when the file is to begin, and there is one a moment later."""
    mount.write((0, 0), [[-1]])
    monkeypatch.setattr(log, "FILE_BYTES", 1)
    refused: list[Path] = []

    def making(path: Path, *options: Any, **named: Any) -> Any:
        if not refused:
            refused.append(path)
            raise OutOfDescriptors(str(path))
        return RecordFile(path, *options, **named)

    monkeypatch.setattr(log, "RecordFile", making)
    mount.write((0, 0), [[-2]])
    assert refused
    assert recovered(killed(), memory) == ["v[0:1, 0:1]"]
    assert stored(memory)[0, 0] == -2


def test_what_is_written_while_a_variable_is_being_renamed_is_put_back_under_its_new_name(
    mount: Mount,
    memory: MemoryZMap,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array, commit = mount.array(), _Renaming.commit

    def committing(renaming: _Renaming) -> None:
        array.write_box(Box((0, 0), (1, 1)), np.array([[-1]], "i4"))
        mount.write((0, 0), [[-2]], "w")
        commit(renaming)

    monkeypatch.setattr(_Renaming, "commit", committing)
    mount.editor.rename("v", "x")
    again = copied(memory)
    assert recovered(killed(), again) == ["x[0:1, 0:1]", "w[0:1, 0:1]"]
    assert stored(again, "x")[0, 0] == -1
    mount.dataset.store(("x",))
    assert recovered(killed(), memory) == ["w[0:1, 0:1]"]


def test_the_entry_of_a_chunk_and_what_was_written_after_it_become_one(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path]
) -> None:
    mount.write((0, 0), [[-1, -2]])
    mount.faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"}), repeats=10**9))
    with pytest.raises(AccessDenied):
        mount.flush()
    assert len(list(mount.spool.directory.glob(f"*{SUFFIX}"))) == 1
    mount.write((0, 1), [[-3]])
    left = killed()
    (found,) = recovery.entries(left)
    assert found.entry is not None
    assert "the mount was killed" not in found.entry.reason
    assert recovered(left, memory) == ["v[0:1, 0:2]"]
    assert stored(memory)[0, :3].tolist() == [-1, -3, 2]


def test_an_entry_that_is_stored_is_not_put_back_with_what_was_written_since(
    mount: Mount,
    memory: MemoryZMap,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mount is killed before it removes the entry."""
    mount.write((0, 0), [[-1]])
    mount.faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"}), repeats=10**9))
    with pytest.raises(AccessDenied):
        mount.flush()
    mount.write((0, 0), [[-2]])
    mount.faulty.arm()
    forget = Saver.forget
    left: list[tuple[Path, MemoryZMap]] = []

    def forgetting(saver: Saver, chunk: DirtyChunk) -> None:
        if not left:
            mount.write((0, 1), [[-3]])
            left.append((killed(), copied(memory)))
        forget(saver, chunk)

    monkeypatch.setattr(Saver, "forget", forgetting)
    mount.flush()
    ((spool_dir, then),) = left
    recovered(spool_dir, then)
    assert stored(then)[0, :3].tolist() == [-2, -3, 2]


def test_what_is_stored_and_cannot_be_taken_out_is_not_put_back_with_what_is_written_since(
    mount: Mount,
    memory: MemoryZMap,
    killed: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    expected_warnings: ExpectedWarnings,
) -> None:
    expected_warnings.add("the spool still holds data that are stored")
    mount.write((0, 0), [[-1]])

    def failing(fd: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", failing)
        mount.flush()
    with open_zmap(Kept(memory), "a") as root:
        root.variables["v"][0, 0] = 99
    mount.write((0, 1), [[-3]])
    assert recovered(killed(), copy := copied(memory)) == ["v[0:1, 1:2]"]
    assert stored(copy)[0, :3].tolist() == [99, -3, 2]


def test_the_last_values_stay_in_the_journal_when_they_cannot_be_saved_at_the_end(
    memory: MemoryZMap, tmp_path: Path, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("kept in memory only: .*--max-spool-size")
    expected_warnings.add("1 chunk is not stored")
    spool = Spool(tmp_path / "spool", URL, 1000, Survives.KILL)
    mount = Mount(memory, spool)
    mount.write((0, 0), [[-1]])
    spool.bytes_max = 10
    mount.engine.close()
    spool.close()
    assert recovered(tmp_path / "spool", memory) == ["v[0:1, 0:1]"]
    assert stored(memory)[0, 0] == -1


def test_ended_at_any_step_it_is_done_again(
    mount: Mount, memory: MemoryZMap, killed: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    mount.write((0, 0), [[-1, -2]])
    mount.faulty.arm(Fault(0, AccessDenied, operations=frozenset({"write"}), repeats=10**9))
    with pytest.raises(AccessDenied):
        mount.flush()
    mount.write((0, 1), [[-3, -4, -5]])
    mount.write((1, 1), [[-6]])
    wanted = FIELD.copy()
    wanted[0, :4] = -1, -3, -4, -5
    wanted[1, 1] = -6
    step = 0
    while True:
        step += 1
        left = killed()
        described = {each.describe().partition(" ")[2] for each in recovery.entries(left)}
        assert described == {"v[0:1, 3:4]", "v[0:2, 0:3]: 4 of 6 elements"}
        again = MemoryZMap()
        again._objects, again._writes = dict(memory._objects), memory._writes  # times as well
        with monkeypatch.context() as patched:
            is_ended = end_after(patched, step)
            with suppress(Ended):
                recovered(left, again)
        recovered(left, again)
        np.testing.assert_array_equal(stored(again), wanted)
        assert list(left.iterdir()) == []
        if not is_ended():
            break
    assert step > 5


class Ended(BaseException):
    """The process ends here."""


def end_after(patched: pytest.MonkeyPatch, calls: int) -> Callable[[], bool]:
    """Have the process end before one of its calls that change the disk; whether it did."""
    left = [calls]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] <= 0:
                raise Ended
            return call(*arguments, **named)

        return counting

    for name in ("writev", "rename", "fsync", "fdatasync", "unlink", "rmdir"):
        patched.setattr(os, name, counted(getattr(os, name)))
    return lambda: left[0] <= 0


def test_what_a_living_mount_has_is_left_to_it(mount: Mount) -> None:
    mount.write((0, 0), [[-1]])
    before = sorted(mount.spool.directory.iterdir())
    assert recovery.entries(mount.spool.directory.parent) == []
    assert sorted(mount.spool.directory.iterdir()) == before


def test_records_that_make_no_sense_end_the_reading(
    mount: Mount, killed: Callable[[], Path], memory: MemoryZMap
) -> None:
    mount.write((0, 0), [[-1]])
    outside = {"is": "wrote", "number": 0, "start": [1, 2], "stop": [2, 4]}
    senseless: list[tuple[Mapping[str, Any], Any]] = [
        (outside, np.zeros(8, np.uint8)),
        (outside | {"start": [0, 0], "stop": [1, 1]}, np.zeros(3, np.uint8)),
        (outside | {"number": 7}, np.zeros(8, np.uint8)),
        (outside | {"start": 5}, np.zeros(8, np.uint8)),
        ({"no": "kind"}, None),
        ({"is": "chunk", "number": 0, "key": "v"}, None),
        ({"is": "stored", "key": "v", "index": [[]]}, None),
        ({"is": "log", "format": 99}, None),
    ]
    for document, data in senseless:
        left = killed()
        (segment,) = left.glob(f"*/{log.BEFORE}*")
        inside = {"is": "wrote", "number": 0, "start": [0, 0], "stop": [1, 1]}
        with segment.open("ab") as file:
            file.write(b"".join(packed(document, data)))
            file.write(b"".join(packed(inside, np.zeros(4, np.uint8))))
        damaged, found = recovery.entries(left)
        assert "log.1: cannot be understood from byte " in damaged.problem
        values, flags = elements(found)
        assert flags.sum() == 1
        assert values[0, 0] == -1


@pytest.mark.parametrize("senseless", [True, False])
def test_what_can_no_longer_be_read_in_a_log_is_said_and_left_when_all_else_is_put_back(
    mount: Mount, killed: Callable[[], Path], memory: MemoryZMap, senseless: bool
) -> None:
    mount.write((0, 0), [[-1]])
    (segment,) = mount.segments()
    begin = segment.stat().st_size
    mount.write((0, 1), [[-2]])
    mount.write((0, 2), [[-3]])
    left = killed()
    (log_file,) = left.glob("*/log.1")
    content = log_file.read_bytes()
    if senseless:
        damage = b"".join(packed({"is": "cake"}))
        log_file.write_bytes(content[:begin] + damage + content[begin:])
    else:
        log_file.write_bytes(content[: begin + 30] + b"?" + content[begin + 31 :])
    damaged, found = recovery.entries(left)
    with pytest.raises(SpoolError, match="says what other entries of the mount are; they go first"):
        damaged.remove()
    assert found.describe().endswith("v[0:1, 0:1]")
    store = recovery.Store(Kept(memory), parse_url(URL))
    assert store.put_back([found]) == [None]
    found.remove()
    store.close()
    assert stored(memory)[0, :3].tolist() == [-1, 1, 2]
    for _ in range(2):
        (damaged,) = recovery.entries(left)
        assert f"log.1: {'cannot be understood' if senseless else 'damaged'}" in damaged.problem
    damaged.remove()
    assert list(left.iterdir()) == []


def test_the_disk_is_waited_for_where_a_power_failure_is_to_be_survived(
    memory: MemoryZMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(tmp_path / "spool", URL, survives=Survives.POWER)
    mount = Mount(memory, spool)
    synced: list[int] = []
    fdatasync = os.fdatasync

    def note(fd: int) -> None:
        fdatasync(fd)
        synced.append(os.fstat(fd).st_size)

    monkeypatch.setattr(os, "fdatasync", note)
    for _ in range(3):
        mount.write((0, 0), [[-1]])
        (segment,) = mount.segments()
        assert synced[-1] == segment.stat().st_size
    mount.flush()
    assert synced[-1] == 0
    mount.engine.close()
    spool.close()
