"""A lease in a store without conditions, on a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nczfs.engine.lease.lease import Lease, Leases
from nczfs.zmap.keys import ROOT
from tests.support.leases import LONG, Time, Unconditional, User, lease_threads


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def zmap() -> Unconditional:
    return Unconditional()


@pytest.fixture
def leases(time: Time) -> Iterator[Leases]:
    leases = Leases(terms=LONG, clock=time.clock())
    yield leases
    leases.close()
    assert lease_threads() == []


@pytest.fixture
def user() -> User:
    return User()


@pytest.fixture
def lease(leases: Leases, zmap: Unconditional, user: User) -> Lease:
    lease = leases.of(zmap, ROOT)
    lease.add_user(user)
    return lease
