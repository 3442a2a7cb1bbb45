"""Two mounts write different elements of the same chunks, and none of them loses anything."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

import nczfs
from nczfs.testing.datasets import put_json
from nczfs.zmap.registry import open_store
from tests.support.confirmed import ElementWriter, Writer, take_turns, working_until_they_fail
from tests.support.looking import mounting_of
from tests.support.mounts import Served, served
from tests.support.places import DATASET, Place, bucket_of, directory_at, requested_place
from tests.support.servers import Faults, S3Server
from tests.support.settled import files_in, gauge, settled, status

VALUES = np.zeros((30, 40))
CHUNKS = (12, 16)
SHARDS = (12, 15)
WRITERS = 4
BLOCK = 3  # elements: every chunk has some of each writer
ROUNDS = [25, pytest.param(400, marks=pytest.mark.long)]
ROUNDS_BY_LEASE = [2, pytest.param(40, marks=pytest.mark.long)]
PATIENCE_S = 60
DEAD = {errno.ENOTCONN, errno.ECONNABORTED}

# Less patience than a mount has that wrote before it hands its lease over: 0.8 of this.
IMPATIENT = ("--request-timeout", "5")

# What a network and a busy server do. "lost" is stored, and nobody hears of it.
TROUBLE = [
    "status:503 PUT p=0.05 seed=1",
    "status:503 GET p=0.05 seed=2",
    "close PUT p=0.05 seed=3",
    "close GET p=0.05 seed=4",
    "lost PUT p=0.05 seed=5",
]


@pytest.fixture(params=["directory", "ceph"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Stores with conditional writes."""
    return requested_place(request, tmp_path)


@pytest.fixture
def faults(ceph_with_faults: Faults) -> Iterator[Faults]:
    yield from _without_rules(ceph_with_faults)


@pytest.fixture
def faults_of_swift(swift_with_faults: Faults) -> Iterator[Faults]:
    yield from _without_rules(swift_with_faults)


def _without_rules(faults: Faults) -> Iterator[Faults]:
    faults.set()
    yield faults
    faults.set()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_what_each_writer_wrote_last_is_there(place: Place, tmp_path: Path, rounds: int) -> None:
    """SEMANTICS W69."""
    place.make_dataset({"v": (VALUES, CHUNKS)})
    _write_at_the_same_time(place, tmp_path, rounds)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_what_each_writer_wrote_last_is_there_in_shards_too(
    place: Place, tmp_path: Path, rounds: int
) -> None:
    """SEMANTICS W69."""
    _make_shards(place)
    _write_at_the_same_time(place, tmp_path, rounds)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_requests_that_fail_on_the_way_lose_nothing_of_shards(
    faults: Faults, tmp_path: Path, rounds: int
) -> None:
    """SEMANTICS W69, W70."""
    place = bucket_of(faults.server)
    _make_shards(place)
    with _trouble(faults):
        _write_at_the_same_time(place, tmp_path, rounds)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_requests_that_fail_on_the_way_lose_nothing(
    faults: Faults, tmp_path: Path, rounds: int
) -> None:
    """SEMANTICS W69, W70."""
    place = bucket_of(faults.server)
    place.make_dataset({"v": (VALUES, CHUNKS)})
    with _trouble(faults):
        _write_at_the_same_time(place, tmp_path, rounds)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", ROUNDS_BY_LEASE)
def test_without_conditional_writes_they_take_turns(
    swift: S3Server, tmp_path: Path, rounds: int
) -> None:
    """SEMANTICS W69, W19."""
    place = bucket_of(swift)
    place.make_dataset({"v": (VALUES, CHUNKS)})
    _write_by_turns(place, tmp_path, rounds)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rounds", ROUNDS_BY_LEASE)
def test_requests_that_fail_on_the_way_spoil_no_turn(
    faults_of_swift: Faults, tmp_path: Path, rounds: int
) -> None:
    """SEMANTICS W69, W19."""
    place = bucket_of(faults_of_swift.server)
    place.make_dataset({"v": (VALUES, CHUNKS)})
    with _trouble(faults_of_swift):
        _write_by_turns(place, tmp_path, rounds)


def test_the_other_mount_takes_over_from_one_that_was_killed(
    swift: S3Server, tmp_path: Path
) -> None:
    """SEMANTICS W69, W44. It sees that the process has ended, and does not wait for the term."""
    place = bucket_of(swift)
    place.make_dataset({"v": (VALUES, CHUNKS)})
    spool, mountpoint = tmp_path / "spool", tmp_path / "mnt"
    command = mounting_of(place.url, "--spool-dir", str(spool))
    with settled(place.url, tmp_path / "spool of the other") as other:
        with served(command, mountpoint=mountpoint, exit_codes=None) as killed:
            first, second = _writers([killed, other])[:2]
            with working_until_they_fail([first]):
                first.confirmed_something.wait(PATIENCE_S)
                assert _leases(killed) == 1
                killed.process.send_signal(signal.SIGKILL)
                killed.process.wait()
            assert first.error is not None
            assert first.error.errno in DEAD
            take_turns([second], 1)
        assert _leases(other) == 1
        assert second.refused == 0
        values = place.values("v")
        first.check(values)
        second.check(values)
    assert place.findings() == []
    assert files_in(spool) == []


class Refreshing(Writer):
    """Refreshes the mount, and replaces the attributes of the variable by `objects/`."""

    def __init__(self, mount: Path) -> None:
        super().__init__()
        self._refresh = mount / ".nczfs/refresh"
        self._document = mount / "objects" / DATASET / "v/.zattrs"
        self._attributes = json.loads(self._document.read_text())

    def turn(self) -> None:
        if self.turns % 3 == 0:
            changed = self._attributes | {"turn": self.turns}
            self._document.write_text(json.dumps(changed))
        else:
            self._refresh.write_text(["", f"/datasets/{DATASET}/v"][self.turns % 2])


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", [30, pytest.param(4000, marks=pytest.mark.long)])
def test_what_is_refreshed_and_declared_anew_meanwhile_loses_nothing(
    tmp_path: Path, rounds: int
) -> None:
    """SEMANTICS W1, W69."""
    place = directory_at(tmp_path / "store")
    place.make_dataset({"v": (VALUES, CHUNKS)})
    with settled(place.url, tmp_path / "spool") as mount:
        writers = _writers([mount, mount])
        take_turns([*writers, Refreshing(mount.path)], rounds)
        values = place.values("v")
        for writer in writers:
            writer.check(values)
        document = json.loads(place.objects(DATASET)["v/.zattrs"])
        assert document["turn"] == (rounds - 1) // 3 * 3
    assert place.findings() == []


def _make_shards(place: Place) -> None:
    """Make the dataset with its chunks in shards of nine."""
    numbers = {"name": "bytes", "configuration": {"endian": "little"}}
    zstd = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
    inside = {
        "chunk_shape": [side // 3 for side in SHARDS],
        "codecs": [numbers, zstd],
        "index_codecs": [numbers, {"name": "crc32c"}],
    }
    array = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": VALUES.shape,
        "data_type": "float64",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": SHARDS}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": "NaN",
        "codecs": [{"name": "sharding_indexed", "configuration": inside}],
    }
    store = open_store(place.url)
    put_json(store, f"{DATASET}/zarr.json", {"zarr_format": 3, "node_type": "group"})
    put_json(store, f"{DATASET}/v/zarr.json", array)
    store.close()
    with nczfs.open(place.url_of(DATASET), "r+") as root:
        root.variables["v"][...] = VALUES


@contextmanager
def _trouble(faults: Faults) -> Iterator[None]:
    """All kinds of it, each of which is met at least once."""
    faults.set(*TROUBLE)
    yield
    met = faults.log()
    faults.set()
    for rule in TROUBLE:
        assert any(rule in line for line in met), rule


def _write_at_the_same_time(place: Place, tmp_path: Path, rounds: int) -> None:
    with _two_mounts(place, tmp_path) as mounts:
        writers = _writers(mounts)
        take_turns(writers, rounds)
        assert sum(gauge(mount, "nczfs_write_conflicts_total") for mount in mounts) > 0
        # Before the mounts end: what close confirmed is in the store already.
        values = place.values("v")
        for writer in writers:
            writer.check(values)
    assert place.findings() == []


def _write_by_turns(place: Place, tmp_path: Path, rounds: int) -> None:
    """In a round each writer opens, writes and closes; the lease goes over once in each."""
    with _two_mounts(place, tmp_path, *IMPATIENT, expect="EAGAIN|ETIMEDOUT") as mounts:
        writers = _writers(mounts)
        for number in range(1, rounds + 1):
            take_turns(writers, number)
            assert sum(map(_leases, mounts)) == 1
            values = place.values("v")
            for writer in writers:
                writer.check(values)
        # Who had to wait in the second round waited for longer than he wanted to.
        assert sum(writer.refused for writer in writers) > 0
        for mount in mounts:
            assert gauge(mount, "nczfs_write_conflicts_total") == 0
    assert place.findings() == []
    assert place.leases(DATASET) == []


@contextmanager
def _two_mounts(
    place: Place, tmp_path: Path, *options: str, expect: str | None = None
) -> Iterator[list[Served]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                settled(place.url, tmp_path / f"spool{number}", *options, expect=expect)
            )
            for number in range(2)
        ]


def _writers(mounts: Sequence[Served]) -> list[ElementWriter]:
    return [
        ElementWriter(
            mounts[number % 2].path / "datasets" / DATASET / "v/values.raw",
            VALUES,
            number,
            number=number,
            count=WRITERS,
            block=BLOCK,
            patience_s=PATIENCE_S,
        )
        for number in range(WRITERS)
    ]


def _leases(mount: Served) -> int:
    return len(status(mount)["leases"])
