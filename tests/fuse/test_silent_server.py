"""A server that takes connections and never answers: commands say what they wait for."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nczfs.vfs.unsaved import ANSWER_S
from tests.support.mounts import nczfs
from tests.support.ports import free_port, wait_for
from tests.support.pouring import pouring
from tests.support.sample import write_sample
from tests.support.waiting import until

NOT_YET = "the server has not answered yet; a request is given up after 4 s (--request-timeout)"


@contextmanager
def never_answering() -> Iterator[str]:
    """The URL of a server that reads requests, and no more."""
    over = threading.Event()

    def wait(_line: str) -> Iterator[bytes]:
        over.wait()
        yield from ()

    try:
        with pouring(wait) as server:
            yield server.url
            over.set()
    finally:
        over.set()


@pytest.mark.parametrize("command", ["ls", "du", "mount"])
def test_a_command_says_that_the_server_has_not_answered_yet(command: str, tmp_path: Path) -> None:
    place = [tmp_path] if command == "mount" else []
    with never_answering() as url:
        done = nczfs(command, "--request-timeout", "4s", f"{url}/a.zarr", *place, no_proxy="*")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == f"nczfs: {url}/a.zarr: {NOT_YET}"
    assert "no answer within 4 s" in lines[-1]
    assert done.stderr.count("has not answered yet") == 1


def test_status_says_that_the_store_does_not_answer(tmp_path: Path) -> None:
    write_sample(tmp_path / "sample.zarr")
    port, mountpoint = free_port(), tmp_path / "mnt"
    mountpoint.mkdir()
    serving = ["-m", "http.server", "--bind", "127.0.0.1", "--directory", str(tmp_path), str(port)]
    with subprocess.Popen(
        [sys.executable, *serving], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            wait_for(port, server)
            url = f"http://127.0.0.1:{port}/sample.zarr"
            made = nczfs("mount", url, mountpoint, "--request-timeout", "30s", no_proxy="*")
            assert made.returncode == 0, made.stderr
            server.send_signal(signal.SIGSTOP)
            with subprocess.Popen(
                ["ls", "-R", mountpoint / "objects"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ) as reader:
                told = r"\nstore: has not answered for \d+ s\n"
                until(lambda: _silent_s(mountpoint) >= ANSWER_S)
                assert re.search(told, nczfs("status", mountpoint).stdout)
                assert re.search(rf"{url} \(has not answered for \d+ s\)", nczfs("status").stdout)
                reader.kill()
        finally:
            server.kill()
            nczfs("umount", "--lazy", mountpoint)


def _silent_s(mountpoint: Path) -> float:
    found: float = json.loads((mountpoint / ".nczfs/status.json").read_text())["silent_s"]
    return found
