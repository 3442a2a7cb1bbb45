"""The time of an object in its metadata, as rclone and s3fs write and read it.

Seconds since 1970, as a decimal. rclone reads any number of digits after the point, s3fs takes any
number of them for nanoseconds: so there are nine, or none and no point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HEADER = "x-amz-meta-mtime"

_DECIMAL = re.compile(r"(-?)(\d{1,10})(?:\.(\d{0,30}))?", re.ASCII)
_SECOND_NS = 1_000_000_000
_LIMIT_NS = 1 << 63  # what rclone can read, and what a time of the kernel can be


def headers_of(mtime_ns: int | None) -> dict[str, str]:
    """Return the header that stores a time with an object; none for None."""
    if mtime_ns is None:
        return {}
    seconds, nanoseconds = divmod(abs(mtime_ns), _SECOND_NS)
    sign = "-" if mtime_ns < 0 else ""
    return {HEADER: f"{sign}{seconds}" + (f".{nanoseconds:09}" if nanoseconds else "")}


def time_in(headers: Mapping[str, str]) -> int | None:
    """Return the time that is stored with an object; None: there is no valid one.

    Digits beyond nanoseconds are cut off.
    """
    found = _DECIMAL.fullmatch(headers.get(HEADER, "").strip())
    if found is None:
        return None
    sign, seconds, fraction = found[1], found[2], found[3] or ""
    mtime_ns = int(seconds) * _SECOND_NS + int(f"{fraction:0<9}"[:9])
    return (-mtime_ns if sign else mtime_ns) if mtime_ns < _LIMIT_NS else None
