"""What the store was asked to make of an object without an answer: it may have done so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from nczfs.engine.spool.basis import Sent
from nczfs.engine.spool.objects import are_equal
from nczfs.errors import Conflict, NczfsError, NoSuchObject, SpoolError
from nczfs.plaindata import frozen
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap.base import Stat, ZMap
from nczfs.zmap.keys import Key


@frozen
class Copied:
    """A version of an object that was to be copied."""

    source: Stat

    def is_in(self, zmap: ZMap, stat: Stat) -> bool:
        """Return whether an object is that copy. Reads both in blocks."""
        return are_equal(zmap, stat, self.source)


Attempt: TypeAlias = Sent | Copied


class UnansweredAttempts:
    """The attempts of one file that have no answer. Its user makes one call at a time.

    Attributes
    ----------
    found : them, and the keys at which they were to make an object.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.found: set[tuple[Key, Attempt]] = set()

    def at(self, key: Key) -> list[Attempt]:
        """Return those that were to make the object under a key."""
        return [each for at, each in [*self.found] if at == key]

    def add(self, key: Key, attempts: Iterable[Attempt]) -> None:
        """Add attempts to make the object under a key."""
        self.found |= {(key, each) for each in attempts}

    def clear(self) -> None:
        """Note that the store has given an answer since."""
        self.found = set()

    def arrived(self, key: Key) -> Stat | None:
        """Return the object under a key, if one of the attempts made it."""
        attempts, zmap = self.at(key), self._store.zmap
        found = self._store.find(key) if attempts else None
        try:
            if found is not None and any(each.is_in(zmap, found) for each in attempts):
                return found
        except (Conflict, NoSuchObject, SpoolError):
            pass  # another client has just replaced or deleted it
        return None


class Failure(NamedTuple):
    """A failed upload, its generation, and its time on the monotonic clock."""

    attempt: int
    generation: int
    error: NczfsError
    at: float
