"""The time of an object in its metadata, as rclone and s3fs write and read it.

Seconds since 1970, as a decimal. rclone reads any number of digits after the point, s3fs takes them
for nanoseconds whatever their number: so there are nine, or none and no point.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HEADER = "x-amz-meta-mtime"

_DECIMAL = re.compile(r"(-?)(\d{1,10})(?:\.(\d{0,30}))?", re.ASCII)
_SECOND_NS = 1_000_000_000
_LIMIT_NS = 1 << 63  # what rclone can read, and a time of the kernel's


def headers_of(mtime_ns: int | None) -> dict[str, str]:
    """The header that keeps a time with an object; none for None."""
    if mtime_ns is None:
        return {}
    seconds, nanoseconds = divmod(abs(mtime_ns), _SECOND_NS)
    sign = "-" if mtime_ns < 0 else ""
    return {HEADER: f"{sign}{seconds}" + (f".{nanoseconds:09}" if nanoseconds else "")}


def time_in(headers: Mapping[str, str]) -> int | None:
    """The time that is kept with an object; None where there is none, or what is there is no time.

    Digits beyond nanoseconds are cut off.
    """
    found = _DECIMAL.fullmatch(headers.get(HEADER, "").strip())
    if found is None:
        return None
    sign, seconds, fraction = found[1], found[2], found[3] or ""
    mtime_ns = int(seconds) * _SECOND_NS + int(f"{fraction:0<9}"[:9])
    return (-mtime_ns if sign else mtime_ns) if mtime_ns < _LIMIT_NS else None
