"""What a program has the cache keep for later: how much that is, and whether more has room."""

from __future__ import annotations

from dataclasses import dataclass, field

from nczfs.engine.chunks.loaded import Footprint
from nczfs.engine.chunks.slots import SLOTS_MAX, Slot


@dataclass(slots=True)
class Keeping:
    """The chunks of several arrays that one program has the cache keep. For one thread.

    The disk tier empties its oldest segment when it is full. So when chunks as new as the first one
    have made room, more chunks would only push out earlier ones. That the first one is not there
    any more does not show this: it may have changed in the store, or been evicted.

    Attributes
    ----------
    memory_bytes : of the cache; what the disk does not take has no more room.
    held : what was kept so far.
    newest_lost : of the disk tier, as it was last seen; see `SpillTier`.
    """

    memory_bytes: int
    held: Footprint = field(default_factory=Footprint)
    newest_lost: int = 0
    _first: int | None = None
    _last: Slot | None = None

    def on_disk(self, slot: Slot, disk_bytes: int) -> None:
        """Note a chunk in the disk tier, or on its way there."""
        self.held += Footprint(1, 0, disk_bytes)
        if disk_bytes:
            self._first = self._first or slot.number
            self._last = slot

    def in_memory(self, memory_bytes: int) -> None:
        """Note a chunk that the disk does not take."""
        self.held += Footprint(1, memory_bytes, 0)

    @property
    def last(self) -> Slot | None:
        """The last chunk that goes to the disk."""
        return self._last

    @property
    def is_full(self) -> bool:
        """Whether the cache has no room for more."""
        if self.held.memory_bytes > self.memory_bytes or self.held.chunks > SLOTS_MAX:
            return True
        return self._first is not None and self._first <= self.newest_lost
