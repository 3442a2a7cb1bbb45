"""Real mounts of stores that forbid everything: from now on, or from the start."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import zarr

from tests.support.mounts import mounted, nczfs
from tests.support.scripted import Asked, Reply, serving


def test_a_store_that_closes_while_it_is_mounted_is_denied_access(tmp_path: Path) -> None:
    """SEMANTICS A2, A3."""
    array = zarr.open_array(tmp_path / "v", mode="w", zarr_format=2, shape=(4,), dtype="i4")
    array[:] = 1
    is_open = [True]

    def answer(asked: Asked) -> Reply:
        file = tmp_path / asked.path.strip("/")
        if not is_open[0]:
            return Reply(403)
        if not file.is_file():
            return Reply(404)
        return Reply(200, file.read_bytes(), {"ETag": f'"{file.stat().st_mtime_ns}"'})

    with serving(answer) as server, mounted(f"{server.endpoint_url}/v", expect="403") as mount:
        values = mount / "datasets" / "v" / "values.raw"
        assert values.stat().st_size == 16
        is_open[0] = False
        for _ in range(2):
            with pytest.raises(PermissionError) as caught:
                values.read_bytes()
            assert caught.value.errno == errno.EACCES
        is_open[0] = True
        assert values.read_bytes() == bytes([1, 0, 0, 0] * 4)


def test_a_store_that_forbids_all_is_not_mounted(tmp_path: Path) -> None:
    with serving(lambda asked: Reply(403)) as server:
        done = nczfs("mount", "--foreground", server.endpoint_url, tmp_path)
        assert done.returncode == 1
        assert "access denied (403)" in done.stderr
