"""Streams of the faster library and of zlib, each of which the other reads."""

from __future__ import annotations

import zlib

import pytest

from nczfs import zlibs

DATA = b"".join(number.to_bytes(4, "big") for number in range(20_000))


@pytest.mark.parametrize("level", range(1, 10))
def test_zlib_inflates_what_is_made_in_pieces_or_at_once(level: int) -> None:
    stream = zlibs.compressor(level)
    pieces = [stream.compress(memoryview(DATA)[at : at + 999]) for at in range(0, len(DATA), 999)]
    assert zlib.decompress(b"".join([*pieces, stream.flush()])) == DATA
    assert zlib.decompress(zlibs.compressed(DATA, level)) == DATA


@pytest.mark.parametrize("level", range(10))
def test_what_zlib_makes_is_inflated_up_to_a_limit(level: int) -> None:
    inflater, found = zlibs.decompressor(), bytearray()
    waiting = zlib.compress(DATA, level) + b"more"
    while not inflater.eof:
        piece = inflater.decompress(waiting, 777)
        assert 0 < len(piece) <= 777
        found += piece
        waiting = inflater.unconsumed_tail
    assert bytes(found) == DATA
    assert inflater.unused_data == b"more"


def test_what_is_no_stream_is_an_error() -> None:
    for data in (b"no stream at all", zlib.compress(DATA)[:-4] + b"sums"):
        with pytest.raises(zlibs.errors):
            zlibs.decompressor().decompress(data)
