"""Files of the served store: whole, or a range of their bytes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from email.utils import formatdate, parsedate_to_datetime
from http import HTTPStatus
from typing import Final

from nczfs.buffers import Buffer
from nczfs.pictures.picture import PREVIEW_BYTES
from nczfs.plaindata import frozen
from nczfs.serve.answers import BINARY, TEXT, Answer, refusal
from nczfs.vfs.datasets.netcdffile import NetcdfFile
from nczfs.vfs.datasets.previewfile import PreviewFile
from nczfs.vfs.nodes import File, OpenFile

_TYPES: Final[Mapping[str, str]] = {
    "cdl": TEXT,
    "json": "application/json",
    "nc": "application/x-netcdf",
    "png": "image/png",
    "txt": TEXT,
}
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})\Z")


@frozen
class FileRequest:
    """The headers of a request for a file that its answer depends on; "" is one that is missing."""

    range: str = ""
    if_range: str = ""
    if_match: str = ""
    if_unmodified_since: str = ""


def file_answer(file: File, name: str, request: FileRequest, block_bytes: int) -> Answer:
    """Return the bytes of a file, or those of the range that was asked for.

    The layout of the file stays the same while it is sent. Its tag changes with its layout; values
    may be newer in a later part, as in a mount. So a client is never told that what it has is still
    the same (304): its values may be older.

    Parameters
    ----------
    block_bytes : that are read at a time.

    Raises
    ------
    NczfsError : it cannot be opened.
    """
    file.looked_up()
    opened = file.open()
    media_type = _TYPES.get(name.rpartition(".")[2], BINARY)
    if isinstance(file, PreviewFile):  # it changes with values, which nothing here knows the age of
        return Answer(_rest(opened, block_bytes), media_type, size=PREVIEW_BYTES)
    if file.direct_io:  # its size is known when it is read
        return Answer(_rest(opened, block_bytes), media_type)
    try:
        stat = file.stat()
        headers = {
            "Accept-Ranges": "bytes",
            "Cache-Control": "no-cache",
            "ETag": _tag(file, stat.size, stat.mtime_ns),
            "Last-Modified": formatdate(stat.mtime_ns / 1e9, usegmt=True),
        }
        if not _is_wanted(request, headers["ETag"], stat.mtime_ns):
            opened.close()
            return refusal(HTTPStatus.PRECONDITION_FAILED, "the file has another version")
        start, stop, status = 0, stat.size, HTTPStatus.OK
        if request.if_range in ("", headers["ETag"]):
            start, stop, status = _range(request.range, stat.size)
        if status is HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            opened.close()
            headers["Content-Range"] = f"bytes */{stat.size}"
            return Answer((), media_type, status, 0, headers)
        if status is HTTPStatus.PARTIAL_CONTENT:
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{stat.size}"
    except BaseException:
        opened.close()
        raise
    return Answer(
        _bytes(opened, start, stop, block_bytes), media_type, status, stop - start, headers
    )


def _is_wanted(request: FileRequest, tag: str, mtime_ns: int) -> bool:
    """Return whether a client still wants the file as it is now (RFC 9110, section 13.2.2)."""
    if request.if_match:
        return not {"*", tag}.isdisjoint(each.strip() for each in request.if_match.split(","))
    try:
        known = parsedate_to_datetime(request.if_unmodified_since).timestamp()
    except (ValueError, OverflowError):  # missing, or no date
        return True
    return mtime_ns // 10**9 <= known


def _range(text: str, size: int) -> tuple[int, int, HTTPStatus]:
    """Return the requested bytes [start, stop). Several ranges mean the whole file (RFC 9110)."""
    found = _RANGE.match(text)
    if found is None or found[0] == "bytes=-":
        return 0, size, HTTPStatus.OK
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
    else:
        start = int(found[1])
        stop = min(int(found[2]) + 1, size) if found[2] else size
        if found[2] and int(found[2]) < start:
            return 0, size, HTTPStatus.OK  # not a valid range, so it is ignored
    if start >= stop:
        return 0, 0, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
    return start, stop, HTTPStatus.PARTIAL_CONTENT


def _tag(file: File, size: int, mtime_ns: int) -> str:
    parts: list[object] = [size, mtime_ns]
    if isinstance(file, NetcdfFile) and isinstance(token := file.token, tuple):
        parts.append(token[1])  # the digest of its header and of the places of values
    return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


def _bytes(opened: OpenFile, start: int, stop: int, block_bytes: int) -> Iterator[Buffer]:
    try:
        while start < stop:
            data = opened.read(start, min(block_bytes, stop - start))
            start += len(data)
            yield data
    finally:
        opened.close()


def _rest(opened: OpenFile, block_bytes: int) -> Iterator[Buffer]:
    start = 0
    try:
        while data := opened.read(start, block_bytes):
            start += len(data)
            yield data
    finally:
        opened.close()
