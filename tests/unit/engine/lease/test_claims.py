"""What counts as a claim of a contender, of all that may lie where they do."""

from __future__ import annotations

import json

import pytest

from nczfs.engine.lease.contention import CLAIM_BYTES_MAX, LEASE, PID_MAX, parsed_claim
from nczfs.zmap.keys import Key
from tests.conftest import ExpectedWarnings
from tests.support.leases import Time, Unconditional, contender, take

GOOD = {"host": "h", "pid": 1, "random": "x", "start": 0.0, "expiry": 1e12, "holds": True}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[" * 4096,
        b"\xff",
        b"[]",
        json.dumps(GOOD | {"random": "y"}).encode(),
        json.dumps(GOOD | {"host": "two\nlines"}).encode(),
        json.dumps(GOOD | {"host": 1}).encode(),
        json.dumps(GOOD | {"pid": "1"}).encode(),
        json.dumps(GOOD | {"pid": -1}).encode(),
        json.dumps(GOOD | {"pid": 0}).encode(),
        json.dumps(GOOD | {"pid": PID_MAX + 1}).encode(),
        json.dumps(GOOD | {"machine": 1}).encode(),
        json.dumps(GOOD | {"started": "1"}).encode(),
        json.dumps(GOOD | {"expiry": float("inf")}).encode(),
        json.dumps(GOOD | {"start": float("nan")}).encode(),
        json.dumps(GOOD | {"start": [1]}).encode(),
        json.dumps({"host": "h"}).encode(),
        (b'{"start": ' + b"9" * 400 + b"}"),
    ],
)
def test_what_is_no_claim_is_ignored_and_left_alone(
    data: bytes, zmap: Unconditional, time: Time, expected_warnings: ExpectedWarnings
) -> None:
    for pid in (1, PID_MAX):  # the first process of a container has number 1
        good = parsed_claim("x", json.dumps(GOOD | {"pid": pid}).encode())
        assert good is not None
        assert (good.machine, good.started) == ("", 0)  # where a claim does not say them
    assert parsed_claim("x", data) is None
    key = Key(f"{LEASE}/x")
    zmap.write(key, data)
    expected_warnings.add(r"\.nczfs-lease/x: is not a lease; ignored")
    assert take(contender(zmap, time), time)
    assert key in zmap.claims()


def test_of_a_large_object_only_the_beginning_is_read(
    zmap: Unconditional, time: Time, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add(r"\.nczfs-lease/x: is not a lease; ignored")
    zmap.write(Key(f"{LEASE}/x"), b" " * CLAIM_BYTES_MAX + json.dumps(GOOD).encode())
    assert take(contender(zmap, time), time)
