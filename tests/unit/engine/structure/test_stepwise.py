"""A group is replaced by steps: whole, or not there, whatever fails and whenever it is killed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from nczfs.engine.lease.lease import Leases
from nczfs.engine.structure import stepwise
from nczfs.engine.structure.ownership import REPLACING
from nczfs.engine.structure.stepwise import Stepwise
from nczfs.errors import CorruptStore, ObjectExists, StoreError, Unavailable
from nczfs.testing.faults import Fault, Faulty
from nczfs.zmap.aside import Exchanges
from nczfs.zmap.base import Features, ZMap
from nczfs.zmap.keys import ROOT, Key, Prefix, join
from nczfs.zmap.memory import MemoryZMap

OLD = {
    ".zgroup": b"old",
    ".zattrs": b"old",
    ".zmetadata": b"old",
    "v/.zarray": b"old",
    "v/.zattrs": b"old",
    "v/0.0": b"old",
    "v/0.1": b"old",
    "v/5.5": b"old",
    "g/.zgroup": b"old",
}
NEW = {
    ".zgroup": b"new",
    ".zattrs": b"new",
    "v/.zarray": b"new",
    "v/0.0": b"new",
    "v/0.1": b"new",
    "w/.zarray": b"new",
    "w/0": b"new",
}
BESIDE = {"beside/.zgroup": b"kept", "README": b"kept"}


class ByObjects(MemoryZMap):
    """A store in memory that can exchange nothing."""

    @property
    def features(self) -> Features:
        return replace(super().features, exchanges=Exchanges.NOTHING)


class Killed(BaseException):
    pass


@pytest.fixture(params=["", "deep/group"])
def prefix(request: pytest.FixtureRequest) -> Prefix:
    return Prefix(request.param)


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepwise, "BATCH", 2)


def filled(prefix: Prefix) -> ByObjects:
    zmap = ByObjects()
    for name, data in OLD.items():
        zmap.write(join(prefix, name), data)
    if prefix:
        for name, data in BESIDE.items():
            zmap.write(Key(name), data)
    return zmap


def every_object(zmap: MemoryZMap) -> dict[str, bytes]:
    """What is stored, hidden or not."""
    return {key: found.data for key, found in vars(zmap)["_objects"].items()}


def shown(zmap: MemoryZMap, prefix: Prefix) -> dict[str, bytes]:
    """What others see at the group."""
    start = len(prefix) + 1 if prefix else 0
    found = {stat.key[start:]: bytes(zmap.read(stat.key).data) for stat in zmap.list(prefix)}
    found.pop(REPLACING, None)
    return found


def is_whole(found: Mapping[str, bytes]) -> bool:
    """Whether each node that is there is the old one or the new one, with all its values."""
    for node in ("v", "w", "g"):
        here = {name: data for name, data in found.items() if name.startswith(f"{node}/")}
        if f"{node}/.zarray" in here or f"{node}/.zgroup" in here:
            wanted = [
                {name: data for name, data in each.items() if name.startswith(f"{node}/")}
                for each in (OLD, NEW)
            ]
            lacking = [{**each, **here} == each and _arrays(each) <= set(here) for each in wanted]
            if not any(lacking):
                return False
    if ".zgroup" in found and found[".zgroup"] == b"new":
        return found == NEW
    if ".zgroup" in found:
        return {**found, ".zmetadata": b"old"} == OLD
    return ".zmetadata" not in found


def _arrays(node: Mapping[str, bytes]) -> set[str]:
    return {name for name in node if not name.endswith(".zattrs")}


def replaced(zmap: ZMap, prefix: Prefix) -> None:
    with Stepwise(zmap, prefix, Leases(trusts=True)).aside("x/y") as aside:
        zmap.write(join(aside.prefix, ".zgroup"), b"of the place itself")
        for name, data in NEW.items():
            zmap.write(join(aside.prefix, f"x/y/{name}"), data)
        aside.exchange()


def assert_replaced(zmap: MemoryZMap, prefix: Prefix) -> None:
    beside = BESIDE if prefix else {}
    assert every_object(zmap) == {join(prefix, name): data for name, data in NEW.items()} | beside


def test_at_any_time_a_node_is_the_old_one_or_the_new_one_or_not_there(prefix: Prefix) -> None:
    inner = filled(prefix)
    states: list[dict[str, bytes]] = []
    zmap = Faulty(inner, before_call=lambda *_: states.append(shown(inner, prefix)))
    replaced(zmap, prefix)
    assert OLD in states
    assert [state for state in states if not is_whole(state)] == []
    assert {} in [
        {n: d for n, d in each.items() if n in (".zgroup", ".zmetadata")} for each in states
    ]
    assert_replaced(inner, prefix)


@pytest.mark.parametrize("after", [False, True])
def test_whatever_request_fails_nothing_is_lost_and_the_next_run_completes_it(
    prefix: Prefix, *, after: bool
) -> None:
    outcomes = set()
    for call in itertools.count():
        inner = filled(prefix)
        zmap = Faulty(inner, Fault(call, after=after))
        steps = Stepwise(zmap, prefix, Leases(trusts=True))
        try:
            with steps.aside("x/y") as aside:
                for name, data in NEW.items():
                    zmap.write(join(aside.prefix, f"x/y/{name}"), data)
                aside.exchange()
        except StoreError:
            assert is_whole(shown(inner, prefix))
            assert steps.is_decided or shown(inner, prefix) == OLD
        else:
            assert shown(inner, prefix) == NEW
        outcomes.add((zmap.fired, steps.is_decided))
        zmap.arm()
        Stepwise(zmap, prefix, Leases(trusts=True)).complete()
        assert shown(inner, prefix) in ((NEW,) if steps.is_decided else (OLD, NEW))
        assert not [key for key in every_object(inner) if "nczfs" in key]
        if not zmap.fired and call > zmap.calls:
            break
    assert (1, False) in outcomes
    assert (1, True) in outcomes


def test_whenever_a_process_is_killed_the_next_one_has_the_old_content_or_completes_the_new(
    prefix: Prefix,
) -> None:
    """SEMANTICS W76."""
    found = []
    for call in itertools.count():
        inner = filled(prefix)
        left = iter(range(call))

        def step(*_: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Killed

        try:
            replaced(Faulty(inner, before_call=step), prefix)
        except Killed:
            assert is_whole(shown(inner, prefix))
        else:
            break
        Stepwise(inner, prefix, Leases(trusts=True)).complete()
        found.append(shown(inner, prefix) == NEW)
        assert shown(inner, prefix) == (NEW if found[-1] else OLD)
        assert not [key for key in every_object(inner) if "nczfs" in key]
    assert found == sorted(found)
    assert {False, True} == set(found)


def test_one_that_completes_it_may_be_killed_as_well(prefix: Prefix) -> None:
    for call in itertools.count():
        inner = filled(prefix)
        with pytest.raises(Unavailable):
            replaced(Faulty(inner, Fault(20, repeats=1000)), prefix)
        left = iter(range(call))

        def step(*_: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Killed

        try:
            Stepwise(Faulty(inner, before_call=step), prefix, Leases(trusts=True)).complete()
        except Killed:
            assert is_whole(shown(inner, prefix))
        else:
            break
        Stepwise(inner, prefix, Leases(trusts=True)).complete()
        assert shown(inner, prefix) == NEW
    assert call > 10


def test_an_object_of_others_stays(prefix: Prefix) -> None:
    zmap = filled(prefix)
    zmap.write(join(prefix, "notes/README"), b"mine")
    replaced(zmap, prefix)
    assert shown(zmap, prefix) == {**NEW, "notes/README": b"mine"}


def test_one_thread_at_a_time(prefix: Prefix) -> None:
    """SEMANTICS W77."""
    zmap, leases = filled(prefix), Leases(trusts=True)
    second = Stepwise(zmap, prefix, leases)
    is_refused = pytest.raises(ObjectExists, match="is being replaced")
    with Stepwise(zmap, prefix, leases).aside(""), is_refused:
        second.complete()
    assert shown(zmap, prefix) == OLD


def test_who_was_taken_for_dead_changes_nothing_more(prefix: Prefix) -> None:
    zmap = filled(prefix)
    with Stepwise(zmap, prefix, Leases(trusts=True)).aside("") as aside:
        for name, data in NEW.items():
            zmap.write(join(aside.prefix, name), data)
        Stepwise(zmap, prefix, Leases(trusts=True)).complete()
        with pytest.raises(StoreError):
            aside.exchange()
    assert shown(zmap, prefix) == OLD


def test_a_lease_is_needed_although_the_store_has_conditional_writes() -> None:
    zmap, leases = filled(ROOT), Leases()
    with Stepwise(zmap, ROOT, leases).aside(""):
        [held] = leases.held()
        assert held.dataset == "memory:///.nczfs-replacing"
    assert not leases.held()
    leases.close()
    assert every_object(zmap) == OLD


@pytest.mark.parametrize("data", [b"", b"[]", b'{"complete": 5}', b'{"complete": "../x"}'])
def test_a_record_that_is_not_understood_changes_nothing(prefix: Prefix, data: bytes) -> None:
    zmap = filled(prefix)
    zmap.write(join(prefix, REPLACING), data)
    with pytest.raises(CorruptStore, match="is not understood"):
        Stepwise(zmap, prefix, Leases(trusts=True)).complete()
    assert shown(zmap, prefix) == OLD


def test_the_old_content_stands_if_the_new_one_is_gone(prefix: Prefix) -> None:
    zmap = filled(prefix)
    zmap.write(join(prefix, REPLACING), b'{"complete": ""}')
    with pytest.raises(CorruptStore, match="is gone"):
        Stepwise(zmap, prefix, Leases(trusts=True)).complete()
    assert shown(zmap, prefix) == OLD
