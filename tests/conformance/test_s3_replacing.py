"""A group of a bucket of a real server is replaced while requests are refused, one in each turn."""

from __future__ import annotations

import itertools

from nczfs.engine.lease.lease import Leases
from nczfs.engine.structure.ownership import REPLACING
from nczfs.engine.structure.stepwise import Stepwise, place_aside
from nczfs.errors import StoreError
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix, join
from nczfs.zmap.registry import StoreOptions, open_store
from tests.support.servers import Faults

GROUP = Prefix("deep/group")
OLD = {".zgroup": b"old", ".zattrs": b"old", "v/.zarray": b"old", "v/0": b"old"}
NEW = {".zgroup": b"new", "v/.zarray": b"new", "v/0": b"new"}
OPTIONS = StoreOptions(request_timeout_s=20.0, attempt_timeout_s=5.0)
EVERY = 3  # so many requests further in each turn: the next of them is refused


def shown(zmap: ZMap) -> dict[str, bytes]:
    found = {s.key[len(GROUP) + 1 :]: bytes(zmap.read(s.key).data) for s in zmap.list(GROUP)}
    found.pop(REPLACING, None)
    return found


def test_whatever_request_is_refused_the_group_is_whole_and_is_completed(
    swift_with_faults: Faults,
) -> None:
    zmap = open_store(swift_with_faults.server.url(swift_with_faults.server.new_bucket()), OPTIONS)
    for name, data in OLD.items():
        zmap.write(join(GROUP, name), data)
    old, new = OLD, NEW
    outcomes = set()
    for refused in itertools.count(step=EVERY):
        steps = Stepwise(zmap, GROUP, Leases(trusts=True))
        swift_with_faults.set(f"status:403 skip={refused} first=1")
        try:
            with steps.aside("x") as aside:
                for name, data in new.items():
                    zmap.write(join(aside.prefix, f"x/{name}"), data)
                aside.exchange()
        except StoreError:
            outcomes.add(steps.is_decided)
        is_over = not swift_with_faults.log()
        swift_with_faults.set()
        found = shown(zmap)
        assert ".zgroup" not in found or found in (old, new), refused
        assert "v/.zarray" not in found or found["v/.zarray"] == found["v/0"]
        if Stepwise(zmap, GROUP, Leases(trusts=True)).complete():
            found = shown(zmap)
        assert found in ([new] if steps.is_decided else [old, new])
        assert not list(zmap.list(place_aside(GROUP)))
        if found == new:
            old, new = new, old
        if is_over:
            break
    assert outcomes == {False, True}
    zmap.close()
