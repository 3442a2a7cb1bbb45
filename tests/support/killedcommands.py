"""Commands that run in a mount, which is killed when its store fails."""

from __future__ import annotations

import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.looking import mounting_of
from tests.support.mounts import served
from tests.support.places import Place
from tests.support.servers import Faults
from tests.support.waiting import until

DECLARATION = '{"shape": [4], "dtype": "<i4", "dimensions": ["x"], "attributes": {"units": "m"}}'
"""An ``info.json``."""


def is_copied_before(
    fault: str, faults: Faults, place: Place, spool: Path, document: Path, name: str
) -> bool:
    """Copy a document in a mount that is killed at a fault. Returns whether there was none.

    Parameters
    ----------
    name : of the copy, below `datasets/`; its directory is made if it is missing.
    """
    command = ["cp", str(document)]
    return is_done_before(fault, faults, place, spool, command, name, is_in_new=True)


def is_done_before(
    fault: str,
    faults: Faults,
    place: Place,
    spool: Path,
    command: list[str],
    name: str,
    *,
    is_in_new: bool = False,
) -> bool:
    """Run a command in a mount that is killed at a fault. Returns whether there was none.

    Parameters
    ----------
    name : of its last argument, below `datasets/`.
    is_in_new : whether the directory of that is made first, if it is missing.
    """
    mounting = mounting_of(place.url, "--spool-dir", str(spool))
    with served(mounting, expect=".", exit_codes=None) as mount, ThreadPoolExecutor(1) as pool:
        file = mount.path / "datasets" / name
        if is_in_new:
            file.parent.mkdir(exist_ok=True)
        faults.set(fault)
        words = [*command, str(file)]
        running = pool.submit(subprocess.run, words, capture_output=True, check=False)
        try:
            until(lambda: running.done() or bool(faults.log()))
        finally:
            mount.process.send_signal(signal.SIGKILL)
            mount.process.wait()
            faults.wait_for_ended()
            faults.set()
        return running.result().returncode == 0
