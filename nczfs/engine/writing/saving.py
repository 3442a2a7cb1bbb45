"""Saving dirty chunks that the store does not take into the spool."""

from __future__ import annotations

import logging

from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.retrying import StoreHealth
from nczfs.engine.spool.saved import Frozen, Saved, discard, save_chunk
from nczfs.engine.spool.space import Spool
from nczfs.engine.writing.dirty import DirtyChunk
from nczfs.engine.writing.dirtymap import DirtyMap
from nczfs.errors import NczfsError

log = logging.getLogger(__name__)


class Saver:
    """A saver of dirty chunks in the spool; the chunks stay dirty.

    Parameters
    ----------
    spool : None: nothing is saved.
    health : gives the reason for saving a chunk that was never tried.

    Attributes
    ----------
    is_ending : whether there will be no further attempt: chunks that fail are saved at once, beyond
        the limit of the spool.
    """

    def __init__(self, spool: Spool | None, dirty: DirtyMap, health: StoreHealth) -> None:
        self._spool = spool
        self._dirty = dirty
        self._health = health
        self.is_ending = False

    def save(self, chunk: DirtyChunk) -> None:
        """Put a chunk into the spool, and release its memory. Raises NoSpace, StoreError."""
        if self._spool is not None:
            frozen, io = self._frozen(chunk)
            if frozen is not None:
                reason = str(chunk.unit.error or self._health.error)
                saved = save_chunk(
                    self._spool, io, chunk.index, frozen, reason, always=self.is_ending
                )
                unneeded = self._noted(chunk, saved)
                if unneeded is not None:
                    discard(self._spool, unneeded)
            with chunk.lock:
                chunk.park()
        self._dirty.count(chunk)

    def _frozen(self, chunk: DirtyChunk) -> tuple[Frozen | None, ChunkStore]:
        """Return what is to be saved of a chunk; see `DirtyChunk.freeze`. Raises Unavailable."""
        unit = chunk.unit
        while True:
            unit.note_sent()
            with chunk.lock:
                if unit.sent is None:
                    return chunk.freeze(), unit.io

    @staticmethod
    def _noted(chunk: DirtyChunk, saved: Saved) -> Saved | None:
        """Note that the spool has a chunk, which may have been sent since; as `DirtyChunk.save`."""
        unit = chunk.unit
        while True:
            unit.note_sent()
            with chunk.lock:
                if unit.sent is None:
                    saved.record(unit.attempts.unrecorded(chunk, saved))
                    return chunk.save(saved)

    def save_or_tell(self, chunk: DirtyChunk) -> None:
        """Save a chunk, and log an error instead of raising it."""
        try:
            self.save(chunk)
        except NczfsError as error:
            log.critical("%s: kept in memory only: %s", chunk.key, error)

    def abandon(self, chunk: DirtyChunk) -> bool:
        """Save a chunk of an array that is gone. Returns whether it need not be held any more."""
        self.save_or_tell(chunk)
        saved = chunk.saved
        if self._spool is None or saved is None or not chunk.is_saved:
            return self._spool is None
        self._spool.keep(saved.path, saved.end())
        log.error("%s: %s; saved in %s", chunk.key, chunk.unit.error, saved.path)
        return True

    def forget(self, chunk: DirtyChunk) -> None:
        """Remove the entry of a chunk that is gone."""
        if chunk.saved is not None and self._spool is not None:
            discard(self._spool, chunk.saved)
