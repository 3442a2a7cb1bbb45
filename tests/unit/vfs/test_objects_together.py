"""Several threads at one file of ``objects/``, each stopped where it matters."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from nczfs.errors import DeadlinePassed, DirectoryNotEmpty, StaleHandle, Unavailable
from nczfs.vfs.base import AttributeChanges, HandleNo, NodeAttributes
from nczfs.vfs.effects import TimedRequest
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.store import ObjectStore
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import Features, Stat
from nczfs.zmap.keys import ROOT, Key, parse_key
from tests.conftest import ExpectedWarnings
from tests.support.between import take_once
from tests.support.gated import WAIT_S, GatedZMap
from tests.support.trees import exists, find, listing, read, tree_over
from tests.support.writing import close, mkdir, open_file, rename, write


@pytest.fixture
def store() -> GatedZMap:
    store = GatedZMap()
    for name in ("a", "d/a", "d/b"):
        store.write(Key(name), b"old")
    return store


@pytest.fixture
def fs(store: GatedZMap, tmp_path: Path) -> Iterator[TreeFileSystem]:
    options = VfsOptions(read_only=False, spool_dir=tmp_path / "spool")
    tree = tree_over(store, options)
    yield tree
    tree.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


def stored(store: GatedZMap) -> dict[str, bytes]:
    return {s.key: bytes(store.read(s.key).data) for s in store.list(ROOT)}


def fsync(fs: TreeFileSystem, handle: HandleNo) -> None:
    fs.fsync(handle, data_only=False)


def test_an_append_goes_behind_what_the_file_has_wherever_the_kernel_takes_its_end_to_be(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O21: another mount has made it longer, and the kernel has not looked since."""
    find(fs, "objects/a")
    store.write(Key("a"), b"old, longer")
    handle = open_file(fs, "objects/a", os.O_WRONLY | os.O_APPEND)
    size = len(b"old, longer")
    fs.write(handle, 3, b" and")
    fs.write(handle, 7, b" more")
    close(fs, handle)
    assert stored(store)["a"][size:] == b" and more"
    assert read(fs, "objects/a") == b"old, longer and more"


def test_a_file_that_its_last_writer_is_about_to_store_is_no_reader_s_to_end(
    fs: TreeFileSystem,
    store: GatedZMap,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SEMANTICS O8: ``: > a``, and a program that reads ``a`` closes it meanwhile."""
    reader = open_file(fs, "objects/a", os.O_RDONLY)
    writer = open_file(fs, "objects/a", os.O_WRONLY | os.O_TRUNC)
    fs.flush(writer)
    taken = take_once(
        monkeypatch, LiveFile, "store", lambda: threads.submit(close, fs, reader).result(WAIT_S)
    )
    fs.release(writer)
    assert taken
    assert stored(store)["a"] == b""


def test_a_file_is_read_and_written_while_it_is_uploaded(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O6, O7."""
    handle = open_file(fs, "objects/a")
    fs.write(handle, 0, b"first")
    with store.stopping("write", "a") as gate:
        syncing = threads.submit(fsync, fs, handle)
        assert gate.reached.wait(WAIT_S)
        fs.write(handle, 0, b"S")
        assert bytes(fs.read(handle, 0, 10)) == b"Sirst"
        assert read(fs, "objects/a") == b"Sirst"
        gate.open()
        syncing.result(WAIT_S)
    assert stored(store)["a"] == b"first"
    fsync(fs, handle)
    assert stored(store)["a"] == b"Sirst"
    close(fs, handle)


def test_a_file_is_not_emptied_by_an_open_that_was_given_up(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS A11: O_TRUNC, and the store answers after the deadline."""
    ino, request = find(fs, "objects/a").ino, TimedRequest()

    def empty() -> None:
        with request.under_way():
            fs.open(ino, os.O_WRONLY | os.O_TRUNC)

    with store.stopping("stat", "a") as gate:
        opening = threads.submit(empty)
        assert gate.reached.wait(WAIT_S)
        assert request.withdraw()
        gate.open()
        with pytest.raises(DeadlinePassed):
            opening.result(WAIT_S)
    assert stored(store)["a"] == b"old"
    assert read(fs, "objects/a") == b"old"


def test_what_changed_while_an_upload_failed_is_stored_by_the_next(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O6."""
    handle = open_file(fs, "objects/a")
    fs.write(handle, 0, b"first")
    with store.stopping("write", "a") as gate:
        syncing = threads.submit(fsync, fs, handle)
        assert gate.reached.wait(WAIT_S)
        fs.write(handle, 3, b"more")
        gate.open(Unavailable("away"))
        with pytest.raises(Unavailable):
            syncing.result(WAIT_S)
    assert stored(store)["a"] == b"old"
    close(fs, handle)
    assert stored(store)["a"] == b"firmore"


def test_those_who_wait_for_one_upload_share_how_it_ends(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O6."""
    handle = open_file(fs, "objects/a")
    fs.write(handle, 0, b"first")
    with store.stopping("write", "a") as gate:
        first = threads.submit(fsync, fs, handle)
        assert gate.reached.wait(WAIT_S)
        fs.write(handle, 0, b"F")
        others = [threads.submit(fsync, fs, handle) for _ in range(4)]
        gate.open()
        for each in (first, *others):
            each.result(WAIT_S)
    assert stored(store)["a"] == b"First"
    assert store.calls.count(("write", "a")) == 3  # the fixture's, and two uploads
    close(fs, handle)


def test_closes_of_an_inherited_descriptor_store_what_changed_and_nothing_else(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O31."""
    handle = open_file(fs, "objects/new", os.O_CREAT | os.O_WRONLY)
    fs.write(handle, 0, b"data")
    for _ in range(5):
        fs.flush(handle)
    fs.setattr(find(fs, "objects/new").ino, AttributeChanges(mtime_ns=5), handle)
    for _ in range(5):
        fs.flush(handle)
    close(fs, handle)
    assert store.calls.count(("write", "new")) == 1
    assert find(fs, "objects/new").mtime_ns == 5


def test_a_time_that_is_set_while_a_file_is_written_takes_nothing_away(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O12: as touch, or cp -p, of a file that somebody begins to write to."""
    ino = find(fs, "objects/a").ino
    fs.refresh("")
    with store.stopping("stat", "a", "after") as gate:
        setting = threads.submit(fs.setattr, ino, AttributeChanges(mtime_ns=7), None)
        assert gate.reached.wait(WAIT_S)
        handle = open_file(fs, "objects/a")
        fs.write(handle, 0, b"new")
        gate.open()
        setting.result(WAIT_S)
    close(fs, handle)
    assert stored(store)["a"] == b"new"


def test_what_is_written_while_the_store_sets_the_time_of_an_open_file_is_stored(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O12."""
    handle = open_file(fs, "objects/a")
    set_mtime = ObjectStore.set_mtime

    def set_while_written(self: ObjectStore, stat: Stat, mtime_ns: int) -> Stat:
        fs.write(handle, 0, b"new")
        return set_mtime(self, stat, mtime_ns)

    with mock.patch.object(ObjectStore, "set_mtime", set_while_written):
        fs.setattr(find(fs, "objects/a").ino, AttributeChanges(mtime_ns=7), None)
    close(fs, handle)
    assert stored(store)["a"][:3] == b"new"


def test_a_second_appender_goes_on_where_the_first_has_stored(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O7: the first closes while the second is being opened."""
    flags = os.O_WRONLY | os.O_APPEND
    first = open_file(fs, "objects/a", flags)
    ino = find(fs, "objects/a").ino
    with store.stopping("stat", "a", "after") as gate:
        opening = threads.submit(lambda: fs.open(ino, flags).handle)
        assert gate.reached.wait(WAIT_S)
        fs.write(first, 3, b"+1")
        close(fs, first)
        gate.open()
        second = opening.result(WAIT_S)
    fs.write(second, 5, b"+2")
    close(fs, second)
    assert stored(store)["a"] == b"old+1+2"


@pytest.mark.parametrize("new", [False, True], ids=["stored", "new"])
def test_what_is_written_while_a_directory_is_renamed_is_stored_at_its_new_place(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, *, new: bool
) -> None:
    """SEMANTICS O25."""
    name = "new" if new else "a"
    handle = open_file(fs, f"objects/d/{name}", os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"1")
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        fs.write(handle, 0, b"2")
        assert bytes(fs.read(handle, 0, 1)) == b"2"
        reading = threads.submit(fs.read, handle, 0, 3)  # of which "ld" is at neither place known
        syncing = threads.submit(fsync, fs, handle)
        fs.write(handle, 1, b"3")
        assert not syncing.done()
        gate.open()
        renaming.result(WAIT_S)
        syncing.result(WAIT_S)
        assert bytes(reading.result(WAIT_S))[:1] == b"2"
    found = stored(store)
    assert found["e/b"] == b"old"
    assert found[f"e/{name}"][:1] == b"2"
    close(fs, handle)
    assert stored(store)[f"e/{name}"][:2] == b"23"
    assert not [key for key in stored(store) if key.startswith("d/")]


def test_a_reader_goes_on_while_its_directory_is_renamed(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25: its object is gone already where it was."""
    handle = fs.open(find(fs, "objects/d/a").ino, os.O_RDONLY).handle
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        assert "d/a" not in stored(store)
        reading = threads.submit(fs.read, handle, 0, 3)
        assert not wait([reading], 0.05).done
        gate.open()
        renaming.result(WAIT_S)
        assert bytes(reading.result(WAIT_S)) == b"old"
    fs.release(handle)


def test_an_open_file_has_attributes_while_its_directory_is_renamed(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25, O12: fstat, futimens and fchmod."""
    ino = find(fs, "objects/d/a").ino
    handle = fs.open(ino, os.O_RDONLY).handle
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        fs.refresh("")
        asking = [
            threads.submit(fs.getattr, ino),
            threads.submit(fs.setattr, ino, AttributeChanges(mtime_ns=7), handle),
            threads.submit(fs.setattr, ino, AttributeChanges(mode=0o600), handle),
        ]
        gate.open()
        renaming.result(WAIT_S)
        assert [each.result(WAIT_S).size for each in asking] == [3, 3, 3]
    fs.release(handle)
    found = find(fs, "objects/e/a")
    assert (found.mtime_ns, found.mode & 0o777) == (7, 0o600)


def test_an_open_file_has_attributes_though_its_directory_is_renamed_back(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25: it was not there, and is there again when that has been told."""
    ino = find(fs, "objects/d/a").ino
    handle = fs.open(ino, os.O_RDONLY).handle
    with (
        store.stopping("delete", "d/b") as deleting,
        store.stopping("stat", "d/a", "absent") as gate,
    ):
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert deleting.reached.wait(WAIT_S)
        fs.refresh("")
        asking = threads.submit(fs.getattr, ino)
        assert gate.reached.wait(WAIT_S)
        deleting.open()
        renaming.result(WAIT_S)
        rename(fs, "objects/e", "objects/d")
        gate.open()
        assert asking.result(WAIT_S).size == 3
    fs.release(handle)


def test_what_is_opened_while_a_directory_is_renamed_is_at_its_new_place(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25."""
    ino, directory = find(fs, "objects/d/a").ino, find(fs, "objects/d").ino
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        opening = threads.submit(lambda: fs.open(ino, os.O_RDWR).handle)
        making = threads.submit(lambda: fs.create(directory, b"made", os.O_RDWR, 0o644)[0].handle)
        assert not wait([opening, making], 0.05).done
        gate.open()
        renaming.result(WAIT_S)
        fs.write(opening.result(WAIT_S), 0, b"new")
        close(fs, opening.result(WAIT_S))
        close(fs, making.result(WAIT_S))
    assert stored(store) == {"a": b"old", "e/a": b"new", "e/b": b"old", "e/made": b""}


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("unlink", ["b", "sub"]),
        ("rename", ["a", "c", "sub"]),
        ("link", ["a", "b", "c", "sub"]),
        ("mkdir", ["a", "b", "c", "sub"]),
        ("rename a directory", ["a", "b", "c"]),
    ],
)
def test_names_below_a_directory_that_is_renamed_change_afterwards(
    fs: TreeFileSystem,
    store: GatedZMap,
    threads: ThreadPoolExecutor,
    change: str,
    names: list[str],
) -> None:
    """SEMANTICS O25: what was copied already would have the name still."""
    directory, a = find(fs, "objects/d").ino, find(fs, "objects/d/a").ino
    mkdir(fs, "objects/d/sub")
    changes: dict[str, Callable[[], object]] = {
        "unlink": lambda: fs.unlink(directory, b"a"),
        "rename": lambda: fs.rename(directory, b"b", directory, b"c", replace=True),
        "link": lambda: fs.link(a, directory, b"c"),
        "mkdir": lambda: fs.mkdir(directory, b"c", 0o755),
        "rename a directory": lambda: fs.rename(directory, b"sub", directory, b"c", replace=True),
    }
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        changing = threads.submit(changes[change])
        assert not wait([changing], 0.05).done
        gate.open()
        renaming.result(WAIT_S)
        changing.result(WAIT_S)
    assert sorted(listing(fs, "objects")) == ["a", "e"]
    assert sorted(listing(fs, "objects/e")) == [*names]


def test_a_file_or_directory_has_attributes_while_one_above_is_renamed(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25, O12: stat, utimes and chmod of what nobody has open."""
    store.write(Key("d/sub/f"), b"old")
    file, sub = find(fs, "objects/d/a").ino, find(fs, "objects/d/sub").ino
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        fs.refresh("")
        asking: list[Future[NodeAttributes]] = [
            threads.submit(fs.getattr, file),
            threads.submit(fs.setattr, file, AttributeChanges(mtime_ns=7), None),
            threads.submit(fs.setattr, file, AttributeChanges(mode=0o600), None),
            threads.submit(fs.setattr, sub, AttributeChanges(mode=0o700), None),
            threads.submit(fs.setattr, sub, AttributeChanges(mtime_ns=8), None),
        ]
        assert not wait(asking, 0.05).done
        gate.open()
        renaming.result(WAIT_S)
        for each in asking:
            each.result(WAIT_S)
    found = [find(fs, "objects/e/a"), find(fs, "objects/e/sub")]
    assert [(each.mtime_ns, each.mode & 0o777) for each in found] == [(7, 0o600), (8, 0o700)]


def test_a_directory_is_looked_into_while_it_is_renamed(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O4, O25: what has moved already is not absent."""
    directory = find(fs, "objects/d").ino
    handle = fs.opendir(directory)
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        fs.refresh("")
        looking = threads.submit(fs.lookup, directory, b"a")
        reading = threads.submit(lambda: [entry.name for entry in fs.readdir(handle, 0)])
        assert not wait([looking], 0.05).done
        assert not reading.done()
        gate.open()
        renaming.result(WAIT_S)
        assert looking.result(WAIT_S).size == 3
        assert sorted(reading.result(WAIT_S)) == [b"a", b"b"]
    fs.releasedir(handle)


def test_what_another_client_stores_while_a_directory_is_copied_goes_with_it(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O26: a newer version of what was copied already, and what is new."""
    reading = fs.open(find(fs, "objects/d/a").ino, os.O_RDONLY).handle
    with store.stopping("write", "e/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        store.write(Key("d/a"), b"THEIRS")
        store.write(Key("d/c"), b"new")
        gate.open()
        renaming.result(WAIT_S)
    assert stored(store) == {"a": b"old", "e/a": b"THEIRS", "e/b": b"old", "e/c": b"new"}
    with pytest.raises(StaleHandle):  # as without a rename: it is another version
        fs.read(reading, 0, 3)
    fs.release(reading)


def test_what_another_client_stores_while_a_directory_is_deleted_stays(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O26."""
    with store.stopping("delete", "d/a") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        store.write(Key("d/b"), b"THEIRS")
        gate.open()
        renaming.result(WAIT_S)
    assert stored(store) == {"a": b"old", "e/a": b"old", "e/b": b"old", "d/b": b"THEIRS"}


def test_what_another_client_stores_while_a_written_file_is_renamed_with_its_directory_stays(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O9, O26."""
    handle = open_file(fs, "objects/d/a")
    fs.write(handle, 0, b"ours")
    with store.stopping("write", "e/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        store.write(Key("d/a"), b"THEIRS")
        gate.open()
        renaming.result(WAIT_S)
    close(fs, handle)
    assert stored(store) == {"a": b"old", "e/a": b"ours", "e/b": b"old", "d/a": b"THEIRS"}


def test_a_listing_that_a_rename_overtakes_is_whole(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O4."""
    handle = fs.opendir(find(fs, "objects/d").ino)
    fs.refresh("")
    with store.stopping("search", "d") as gate:
        reading = threads.submit(lambda: [entry.name for entry in fs.readdir(handle, 0)])
        assert gate.reached.wait(WAIT_S)
        rename(fs, "objects/d", "objects/e")
        gate.open()
        assert sorted(reading.result(WAIT_S)) == [b"a", b"b"]
    fs.releasedir(handle)


def test_attributes_of_a_directory_go_with_the_one_above(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O12: of one that only the store knows, too."""
    store.write(Key("d/sub/f"), b"old")
    fs.setattr(find(fs, "objects/d/sub").ino, AttributeChanges(mode=0o700), None)
    rename(fs, "objects/d", "objects/e")
    assert find(fs, "objects/e/sub").mode & 0o777 == 0o700
    store.write(Key("d/sub/f"), b"new")
    fs.refresh("")
    assert find(fs, "objects/d/sub").mode & 0o777 == 0o755


def test_a_directory_that_is_renamed_while_it_is_looked_up_is_the_one_it_was(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25: nothing is made in its former place."""
    above = find(fs, "objects").ino
    fs.refresh("")
    with store.stopping("search", "d", "after") as gate:
        looking = threads.submit(fs.lookup, above, b"d")
        assert gate.reached.wait(WAIT_S)
        rename(fs, "objects/d", "objects/e")
        gate.open()
        found = looking.result(WAIT_S)
    close(fs, fs.create(found.ino, b"c", os.O_WRONLY | os.O_EXCL, 0o644)[0].handle)
    assert stored(store) == {"a": b"old", "e/a": b"old", "e/b": b"old", "e/c": b""}
    assert sorted(listing(fs, "objects")) == ["a", "e"]


@pytest.mark.parametrize("change", ["create", "rename", "link", "mkdir"])
def test_nothing_is_made_where_a_directory_was_before_it_was_renamed(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, change: str
) -> None:
    """SEMANTICS O25: the rename ends after the request has come, and before it has an effect."""
    directory, above = find(fs, "objects/d").ino, find(fs, "objects").ino
    a = find(fs, "objects/a").ino
    changes: dict[str, Callable[[], object]] = {
        "create": lambda: fs.create(directory, b"c", os.O_WRONLY | os.O_EXCL, 0o644),
        "rename": lambda: fs.rename(above, b"a", directory, b"c", replace=True),
        "link": lambda: fs.link(a, directory, b"c"),
        "mkdir": lambda: fs.mkdir(directory, b"c", 0o755),
    }
    fs.refresh("")
    with store.stopping("stat", "d/c") as gate:
        making = threads.submit(changes[change])
        assert gate.reached.wait(WAIT_S)
        rename(fs, "objects/d", "objects/e")
        gate.open()
        with pytest.raises(StaleHandle, match="renamed meanwhile"):
            making.result(WAIT_S)
    assert stored(store) == {"a": b"old", "e/a": b"old", "e/b": b"old"}


def test_a_directory_is_renamed_when_what_is_changed_below_it_has(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25: what is removed is not back at the new place."""
    directory = find(fs, "objects/d").ino
    with store.stopping("delete", "d/a") as gate:
        removing = threads.submit(fs.unlink, directory, b"a")
        assert gate.reached.wait(WAIT_S)
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert not wait([renaming], 0.05).done
        gate.open()
        removing.result(WAIT_S)
        renaming.result(WAIT_S)
    assert stored(store) == {"a": b"old", "e/b": b"old"}


def test_a_rename_and_who_makes_files_below_never_wait_for_each_other(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O25: a file that was made is where its directory is."""
    directory = find(fs, "objects/d").ino

    def make(part: int) -> list[str]:
        made = []
        for number in range(50):
            name = f"f{part}.{number}"
            with suppress(StaleHandle):
                opened, _ = fs.create(directory, name.encode(), os.O_WRONLY, 0o644)
                close(fs, opened.handle)
                made.append(name)
        return made

    def move() -> None:
        for _ in range(20):
            rename(fs, "objects/d", "objects/e")
            rename(fs, "objects/e", "objects/d")

    making = [threads.submit(make, part) for part in range(4)]
    threads.submit(move).result(2 * WAIT_S)
    made = [name for each in making for name in each.result(2 * WAIT_S)]
    assert set(stored(store)) == {"a", "d/a", "d/b", *(f"d/{name}" for name in made)}


def test_a_rename_that_fails_leaves_what_is_written_where_it_was(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """SEMANTICS O11."""
    handle = open_file(fs, "objects/d/a")
    fs.write(handle, 0, b"1")
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable("away"))
        with pytest.raises(Unavailable):
            renaming.result(WAIT_S)
    fs.write(handle, 1, b"2")
    assert bytes(fs.read(handle, 0, 3)) == b"12d"
    for entry in (tmp_path / "spool").glob("*/*.kept"):
        entry.unlink()


def test_a_file_follows_its_object_though_the_store_went_away_while_its_directory_was_renamed(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """SEMANTICS O6, O11: nobody can be asked any more which objects are gone."""
    handle = open_file(fs, "objects/d/a")
    other = open_file(fs, "objects/d/b")
    fs.write(handle, 0, b"1")
    fsync(fs, handle)
    away = mock.Mock(side_effect=Unavailable("away"))
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        with mock.patch.multiple(GatedZMap, stat=away, search=away, list=away, read=away):
            gate.open(Unavailable("away"))
            with pytest.raises(Unavailable):
                renaming.result(WAIT_S)
    for each in (handle, other):
        fs.write(each, 1, b"2")
        close(fs, each)
    assert stored(store) == {"a": b"old", "e/a": b"12d", "d/b": b"o2d", "e/b": b"old"}
    for entry in (tmp_path / "spool").glob("*/*.unsaved"):
        entry.unlink()


@pytest.mark.parametrize("theirs", [b"theirs", None], ids=["replaced", "deleted"])
@pytest.mark.parametrize(("path", "goal"), [("d/a", "d/c"), ("d", "e")], ids=["file", "directory"])
def test_a_written_file_whose_object_another_client_has_taken_is_not_renamed(
    fs: TreeFileSystem,
    store: GatedZMap,
    path: str,
    goal: str,
    theirs: bytes | None,
    expected_warnings: ExpectedWarnings,
) -> None:
    """SEMANTICS O24: although none of its bytes would have to come from the store."""
    expected_warnings.add("d/a: (was )?not stored")
    handle = open_file(fs, "objects/d/a")
    fs.write(handle, 0, b"ours")
    if theirs is None:
        store.delete(Key("d/a"))
    else:
        store.write(Key("d/a"), theirs)
    before = stored(store)
    with pytest.raises(StaleHandle):
        rename(fs, f"objects/{path}", f"objects/{goal}")
    assert stored(store) == before
    with pytest.raises(StaleHandle):
        close(fs, handle)


def test_a_rename_that_fails_halfway_shows_what_is_where(
    store: GatedZMap, threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """SEMANTICS O11, O14: at once, though listings of a far store are believed for a minute."""
    with mock.patch.object(GatedZMap, "features", Features(near=False)):
        fs = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path / "s"))
        assert listing(fs, "objects").keys() == {"a", "d"}
        assert listing(fs, "objects/d").keys() == {"a", "b"}
        with store.stopping("delete", "d/b") as gate:
            renaming = threads.submit(rename, fs, "objects/d", "objects/e")
            assert gate.reached.wait(WAIT_S)
            gate.open(Unavailable("away"))
            with pytest.raises(Unavailable):
                renaming.result(WAIT_S)
        assert set(stored(store)) == {"a", "d/b", "e/a", "e/b"}
        assert listing(fs, "objects").keys() == {"a", "d", "e"}
        assert listing(fs, "objects/d").keys() == {"b"}
        assert listing(fs, "objects/e").keys() == {"a", "b"}
        fs.close()


def test_a_file_that_is_made_after_a_rename_failed_halfway_is_no_other_one(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O10, O11: the kernel keeps the pages of one inode together."""
    old = find(fs, "objects/d/a").ino
    handle = open_file(fs, "objects/d/a")
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable("away"))
        with pytest.raises(Unavailable):
            renaming.result(WAIT_S)
    assert not exists(fs, "objects/d/a")
    write(fs, "objects/d/a", b"new")
    assert find(fs, "objects/d/a").ino != old
    assert bytes(fs.read(handle, 0, 100)) == stored(store)["e/a"]
    close(fs, handle)


@pytest.mark.parametrize("is_made", [False, True])
def test_a_file_that_is_open_while_a_rename_fails_halfway_has_one_inode(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, *, is_made: bool
) -> None:
    """SEMANTICS O7, O11: through two, the kernel would keep other bytes for each of them."""
    handle = open_file(fs, "objects/d/a")
    old = find(fs, "objects/d/a").ino
    with store.stopping("delete", "d/b") as gate:
        renaming = threads.submit(rename, fs, "objects/d", "objects/e")
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable("away"))
        with pytest.raises(Unavailable):
            renaming.result(WAIT_S)
    if is_made:  # by another client
        store.write(parse_key("d/a"), b"another one")
        fs.refresh("objects")
        assert find(fs, "objects/d/a").ino != old
    assert listing(fs, "objects/e")["a"].ino == find(fs, "objects/e/a").ino == old
    other = open_file(fs, "objects/e/a")
    fs.write(other, 0, b"new")
    assert bytes(fs.read(handle, 0, 3)) == b"new"
    assert fs.getattr(old).size == find(fs, "objects/e/a").size
    close(fs, other)
    close(fs, handle)
    assert stored(store)["e/a"][:3] == b"new"
    assert find(fs, "objects/e/a").ino == old


def test_who_opens_a_far_file_to_write_has_what_another_client_stored(
    store: GatedZMap, tmp_path: Path
) -> None:
    """SEMANTICS O22: though the kernel and the mount have known another size for a while."""
    with mock.patch.object(GatedZMap, "features", Features(near=False)):
        fs = tree_over(store, VfsOptions(read_only=False, spool_dir=tmp_path / "s"))
        assert listing(fs, "objects").keys() == {"a", "d"}
        assert read(fs, "objects/a") == b"old"
        store.write(Key("a"), b"theirs")
        store.write(Key("new"), b"theirs")
        with pytest.raises(StaleHandle):
            open_file(fs, "objects/a", os.O_WRONLY | os.O_APPEND)
        handle = open_file(fs, "objects/a", os.O_WRONLY | os.O_APPEND)  # as the kernel then does
        fs.write(handle, len(b"theirs"), b"+ours")
        close(fs, handle)
        assert stored(store)["a"] == b"theirs+ours"
        assert not exists(fs, "objects/new")  # until the listing is asked for again
        fs.close()


def test_a_file_that_is_removed_while_it_is_uploaded_is_gone(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O10."""
    handle = open_file(fs, "objects/a")
    fs.write(handle, 0, b"new")
    parent = find(fs, "objects").ino
    with store.stopping("write", "a") as gate:
        syncing = threads.submit(fsync, fs, handle)
        assert gate.reached.wait(WAIT_S)
        removing = threads.submit(fs.unlink, parent, b"a")
        gate.open()
        syncing.result(WAIT_S)
        removing.result(WAIT_S)
    fs.write(handle, 0, b"N")
    assert bytes(fs.read(handle, 0, 3)) == b"New"
    close(fs, handle)
    assert "a" not in stored(store)


def test_many_at_one_file_lose_nothing(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O6, O25: each has a byte of its own, and has it stored after each change."""
    mkdir(fs, "objects/m")
    write(fs, "objects/m/f", bytes(4))
    handles = [open_file(fs, "objects/m/f") for _ in range(4)]

    def change(place: int) -> None:
        for value in range(1, 60):
            fs.write(handles[place], place, bytes([value]))
            fsync(fs, handles[place])
            (content,) = (v for k, v in stored(store).items() if k.endswith("/f"))
            assert content[place] == value

    def move() -> None:
        for _ in range(10):
            rename(fs, "objects/m", "objects/n")
            rename(fs, "objects/n", "objects/m")

    changing = [threads.submit(change, place) for place in range(4)]
    moving = threads.submit(move)
    for each in (*changing, moving):
        each.result(2 * WAIT_S)
    for handle in handles:
        close(fs, handle)
    assert stored(store)["m/f"] == bytes([59]) * 4


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("is_dirty", [False, True])
def test_an_open_file_whose_old_object_could_not_be_deleted_is_what_its_name_says(
    fs: TreeFileSystem,
    store: GatedZMap,
    threads: ThreadPoolExecutor,
    *,
    is_dirty: bool,
    is_gone: bool,
) -> None:
    """SEMANTICS O6, O11: both objects are there, and what is written then is in the named one."""
    handle = open_file(fs, "objects/d/a")
    fs.write(handle, 0, b"one")
    if not is_dirty:
        fsync(fs, handle)
    with store.stopping("delete", "d/a", "after" if is_gone else "before") as gate:
        renaming = threads.submit(rename, fs, "objects/d/a", "objects/d/c")
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable("d/a"))
        with pytest.raises(Unavailable):
            renaming.result(WAIT_S)
    name = "d/c" if is_gone else "d/a"
    assert ("d/a" in stored(store)) is not is_gone
    assert stored(store)["d/c"] == b"one"
    fs.write(handle, 0, b"two")
    fsync(fs, handle)
    assert stored(store)[name] == b"two"
    close(fs, handle)
    assert read(fs, f"objects/{name}") == b"two"
    if not is_gone:
        assert read(fs, "objects/d/c") == b"one"


def test_an_open_file_of_which_nobody_can_tell_whether_it_was_renamed_keeps_its_name(
    fs: TreeFileSystem,
    store: GatedZMap,
    threads: ThreadPoolExecutor,
    tmp_path: Path,
    expected_warnings: ExpectedWarnings,
) -> None:
    """SEMANTICS O30: the answer to its deletion was lost, and the store can be asked nothing."""
    expected_warnings.add("m/f: (was not stored|not stored)")
    mkdir(fs, "objects/m")
    write(fs, "objects/m/f", b"one")
    handle = open_file(fs, "objects/m/f")
    with (
        store.stopping("delete", "m/f", "after") as deletion,
        store.stopping("stat", "m/f", "absent") as question,
    ):
        renaming = threads.submit(rename, fs, "objects/m", "objects/n")
        for gate in (deletion, question):
            assert gate.reached.wait(WAIT_S)
            gate.open(Unavailable("m/f"))
        with pytest.raises(Unavailable):
            renaming.result(WAIT_S)
    fs.write(handle, 0, b"two")
    with pytest.raises(StaleHandle):
        fsync(fs, handle)
    with pytest.raises(StaleHandle):
        close(fs, handle)
    assert {k: v for k, v in stored(store).items() if k[1:] == "/f"} == {"n/f": b"one"}
    (kept,) = tmp_path.rglob("*.kept")
    assert kept.read_bytes() == b"two"


def test_a_file_whose_answer_was_lost_is_stored_after_a_rename_that_failed(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O6, O11: what arrived without an answer is the file's own object."""
    handle = open_file(fs, "objects/d/a")
    fs.write(handle, 0, b"one")
    with store.stopping("write", "d/a", "after") as gate:
        syncing = threads.submit(fsync, fs, handle)
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable("d/a"))
        with pytest.raises(Unavailable):
            syncing.result(WAIT_S)
    fs.write(handle, 0, b"two")
    with store.stopping("delete", "d/a") as gate:
        renaming = threads.submit(rename, fs, "objects/d/a", "objects/d/c")
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable("d/a"))
        with pytest.raises(Unavailable):
            renaming.result(WAIT_S)
    fsync(fs, handle)
    assert stored(store)["d/a"] == b"two"
    close(fs, handle)


def test_an_object_whose_answer_was_lost_is_renamed_with_its_directory(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor
) -> None:
    """SEMANTICS O11: nothing of a new file stays under the old name."""
    handle = open_file(fs, "objects/d/new", os.O_RDWR | os.O_CREAT)
    fs.write(handle, 0, b"one")
    with store.stopping("write", "d/new", "after") as gate:
        syncing = threads.submit(fsync, fs, handle)
        assert gate.reached.wait(WAIT_S)
        gate.open(Unavailable("d/new"))
        with pytest.raises(Unavailable):
            syncing.result(WAIT_S)
    rename(fs, "objects/d", "objects/e")
    assert stored(store) == {"a": b"old", "e/a": b"old", "e/b": b"old", "e/new": b"one"}
    close(fs, handle)


@pytest.mark.parametrize("state", ["closed", "read", "written"])
def test_what_another_client_stores_while_a_file_is_renamed_stays(
    fs: TreeFileSystem, store: GatedZMap, threads: ThreadPoolExecutor, state: str
) -> None:
    """SEMANTICS O11: between the copy and the deletion."""
    flags = os.O_RDWR if state == "written" else os.O_RDONLY
    handle = open_file(fs, "objects/a", flags) if state != "closed" else None
    if state == "written":
        assert handle is not None
        fs.write(handle, 0, b"new")
    with store.stopping("write", "b", "after") as gate:
        renaming = threads.submit(rename, fs, "objects/a", "objects/b")
        assert gate.reached.wait(WAIT_S)
        store.write(Key("a"), b"theirs")
        gate.open()
        renaming.result(WAIT_S)
    seen = b"new" if state == "written" else b"old"
    assert stored(store)["b"] == seen
    assert read(fs, "objects/a") == stored(store)["a"] == b"theirs"
    if handle is not None:
        assert bytes(fs.read(handle, 0, 10)) == seen
        close(fs, handle)
    assert stored(store)["b"] == seen


def test_a_file_that_another_client_has_replaced_is_not_another_one_after_a_rename(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O2."""
    store.write(Key("a"), b"a version")
    handle = open_file(fs, "objects/a", os.O_RDONLY)
    assert bytes(fs.read(handle, 0, 1)) == b"a"
    store.write(Key("a"), b"A Version")
    rename(fs, "objects/a", "objects/b")
    with pytest.raises(StaleHandle):
        fs.read(handle, 2, 7)
    fs.release(handle)
    assert read(fs, "objects/b") == stored(store)["b"] == b"A Version"


def test_a_directory_is_not_merged_into_one_that_another_client_has_just_made(
    fs: TreeFileSystem, store: GatedZMap
) -> None:
    """SEMANTICS O11: although a listing without it is believed for a second."""
    assert "e" not in listing(fs, "objects")
    store.write(Key("e/a"), b"theirs")
    with pytest.raises(DirectoryNotEmpty):
        rename(fs, "objects/d", "objects/e")
    assert stored(store) == {"a": b"old", "d/a": b"old", "d/b": b"old", "e/a": b"theirs"}
