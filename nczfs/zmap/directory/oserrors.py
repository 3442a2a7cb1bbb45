"""What the operating system says of a directory tree, as errors of its store."""

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
    errno.EILSEQ: BadKey,  # a file system that takes UTF-8 names only
}


def translated(error: OSError, what: str) -> StoreError:
    """The error of the store; `what` could not be asked or changed."""
    return kind_of(error, _ERRORS)(f"{what}: {error.strerror}")


def is_absent(error: OSError) -> bool:
    """Whether there is nothing, and can be nothing, of that name."""
    return kind_of(error, _ERRORS) in {NoSuchObject, KeyTooLong}
