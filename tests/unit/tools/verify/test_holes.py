"""Chunks never written, and how much memory it takes to look at very many."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.model.hierarchy import Variable
from nczfs.testing.datasets import put_array, put_group
from nczfs.tools.verify.holes import holes
from nczfs.tools.verify.subject import Subject, subject_of
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.base import Blob, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from tests.support.verifying import CountedStore, edit


def missing(subject: Subject, path: str) -> list[tuple[int, ...]]:
    node = subject.dataset.node(path)
    assert isinstance(node, Variable)
    return list(holes(subject, node))


def test_holes_are_the_chunks_never_written_in_order(store: CountedStore, engine: Engine) -> None:
    store.delete(parse_key("y/0"))
    store.delete(parse_key("y/2"))
    store.write(parse_key("y/9"), b"beyond the shape")
    subject = subject_of(store, engine)
    assert missing(subject, "y") == [(0,), (2,)]
    assert missing(subject, "v") == []
    assert missing(subject, "g/hole") == [(1, 1)]


def test_a_scalar_and_an_empty_array_have_one_hole_and_none(engine: Engine) -> None:
    store = MemoryZMap("memory://small")
    put_group(store, "")
    put_array(store, "s", np.array(1.0), (), skip=frozenset({()}))
    put_array(store, "e", np.zeros((0, 3)), (1, 1))
    subject = subject_of(store, engine)
    assert missing(subject, "s") == [()]
    assert missing(subject, "e") == []


def sparse(store: ZMap) -> None:
    """An array of 2^60 chunks, of which three are written."""
    put_array(store, "s", np.zeros((1, 1), "<f8"), (1, 1))
    edit("s/.zarray", shape=[2**30, 2**30])(store)
    store.write(parse_key("s/0.2"), bytes(8))
    store.write(parse_key("s/1073741823.1073741823"), bytes(8))


def test_a_grid_without_end_is_verified_by_what_is_stored(engine: Engine) -> None:
    store = CountedStore()
    put_group(store, "")
    sparse(store)
    run = Verification(subject_of(store, engine))
    assert list(run.run()) == []
    assert run.counts.chunks == 3
    node = subject_of(store, engine).dataset.node("s")
    assert isinstance(node, Variable)
    found = holes(subject_of(store, engine), node)
    assert [next(found) for _ in range(3)] == [(0, 1), (0, 3), (0, 4)]


class Endless(MemoryZMap):
    """Claims so many chunks of one byte, each made when it is asked for."""

    def __init__(self, count: int) -> None:
        super().__init__("memory://endless")
        self._count = count
        put_array(self, "", np.zeros(1, "u1"), (1,))
        edit(".zarray", shape=[count])(self)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        yield from super().list(prefix)
        for number in range(1, self._count):
            yield Stat(Key(str(number)), 1, Version(str(number)))

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        return Blob(b"1", Version(key), 1) if key.isdecimal() else super().read(key, start, stop)


def peak(count: int) -> int:
    engine = Engine()
    try:
        run = Verification(subject_of(Endless(count), engine))
        tracemalloc.start()
        assert list(run.run()) == []
        assert run.counts.chunks == count
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        engine.close()


def test_memory_does_not_grow_with_the_number_of_chunks() -> None:
    peak(100)  # what is imported and made once
    assert peak(4000) < 2 * peak(400) + 100_000


def test_chunks_under_way_keep_to_the_memory_limit() -> None:
    store = CountedStore(near=False)
    chunk = 1 << 20
    put_array(store, "", np.zeros(64 * chunk, "u1"), (chunk,))
    engine = Engine(EngineOptions(memory_limit_bytes=12 << 20))
    run = Verification(subject_of(store, engine))
    highest = 0
    under_way = 0
    read = store.read

    def counted(*arguments: Any, **options: Any) -> Blob:
        nonlocal highest, under_way
        under_way += 1
        highest = max(highest, under_way)
        blob = read(*arguments, **options)
        under_way -= 1
        return blob

    store.read = counted  # type: ignore[method-assign]
    assert list(run.run()) == []
    engine.close()
    # Half of the limit, three times the chunk for each.
    assert 1 <= highest <= 2
    assert engine.cache.used_bytes == engine.ledger.used_bytes
