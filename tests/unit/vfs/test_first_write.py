"""The first write of a mount to a store that has no conditional writes, or may have none."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nczfs.engine.lease.contention import LeaseTerms
from nczfs.engine.options import EngineOptions
from nczfs.errors import LeaseNotHeld, Unavailable
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.base import Features
from nczfs.zmap.keys import parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.support.leases import QUICK, Unconditional
from tests.support.trees import read, tree_over
from tests.support.waiting import until
from tests.support.writing import close, open_file

V = "datasets/a.zarr/v/values.raw"
FIELD = np.arange(16, dtype="<i4")
WAIT_S = 120.0


class Tried(Unconditional):
    """A store of which a trial shows that it has conditional writes; the trial can be stopped.

    Attributes
    ----------
    trying, go_on : events: the trial has begun, and may end.
    fails : whether it fails.
    trials : how many there were.
    """

    def __init__(self, *, holds: bool) -> None:
        super().__init__()
        self._holds = holds
        self._is_tried = False
        self.trying, self.go_on = threading.Event(), threading.Event()
        self.fails = False
        self.trials = 0

    @property
    def features(self) -> Features:
        return Features(conditional_writes=self._is_tried and self._holds)

    def prepare_writing(self) -> Features:
        self.trials += 1
        self.trying.set()
        assert self.go_on.wait(WAIT_S)
        if self.fails:
            raise Unavailable("on purpose")
        self._is_tried = True
        return self.features


@pytest.fixture(params=[True, False], ids=["conditions hold", "a lease is needed"])
def store(request: pytest.FixtureRequest) -> Tried:
    store = Tried(holds=request.param)
    put_group(store, "a.zarr")
    put_array(store, "a.zarr/v", FIELD, (4,), dimensions=("x",))
    return store


@pytest.fixture
def mount(store: Tried, tmp_path: Path) -> Iterator[Callable[..., TreeFileSystem]]:
    mounts: list[TreeFileSystem] = []

    def mounted(terms: LeaseTerms = QUICK) -> TreeFileSystem:
        options = VfsOptions(
            engine=EngineOptions(lease=terms),
            read_only=False,
            spool_dir=tmp_path / str(len(mounts)),
        )
        mounts.append(tree_over(store, options))
        return mounts[-1]

    yield mounted
    store.go_on.set()
    for each in mounts:
        each.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def stored(store: MemoryZMap) -> list[int]:
    with open_zmap(Prefixed(store, parse_prefix("a.zarr"))) as root:
        found: list[int] = root.variables["v"][...].tolist()
        return found


@pytest.mark.parametrize("elements", [1, 16], ids=["parts of chunks", "whole chunks"])
def test_the_first_data_are_taken_while_the_right_to_send_them_is_acquired(
    store: Tried, mount: Callable[..., TreeFileSystem], pool: ThreadPoolExecutor, elements: int
) -> None:
    """SEMANTICS W1, W47."""
    fs = mount()
    handle = open_file(fs, V, os.O_WRONLY)
    assert store.trying.wait(WAIT_S)
    assert len(takers()) == 1
    for first in range(0, len(FIELD), elements):
        fs.write(handle, 4 * first, (-FIELD)[first : first + elements].tobytes())
    synced = pool.submit(fs.fsync, handle, data_only=False)
    assert read(fs, V) == (-FIELD).tobytes()
    assert stored(store) == FIELD.tolist()
    assert not synced.done()
    store.go_on.set()
    synced.result(WAIT_S)
    assert stored(store) == (-FIELD).tolist()
    assert store.trials == 1
    close(fs, handle)


def test_a_program_that_reads_as_well_waits_when_it_opens_the_file(
    store: Tried, mount: Callable[..., TreeFileSystem], pool: ThreadPoolExecutor
) -> None:
    """SEMANTICS W47."""
    fs = mount()
    opened = pool.submit(open_file, fs, V, os.O_RDWR)
    assert store.trying.wait(WAIT_S)
    assert not opened.done()
    store.go_on.set()
    close(fs, opened.result(WAIT_S))


def test_a_trial_that_failed_is_made_again_by_who_writes_next(
    store: Tried, mount: Callable[..., TreeFileSystem]
) -> None:
    """SEMANTICS W1."""
    store.fails = True
    store.go_on.set()
    fs = mount()
    handle = open_file(fs, V, os.O_WRONLY)
    until(lambda: store.trials == 1 and not takers())
    with pytest.raises(Unavailable, match="on purpose"):
        fs.write(handle, 0, b"\1\0\0\0")
    store.fails = False
    fs.write(handle, 0, b"\1\0\0\0")
    close(fs, handle)
    assert stored(store)[0] == 1


def test_an_open_that_failed_leaves_the_dataset_to_others(
    store: Tried, mount: Callable[..., TreeFileSystem]
) -> None:
    """SEMANTICS W43."""
    store.fails = True
    store.go_on.set()
    ours, theirs = mount(), mount()
    with pytest.raises(Unavailable, match="on purpose"):
        open_file(ours, V, os.O_RDWR)
    until(lambda: takers() == [])  # a trial under way fails as well, and those who wait for it
    store.fails = False
    for fs in (ours, theirs):
        assert is_opened(fs)


def test_a_mount_that_finds_another_writer_fails_when_it_opens_the_file_until_that_has_closed_its(
    store: Tried, mount: Callable[..., TreeFileSystem]
) -> None:
    """SEMANTICS W43."""
    store.go_on.set()
    ours, theirs = mount(), mount(replace(QUICK, wait_s=1.0))
    handle = open_file(ours, V, os.O_RDWR)
    if store.features.conditional_writes:
        close(theirs, open_file(theirs, V, os.O_WRONLY))
    else:
        with pytest.raises(LeaseNotHeld):
            open_file(theirs, V, os.O_WRONLY)
    until(lambda: takers() == [])
    close(ours, handle)
    for other in (theirs, ours):
        until(partial(is_opened, other))


def is_opened(fs: TreeFileSystem) -> bool:
    """Whether a file with values can be opened for writing; then it is closed again."""
    try:
        close(fs, open_file(fs, V, os.O_RDWR))
    except LeaseNotHeld:
        return False
    return True


def takers() -> list[threading.Thread]:
    """The threads that take leases."""
    return [each for each in threading.enumerate() if each.name == "nczfs-lease-first"]
