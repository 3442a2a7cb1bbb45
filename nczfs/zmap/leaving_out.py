"""Entries of a listing that cannot be shown: they are left out, and the others are shown."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from nczfs.errors import StoreError
from nczfs.metrics import HIDDEN_KEYS

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


def without_failures(found: Iterable[_T | StoreError], where: str) -> Iterator[_T]:
    """Yield a listing without the entries for which the store fails.

    If it fails for all entries, the listing is not empty: the store has closed, or is broken.

    Parameters
    ----------
    where : what is listed, for the log.

    Raises
    ------
    StoreError : the first failure, if all entries failed.
    """
    first: StoreError | None = None
    failures = shown = 0
    for entry in found:
        if isinstance(entry, StoreError):
            failures += 1
            first = first or entry
        else:
            shown += 1
            yield entry
    if first is None:
        return
    if not shown:
        raise first
    leave_out(where, failures, str(first))


def leave_out(where: str, count: int, reason: str) -> None:
    """Count entries that are left out of a listing, and log that once.

    Parameters
    ----------
    reason : for the first of them.
    """
    HIDDEN_KEYS.inc(count)
    _warn(where, count, reason)


@lru_cache(maxsize=1024)
def _warn(where: str, count: int, reason: str) -> None:
    _log.warning("%s: left out %d entries, the first: %s", where, count, reason)
