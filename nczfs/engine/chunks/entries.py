"""The records of the chunk cache: the chunks that are in memory, and the loads under way."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TypeAlias

from nczfs.engine.chunks.loaded import ChunkId, LoadedChunk
from nczfs.errors import NczfsError
from nczfs.model.grid import ChunkIndex

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
    """The load of a chunk, from its claim to its end.

    Whether it is under way is known by the cache alone: its object is among the loads there.

    Parameters
    ----------
    patience_s : for how long a reader waits that somebody begins it.

    Attributes
    ----------
    started_at : when the data are certainly valid.
    held : bytes of the budget that are reserved for it until its end.
    is_begun : whether a thread is loading the chunk. Otherwise a reader does so itself.
    is_in_turn : whether a reader has it, whose turn has come.
    is_dropped : whether what is loaded is not kept.
    done : set at its end, with an entry, an error, or neither: then who waits loads the chunk.
    """

    __slots__ = (
        "chunk_id",
        "done",
        "entry",
        "error",
        "held",
        "is_begun",
        "is_dropped",
        "is_in_turn",
        "patience_s",
        "started_at",
    )

    def __init__(self, chunk_id: ChunkId, patience_s: float = 0.0) -> None:
        self.chunk_id = chunk_id
        self.patience_s = patience_s
        self.started_at = -math.inf
        self.held = 0
        self.is_begun = self.is_in_turn = self.is_dropped = False
        self.done = threading.Event()
        self.entry: CacheEntry | None = None
        self.error: NczfsError | None = None

    @property
    def index(self) -> ChunkIndex:
        """The index of the chunk."""
        return self.chunk_id[1]

    def end(self, entry: CacheEntry | None, error: NczfsError | None = None) -> None:
        """Let those who wait go on with what was loaded, or with an error."""
        self.entry = entry
        self.error = error
        self.done.set()
