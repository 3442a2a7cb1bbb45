"""Templates as files: bytes of a stored template are checked before they are used.

A file is a line with its form, a checksum of everything behind it, and the numbers and literals of
the template. It is complete before it gets its name, and it belongs to this user alone.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import IO, Final

import numpy as np

from nczfs.views.literalfile import LiteralFile
from nczfs.views.netcdf.hdf5.template import FileExtent, Template, gaps

log = logging.getLogger(__name__)

LIMIT_BYTES: Final = 1 << 30
MEMORY_BYTES_MAX: Final = 256 << 10
"""Literals up to this size are held in memory: then a read of them never waits for a disk."""

_FORM: Final = b"nczfs template 1\n"
_CHECKSUM_BYTES: Final = sha256().digest_size
_READ_BYTES: Final = 1 << 20
_NUMBER: Final = np.dtype("<u8")


class StoredTemplates:
    """A directory of templates, of which the least recently used go beyond a limit of bytes.

    Nothing here raises: a template that cannot be read or stored is built. It is safe between
    processes.

    Parameters
    ----------
    directory : made if it is missing; ignored if it is not of this user alone.
    limit_bytes : of all templates together.
    """

    def __init__(self, directory: str, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = Path(directory)
        self._limit_bytes = limit_bytes

    def load(self, digest: str) -> Template | None:
        """Return a template, if it is stored and undamaged."""
        path = self._path / digest
        try:
            self._check_own()
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            log.debug("%s: not used: %s", path, error)
            return None
        file = LiteralFile(fd)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise ValueError("not a regular file")
            found = _parsed(file, fd)
            with contextlib.suppress(OSError):
                os.utime(fd)  # evicted later than those that nothing uses
            return found
        except (OSError, ValueError) as error:
            log.debug("%s: built anew: %s", path, error)
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def keep(self, digest: str, template: Template) -> None:
        """Store a template, if there is room."""
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._check_own()
            with self._new_file() as (file, path):
                write_template(file, template)
                size = file.tell()
                if size > self._limit_bytes:
                    return
                self._make_room(size, but_for=path)
                path.replace(self._path / digest)
        except OSError as error:
            log.debug("%s: not stored: %s", self._path / digest, error)

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[tuple[IO[bytes], Path]]:
        """Open a file, which is removed after the block unless it has another name then."""
        fd, name = tempfile.mkstemp(dir=self._path, prefix="new-")
        try:
            with open(fd, "wb") as file:
                yield file, Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    def _make_room(self, size: int, *, but_for: Path) -> None:
        """Remove the files that were not used for the longest time, also what a crash left."""
        files = []
        for entry in os.scandir(self._path):
            with contextlib.suppress(FileNotFoundError):
                if entry.path != str(but_for) and entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
        used = size + sum(nbytes for _, nbytes, _ in files)
        for _, nbytes, path in sorted(files):
            if used <= self._limit_bytes:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            used -= nbytes

    def _check_own(self) -> None:
        status = self._path.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError("not a directory of this user")
        if status.st_mode & 0o077:
            raise PermissionError("others may use the directory of the templates")


def write_template(file: IO[bytes], template: Template) -> None:
    """Write a template that is in memory to an empty file."""
    assert isinstance(template.data, bytes)
    numbers = np.array(
        [
            template.size,
            len(template.runs),
            len(template.literals),
            *chain.from_iterable(template.runs),
            *chain.from_iterable(template.literals),
        ],
        _NUMBER,
    ).tobytes()
    checksum = sha256(numbers)
    checksum.update(template.data)
    for part in (_FORM, checksum.digest(), numbers, template.data):
        file.write(part)
    file.flush()


def open_template(fd: int) -> Template:
    """Return the template in a file, which it reads when it is used.

    Parameters
    ----------
    fd : becomes the template's own.

    Raises
    ------
    ValueError : the file does not hold a template, or a damaged one.
    """
    return _parsed(LiteralFile(fd), fd)


def _parsed(file: LiteralFile, fd: int) -> Template:
    size = os.fstat(fd).st_size
    at = len(_FORM) + _CHECKSUM_BYTES
    if size < at + 3 * _NUMBER.itemsize or file.read(0, len(_FORM)) != _FORM:
        raise ValueError("not a template")
    checksum = sha256()
    for begin in range(at, size, _READ_BYTES):
        checksum.update(file.read(begin, min(_READ_BYTES, size - begin)))
    if checksum.digest() != file.read(len(_FORM), _CHECKSUM_BYTES):
        raise ValueError("wrong checksum")
    file_size, runs, literals = _numbers(file, at, 3)
    at += 3 * _NUMBER.itemsize
    places = list(_places(_numbers(file, at, 2 * (runs + literals))))
    at += 2 * (runs + literals) * _NUMBER.itemsize
    data: bytes | LiteralFile = file
    if size - at <= MEMORY_BYTES_MAX:
        data, at = file.read(at, size - at), 0
    found = Template(file_size, tuple(places[:runs]), tuple(places[runs:]), data, at)
    used = (place for place in places if place.nbytes)
    for _ in gaps(tuple(sorted(used)), file_size):
        pass
    return found


def _numbers(file: LiteralFile, at: int, count: int) -> list[int]:
    data = file.read(at, count * _NUMBER.itemsize)
    numbers: list[int] = np.frombuffer(data, _NUMBER).tolist()
    return numbers


def _places(numbers: list[int]) -> Iterator[FileExtent]:
    return (FileExtent(offset, nbytes) for offset, nbytes in zip(*[iter(numbers)] * 2, strict=True))
