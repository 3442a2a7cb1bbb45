"""Parsers of codecs and chunk lengths, as options spell them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nczfs.errors import UsageError

if TYPE_CHECKING:
    from nczfs.model.hierarchy import CodecSpec, Json

# The setting that the word after the colon gives, and its possible values.
_LEVELS = {
    "zlib": ("level", range(10)),
    "gzip": ("level", range(10)),
    "bz2": ("level", range(1, 10)),
    "zstd": ("level", range(-131072, 23)),
    "lzma": ("preset", range(10)),
    "lz4": ("acceleration", range(1, 65538)),
    "shuffle": ("elementsize", range(1, 256)),
}
_PLAIN = ("fletcher32", "crc32c", "adler32")
_BLOSC = ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd")
_LENGTH = re.compile(r"\s*(.+?)\s*[=/]\s*(\d{1,18})\s*")


def codecs(text: str) -> tuple[CodecSpec, ...]:
    """Parse codecs in encoding order: ``shuffle,zlib:4``, ``none``, or a list of objects.

    Raises
    ------
    UsageError : the text is something else.
    """
    from nczfs.library.api import codec_of  # imports NumPy

    if text.strip() == "none":
        return ()
    if not text.lstrip().startswith("["):
        return tuple(codec_of(_codec(word.strip())) for word in text.split(","))
    try:
        found = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a list of codecs: {error}") from None
    if not all(isinstance(codec, dict) for codec in found):
        raise UsageError(f"{text!r}: a codec is an object, as in [{{'id': 'zlib', 'level': 4}}]")
    return tuple(map(codec_of, found))


def lengths(text: str) -> dict[str, int]:
    """Parse lengths by name: ``time=10,lat=100``; nccopy's ``time/10,lat/100`` too.

    Raises
    ------
    UsageError : the text is something else.
    """
    found: dict[str, int] = {}
    for word in text.split(","):
        match = _LENGTH.fullmatch(word)
        if match is None or int(match[2]) < 1:
            raise UsageError(f"{word!r} is not a chunk length; write time=10,lat=100")
        found[match[1]] = int(match[2])
    return found


def positive(text: str) -> int:
    """Parse a whole number above zero."""
    if not re.fullmatch(r"[0-9]{1,18}", text) or int(text) < 1:
        raise UsageError(f"{text!r} is not a positive whole number")
    return int(text)


def _codec(word: str) -> dict[str, Json]:
    name, *parameters = word.split(":")
    if name == "blosc" and len(parameters) <= 2:
        compressor, level = (*parameters, *("lz4", "5")[len(parameters) :])
        if compressor not in _BLOSC:
            raise UsageError(f"{word!r}: blosc has no {compressor!r}; it has {', '.join(_BLOSC)}")
        return {
            "id": name,
            "cname": compressor,
            "clevel": _number(level, range(10), word),
            "shuffle": 1,
            "blocksize": 0,
        }
    if name in _LEVELS and len(parameters) <= 1:
        member, possible = _LEVELS[name]
        members: dict[str, Json] = {"id": name}
        if parameters:
            members[member] = _number(parameters[0], possible, word)
        return members
    if name in _PLAIN and not parameters:
        return {"id": name}
    known = ", ".join(["none", *_LEVELS, "blosc", *_PLAIN])
    raise UsageError(f"{word!r} is not a codec; known are {known}, and JSON for all others")


def _number(text: str, possible: range, word: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f"{word!r}: {text!r} is not a number") from None
    if number not in possible:
        raise UsageError(f"{word!r}: {number} is not between {possible[0]} and {possible[-1]}")
    return number
