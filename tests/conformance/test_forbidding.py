"""Stores that answer 403: to what is absent, since we may not list; or, from now on, to all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

import nczfs
from nczfs.errors import AccessDenied
from nczfs.library.variable import Variable
from nczfs.zmap import forbidden
from tests.conftest import ExpectedWarnings
from tests.support.scripted import Asked, Reply, serving
from tests.support.servers import Faults

CLOSED = "status:403 code=AccessDenied"
FILL = -7


class Place:
    """A web server that says 403 to what it does not have; closed, to everything."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.is_closed = False
        self.url = ""

    def answer(self, asked: Asked) -> Reply:
        file = self.directory / asked.path.strip("/")
        if self.is_closed or not file.is_file():
            return Reply(403)
        return Reply(200, file.read_bytes(), {"ETag": f'"{file.stat().st_mtime_ns}"'})


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    write_dataset(tmp_path / "ds.zarr")
    place = Place(tmp_path)
    with serving(place.answer) as server:
        place.url = f"{server.endpoint_url}/ds.zarr"
        yield place


def write_dataset(path: Path) -> None:
    """Two variables of five chunks, of which the last was never written."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    for name in ("v", "w"):
        array = group.create_array(name, shape=(50,), chunks=(10,), dtype="i4", fill_value=FILL)
        array[:40] = np.arange(40)


def variable(opened: nczfs.Group, name: str) -> Variable:
    found = opened[name]
    assert isinstance(found, Variable)
    return found


def test_a_place_that_hides_what_is_absent_is_read_like_others(
    place: Place, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("403 counts as")
    with nczfs.open(place.url) as opened:
        assert list(variable(opened, "v")[38:42]) == [38, 39, FILL, FILL]


@pytest.mark.parametrize("consolidated", [False, True])
def test_a_place_that_closes_is_denied_access_and_never_fill(
    place: Place,
    expected_warnings: ExpectedWarnings,
    monkeypatch: pytest.MonkeyPatch,
    consolidated: bool,
) -> None:
    expected_warnings.add("403 counts as")
    monkeypatch.setattr(forbidden, "AGAIN_S", 0.0)
    if consolidated:
        zarr.consolidate_metadata(str(place.directory / "ds.zarr"), zarr_format=2)
    with nczfs.open(place.url) as opened:
        seen = variable(opened, "v")
        assert seen[0] == 0
        place.is_closed = True
        with pytest.raises(AccessDenied, match=r"v/2: access denied \(403\)"):
            seen[20]
        with pytest.raises(AccessDenied, match="403"):
            variable(opened, "w")[0]


def test_a_place_that_forbids_all_is_no_place_without_a_dataset(place: Place) -> None:
    place.is_closed = True
    with pytest.raises(AccessDenied, match=r"denied \(403\).*--forbidden-is-absent yes"):
        nczfs.open(place.url)


@pytest.fixture
def bucket(ceph_with_faults: Faults) -> Iterator[str]:
    url = ceph_with_faults.server.url(ceph_with_faults.server.new_bucket(), "ds.zarr")
    with nczfs.open(url, "w", format="zarr2") as opened:
        opened.create_dimension("x", 50)
        for name in ("v", "w"):
            made = opened.create_variable(name, ("x",), "i4", chunks=(10,), fillvalue=FILL)
            made[:40] = np.arange(40)
    yield url
    ceph_with_faults.set()


def test_a_bucket_that_closes_is_denied_access_and_never_fill(
    ceph_with_faults: Faults, bucket: str
) -> None:
    with nczfs.open(bucket) as opened:
        seen = variable(opened, "v")
        assert seen[0] == 0
        ceph_with_faults.set(CLOSED)
        with pytest.raises(AccessDenied, match="403 AccessDenied"):
            seen[20]
        with pytest.raises(AccessDenied, match="403 AccessDenied"):
            variable(opened, "w")[0]


def test_what_is_written_to_a_bucket_that_cannot_be_read_is_denied_access_and_kept(
    ceph_with_faults: Faults, bucket: str
) -> None:
    with nczfs.open(bucket, "r+") as opened:
        written = variable(opened, "v")
        assert written[0] == 0
        ceph_with_faults.set(f"{CLOSED} GET", f"{CLOSED} HEAD")

        with pytest.raises(AccessDenied, match="403 AccessDenied"):
            write_and_sync(opened, written)
        ceph_with_faults.set()
        opened.sync()
    with nczfs.open(bucket) as opened:
        assert list(variable(opened, "v")[24:27]) == [24, 250, 26]


def write_and_sync(opened: nczfs.OpenDataset, written: Variable) -> None:
    written[25] = 250
    opened.sync()
