"""Objects that are read in order, in ranges of one version."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from nczfs.errors import Conflict, Unsupported
from nczfs.zmap.base import Blob, Features, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.objectfile import ObjectReader

KEY = Key("a.ncs")
DATA = random.Random(0).randbytes(1000)


class Store(MemoryZMap):
    """Notes which ranges are read."""

    has_ranges = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int | None]] = []
        self.write(KEY, DATA)

    @property
    def features(self) -> Features:
        return replace(super().features, ranges=self.has_ranges)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self.asked.append((start, stop))
        return super().read(key, start, stop, version=version)


def pieces(file: ObjectReader, size: int) -> Iterator[bytes]:
    while data := file.read(size):
        assert len(data) <= size
        yield data


@pytest.mark.parametrize("size", [1, 7, 300, 5000])
def test_the_bytes_come_in_order_and_each_range_is_asked_for_once(size: int) -> None:
    store = Store()
    with closing(ObjectReader(store, KEY, 300)) as file:
        assert b"".join(pieces(file, size)) == DATA
    assert sorted(store.asked) == [(0, 300), (300, 600), (600, 900), (900, 1000)]


def test_it_can_be_read_again() -> None:
    store = Store()
    with closing(ObjectReader(store, KEY, 300)) as file:
        assert file.read(300) + file.read(10) == DATA[:310]  # others are under way
        for _ in range(2):
            file.seek(0)
            assert b"".join(pieces(file, 70)) == DATA
    assert store.asked.count((0, 300)) == 3


def test_ranges_of_two_versions_are_never_mixed() -> None:
    store = Store()
    with closing(ObjectReader(store, KEY, 300)) as file:
        assert file.size == 1000
        store.write(KEY, DATA[::-1])
        with pytest.raises(Conflict):
            file.read(1)


def test_what_has_no_ranges_is_not_read_again_and_again() -> None:
    store = Store()
    store.has_ranges = False
    with (
        closing(ObjectReader(store, KEY, 300)) as file,
        pytest.raises(Unsupported, match="does not answer ranges"),
    ):
        file.read(1)
    assert store.asked == [(0, 300)]
    with closing(ObjectReader(store, KEY, 1000)) as file:
        assert b"".join(pieces(file, 300)) == DATA
