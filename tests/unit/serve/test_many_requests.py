"""Many clients, of which some are slow, and many requests: the same answers, and flat memory."""

from __future__ import annotations

import http.client
import itertools
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import nczfs
from tests.support.served import DEADLINE_S, resident, serving

CLIENTS = 64
SLOW = 16
MIB = 1 << 20
TARGETS = {
    "/a.zarr/v/values.raw": 200,
    "/cdmremote/a.zarr?req=header": 200,
    "/cdmremote/a.zarr?req=data&var=v(0:99:3,5)": 200,
    "/cdmremote/a.zarr?req=data&var=v(0:9)&deflate=1": 400,
    "/cdmremote/a.zarr?req=data&var=v(0:9,:)&deflate=1": 200,
    "/a.zarr/a.cdl": 200,
    "/a.zarr/": 200,
    "/a.zarr/none": 404,
    "/cdmremote/a.zarr?req=data&var=%5B": 400,
}


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_memory_is_flat_over_many_requests(tmp_path: Path) -> None:
    """SEMANTICS V6."""
    requests = int(os.environ.get("NCZFS_REQUESTS", "100000"))
    with nczfs.open(str(tmp_path / "a.zarr"), "w", format="zarr2") as dataset:
        dataset.create_variable("v", (100, 64), "f4", np.ones((100, 64), "f4"), chunks=(10, 64))
        dataset.create_variable("large", (64, MIB), "f4", chunks=(1, MIB))
    numbers = itertools.count(1)
    sizes: list[int] = []
    wrong: list[tuple[str, int]] = []
    done = threading.Event()

    def ask(address: str, pid: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
        targets = itertools.cycle(TARGETS.items())
        while (number := next(numbers)) <= requests:
            target, expected = next(targets)
            connection.request("GET", target)
            answer = connection.getresponse()
            answer.read()
            if answer.status != expected:
                wrong.append((target, answer.status))
            if number % (requests // 20) == 0:
                sizes.append(resident(pid))
        connection.close()

    def read_slowly(address: str) -> None:
        while not done.is_set():
            connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
            connection.request("GET", "/cdmremote/a.zarr?req=data&var=large(0:15,:)")
            answer = connection.getresponse()
            while not done.is_set() and answer.read(MIB):
                time.sleep(0.1)
            connection.close()

    # The end of a slow answer, which nobody waits for, and the next one count at the same time.
    options = "--memory-limit", "64MiB", "--max-clients", str(2 * CLIENTS)
    with serving(tmp_path, *options, "--log-level", "warning") as (process, address, _):
        slow = [threading.Thread(target=read_slowly, args=(address,)) for _ in range(SLOW)]
        fast = [
            threading.Thread(target=ask, args=(address, process.pid)) for _ in range(CLIENTS - SLOW)
        ]
        for thread in (*slow, *fast):
            thread.start()
        for thread in fast:
            thread.join()
        done.set()
        for thread in slow:
            thread.join(DEADLINE_S)
    print([size // MIB for size in sizes])
    assert wrong == []
    assert max(sizes) < 400 * MIB
    assert max(sizes[10:]) - max(sizes[:10]) < 32 * MIB
