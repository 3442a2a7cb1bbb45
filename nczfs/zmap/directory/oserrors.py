"""Translation of the operating system's errors about a directory tree."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final

from nczfs.errors import BadKey, DeadlinePassed, KeyTooLong, NoSuchObject, StoreError
from nczfs.zmap.oserrors import ERRORS, kind_of

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    **ERRORS,
    errno.ELOOP: NoSuchObject,  # links that lead nowhere
    errno.EAGAIN: DeadlinePassed,  # others kept the lock
    errno.EILSEQ: BadKey,  # a file system with UTF-8 names only
}


def translated(error: OSError, what: str) -> StoreError:
    """Return the error of the store for a failed request about `what`."""
    return kind_of(error, _ERRORS)(f"{what}: {error.strerror}")


def is_absent(error: OSError) -> bool:
    """Return whether the error means that there is nothing of that name."""
    return kind_of(error, _ERRORS) in {NoSuchObject, KeyTooLong}
