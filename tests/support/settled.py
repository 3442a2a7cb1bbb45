"""Mounts that must leave nothing behind: no gauge, no file in the spool, no word in the log."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.looking import store_served
from tests.support.mounts import Served

GAUGES = ("dirty_bytes", "unsaved_chunks", "unsaved_files", "spool_used_bytes")
TIMEOUT_S = 120.0


@contextmanager
def settled(
    url: str | Path, spool: Path, *options: str, expect: str | None = None
) -> Iterator[Served]:
    """A mount of which nothing may be left at the end: all that was written is in the store.

    Parameters
    ----------
    spool : the directory of its spool.
    options : further words of the command line.
    expect : a pattern of warnings that the log may hold; any other fails the test.
    """
    with store_served(url, "--spool-dir", str(spool), *options, expect=expect) as mount:
        yield mount
        _wait_until_let_go(mount)
        assert waiting(mount) == {}
        assert gauge(mount, "nczfs_dirty_bytes") == 0
    assert not list(spool.glob("*"))


def status(mount: Served) -> dict[str, Any]:
    """What the mount says of itself; whoever asks proves that it serves."""
    found: dict[str, Any] = json.loads((mount.path / ".nczfs/status.json").read_text())
    assert found["pid"] == mount.process.pid
    return found


def _wait_until_let_go(mount: Served) -> None:
    """What was closed is let go by the kernel a little later; nothing is left to store by then."""
    end = time.monotonic() + TIMEOUT_S
    while (found := status(mount))["open_files"] > 1:  # the status itself
        assert time.monotonic() < end, found
        time.sleep(0.02)


def waiting(mount: Served) -> dict[str, int]:
    """The gauges of what is not stored that are not zero."""
    found = status(mount)
    return {name: found[name] for name in GAUGES if found[name]}


def wait_until(mount: Served, **gauges: int) -> None:
    """Return when the mount says that its gauges are so; nobody asks it to store anything."""
    end = time.monotonic() + TIMEOUT_S
    while any(status(mount)[name] != value for name, value in gauges.items()):
        assert time.monotonic() < end, status(mount)
        time.sleep(0.05)


def gauge(mount: Served, name: str) -> float:
    """A metric of the mount, as its metrics file has it."""
    text = (mount.path / ".nczfs/metrics").read_text()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    assert found is not None, f"no metric is called {name}"
    return float(found[1])


def files_in(spool: Path) -> list[str]:
    """The files of a spool that hold data, besides the logs of mounts."""
    return sorted(path.name for path in spool.glob("*/[0-9]*"))
