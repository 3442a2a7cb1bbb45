"""What is put back into a store whose times are coarse, as the whole seconds of S3 are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from nczfs.engine.spool.space import Spool, Survives
from nczfs.errors import AccessDenied
from nczfs.library.opening import open_zmap
from nczfs.zmap.base import Features, Stat
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.memory import MemoryZMap
from tests.conftest import ExpectedWarnings
from tests.support.killed import Kept, left_by, recovered
from tests.support.spooling import CHUNK, CHUNKS, REFUSED, Mount, stored

RESOLUTION_NS = 10**18  # all that is done in a test is done at one time of the store


class CoarseZMap(MemoryZMap):
    """A store that cuts its times, and says so."""

    @property
    def features(self) -> Features:
        return replace(super().features, time_resolution_ns=RESOLUTION_NS)

    def stat(self, key: Key) -> Stat:
        return self._cut(super().stat(key))

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return map(self._cut, super().list(prefix))

    def _cut(self, stat: Stat) -> Stat:
        assert stat.mtime_ns is not None
        return stat._replace(mtime_ns=stat.mtime_ns // RESOLUTION_NS * RESOLUTION_NS)


@pytest.fixture
def memory() -> MemoryZMap:
    memory = CoarseZMap()
    with open_zmap(Kept(memory), "w", format="zarr2") as dataset:
        dataset.create_variable(
            "v", (CHUNK * CHUNKS,), "i4", fillvalue=-1, chunks=(CHUNK,), codecs=[]
        )
    return memory


@pytest.fixture
def mount(memory: MemoryZMap, tmp_path: Path) -> Iterator[Mount]:
    spool = Spool(tmp_path / "spool", "memory://store", survives=Survives.KILL)
    mount = Mount(memory, tmp_path, spool=spool)
    yield mount
    mount.zmap.arm()
    mount.v.flush()
    mount.close()


def put_back(mount: Mount, memory: MemoryZMap, left: Path, *, refusing: bool = False) -> list[str]:
    """Put back what a kill would leave right now. Returns what was put back, or refused."""
    return recovered(left_by(mount.spool.directory.parent, left), Kept(memory), refusing=refusing)


@pytest.mark.parametrize("is_refused", [False, True], ids=["journal", "entry"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_what_was_written_over_what_this_mount_has_stored_just_before_is_put_back(
    mount: Mount,
    memory: MemoryZMap,
    tmp_path: Path,
    expected_warnings: ExpectedWarnings,
    *,
    is_whole: bool,
    is_refused: bool,
) -> None:
    """SEMANTICS W21, W51: its version tells, not its time."""
    expected_warnings.add("nczfs recover")
    first = range(CHUNK) if is_whole else range(5)
    mount.write(0, *first)
    mount.v.flush()
    if is_refused:
        mount.zmap.arm(REFUSED)
    mount.write(3, 30)
    if is_refused:
        with suppress(AccessDenied):
            mount.writeback.flush()
    mount.write(4, 40)
    assert put_back(mount, memory, tmp_path / "left") == ["v[3:5]"]
    assert stored(memory)[:5] == [0, 1, 2, 30, 40]


def test_what_another_client_may_have_stored_since_is_not_replaced_without_force(
    mount: Mount, memory: MemoryZMap, tmp_path: Path
) -> None:
    """SEMANTICS W51: its time is cut to one before ours was written."""
    mount.write(0, *range(CHUNK))
    mount.v.flush()
    mount.write(3, 30)
    with open_zmap(Kept(memory), "r+") as theirs:
        theirs.variables["v"][3] = 33
    assert put_back(mount, memory, tmp_path / "left", refusing=True) == ["v[3:4]"]
    assert stored(memory)[3] == 33
