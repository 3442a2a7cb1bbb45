"""Translation of the operating system's errors about files, directory trees and archives."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping
from typing import Final

from nczfs.errors import (
    AccessDenied,
    BadKey,
    DeadlinePassed,
    KeyTooLong,
    NoSpace,
    NoSuchObject,
    ObjectTooLarge,
    OutOfDescriptors,
    ReadOnlyStore,
    StoreError,
    Unavailable,
)

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    errno.ENOENT: NoSuchObject,
    errno.ENOTDIR: NoSuchObject,
    errno.EISDIR: NoSuchObject,
    errno.ENXIO: NoSuchObject,  # a socket
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.EROFS: ReadOnlyStore,
    errno.ENOSPC: NoSpace,
    errno.EDQUOT: NoSpace,
    errno.EFBIG: ObjectTooLarge,
    errno.ENAMETOOLONG: KeyTooLong,
    errno.EMFILE: OutOfDescriptors,
    errno.ENFILE: OutOfDescriptors,
}
_TREE_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    **_ERRORS,
    errno.ELOOP: NoSuchObject,  # links that lead nowhere
    errno.EAGAIN: DeadlinePassed,  # others kept the lock
    errno.EILSEQ: BadKey,  # a file system with UTF-8 names only
}
_ARCHIVE_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    **_ERRORS,
    errno.EEXIST: AccessDenied,  # another user's side file
}


def kind_of(error: OSError, errors: Mapping[int, type[StoreError]] = _ERRORS) -> type[StoreError]:
    """Return the store's error for one of the operating system."""
    return errors.get(error.errno or 0, Unavailable)


def tree_error(error: OSError, what: str) -> StoreError:
    """Return the error of a directory store for a failed request about `what`."""
    return kind_of(error, _TREE_ERRORS)(f"{what}: {error.strerror}")


def is_absent(error: OSError) -> bool:
    """Return whether the error means that a directory tree has nothing of that name."""
    return kind_of(error, _TREE_ERRORS) in {NoSuchObject, KeyTooLong}


def archive_error(error: OSError, name: str) -> StoreError:
    """Return the error of an archive for a failed request about it or its side file."""
    where = f" ({error.filename})" if error.filename else ""
    return kind_of(error, _ARCHIVE_ERRORS)(f"{name}: {error.strerror}{where}")


@contextlib.contextmanager
def archive_errors(name: str) -> Iterator[None]:
    """Raise errors of the operating system as those of an archive."""
    try:
        yield
    except OSError as error:
        raise archive_error(error, name) from error
