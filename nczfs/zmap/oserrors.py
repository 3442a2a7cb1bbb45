"""Translation of the operating system's errors about files."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from nczfs.errors import (
    AccessDenied,
    KeyTooLong,
    NoSpace,
    NoSuchObject,
    ObjectTooLarge,
    OutOfDescriptors,
    ReadOnlyStore,
    StoreError,
    Unavailable,
)

ERRORS: Final[Mapping[int, type[StoreError]]] = {
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


def kind_of(error: OSError, errors: Mapping[int, type[StoreError]] = ERRORS) -> type[StoreError]:
    """Return the store's error for one of the operating system."""
    return errors.get(error.errno or 0, Unavailable)
