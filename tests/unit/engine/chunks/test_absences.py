"""Missing chunks of a far store: what a listing tells of them, and for how long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nczfs.engine.arrays.array import now
from nczfs.engine.chunks.absences import ASK_AFTER, Absences
from nczfs.engine.chunks.unitio import UnitIO
from nczfs.engine.options import EngineOptions, MissingChunks, Tally
from nczfs.errors import AccessDenied, MissingChunk, StructureChanged
from nczfs.library.opening import open_zmap
from nczfs.library.variable import Variable
from nczfs.zmap.base import Blob, Features, Version
from nczfs.zmap.keys import Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.run import ListedRange
from tests.support.waiting import until

CHUNKS, CHUNK, FILL = 2000, 4, 7
PAGE = 1000


class Far(MemoryZMap):
    """A store that lists as S3 does, and counts what it is asked about chunks."""

    def __init__(self) -> None:
        super().__init__("memory://far")
        self.asked: list[str] = []
        self.listings = 0
        self.before_answer: Callable[[], None] = lambda: None
        self.hidden: set[str] = set()

    @property
    def features(self) -> Features:
        return replace(super().features, near=False)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        if "/c/" in key:
            self.asked.append(key)
        return super().read(key, start, stop, version=version)

    def run_from(self, prefix: Prefix, first: Key | None) -> ListedRange | None:
        self.listings += 1
        found = sorted((stat.key, stat.version) for stat in self.list(prefix))
        start = first or prefix
        page = [each for each in found if each[0] >= start and each[0] not in self.hidden][:PAGE]
        self.before_answer()
        return ListedRange(dict(page), start, page[-1][0] if len(page) == PAGE else None)


@pytest.fixture
def far() -> Far:
    far = Far()
    with open_zmap(far, "w", format="zarr3") as root:
        root.create_variable("v", (CHUNKS * CHUNK,), "i4", chunks=(CHUNK,), fillvalue=FILL)
        root.create_variable(
            "s", (CHUNKS * CHUNK,), "i4", chunks=(CHUNK,), shards=(10 * CHUNK,), fillvalue=FILL
        )
    return far


@pytest.fixture
def v(far: Far) -> Iterator[Variable]:
    with open_zmap(far, "r+") as root:
        yield root.variables["v"]


def first_of(v: Variable, chunk: int, since: float = 0.0) -> int:
    """The first element of a chunk, as it was after some time."""
    out = np.empty(1, np.int32)
    v._dataset.array(v.description).read_run(chunk * CHUNK, out, Tally(), since)
    return int(out[0])


def learn(v: Variable, first: int = 0) -> None:
    """Let a listing tell which chunks are missing."""
    for chunk in range(first, first + ASK_AFTER + 1):
        assert first_of(v, chunk) == FILL


def test_a_listing_saves_the_requests_for_what_it_shows_to_be_missing(
    far: Far, v: Variable
) -> None:
    """SEMANTICS D26."""
    for chunk in range(CHUNKS):
        assert first_of(v, chunk) == FILL
    # The first listing begins behind chunk 100, in the order of keys.
    assert (len(far.asked), far.listings) == (ASK_AFTER, 2)
    assert np.all(v[...] == FILL)
    assert (len(far.asked), far.listings) == (ASK_AFTER, 2)


def test_what_the_listing_shows_is_read(far: Far) -> None:
    with open_zmap(far, "r+") as root:
        for chunk in range(0, CHUNKS, 3):
            root.variables["v"][chunk * CHUNK] = chunk
    far.asked.clear()
    far.listings = 0
    with open_zmap(far) as root:
        values = root.variables["v"][...].reshape(CHUNKS, CHUNK)
    assert np.array_equal(values[::3, 0], np.arange(0, CHUNKS, 3))
    assert np.all(values[1::3] == FILL)
    stored = len(range(0, CHUNKS, 3))
    assert len(far.asked) - stored < 3 * ASK_AFTER
    assert far.listings <= 3


def test_few_missing_chunks_are_not_worth_a_listing(far: Far, v: Variable) -> None:
    for chunk in range(ASK_AFTER - 1):
        assert first_of(v, chunk) == FILL
    assert far.listings == 0


def test_missing_shards_are_listed_as_well(far: Far) -> None:
    with open_zmap(far) as root:
        assert np.all(root.variables["s"][...] == FILL)
    assert len(far.asked) < CHUNKS // 10
    assert far.listings == 1


def test_missing_shards_are_listed_though_no_thread_is_free_to_make_their_chunks(far: Far) -> None:
    """SEMANTICS D26."""
    options = EngineOptions(fetch_threads=1, decode_threads=1)
    go_on = threading.Event()
    with open_zmap(far, options=options) as root:
        s = root.variables["s"]
        s._dataset.engine.pools.decode.submit(go_on.wait)
        try:
            s._dataset.array(s.description).request_run(0, CHUNKS * CHUNK, Tally(), 0.0)
            until(lambda: far.listings == 1)
        finally:
            go_on.set()
        assert np.all(s[...] == FILL)
    assert len(far.asked) == ASK_AFTER


def test_a_chunk_that_another_client_stores_is_read_when_it_must_be_fresh(
    far: Far, v: Variable
) -> None:
    """SEMANTICS D9, D26."""
    learn(v)
    with open_zmap(far, "r+") as other:
        other.variables["v"][500 * CHUNK] = 1
    assert first_of(v, 500) == FILL
    assert first_of(v, 500, now()) == 1
    assert first_of(v, 500) == 1, "what was seen once stays"


@pytest.mark.parametrize("lists_late", [False, True])
def test_a_chunk_that_was_stored_here_is_never_taken_for_missing(
    far: Far, v: Variable, *, lists_late: bool
) -> None:
    learn(v)
    v[500 * CHUNK] = 1
    v._dataset.array(v.description).flush()
    if lists_late:
        far.hidden = {"v/c/500"}
    v._dataset.engine.cache.drop((v._dataset.array(v.description).stored, (500,)))
    learn(v, 600)
    learn(v, 700)
    assert far.listings >= 2
    assert first_of(v, 500) == 1


def test_a_listing_during_which_a_chunk_is_stored_is_void(far: Far, v: Variable) -> None:
    is_stored = threading.Event()

    def store() -> None:
        if not is_stored.is_set():
            is_stored.set()
            writer = threading.Thread(target=write)
            writer.start()
            writer.join()

    def write() -> None:
        v[500 * CHUNK : 501 * CHUNK] = 1
        v._dataset.array(v.description).flush()

    far.before_answer = store
    learn(v)
    assert is_stored.is_set()
    array = v._dataset.array(v.description)
    absences, writer = v._dataset.engine.cache.absences, array.writer()
    assert not absences.known(array.stored, writer, (501,), 0.0)
    assert first_of(v, 500) == 1


def test_a_renamed_array_is_not_looked_up_in_the_listing_of_its_old_place(
    far: Far, v: Variable
) -> None:
    learn(v)
    array = v._dataset.array(v.description)
    absences, writer = v._dataset.engine.cache.absences, array.writer()
    assert absences.known(array.stored, writer, (500,), 0.0)
    array.stored.place.prefix = Prefix("w")
    assert not absences.known(array.stored, writer, (500,), 0.0)


def test_a_store_that_refuses_to_list_is_asked_once(far: Far, v: Variable) -> None:
    def refuse() -> None:
        raise AccessDenied("no")

    far.before_answer = refuse
    for chunk in range(4 * ASK_AFTER):
        assert first_of(v, chunk) == FILL
    assert (len(far.asked), far.listings) == (4 * ASK_AFTER, 1)


def test_where_a_missing_chunk_is_an_error_nothing_is_listed(far: Far) -> None:
    options = EngineOptions(missing_chunks=MissingChunks.ERROR)
    far.write(parse_key("v/c/1"), np.arange(CHUNK, dtype="<i4").tobytes())
    with open_zmap(far, options=options) as root:
        for chunk in range(2 * ASK_AFTER):
            with pytest.raises(MissingChunk):
                first_of(root.variables["v"], chunk + 2)
    assert far.listings == 0


def test_what_is_listed_of_an_array_that_has_ended_is_not_kept(
    v: Variable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its missing chunks were read as fill values, by files that were open."""
    for chunk in range(ASK_AFTER):
        assert first_of(v, chunk) == FILL
    array = v._dataset.array(v.description)
    find = Absences.find

    def ended(self: Absences, *given: Any) -> float | None:
        array.stored.end("gone: replaced by another client")
        v._dataset.engine.cache.discard(array.stored)
        return find(self, *given)

    monkeypatch.setattr(Absences, "find", ended)
    for chunk in (50, 60):
        with pytest.raises(StructureChanged):
            array.read_run(chunk * CHUNK, np.empty(1, np.int32), Tally())
        monkeypatch.setattr(Absences, "find", find)


def test_a_listing_that_is_interrupted_keeps_nobody_waiting(
    v: Variable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for chunk in range(ASK_AFTER):
        assert first_of(v, chunk) == FILL

    def interrupted(_: UnitIO) -> Prefix:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(UnitIO, "prefix", property(interrupted))
        with pytest.raises(KeyboardInterrupt):
            first_of(v, 50)
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(first_of, v, 60).result(60) == FILL
