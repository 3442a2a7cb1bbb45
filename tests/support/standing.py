"""Tests that come to no end by themselves: for the test that kills their run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from tests.support import runs
from tests.support.httpd import WebServer
from tests.support.mounts import mounted, nczfs
from tests.support.servers import Faults, S3Server

READY = "NCZFS_TEST_STANDING"  # the file that says that all stands


def test_mounts_and_a_web_server(nginx: WebServer, tmp_path: Path) -> None:
    """Mounts in the foreground, in the background and dead; a program in a session of its own."""
    (tmp_path / "store").mkdir()
    places = [tmp_path / name for name in ("background", "dead")]
    for place in places:
        place.mkdir()
        assert nczfs("mount", tmp_path / "store", place).returncode == 0
    subprocess.run(["fuser", "--kill", "-KILL", "-m", places[1]], check=False)
    tempfile.mkdtemp()
    with mounted(tmp_path / "store") as foreground:
        subprocess.run(["setsid", "--fork", "sleep", "1000"], check=True)
        stand([foreground, *places], nginx.url)


def test_buckets(ceph: S3Server, swift_with_faults: Faults) -> None:
    """Ceph, Swift, and a proxy before it."""
    stand([], ceph.endpoint_url, swift_with_faults.server.endpoint_url)


def stand(mounts: list[Path], *urls: str) -> None:
    """Say what stands, and wait for the end."""
    (runs.memory() / "file").touch()
    said = {
        "run": os.environ[runs.VARIABLE],
        "pid": os.getpid(),
        "files": [tempfile.gettempdir(), str(runs.memory())],
        "mounts": [str(mount) for mount in mounts],
        "urls": urls,
    }
    place = Path(os.environ[READY])
    place.with_suffix(".new").write_text(json.dumps(said))
    place.with_suffix(".new").rename(place)
    while True:
        signal.pause()
