"""Texts as files: how long they are believed, what listings say of them, what replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.engine.spool.space import Spool
from nczfs.errors import BadValue, NotPermitted
from nczfs.testing.datasets import put_json
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.access import AccessLog
from nczfs.vfs.datasets.arrivals import Arrivals
from nczfs.vfs.datasets.hiding import Hidden
from nczfs.vfs.datasets.hierarchies import Hierarchies
from nczfs.vfs.datasets.netcdfversions import NetcdfVersions
from nczfs.vfs.datasets.refusals import Refusals
from nczfs.vfs.datasets.viewfile import ViewContext, ViewFile
from nczfs.vfs.nodes import FixedContent, NodeStat
from nczfs.views.base import View
from nczfs.views.layout import Layout
from nczfs.views.segments import Literal
from tests.support.counted import new_store, opened
from tests.support.settime import SetTime

TTL_S, MTIME_NS = 60.0, 1234567890


class Source:
    """What a text is made of."""

    def __init__(self) -> None:
        self.text = b"old"
        self.made = 0

    def layout(self, _: object) -> Layout:
        self.made += 1
        return Layout([Literal(self.text)])


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetTime:
    clock = SetTime()
    monkeypatch.setattr("nczfs.vfs.datasets.viewfile.now", clock)
    return clock


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = Engine(EngineOptions(memory_limit_bytes=1 << 20))
    yield engine
    engine.close()


@pytest.fixture
def source() -> Source:
    return Source()


def context_of(engine: Engine, *, is_prompt: bool = False) -> ViewContext:
    netcdf = NetcdfVersions(engine, TTL_S, [], ())
    refusals = Refusals(lambda _: None)
    opened = lambda *_: None  # noqa: E731
    hierarchies = Hierarchies(engine, TTL_S, lambda _: None, is_shown=False)
    log = AccessLog()
    return ViewContext(
        engine, TTL_S, is_prompt, MTIME_NS, log, opened, refusals, netcdf, hierarchies
    )


def file_of(
    context: ViewContext, source: Source, token: object = 1, *, is_arithmetic: bool = False
) -> ViewFile:
    view = View(source.layout, is_arithmetic=is_arithmetic, is_text=True)
    return ViewFile(context, view, token, MTIME_NS)


def text_of(file: ViewFile) -> bytes:
    return bytes(file.open().read(0, 100))


def test_a_text_of_values_is_made_again_when_its_time_to_live_has_passed(
    engine: Engine, source: Source, clock: SetTime
) -> None:
    file = file_of(context_of(engine), source)
    assert file.stat() == NodeStat(3, MTIME_NS)
    source.text = b"newer"
    clock.now += TTL_S - 1
    assert (text_of(file), file.stat().size, source.made) == (b"old", 3, 1)
    clock.now += 1
    assert (text_of(file), file.stat().size, source.made) == (b"newer", 5, 2)


def test_a_text_of_descriptions_is_made_once(
    engine: Engine, source: Source, clock: SetTime
) -> None:
    file = file_of(context_of(engine), source, is_arithmetic=True)
    assert file.listing_stat() == NodeStat(3, MTIME_NS)
    clock.now += 100 * TTL_S
    assert (text_of(file), source.made) == (b"old", 1)


def test_a_text_is_made_again_when_what_it_depends_on_has_changed(
    engine: Engine, source: Source, clock: SetTime
) -> None:
    revisions = [1]
    view = View(source.layout, is_text=True)
    file = ViewFile(context_of(engine), view, 1, MTIME_NS, revision=lambda: revisions[0])
    assert text_of(file) == b"old"
    source.text, revisions[0] = b"new", 2
    assert file.stat_if_cached() is None
    assert text_of(file) == b"new"


def test_a_size_is_never_that_of_a_text_in_whose_place_another_thread_has_put_a_newer_one(
    engine: Engine, source: Source, clock: SetTime
) -> None:
    """The kernel would cut the newer text there."""
    made: list[bytes] = []

    def revision() -> int:
        if source.text == b"newer" and not made:
            made.append(b"")
            made[0] = text_of(file)  # as another thread does
        return 1

    view = View(source.layout, is_arithmetic=False, is_text=True)
    file = ViewFile(context_of(engine), view, 1, MTIME_NS, revision=revision)
    text_of(file)
    source.text = b"newer"
    clock.now += TTL_S
    assert (file.stat().size, made) == (5, [b"newer"])


def test_a_listing_makes_no_text_and_says_that_it_has_no_size(
    engine: Engine, source: Source, clock: SetTime
) -> None:
    file = file_of(context_of(engine), source)
    assert file.listing_stat() == NodeStat(0, MTIME_NS, exact=False)
    assert (file.stat_if_cached(), source.made) == (None, 0)
    file.open()
    assert file.stat_if_cached() == file.listing_stat() == NodeStat(3, MTIME_NS)
    clock.now += TTL_S
    assert file.listing_stat() == NodeStat(0, MTIME_NS, exact=False)


@pytest.mark.parametrize(
    ("token", "is_prompt", "is_arithmetic", "is_taken"),
    [
        (1, False, False, True),
        (2, False, False, False),
        (2, False, True, False),
        (1, True, False, False),
        (1, True, True, True),
    ],
)
def test_a_listing_keeps_the_text_of_the_same_file(
    engine: Engine,
    source: Source,
    clock: SetTime,
    *,
    token: int,
    is_prompt: bool,
    is_arithmetic: bool,
    is_taken: bool,
) -> None:
    context = context_of(engine, is_prompt=is_prompt)
    old = file_of(context, source, is_arithmetic=is_arithmetic)
    text_of(old)
    clock.now += TTL_S / 2
    found = file_of(context, source, token, is_arithmetic=is_arithmetic)
    found.succeeds(old)
    text_of(found)
    assert source.made == (1 if is_taken else 2)
    clock.now += TTL_S / 2  # which counts from when the text was made
    assert (found.stat_if_cached() is None) == (is_taken and not is_arithmetic)


def test_fsync_says_that_the_last_write_was_refused(engine: Engine, source: Source) -> None:
    def refused() -> None:
        raise BadValue("no number")

    file = ViewFile(context_of(engine), View(source.layout), 1, MTIME_NS, synced=refused)
    with pytest.raises(BadValue, match="no number"):
        file.open().fsync()


def test_a_text_is_replaced_as_a_whole_where_that_is_allowed(
    engine: Engine, source: Source
) -> None:
    file = file_of(context_of(engine), source)
    assert (file.writable, file.is_replaceable) == (False, False)
    with pytest.raises(NotPermitted):
        file.open(writing=True, truncate=True)
    taking = FixedContent(b"")
    file.is_replaced_by(lambda: taking)
    assert (file.writable, file.is_replaceable) == (True, True)
    assert file.open(writing=True, truncate=True) is taking
    with pytest.raises(NotPermitted):
        file.open(writing=True)
    assert text_of(file) == b"old"


def test_a_text_that_others_have_driven_out_is_made_again(
    engine: Engine, source: Source, clock: SetTime
) -> None:
    source.text = bytes(engine.ledger.limit_bytes)
    file, other = (file_of(context_of(engine), source) for _ in range(2))
    for each in (file, other, file):
        assert each.open().read(0, 4) == bytes(4)
    assert (file.stat().size, source.made) == (len(source.text), 3)


def test_modes_and_owners_are_taken_from_copies_alone(engine: Engine, tmp_path: Path) -> None:
    context = context_of(engine)
    context.check_changes(AttributeChanges(atime_ns=1, mtime_ns=2))
    changes = AttributeChanges(mode=0o600), AttributeChanges(uid=0), AttributeChanges(gid=0)
    for each in changes:
        with pytest.raises(NotPermitted, match="modes and owners"):
            context.check_changes(each)
        with pytest.raises(NotPermitted, match="modes and owners"):
            file_of(context, Source()).change(each)
    spool = Spool(tmp_path, "memory://x")
    copying = replace(context, arrivals=Arrivals(Hidden(), spool))
    for each in changes:
        copying.check_changes(each)
    spool.close()


def test_a_prompt_view_loads_anew_what_others_have_stored_and_confirms_every_chunk(
    engine: Engine, clock: SetTime
) -> None:
    believing, prompt = context_of(engine), context_of(engine, is_prompt=True)
    assert (believing.fresh_since, prompt.fresh_since) == (clock.now - TTL_S, clock.now)
    store = new_store()
    dataset = opened(store, engine)
    assert believing.load(dataset, "v") is not None
    put_json(store, "v/.zattrs", {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"})
    old, new = believing.load(dataset, "v"), prompt.load(dataset, "v")
    assert old is not None
    assert new is not None
    assert ("units" in old.attributes, "units" in new.attributes) == (False, True)


def test_files_have_the_time_of_their_node_if_the_store_has_times(engine: Engine) -> None:
    context = context_of(engine)
    loaded = opened(new_store(), engine).load("v")
    assert loaded is not None
    assert context.mtime_ns_of(replace(loaded, mtime_ns=5)) == 5
    assert context.mtime_ns_of(replace(loaded, mtime_ns=None)) == MTIME_NS
