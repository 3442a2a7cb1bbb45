"""One writer at a time where conditional writes do not hold: in memory, without flock, on Swift."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.cli.main import main
from nczfs.engine.lease.contention import LEASE, LeaseTerms
from nczfs.engine.options import EngineOptions
from nczfs.errors import LeaseNotHeld
from nczfs.fuse.errno import to_errno
from nczfs.vfs.base import FileKind
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import Features, ZMap
from nczfs.zmap.keys import Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from nczfs.zmap.url import parse_url
from tests.support.leases import QUICK, ShortenedTime, lease_threads
from tests.support.servers import S3Server
from tests.support.trees import exists, find, listing, read
from tests.support.writing import close, mkdir, open_file, rmdir, unlink, write

_stores = itertools.count()

OPTIONS = EngineOptions(lease=QUICK)
IMPATIENT = EngineOptions(lease=LeaseTerms(settle_s=0.4, poll_s=0.05, wait_s=2.0))
V = "datasets/ds/v/values.raw"


@pytest.fixture(params=["memory", "directory", "swift"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a store without conditions that hold, for `format` with a key."""
    if request.param == "swift":
        server: S3Server = request.getfixturevalue("swift")
        return server.url(server.new_bucket(), "{}")
    if request.param == "memory":
        features = Features(conditional_writes=False)
        monkeypatch.setattr(MemoryZMap, "features", property(lambda _: features))
        return f"memory://lease{next(_stores)}/{{}}"
    monkeypatch.setattr("nczfs.zmap.directory.store.can_lock", lambda _: False)
    return f"{tmp_path}/{{}}"


@pytest.fixture
def shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sleeps until others have seen a claim, or until it is his turn."""
    monkeypatch.setattr("nczfs.engine.lease.lease.Clock", ShortenedTime().clock)


@pytest.fixture
def url(place: str) -> str:
    """Of a dataset with a variable, all of it in one chunk."""
    url = place.format("top/ds")
    with nczfs.open(url, "w", options=OPTIONS) as dataset:
        dataset.create_variable("v", [8], "i4", fillvalue=-1)[...] = np.zeros(8, "i4")
    return url


@pytest.fixture
def store(place: str) -> Iterator[ZMap]:
    """What is above the dataset."""
    store = open_store(parse_url(place.format("top")))
    yield store
    store.close()


def claims(store: ZMap) -> list[str]:
    return [entry.name for entry in store.search(Prefix(f"ds/{LEASE}"))]


@pytest.mark.usefixtures("shortened")
def test_it_is_taken_to_write_and_gone_at_the_close(url: str, store: ZMap) -> None:
    assert claims(store) == []
    with nczfs.open(url, options=OPTIONS):
        assert claims(store) == []
    for mode in ("r+", "a", "w"):
        with nczfs.open(url, mode, options=OPTIONS):
            assert len(claims(store)) == 1
            assert len(lease_threads()) == 1
        assert claims(store) == []
        assert lease_threads() == []
    trusting = EngineOptions(is_single_writer=True)
    with nczfs.open(url, "a", options=trusting):
        assert claims(store) == []


@pytest.mark.usefixtures("shortened")
def test_a_second_writer_is_refused_and_changes_nothing(url: str, store: ZMap) -> None:
    with nczfs.open(url, "r+", options=OPTIONS) as ours:
        for mode in ("r+", "a", "w", "x"):
            with pytest.raises(LeaseNotHeld, match=f"process {os.getpid()} on "):
                nczfs.open(url, mode, options=IMPATIENT)
        ours.variables["v"][3] = 3
        assert len(claims(store)) == 1
    with nczfs.open(url, options=OPTIONS) as found:
        assert list(found.variables["v"][...]) == [0, 0, 0, 3, 0, 0, 0, 0]


@pytest.mark.usefixtures("shortened")
def test_nothing_shows_it(
    url: str, store: ZMap, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mount = mount_tree(place.format("top"))
    with nczfs.open(url, "r+", options=OPTIONS):
        (name,) = claims(store)
        assert store.read(Key(f"ds/{LEASE}/{name}")).data
        assert [stat.key for stat in store.list(Prefix("")) if LEASE in stat.key] == []
        assert [entry.name for entry in store.search(Prefix(""))] == ["ds"]
        assert LEASE not in [entry.name for entry in store.search(Prefix("ds"))]
        for tree in ("objects", "datasets"):
            assert not exists(mount, f"{tree}/ds/{LEASE}")
            assert LEASE not in listing(mount, f"{tree}/ds")
        assert main(["ls", "-lR", url]) == 0
        assert main(["verify", url]) == 0
        told = capsys.readouterr()
        assert "lease" not in told.out + told.err
    mount.close()


def test_writers_that_take_turns_lose_nothing(url: str) -> None:
    errors: list[BaseException] = []

    def add(element: int) -> None:
        try:
            for _ in range(3):
                with nczfs.open(url, "r+", options=OPTIONS) as dataset:
                    variable = dataset.variables["v"]
                    variable[element] += 1
                    variable[7] += 1
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [threading.Thread(target=add, args=(element,)) for element in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with nczfs.open(url, options=OPTIONS) as dataset:
        assert list(dataset.variables["v"][...]) == [3, 3, 3, 0, 0, 0, 0, 9]


@pytest.fixture
def mounts(url: str, place: str) -> Iterator[list[TreeFileSystem]]:
    """Two mounts of what is above the dataset, without fear of deleting."""
    with ExitStack() as stack:
        mounts = []
        for options in (OPTIONS, IMPATIENT):
            chosen = VfsOptions(engine=options, read_only=False, allow_delete=True)
            mounts.append(mount_tree(place.format("top"), options=chosen))
            stack.callback(mounts[-1].close)
        yield mounts


def values(mount: TreeFileSystem) -> list[int]:
    return list(map(int, np.frombuffer(read(mount, V), "<i4")))


@pytest.mark.usefixtures("shortened")
def test_a_mount_has_it_while_a_file_is_open_for_writing(
    mounts: list[TreeFileSystem], store: ZMap
) -> None:
    """SEMANTICS W19, W43."""
    ours, theirs = mounts
    assert values(theirs) == [0] * 8
    handle = open_file(ours, V, os.O_RDWR)
    assert len(claims(store)) == 1
    ours.write(handle, 4, np.array([1], "<i4").tobytes())
    with pytest.raises(LeaseNotHeld, match="is writing; try again") as told:
        open_file(theirs, V, os.O_WRONLY)
    assert to_errno(told.value) == errno.EAGAIN
    with pytest.raises(LeaseNotHeld, match="is writing; try again"):
        mkdir(theirs, "datasets/ds/g")
    assert values(theirs) == [0] * 8
    close(ours, handle)
    wait_until_free(store)
    handle = open_file(theirs, V, os.O_RDWR)
    # What it has read is asked for anew: who reads, changes and writes begins with the newest.
    assert np.frombuffer(theirs.read(handle, 0, 32), "<i4")[1] == 1
    theirs.write(handle, 8, np.array([2], "<i4").tobytes())
    close(theirs, handle)
    assert values(theirs) == [0, 1, 2, 0, 0, 0, 0, 0]


@pytest.mark.usefixtures("shortened")
def test_objects_are_written_whoever_has_it(mounts: list[TreeFileSystem], store: ZMap) -> None:
    """SEMANTICS W46."""
    ours, theirs = mounts
    handle = open_file(ours, V, os.O_RDWR)
    ours.write(handle, 0, np.array([1], "<i4").tobytes())
    (claim,) = claims(store)
    write(theirs, "objects/ds/notes.txt", b"hello")
    assert bytes(store.read(parse_key("ds/notes.txt")).data) == b"hello"
    assert claims(store) == [claim]
    close(ours, handle)


def wait_until_free(store: ZMap) -> None:
    """Wait until a mount that does nothing has handed its lease over."""
    patience = threading.Event()
    while claims(store):
        patience.wait(0.05)


@pytest.mark.usefixtures("shortened")
def test_a_mount_tells_which_leases_it_has(mounts: list[TreeFileSystem], store: ZMap) -> None:
    def told() -> str:
        return read(mounts[0], ".nczfs/status.json").decode()

    assert '"leases": []' in told()
    handle = open_file(mounts[0], V, os.O_RDWR)
    assert f'"dataset": "{store.name}/ds"' in told()
    assert '"conditional_writes": false' in told()
    close(mounts[0], handle)


@pytest.mark.usefixtures("shortened")
def test_attributes_and_structure_are_changed_under_it(
    mounts: list[TreeFileSystem], store: ZMap
) -> None:
    """SEMANTICS W19."""
    ours, _ = mounts
    for change in (
        lambda: write(ours, "datasets/ds/v/attributes/units", b"m"),
        lambda: unlink(ours, "datasets/ds/v/attributes/units"),  # stored a second later
        lambda: mkdir(ours, "datasets/ds/g"),
    ):
        change()
        assert len(claims(store)) == 1
        wait_until_free(store)


@pytest.mark.usefixtures("shortened")
def test_a_dataset_that_is_removed_leaves_nothing(
    mounts: list[TreeFileSystem], store: ZMap
) -> None:
    ours, _ = mounts
    mkdir(ours, "datasets/new")
    assert [entry.name for entry in store.search(Prefix(f"new/{LEASE}"))] != []
    for name in list(listing(ours, "datasets/new")):
        if exists(ours, f"datasets/new/{name}"):
            remove(ours, f"datasets/new/{name}")
    rmdir(ours, "datasets/new")
    assert [entry.name for entry in store.search(Prefix(""))] == ["ds"]
    assert [entry.name for entry in store.search(Prefix(f"new/{LEASE}"))] == []


def remove(mount: TreeFileSystem, path: str) -> None:
    if find(mount, path).kind is FileKind.DIRECTORY:
        for name in list(listing(mount, path)):
            remove(mount, f"{path}/{name}")
        rmdir(mount, path)
    else:
        unlink(mount, path)
