"""Files and directories on the local disk: private, kept for good, and with our errors."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from nczfs.errors import NoSpace, ObjectTooLarge, OutOfDescriptors, StoreError, Unavailable

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    errno.ENOSPC: NoSpace,
    errno.EDQUOT: NoSpace,
    errno.EFBIG: ObjectTooLarge,
    errno.EMFILE: OutOfDescriptors,
    errno.ENFILE: OutOfDescriptors,
}


@contextlib.contextmanager
def disk(path: Path) -> Iterator[None]:
    """Errors of the local disk as ours: NoSpace, ObjectTooLarge, Unavailable."""
    try:
        yield
    except OSError as error:
        kind = _ERRORS.get(error.errno or 0, Unavailable)
        raise kind(f"{path}: {error.strerror}; --spool-dir names another place") from error


def make_private(directory: Path) -> None:
    """Make a directory, and those above it, for their owner alone, whatever the umask.

    They survive a power failure. Directories that exist keep their modes.
    """
    if not directory.exists():
        make_private(directory.parent)
        directory.mkdir(0o700, exist_ok=True)
        with contextlib.suppress(PermissionError):  # one may write there, and not read
            sync_directory(directory.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power failure."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
