"""Two mounts write different elements of the same chunks, and none of them loses anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from tests.support.confirmed import ElementWriter, take_turns
from tests.support.places import DATASET, Place, bucket_of, directory_at
from tests.support.servers import Faults
from tests.support.settled import gauge, settled

VALUES = np.zeros((30, 40))
CHUNKS = (12, 16)
WRITERS = 4
BLOCK = 3  # elements: every chunk has some of each writer
ROUNDS = [25, pytest.param(400, marks=pytest.mark.long)]

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
    """Stores with conditional writes; one that has none needs a lease of the writers' own."""
    if request.param == "directory":
        return directory_at(tmp_path / "store")
    return bucket_of(request.getfixturevalue(request.param))


@pytest.fixture
def faults(ceph_with_faults: Faults) -> Iterator[Faults]:
    ceph_with_faults.set()
    yield ceph_with_faults
    ceph_with_faults.set()


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_what_each_writer_wrote_last_is_there(place: Place, tmp_path: Path, rounds: int) -> None:
    """SEMANTICS W2."""
    place.make_dataset({"v": (VALUES, CHUNKS)})
    _write_from_two_mounts(place, tmp_path, rounds)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_requests_that_fail_on_the_way_lose_nothing(
    faults: Faults, tmp_path: Path, rounds: int
) -> None:
    """SEMANTICS W2."""
    place = bucket_of(faults.server)
    place.make_dataset({"v": (VALUES, CHUNKS)})
    faults.set(*TROUBLE)
    _write_from_two_mounts(place, tmp_path, rounds)
    met = faults.log()
    faults.set()
    for rule in TROUBLE:
        assert any(rule in line for line in met), rule


def _write_from_two_mounts(place: Place, tmp_path: Path, rounds: int) -> None:
    with ExitStack() as stack:
        mounts = [
            stack.enter_context(settled(place.url, tmp_path / f"spool{number}"))
            for number in range(2)
        ]
        writers = [
            ElementWriter(
                mounts[number % 2].path / "datasets" / DATASET / "v/values.raw",
                VALUES,
                number,
                number=number,
                count=WRITERS,
                block=BLOCK,
            )
            for number in range(WRITERS)
        ]
        take_turns(writers, rounds)
        assert sum(gauge(mount, "nczfs_write_conflicts_total") for mount in mounts) > 0
        # Before the mounts end: what close confirmed is in the store already.
        values = place.values("v")
        for writer in writers:
            writer.check(values)
    assert place.findings() == []
