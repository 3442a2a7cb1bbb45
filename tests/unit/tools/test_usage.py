"""Summing up what lies in a store: in parallel, and no longer than somebody wants it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from nczfs.errors import Unavailable
from nczfs.library.opening import open_zmap
from nczfs.tools.usage import THREADS, Usage, chunk_usages, node_usages, prefix_usages
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Wrapper

DEADLINE_S = 30


class Gated(Wrapper):
    """A store whose listings wait for a gate; it counts those that are under way."""

    def __init__(self, zmap: MemoryZMap) -> None:
        super().__init__(zmap)
        self.gate = threading.Event()
        self.begun = threading.Semaphore(0)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        self.begun.release()
        assert self.gate.wait(DEADLINE_S)
        return super().list(prefix)


class Endless(Wrapper):
    """A store that lists for ever."""

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return (Stat(Key(f"{prefix}/{n}"), 1, Version("v")) for n in itertools.count())


def store(count: int) -> tuple[MemoryZMap, list[Prefix]]:
    zmap = MemoryZMap()
    for number in range(count):
        zmap.write(parse_key(f"p{number}/a"), bytes(number))
        zmap.write(parse_key(f"p{number}/b/c"), b"12345")
    return zmap, [Prefix(f"p{number}") for number in range(count)]


def test_prefixes_are_listed_at_the_same_time_and_told_in_order() -> None:
    zmap, prefixes = store(50)
    gated = Gated(zmap)
    sums: list[Usage] = []
    work = threading.Thread(target=lambda: sums.extend(prefix_usages(gated, prefixes)))
    work.start()
    for _ in range(THREADS):
        assert gated.begun.acquire(timeout=DEADLINE_S)
    gated.gate.set()
    work.join(DEADLINE_S)
    assert sums == [Usage(2, number + 5) for number in range(50)]


def test_every_object_is_reported_once() -> None:
    zmap, prefixes = store(30)
    told: list[float] = []
    assert len(list(prefix_usages(zmap, prefixes, told.append))) == 30
    assert sum(told) == 60


def test_listings_end_when_nobody_wants_their_sums() -> None:
    zmap, prefixes = store(3)
    before = threading.active_count()
    sums = prefix_usages(Endless(zmap), prefixes, told := Interrupt())
    with pytest.raises(KeyboardInterrupt):
        next(sums)
    assert told.count > 0
    assert threading.active_count() == before


class Interrupt:
    """Ctrl-C as soon as something was listed."""

    count = 0.0

    def __call__(self, count: float) -> None:
        self.count += count
        if self.count:
            raise KeyboardInterrupt


def test_an_error_of_one_listing_is_the_error_of_all() -> None:
    zmap, prefixes = store(3)

    class Broken(Wrapper):
        def list(self, prefix: Prefix) -> Iterator[Stat]:
            if prefix == "p1":
                raise Unavailable("p1: no answer")
            return super().list(prefix)

    sums = prefix_usages(Broken(zmap), prefixes)
    assert next(sums) == Usage(2, 5)
    with pytest.raises(Unavailable, match="p1"):
        next(sums)


def test_chunks_are_told_from_documents_and_strays() -> None:
    zmap = MemoryZMap()
    with open_zmap(zmap, "w", format="zarr2", separator="/") as root:
        root.create_variable("v", (4, 4), "<i4", np.ones((4, 4), "i4"), chunks=(2, 2), codecs=[])
    zmap.write(parse_key("v/notes/0"), b"x" * 1000)
    with open_zmap(zmap) as root:
        variable = root.variables["v"]
        assert list(chunk_usages(root, [variable.description])) == [Usage(4, 64)]
        (v, top) = node_usages(root)
        assert v.usage.bytes > 1064
        assert top.usage.objects == v.usage.objects + 2  # .zgroup, .zattrs
        assert node_usages(variable) == [v]
