"""A guarded store against the conformance suite, and that its guard is round every change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from nczfs.errors import LeaseNotHeld
from nczfs.testing.zmap import ZMapSuite
from nczfs.zmap.base import ZMap
from nczfs.zmap.guarded import Guarded
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.memory import MemoryZMap

K = Key("group/k")


@contextmanager
def allowed() -> Iterator[None]:
    yield


@contextmanager
def refused() -> Iterator[None]:
    raise LeaseNotHeld("somebody else writes")
    yield


class TestGuardedMemory(ZMapSuite):
    @pytest.fixture
    def zmap(self) -> ZMap:
        self.memory = MemoryZMap()
        return Guarded(self.memory, allowed)

    def peek(self, zmap: ZMap, key: Key) -> bytes | None:
        found = vars(self.memory)["_objects"].get(key)
        return None if found is None else bytes(found.data)


@pytest.mark.parametrize(
    "change",
    [
        lambda zmap: zmap.write(K, b"new"),
        lambda zmap: zmap.copy(zmap.stat(K), Key("copy")),
        lambda zmap: zmap.write_parts(K, [b"new"]),
        lambda zmap: zmap.delete(K),
        lambda zmap: zmap.delete_many([K]),
    ],
)
def test_what_the_guard_refuses_changes_nothing(change: Callable[[ZMap], object]) -> None:
    memory = MemoryZMap()
    memory.write(K, b"old")
    with pytest.raises(LeaseNotHeld):
        change(Guarded(memory, refused))
    assert memory.read(K).data == b"old"
    assert len(list(memory.list(ROOT))) == 1
