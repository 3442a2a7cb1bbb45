"""A disk cache of the indexes of large archives, for opening them again.

Each archive has a file: a header, then the columns as they are in memory. It is valid if its
checksum is right, it belongs to the same version of the same archive, and the last bytes of that
archive have not changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import stat
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from nczfs.zmap.zip.ends import End, ReadAt, find_end, read_tail
from nczfs.zmap.zip.index import MEMBER, Columns, ZipIndex, parse_index

try:  # a fifth of the time of zlib's
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

log = logging.getLogger(__name__)

WORTH_BYTES: Final = 1 << 20  # smaller central directories are read in less than 50 ms
LIMIT_BYTES: Final = 1 << 30

_MAGIC: Final = b"nczfs zip index 1\n"
_HEADER_BYTES_MAX: Final = 1 << 20
_SUFFIX: Final = ".index"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class IndexCache:
    """A directory of index files, of which the oldest are removed beyond a limit of bytes.

    Nothing here raises: an index that cannot be read or stored is made anew. It is safe between
    processes, because files are renamed into place.

    Parameters
    ----------
    directory : made if it is missing.
    limit_bytes : of all files together.
    """

    def __init__(self, directory: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._directory = Path(directory)
        self._limit_bytes = limit_bytes

    def load(self, identity: str, tail: bytes, end: End, top: str | None) -> ZipIndex | None:
        """Return the index of an archive, if it is stored and valid."""
        path = self._path(identity, top)
        try:
            found = _decoded(_read_own(path), identity, tail, end)
            if found is not None:
                os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            log.debug("%s: not read: %s", path, error)
            return None
        if found is None:
            log.debug("%s: not of this archive, or damaged", path)
        return found

    def keep(self, identity: str, tail: bytes, top: str | None, index: ZipIndex) -> None:
        """Store an index, if there is room."""
        path = self._path(identity, top)
        header, columns = _encoded(identity, tail, index)
        size = len(header) + sum(len(column) for column in columns)
        if size > self._limit_bytes:
            return
        temporary = path.with_name(f"{secrets.token_hex(8)}.tmp")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(size)
            try:
                with open(
                    os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
                ) as (file):
                    file.write(header)
                    for column in columns:
                        file.write(column)
                os.rename(temporary, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            log.debug("%s: not stored: %s", path, error)

    def _path(self, identity: str, top: str | None) -> Path:
        text = json.dumps([identity, top])
        name = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        return self._directory / f"{name}{_SUFFIX}"

    def _make_room(self, size: int) -> None:
        files = []
        for entry in os.scandir(self._directory):
            if entry.name.endswith((_SUFFIX, ".tmp")) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                files.append((status.st_mtime_ns, status.st_size, entry.path))
        files.sort()
        used = sum(found for _, found, _ in files)
        for _, found, path in files:
            if used + size <= self._limit_bytes:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            used -= found


def load_index(
    read_at: ReadAt,
    size: int,
    *,
    top: str | None,
    identity: str,
    cache: IndexCache | None,
) -> ZipIndex:
    """Read an index as `read_index` does, using a cache for large central directories.

    Parameters
    ----------
    identity : of this version of the archive.
    """
    tail_start, tail = read_tail(read_at, size)
    end = find_end(tail, tail_start, read_at)
    if cache is None or end.stop - end.start < WORTH_BYTES:
        return parse_index(read_at, end, tail_start, tail, top=top)
    found = cache.load(identity, tail, end, top)
    if found is None:
        found = parse_index(read_at, end, tail_start, tail, top=top)
        cache.keep(identity, tail, top, found)
    return found


def default_directory() -> str:
    """Return the directory of the cache by the XDG base directory specification."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.expanduser("~/.cache")
    return os.path.join(base, "nczfs", "zip-index")


def _read_own(path: Path) -> bytes:
    """Read a file that only this user can have written."""
    fd = os.open(path, _READ)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError("not a regular file")
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError("others may have written it")
        return file.read()


def _encoded(identity: str, tail: bytes, index: ZipIndex) -> tuple[bytes, list[memoryview]]:
    columns = index.columns
    parts = [
        memoryview(columns.keys),
        columns.key_ends.view(np.uint8).data,
        np.ascontiguousarray(columns.members).view(np.uint8).data,
        columns.shadowed.view(np.uint8).data,
    ]
    checksum = 0
    for part in parts:
        checksum = crc32(part, checksum)
    end = asdict(index.end)
    end["comment"] = index.end.comment.hex()
    header = {
        "identity": identity,
        "tail": zlib.crc32(tail),
        "end": end,
        "top": index.top,
        "dropped": index.dropped,
        "sizes": [len(part) for part in parts],
        "checksum": checksum,
    }
    text = json.dumps(header).encode()
    lead = _MAGIC + len(text).to_bytes(4, "little") + zlib.crc32(text).to_bytes(4, "little")
    return lead + text, parts


def _decoded(data: bytes, identity: str, tail: bytes, end: End) -> ZipIndex | None:
    """Decode the index in a file; None if it is not of this archive, or damaged."""
    try:
        header, body_at = _header(data)
        keys_size, ends_size, members_size, shadowed_size = header["sizes"]
        is_it = (
            header["identity"] == identity
            and header["tail"] == zlib.crc32(tail)
            and End(**header["end"] | {"comment": bytes.fromhex(header["end"]["comment"])}) == end
        )
        if not is_it or crc32(memoryview(data)[body_at:]) != header["checksum"]:
            return None
        view = memoryview(data)[body_at:]
        count = members_size // MEMBER.itemsize
        sizes = [keys_size, 8 * (count + 1), MEMBER.itemsize * count, 4 * (shadowed_size // 4)]
        if sizes != header["sizes"] or sum(sizes) != len(view) or count > end.count:
            return None
        ends_at, members_at = keys_size, keys_size + ends_size
        columns = Columns(
            bytes(view[:keys_size]),
            np.frombuffer(view[ends_at:members_at], np.uint64).copy(),
            np.frombuffer(view[members_at : members_at + members_size], MEMBER).copy(),
            np.frombuffer(view[members_at + members_size :], np.uint32).copy(),
        )
        ends = columns.key_ends
        if ends[0] != 0 or ends[-1] != keys_size or bool((ends[1:] < ends[:-1]).any()):
            return None
        if count and int(columns.members["row"].max()) >= end.count:
            return None
        return ZipIndex(end, columns, top=str(header["top"]), dropped=int(header["dropped"]))
    except (ValueError, TypeError, KeyError):
        return None


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    at = len(_MAGIC) + 8
    if len(data) < at or not data.startswith(_MAGIC):
        raise ValueError("no index")
    size = int.from_bytes(data[at - 8 : at - 4], "little")
    text = data[at : at + size]
    if size > _HEADER_BYTES_MAX or zlib.crc32(text) != int.from_bytes(data[at - 4 : at], "little"):
        raise ValueError("damaged header")
    header = json.loads(text)
    if not isinstance(header, dict):
        raise TypeError("no header")
    return header, at + size
