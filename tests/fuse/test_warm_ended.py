"""What ends ``nczfs warm`` in the middle: signals, a kill of it or of the mount, unmounting."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr

from nczfs.cli.activity import counted
from tests.support.forked import Forked
from tests.support.mounts import NCZFS, Served, served
from tests.support.sample import upload
from tests.support.servers import Faults

COUNT = 400
FIRST = 8
END_S = 60.0


@pytest.fixture
def mount(swift_with_faults: Faults, tmp_path: Path) -> Iterator[Served]:
    """A variable in a bucket whose first chunks come at once, and the others each after 2 s."""
    array = zarr.create_array(
        tmp_path / "data.zarr", shape=(COUNT, 1000), chunks=(1, 1000), dtype="f4", zarr_format=2
    )
    array[...] = np.arange(COUNT, dtype="f4")[:, None]
    server = swift_with_faults.server
    bucket = server.new_bucket()
    client = server.client()
    upload(client, bucket, "data.zarr", tmp_path / "data.zarr")
    client.close()
    url = server.url(bucket, "data.zarr")
    command = [*NCZFS, "mount", "--foreground", "--cache-dir", str(tmp_path), url]
    with served(command, exit_codes=None) as found:
        swift_with_faults.set(f"delay:2000 GET path=data.zarr/[0-9] skip={FIRST}")
        yield found


class Warm:
    """``nczfs warm`` under way."""

    def __init__(self, mount: Served, directory: Path) -> None:
        self.told = directory / "stderr"
        words = ["warm", str(mount.path / "datasets/data.zarr")]
        with self.told.open("w") as told:
            self.process = Forked(words, told, told)
        until(lambda: decoded(mount) >= FIRST)

    def ended(self) -> tuple[int, str]:
        """The status, and what it told on stderr."""
        return self.process.wait(END_S), self.told.read_text()


def until(holds: object) -> None:
    assert callable(holds)
    end = time.monotonic() + END_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def decoded(mount: Served) -> float:
    found = counted((mount.path / ".nczfs/metrics").read_text())
    return found.get(("nczfs_chunks_decoded", ""), 0.0)


def is_over(mount: Served) -> bool:
    return bool(json.loads((mount.path / ".nczfs/status.json").read_text())["warming"] == [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_loading_in_the_mount(
    mount: Served, tmp_path: Path, number: signal.Signals
) -> None:
    """SEMANTICS N9."""
    warm = Warm(mount, tmp_path)
    assert not is_over(mount)
    os.kill(warm.process.pid, number)
    status, _ = warm.ended()
    assert status == (-number if number is signal.SIGKILL else 128 + number)
    until(lambda: is_over(mount))
    assert FIRST <= decoded(mount) < COUNT


def test_a_killed_mount_ends_the_command_and_leaves_nothing(mount: Served, tmp_path: Path) -> None:
    """SEMANTICS N9."""
    warm = Warm(mount, tmp_path)
    mount.process.kill()
    status, told = warm.ended()
    assert status == 1
    assert told
    assert {path.name for path in tmp_path.iterdir()} == {"data.zarr", "stderr"}


def test_the_end_of_the_mount_ends_the_loading(mount: Served, tmp_path: Path) -> None:
    """SEMANTICS N9."""
    warm = Warm(mount, tmp_path)
    mount.process.send_signal(signal.SIGTERM)
    status, told = warm.ended()
    assert status == 1
    assert told
    assert mount.process.wait(END_S) == 0
