"""Properties with many threads: one writer wins, no update is lost, no part is visible."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import pytest

from nczfs.errors import Conflict, ObjectExists
from nczfs.testing.zmap.base import WritableStoreTests
from nczfs.testing.zmap.samples import COPY, K, searched
from nczfs.zmap.base import ABSENT, Blob, ZMap
from nczfs.zmap.keys import Key, parse_key

_T = TypeVar("_T")

_THREADS = 8


class RacingTests(WritableStoreTests):
    """Writers, and readers, at once."""

    def test_one_of_many_creators_wins(self, zmap: ZMap) -> None:
        if not zmap.features.conditional_writes:
            pytest.skip("the store declares that conditions do not hold against races")
        for turn in range(10):
            key = parse_key(f"races/{turn}")
            won = _race(partial(_create, zmap, key))
            assert won.count(True) == 1
            assert self.peek(zmap, key) == b"%d" % won.index(True)

    def test_one_of_many_who_copy_to_a_new_key_wins(self, zmap: ZMap) -> None:
        if not zmap.features.conditional_writes:
            pytest.skip("the store declares that conditions do not hold against races")
        for number in range(_THREADS):
            zmap.write(parse_key(f"sources/{number}"), b"%d" % number)
        won = _race(partial(_create_copy, zmap, COPY))
        assert won.count(True) == 1
        assert self.peek(zmap, COPY) == b"%d" % won.index(True)

    def test_no_update_is_lost_among_racing_writers(self, zmap: ZMap) -> None:
        if not zmap.features.conditional_writes:
            pytest.skip("the store declares that conditions do not hold against races")
        zmap.write(K, b"0")

        def increment(_: int) -> None:
            for _ in range(10):
                _increment(zmap, K)

        _race(increment)
        assert self.peek(zmap, K) == b"%d" % (10 * _THREADS)

    def test_readers_see_an_old_or_a_new_object_and_nothing_else(self, zmap: ZMap) -> None:
        if not zmap.features.atomic_replace:
            pytest.skip("the store declares that readers may see parts")
        contents = [bytes([turn]) * (4096 * (1 + turn % 3)) for turn in range(40)]
        zmap.write(K, contents[0])
        done = threading.Event()

        def read_until_done(_: int) -> list[Blob]:
            seen = []
            while not done.is_set():
                seen.append(zmap.read(K))
            return seen

        with ThreadPoolExecutor(2) as pool:
            readers = [pool.submit(read_until_done, number) for number in range(2)]
            try:
                for content in contents:
                    zmap.write(K, content)
            finally:
                done.set()
            blobs = [blob for reader in readers for blob in reader.result()]
        assert {bytes(blob.data) for blob in blobs} <= set(contents)
        by_version = {(blob.version, bytes(blob.data)) for blob in blobs}
        assert len(by_version) == len({version for version, _ in by_version})

    def test_writers_of_neighbours_do_not_disturb_each_other(self, zmap: ZMap) -> None:
        def write_and_delete(number: int) -> None:
            for turn in range(10):
                key = parse_key(f"shared/deep/{number}")
                zmap.write(key, b"%d" % turn)
                assert bytes(zmap.read(key).data) == b"%d" % turn
                zmap.delete(key)

        _race(write_and_delete)
        assert searched(zmap, "") == {}


def _race(act: Callable[[int], _T]) -> list[_T]:
    """Call `act` with 0, 1, ... in as many threads, all started at once."""
    together = threading.Barrier(_THREADS)

    def start(number: int) -> _T:
        together.wait(30)
        return act(number)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(start, range(_THREADS)))


def _create(zmap: ZMap, key: Key, number: int) -> bool:
    try:
        zmap.write(key, b"%d" % number, replaces=ABSENT)
    except (ObjectExists, Conflict):
        return False
    return True


def _create_copy(zmap: ZMap, key: Key, number: int) -> bool:
    try:
        zmap.copy(zmap.stat(parse_key(f"sources/{number}")), key, replaces=ABSENT)
    except (ObjectExists, Conflict):
        return False
    return True


def _increment(zmap: ZMap, key: Key) -> None:
    while True:
        blob = zmap.read(key)
        with contextlib.suppress(Conflict):
            zmap.write(key, b"%d" % (int(bytes(blob.data)) + 1), replaces=blob.version)
            return
