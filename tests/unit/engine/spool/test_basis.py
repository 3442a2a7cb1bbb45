"""What was sent to the store, as entries of the spool describe it."""

from __future__ import annotations

import re
import time

import google_crc32c
import pytest

from nczfs.engine.spool.basis import END_BYTES, Basis, Sent, sent, time_text
from nczfs.zmap.base import ByteRange, Part, Stat, Version
from nczfs.zmap.keys import Key


def test_neighbouring_parts_are_one_range() -> None:
    """A shard is sent in as many parts as it has chunks."""
    kept = ByteRange(Stat(Key("k"), 100, Version("1")), 0, 10)
    parts: list[Part] = [b"ab", b"", b"cd", kept, b"ef", b"g"]
    assert sent(parts).ranges == ((0, 4), (14, 17))
    assert sent([b"ab"] * 4096) == sent([b"ab" * 4096])


@pytest.mark.parametrize("last", [30, END_BYTES, END_BYTES + 50])
def test_of_what_has_no_bytes_of_its_own_the_end_is_read(last: int) -> None:
    """An object that only became shorter is told from others by its last bytes."""
    stat, seen = Stat(Key("k"), 1 << 20, Version("1")), []

    def read(part: ByteRange) -> bytes:
        seen.append(part)
        return b"x" * (part.stop - part.start)

    found = sent([ByteRange(stat, 0, 10), ByteRange(stat, 100, 100 + last)], read)
    begin = max(0, last - END_BYTES)
    assert seen == [ByteRange(stat, 100 + begin, 100 + last)]
    assert (found.size, found.ranges) == (10 + last, ((10 + begin, 10 + last),))
    assert found.crc32c == google_crc32c.value(b"x" * (last - begin))


def test_a_basis_comes_back_as_it_was() -> None:
    basis = Basis(7, (Version("1"),), (Sent(3, 5, ((0, 3),)),), 9)
    assert Basis.parsed(basis.document(), 0) == basis
    assert Basis.parsed({}, 8) == Basis(8)


def test_a_basis_has_each_of_the_newest_versions_once() -> None:
    basis = Basis()
    for version in ("1", "1", *map(str, range(2, 12)), None):
        basis = basis.upon(None if version is None else Version(version))
    assert basis.versions == tuple(map(str, range(4, 12)))


def test_times_are_told_to_the_second() -> None:
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", time_text(time.time_ns()))


def test_a_basis_keeps_the_newest_of_what_was_sent_as_far_as_there_is_room() -> None:
    small = [Sent(n, n, ((0, n),)) for n in range(1, 20)]
    basis = Basis()
    for each in small:
        basis = basis.sending(each)
    assert basis.sent == tuple(small[-8:])
    half = tuple((n, n + 1) for n in range(0, 1 << 15, 2))
    basis = basis.sending(Sent(1, 1, half)).sending(Sent(2, 2, half)).sending(small[0])
    assert [each.crc32c for each in basis.sent] == [2, 1]
    full = Sent(4, 4, half * 2)
    assert basis.sending(full).sent == (full,)
    whole = tuple((n, n + 1) for n in range(0, 1 << 20, 2))
    assert basis.sending(Sent(3, 3, whole)).sent == ()
