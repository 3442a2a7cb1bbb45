"""Translation of the operating system's errors about an archive and its side file."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Mapping
from typing import Final

from nczfs.errors import AccessDenied, StoreError
from nczfs.zmap.oserrors import ERRORS, kind_of

_ERRORS: Final[Mapping[int, type[StoreError]]] = {
    **ERRORS,
    errno.EEXIST: AccessDenied,  # another user's side file
}


def store_error(error: OSError, name: str) -> StoreError:
    """Return the store's error for one of the operating system."""
    where = f" ({error.filename})" if error.filename else ""
    return kind_of(error, _ERRORS)(f"{name}: {error.strerror}{where}")


@contextlib.contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise errors of the operating system as those of stores."""
    try:
        yield
    except OSError as error:
        raise store_error(error, name) from error
