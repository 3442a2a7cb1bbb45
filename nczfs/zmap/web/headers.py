"""Values of headers, which may be anything: each is what it should be, or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final, NamedTuple

from nczfs.zmap.base import Version

SIZE_END: Final = 1 << 63
"""No file has so many bytes: the kernel counts them in 64 bits, one of which is the sign."""

LONGEST_PAUSE_S: Final = 30  # that a server may ask for

_NUMBER = re.compile(r"[0-9]{1,19}")
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,19})-([0-9]{1,19})|\*)/([0-9]{1,19})")
_SECOND_NS = 1_000_000_000
# Section 8.8.3 of RFC 9110, without bytes over 127, which not all servers take back.
_ETAG = re.compile(r'(?:W/)?"[!#-~]*"')
_BARE_ETAG = re.compile(r"[!#-~]+")  # some servers leave out the quotes


class ContentRange(NamedTuple):
    """A header ``Content-Range``; without a start where no bytes of the object were sent."""

    start: int | None
    size: int


def number(text: str) -> int | None:
    """A number of bytes: decimal, below 2^63; None for anything else."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if value < SIZE_END else None


def length_of(headers: Mapping[str, str]) -> int | None:
    """The length of the body, where the answer says it."""
    return number(headers.get("content-length", ""))


def content_range(headers: Mapping[str, str]) -> ContentRange | None:
    """Which bytes of an object an answer has, and how many the object."""
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    size = number(found[3]) if found is not None else None
    if found is None or size is None:
        return None
    return ContentRange(None if found[1] is None else int(found[1]), size)


def pause_s(headers: Mapping[str, str]) -> float:
    """How long the server asks not to come back; 0 where it does not say so in seconds."""
    text = headers.get("retry-after", "")
    if not (text.isascii() and text.isdecimal()):
        return 0.0
    return min(number(text) or 0, LONGEST_PAUSE_S) if len(text) < 20 else LONGEST_PAUSE_S


@lru_cache(maxsize=1024)  # objects are written in bursts
def time_ns(text: str) -> int | None:
    """Of a time as in a header, since 1970; None where it is none, or none that a file can have."""
    try:
        found = int(parsedate_to_datetime(text).timestamp()) * _SECOND_NS
    except (ValueError, OverflowError, TypeError, IndexError):  # the last two: of odd time zones
        return None
    return found if 0 <= found < SIZE_END else None


def etag_in(text: str) -> str:
    """An ETag as it is sent back, in quotes; "" where it is none."""
    if _ETAG.fullmatch(text):
        return text
    return f'"{text}"' if _BARE_ETAG.fullmatch(text) else ""


def version_of(etag: str, mtime_ns: int | None, size: int) -> Version:
    """The version of an object: its ETag, or else when it was modified, with its size."""
    second = "" if mtime_ns is None else mtime_ns // _SECOND_NS
    return Version(etag_in(etag) or f"{second}+{size}")


def is_etag(version: Version) -> bool:
    """Whether it is one that the server made, not one of `version_of`."""
    return version.startswith(('"', "W/"))


def is_strong(version: Version) -> bool:
    """Whether a server can be asked for this version alone: weak ETags never match."""
    return version.startswith('"')
