"""What the operating system says of an archive and its side file, as errors of stores."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping
from typing import Final

from nczfs.errors import (
    AccessDenied,
    KeyTooLong,
    NoSpace,
    NoSuchObject,
    ObjectTooLarge,
    ReadOnlyStore,
    StoreError,
    Unavailable,
)

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    errno.ENOENT: NoSuchObject,
    errno.ENOTDIR: NoSuchObject,
    errno.EISDIR: NoSuchObject,
    errno.ENXIO: NoSuchObject,  # a socket: not an archive
    errno.EACCES: AccessDenied,
    errno.EPERM: AccessDenied,
    errno.EEXIST: AccessDenied,  # somebody else's side file
    errno.EROFS: ReadOnlyStore,
    errno.ENOSPC: NoSpace,
    errno.EDQUOT: NoSpace,
    errno.EFBIG: ObjectTooLarge,
    errno.ENAMETOOLONG: KeyTooLong,
}


def store_error(error: OSError, name: str) -> StoreError:
    """The error of a store for one of the operating system."""
    kind = _ERRORS.get(error.errno or 0, Unavailable)
    where = f" ({error.filename})" if error.filename else ""
    return kind(f"{name}: {error.strerror}{where}")


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise errors of the operating system as those of stores."""
    try:
        yield
    except OSError as error:
        raise store_error(error, name) from error
