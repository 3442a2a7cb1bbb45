"""Reads that compute for long do not hold up those of values."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing
from pyfuse3 import FUSEError

import nczfs
from nczfs.errors import NoSuchNode
from nczfs.fuse.operations import Operations
from nczfs.fuse.workers import Workers
from nczfs.vfs.tree import mount_tree
from tests.support.copies import new_url
from tests.support.trees import find

DEADLINE_S = 60.0
OPENED = 64
"""As many as there are threads for reads of values."""


def test_values_are_read_while_many_previews_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()

    def waiting(*_: object) -> bytes:
        assert gate.wait(DEADLINE_S)
        raise NoSuchNode("gone")

    monkeypatch.setattr("nczfs.vfs.datasets.previewfile.variable_picture", waiting)
    url = new_url()
    with nczfs.open(f"{url}/d.zarr", "w") as root:
        root.create_variable("v", (4,), data=np.arange(4.0))
    fs = mount_tree(url)
    operations = Operations(fs, Workers(DEADLINE_S, DEADLINE_S), 0.0, lambda: None)
    caller: Any = SimpleNamespace(uid=os.getuid())

    async def opened(name: str) -> int:
        ino = find(fs, f"datasets/d.zarr/v/{name}").ino
        return (await operations.open(ino, os.O_RDONLY, caller)).fh

    async def look(handle: int) -> None:
        with pytest.raises(FUSEError):
            await operations.read(handle, 0, 4096)

    async def read_values() -> bytes:
        values = await opened("values.raw")
        async with trio.open_nursery() as nursery:
            for _ in range(OPENED):
                nursery.start_soon(look, await opened("preview.png"))
            await trio.testing.wait_all_tasks_blocked()
            try:
                with trio.fail_after(DEADLINE_S / 2):
                    return bytes(await operations.read(values, 0, 32))
            finally:
                gate.set()

    try:
        assert trio.run(read_values) == np.arange(4.0).tobytes()
    finally:
        fs.close()
