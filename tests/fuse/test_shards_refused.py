"""Arrays in shards on stores that refuse them: write, map, run out of spool, recover."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.looking import failing_with, store_served
from tests.support.mounts import END_TIMEOUT_S, nczfs
from tests.support.places import SHARDED, Place
from tests.support.refusing import Refusing, full_disk, small_disk
from tests.support.sample import Values

SHARD = (16, 64)
VALUES = np.arange(64.0 * 64).reshape(64, 64)
CHANGED = 48 + 4  # chunks
ROOM_BYTES = 100_000
TOLD = r"not stored|kept|lost|No space|ENOSPC"


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[Refusing]:
    with small_disk(tmp_path / "disk", 1):
        found = full_disk(tmp_path / "disk")
        found.place.make_shards(VALUES, (4, 16), SHARD)
        yield found


def stored(place: Place) -> Values:
    return place.values_by_zarr(SHARDED, "v")


def refused(call: Callable[[], object]) -> None:
    with failing_with(errno.ENOSPC):
        call()


def test_two_mappings_are_told_and_stored_when_the_store_has_room(
    refusing: Refusing, tmp_path: Path
) -> None:
    """SEMANTICS W1, W85, W20, W66."""
    place, spool, values = refusing.place, tmp_path / "spool", VALUES.copy()
    with store_served(place.url, "--spool-dir", str(spool), expect=TOLD) as mount:
        raw = mount.path / "datasets" / SHARDED / "v/values.raw"
        one, other = (np.memmap(raw, "f8", "r+", shape=VALUES.shape) for _ in range(2))
        refusing.refuse()
        one[0, :3] = values[0, :3] = -1
        refused(one.flush)
        other[20] = values[20] = -2
        refused(other.flush)
        refused(one.flush)  # as long as it is not stored
        np.testing.assert_array_equal(np.fromfile(raw).reshape(VALUES.shape), values)
        refusing.allow()
        one.flush()
        other.flush()
        np.testing.assert_array_equal(stored(place), values)
        refusing.refuse()
        one[40:42] = values[40:42] = -3
        refused(one.flush)
        other[63, 63] = values[63, 63] = -4
        one[50] = values[50] = -5  # nobody asks whether that is stored
        del one, other
        gc.collect()  # what was raised may hold a mapping, whose pages are written when it goes
    refusing.allow()
    assert nczfs("recover", "--spool-dir", spool).returncode == 0
    np.testing.assert_array_equal(stored(place), values)


def test_a_full_spool_keeps_what_it_has_room_for(refusing: Refusing, tmp_path: Path) -> None:
    """SEMANTICS W1, W20, W66: of parts of shards, and of whole ones; the log counts the rest."""
    place, spool = refusing.place, tmp_path / "small/spool"
    values = np.where(np.arange(64)[:, None] < 49, -VALUES - 1, VALUES)
    begins = [*range(0, 48, SHARD[0]), 48]
    with small_disk(tmp_path / "small", 1):
        (tmp_path / "small/filler").write_bytes(bytes((1 << 20) - ROOM_BYTES))
        with store_served(place.url, "--spool-dir", str(spool), expect=TOLD) as mount:
            raw = os.open(mount.path / "datasets" / SHARDED / "v/values.raw", os.O_RDWR)
            refusing.refuse()
            for begin in begins:
                rows = values[begin : begin + (SHARD[0] if begin < 48 else 1)]
                os.pwrite(raw, rows.tobytes(), begin * values[0].nbytes)
            refused(lambda: os.fsync(raw))
            refused(lambda: os.fsync(raw))
            assert os.pread(raw, values.nbytes, 0) == values.tobytes()
            refused(lambda: os.close(raw))
            mount.process.send_signal(signal.SIGTERM)
            mount.process.wait(END_TIMEOUT_S)
            (lost,) = re.findall(r"CRITICAL (\d+) chunks? (?:is|are) lost", mount.log.read_text())
        refusing.allow()
        recovered = nczfs("recover", "--spool-dir", spool)
        assert recovered.returncode == 0, recovered
    found = chunks(stored(place))
    is_old = (found == chunks(VALUES)) & (chunks(values) != chunks(VALUES))
    is_lost = is_old.any(axis=(1, 2))
    assert 0 < is_lost.sum() == int(lost) < CHANGED - 10
    np.testing.assert_array_equal(found[~is_lost], chunks(values)[~is_lost])


def chunks(values: Values) -> Values:
    """One after the other."""
    return values.reshape(16, 4, 4, 16).swapaxes(1, 2).reshape(64, 4, 16)
