"""Requests for netCDF files that take longer to make than a request may take."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nczfs.vfs.effects import TimedRequest
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.views.netcdf.hdf5.templates import Templates
from tests.support.trees import find
from tests.support.waiting import until

LONG_S = 1000.0


def test_requests_wait_for_a_file_that_is_being_made_by_any_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEMANTICS A12."""
    (tmp_path / "d.zarr/v").mkdir(parents=True)
    (tmp_path / "d.zarr/.zgroup").write_text('{"zarr_format": 2}')
    array = {"zarr_format": 2, "shape": [2], "chunks": [2], "dtype": "<f8", "order": "C"}
    array |= {"fill_value": None, "compressor": None, "filters": None}
    (tmp_path / "d.zarr/v/.zarray").write_text(json.dumps(array))
    release = threading.Event()
    steps = Templates._go_on

    def step(self: Templates) -> None:
        steps(self)
        release.wait()

    monkeypatch.setattr(Templates, "_go_on", step)
    fs = mount_tree(str(tmp_path), None, VfsOptions())
    requests = [TimedRequest(), TimedRequest()]

    def size(request: TimedRequest) -> int:
        with request.under_way():
            return fs.getattr(find(fs, "datasets/d.zarr/d.nc").ino).size

    # The kernel locks a directory for each lookup in it.
    assert find(fs, "datasets/d.zarr/d.nc").valid_s == 0
    with ThreadPoolExecutor(2) as threads:
        sizes = [threads.submit(size, request) for request in requests]
        try:
            until(lambda: all(request.time_left_s(LONG_S) > 0 for request in requests))
        finally:
            release.set()
        assert sizes[0].result() == sizes[1].result()
    assert [request.time_left_s(LONG_S) for request in requests] == [0, 0]
    fs.close()
