"""Parsers of header values, which may contain anything: invalid ones count as missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Final, NamedTuple

from nczfs.zmap.base import Version

SIZE_END: Final = 1 << 63
"""No file has so many bytes: the kernel counts them in 63 bits and a sign."""

ANOTHER_RANGE: Final = "the server sent another range than requested"
LONGEST_PAUSE_S: Final = 30  # longest pause that a server may request

_NUMBER = re.compile(r"[0-9]{1,19}")
_CONTENT_RANGE = re.compile(r"bytes (?:([0-9]{1,19})-([0-9]{1,19})|\*)/([0-9]{1,19})")
_SECOND_NS = 1_000_000_000
# Section 8.8.3 of RFC 9110, without bytes over 127, which not all servers take back.
_ETAG = re.compile(r'(?:W/)?"[!#-~]*"')
_BARE_ETAG = re.compile(r"[!#-~]+")  # some servers omit the quotes


class ContentRange(NamedTuple):
    """A header ``Content-Range``; without a start if no bytes of the object were sent."""

    start: int | None
    size: int

    def fault(self, length: int, start: int, stop: int | None) -> str:
        """Return what is wrong with an answer to a read of [start, stop), as of `ZMap.read`.

        Parameters
        ----------
        length : of the body that came, in bytes.
        """
        begin = max(0, self.size + start) if start < 0 else start
        if self.start != begin:
            return ANOTHER_RANGE
        end = self.size if stop is None else min(stop, self.size)
        return "" if length == end - begin else f"{length} bytes came instead of {end - begin}"


def number(text: str) -> int | None:
    """Parse a number of bytes: decimal, below 2^63; None for anything else."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = int(text)
    return value if value < SIZE_END else None


def length_of(headers: Mapping[str, str]) -> int | None:
    """Return the length of the body, if the answer gives it."""
    return number(headers.get("content-length", ""))


def content_range(headers: Mapping[str, str]) -> ContentRange | None:
    """Return which bytes of an object an answer has, and how many the object has."""
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    size = number(found[3]) if found is not None else None
    if found is None or size is None:
        return None
    return ContentRange(None if found[1] is None else int(found[1]), size)


def range_header(start: int, stop: int | None) -> str:
    """Return the header of a read as of `ZMap.read` (RFC 9110, section 14.1.2)."""
    if start < 0:
        return f"bytes={start}"
    return f"bytes={start}-{'' if stop is None else stop - 1}"


def pause_s(headers: Mapping[str, str]) -> float:
    """Return the pause that the server requests; 0 if it gives none in seconds."""
    text = headers.get("retry-after", "")
    if not (text.isascii() and text.isdecimal()):
        return 0.0
    return min(number(text) or 0, LONGEST_PAUSE_S) if len(text) < 20 else LONGEST_PAUSE_S


@lru_cache(maxsize=1024)  # objects are written in bursts
def time_ns(text: str) -> int | None:
    """Parse a time of a header, since 1970; None if it is invalid, or impossible for a file."""
    try:
        found = int(parsedate_to_datetime(text).timestamp()) * _SECOND_NS
    except (ValueError, OverflowError, TypeError, IndexError):  # the last two: odd time zones
        return None
    return found if 0 <= found < SIZE_END else None


def etag_in(text: str) -> str:
    """Return an ETag as it is sent back, in quotes; "" if it is invalid."""
    if _ETAG.fullmatch(text):
        return text
    return f'"{text}"' if _BARE_ETAG.fullmatch(text) else ""


def version_of(etag: str, mtime_ns: int | None, size: int) -> Version:
    """Return the version of an object: its ETag, or else when it was modified, with its size."""
    second = "" if mtime_ns is None else mtime_ns // _SECOND_NS
    return Version(etag_in(etag) or f"{second}+{size}")


def is_etag(version: Version) -> bool:
    """Return whether the server made it, not `version_of`."""
    return version.startswith(('"', "W/"))


def is_strong(version: Version) -> bool:
    """Return whether exactly this version can be requested: weak ETags never match."""
    return version.startswith('"')
