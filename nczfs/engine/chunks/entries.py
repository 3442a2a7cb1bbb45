"""The records of the chunk cache: the chunks that are in memory, and the loads under way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

from nczfs.engine.chunks.loaded import ChunkId, LoadedChunk
from nczfs.errors import NczfsError

Loader: TypeAlias = "Callable[[LoadedChunk | None], LoadedChunk]"
"""Loads a chunk. What is already known of it is passed in, to be confirmed or replaced."""


class CacheEntry:
    """A chunk in memory."""

    __slots__ = ("checked_at", "loaded", "pins", "referenced", "share_read")

    def __init__(self, loaded: LoadedChunk, checked_at: float, share_read: float) -> None:
        self.loaded = loaded
        self.checked_at = checked_at
        self.pins = 0
        self.referenced = False
        self.share_read = share_read  # of its elements; counted without a lock, so roughly

    def pinned(self, share: float) -> CacheEntry:
        """Return the entry for one more reader, of a share of its elements."""
        self.pins += 1
        self.referenced = True
        self.share_read += share
        return self


class ChunkLoad:
    """A load that is claimed.

    Attributes
    ----------
    started_at : when the data are certainly valid.
    claim : the very object by which a chunk was claimed to be loaded ahead, by its identity.
    held : bytes that are reserved for it as long as nobody has begun it; None: it is begun. No
        reader waits for a load that nobody has begun.
    done : set at its end, with an entry, an error, or neither: then who waits loads the chunk.
    """

    __slots__ = ("claim", "done", "entry", "error", "held", "is_dropped", "started_at")

    def __init__(
        self, started_at: float, claim: ChunkId | None = None, held: int | None = None
    ) -> None:
        self.started_at = started_at
        self.claim = claim
        self.held = held
        self.done = threading.Event()
        self.entry: CacheEntry | None = None
        self.error: NczfsError | None = None
        self.is_dropped = False

    @property
    def is_begun(self) -> bool:
        """Whether a thread is loading the chunk, or will without fail."""
        return self.held is None

    def end(self, entry: CacheEntry | None, error: NczfsError | None = None) -> None:
        """Let those who wait go on with what was loaded, or with an error."""
        self.entry = entry
        self.error = error
        self.done.set()
