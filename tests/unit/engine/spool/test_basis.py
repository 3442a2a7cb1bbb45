"""What was sent to the store, as entries of the spool describe it."""

from __future__ import annotations

from nczfs.engine.spool.basis import Basis, Sent, sent
from nczfs.zmap.base import ByteRange, Part, Stat, Version
from nczfs.zmap.keys import Key


def test_neighbouring_parts_are_one_range() -> None:
    """A shard is sent in as many parts as it has chunks."""
    kept = ByteRange(Stat(Key("k"), 100, Version("1")), 0, 10)
    parts: list[Part] = [b"ab", b"", b"cd", kept, b"ef", b"g"]
    assert sent(parts).ranges == ((0, 4), (14, 17))
    assert sent([b"ab"] * 4096) == sent([b"ab" * 4096])


def test_a_basis_keeps_the_newest_of_what_was_sent_as_far_as_there_is_room() -> None:
    small = [Sent(n, n, ((0, n),)) for n in range(1, 20)]
    basis = Basis()
    for each in small:
        basis = basis.sending(each)
    assert basis.sent == tuple(small[-8:])
    half = tuple((n, n + 1) for n in range(0, 1 << 15, 2))
    basis = basis.sending(Sent(1, 1, half)).sending(Sent(2, 2, half)).sending(small[0])
    assert [each.crc32c for each in basis.sent] == [2, 1]
    whole = tuple((n, n + 1) for n in range(0, 1 << 20, 2))
    assert basis.sending(Sent(3, 3, whole)).sent == ()
