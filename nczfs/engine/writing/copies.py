"""Copies of stored units, over which what was written to these may be put as well."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Final

from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.spool.basis import ObjectCopy
from nczfs.engine.writing.dirty import DirtyUnit
from nczfs.plaindata import frozen
from nczfs.zmap.keys import Key

YOUNG_S: Final = 10.0  # also where the clocks of client and server differ by seconds


@frozen
class UnitCopies:
    """Copies of units that were just made.

    The times of many stores are whole seconds: for as long as that, they do not show that what is
    written after a copy was made is newer.

    Attributes
    ----------
    arrays : whose units they may be of.
    by_source : by the keys of the units in their old place.
    source : returns that key for the key of a unit in its old place or the new one.
    """

    arrays: frozenset[StoredArray]
    by_source: Mapping[Key, ObjectCopy]
    source: Callable[[Key], Key]
    made_at: float = field(default_factory=time.monotonic)

    @property
    def may_be_young(self) -> bool:
        """Whether the times of a store may not show that what is written now is newer."""
        return time.monotonic() < self.made_at + YOUNG_S

    def of(self, unit: DirtyUnit) -> ObjectCopy | None:
        """Return the copy of a unit."""
        if unit.array not in self.arrays:
            return None
        return self.by_source.get(self.source(unit.io.key(unit.index)))

    @property
    def young(self) -> UnitCopies:
        """Those so young that the times of a store may not show what is newer."""
        since_ns = time.time_ns() - int(YOUNG_S * 1e9)
        young = {key: copy for key, copy in self.by_source.items() if copy.made_ns > since_ns}
        return replace(self, by_source=young)
