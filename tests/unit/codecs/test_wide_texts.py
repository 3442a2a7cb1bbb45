"""Texts in which one character makes all others take more memory."""

from __future__ import annotations

import struct
import tracemalloc

import pytest

from nczfs.codecs.base import Pipeline
from nczfs.errors import CodecError
from nczfs.model.dtypes import VlenKind
from tests.unit.codecs.arrays import pipeline

MIB = 1 << 20
KINDS = {"vlen-utf8": VlenKind.TEXT, "json2": VlenKind.JSON}


def chain(codec: str, memory_bytes: int) -> Pipeline:
    return pipeline("|O", (6,), {"id": codec}, vlen=KINDS[codec], memory_bytes=memory_bytes)


def in_bytes(*texts: str) -> bytes:
    """A chunk of ``vlen-utf8``."""
    stored = [text.encode() for text in texts]
    each = (struct.pack("<I", len(text)) + text for text in stored)
    return struct.pack("<I", len(stored)) + b"".join(each)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        ("vlen-utf8", in_bytes(*["a"] * 5, "a" * 4_000_000 + "\N{GRINNING FACE}")),
        ("vlen-utf8", in_bytes(*["a"] * 5, "a" * 6_000_000 + "\N{EURO SIGN}")),
        ("json2", f'[1,2,3,4,5,"{"a" * 4_000_000}\N{GRINNING FACE}","|O",[6]]'.encode()),
    ],
    ids=["four bytes", "two bytes", "json"],
)
def test_a_wide_character_does_not_make_a_text_larger_than_the_limit(
    codec: str, data: bytes
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="of memory, more than the limit"):
            chain(codec, 10 * MIB).decode(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 14 * MIB


def test_a_wide_text_makes_no_others_wide() -> None:
    texts = ["a" * MIB, "b" * MIB, "é" * MIB, "\N{EURO SIGN}", "", "\N{GRINNING FACE}"]
    assert chain("vlen-utf8", 5 * MIB).decode(in_bytes(*texts)).tolist() == texts
