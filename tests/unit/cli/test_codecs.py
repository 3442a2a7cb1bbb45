"""Codecs and lengths of chunks, as options spell them."""

from __future__ import annotations

import pytest

from nczfs.cli.codecs import codecs, lengths, positive
from nczfs.errors import UsageError

BLOSC = {"cname": "zstd", "clevel": 3, "shuffle": 1, "blocksize": 0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("none", []),
        ("zlib", [("zlib", {})]),
        ("zlib:4", [("zlib", {"level": 4})]),
        ("zstd:-3", [("zstd", {"level": -3})]),
        ("shuffle,zlib:9", [("shuffle", {}), ("zlib", {"level": 9})]),
        ("blosc:zstd:3", [("blosc", BLOSC)]),
        ("blosc", [("blosc", BLOSC | {"cname": "lz4", "clevel": 5})]),
        ("zlib:1, fletcher32", [("zlib", {"level": 1}), ("fletcher32", {})]),
        ('[{"id": "delta", "dtype": "<i4"}]', [("delta", {"dtype": "<i4"})]),
        ('[{"name": "gzip", "configuration": {"level": 1}}]', [("gzip", {"level": 1})]),
        ('[{"name": "crc32c"}]', [("crc32c", {})]),
    ],
)
def test_codecs_stand_in_the_order_in_which_they_encode(
    text: str, expected: list[tuple[str, dict[str, object]]]
) -> None:
    assert [(codec.name, dict(codec.configuration)) for codec in codecs(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "zip", "zlib:", "zlib:10", "zlib:4:5", "bz2:0", "blosc:nosuch", "blosc:lz4:10"),
        *("[1]", "[", '[{"level": 4}]', '[{"name": "gzip", "level": 4}]'),
        *("none:1", "fletcher32:1", "shuffle,,zlib"),
    ],
)
def test_what_is_no_codec_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        codecs(text)


def test_lengths_are_written_with_an_equals_sign_or_as_for_nccopy() -> None:
    assert lengths("time=10, lat/100") == {"time": 10, "lat": 100}


@pytest.mark.parametrize("text", ["", "time", "time=0", "time=-1", "time=x", "=3", "a=1,,b=2"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        lengths(text)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "1.5"])
def test_what_is_no_number_above_zero_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        positive(text)
