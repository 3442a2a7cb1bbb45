"""Files that are held until it is known where their bytes belong."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nczfs.engine.spool.space import Spool
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.staging import stage


def test_what_is_written_while_another_descriptor_is_closed_is_placed_by_its_own_close(
    tmp_path: Path,
) -> None:
    placed: list[bytes] = []
    is_read, go_on = threading.Event(), threading.Event()

    def place(file: HeldFile) -> bool:
        placed.append(file.read(0, 10))
        is_read.set()
        assert go_on.wait(120)
        return True

    spool = Spool(tmp_path)
    held = HeldFile("values.raw", stage(spool, "values.raw"), place)
    one, other = held.open(writing=True), held.open(writing=True)
    with ThreadPoolExecutor(1) as threads:
        try:
            one.write(0, b"old")
            closing = threads.submit(one.flush)
            assert is_read.wait(120)
            other.write(0, b"new")
        finally:
            go_on.set()
        closing.result()
    other.flush()
    other.flush()
    assert placed == [b"old", b"new"]
    for each in (one, other):
        each.close()
    held.let_go()
    spool.close()


def test_bytes_are_placed_once_if_they_are_closed_while_their_place_becomes_known(
    tmp_path: Path,
) -> None:
    placed: list[bytes] = []
    is_read, go_on = threading.Event(), threading.Event()

    def place(file: HeldFile) -> bool:
        placed.append(file.read(0, 10))
        is_read.set()
        assert go_on.wait(120)
        file.let_go()
        return True

    spool = Spool(tmp_path)
    held = HeldFile("values.raw", stage(spool, "values.raw"), place)
    one = held.open(writing=True)
    one.write(0, b"all")
    with ThreadPoolExecutor(2) as threads:
        try:
            closing = threads.submit(one.flush)
            assert is_read.wait(120)
            known = threads.submit(held.place)
            one.close()
        finally:
            go_on.set()
        closing.result(120)
        assert known.result(120)
    assert placed == [b"all"]
    spool.close()
