"""Ports of loopback on which tests start servers."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest

START_TIMEOUT_S = 120.0


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path | None = None) -> None:
    """Return when a process listens on a port; fail the test, with its log, when it does not."""
    end = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    said = "" if log is None else f": {log.read_text('utf-8', 'replace')}"
    pytest.fail(f"nothing listens on port {port}; {process.args!r} does not start{said}")
