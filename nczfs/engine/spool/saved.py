"""The entries of dirty chunks that this mount has in the spool."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.spool.basis import Basis, ObjectCopy, Sent
from nczfs.engine.spool.chunks import (
    CHUNK,
    ENCODED,
    RECORDS,
    SENDING,
    UPON,
    VALUES,
    ChunkDetails,
    KeptChunk,
)
from nczfs.engine.spool.disk import disk
from nczfs.engine.spool.entries import add_record, heading, read_records, write_records
from nczfs.engine.spool.records import Packed, packed, size_of
from nczfs.engine.spool.space import Spool, Survives
from nczfs.errors import NczfsError, NoSpace, SpoolError, Unavailable
from nczfs.model.grid import ChunkIndex
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version

log = logging.getLogger(__name__)

DESCRIPTION_BYTES: Final = 1024  # what an entry counts for besides its values


@frozen(slots=False)
class Attempt:
    """An object that is sent to the store, as entries record it.

    Attributes
    ----------
    is_whole : whether it has all elements of the entry, or newer ones.
    """

    sent: Sent
    is_whole: bool

    @cached_property
    def record(self) -> Packed:
        """The record of an entry that says so."""
        document = {"is": SENDING, "sent": self.sent.document(), "is_whole": self.is_whole}
        return packed(document)


@dataclass(eq=False, slots=True)
class Saved:
    """A chunk in the spool.

    `_lock` guards `nbytes`, `basis` and `recorded`, and is held while the file becomes longer.

    Attributes
    ----------
    nbytes : its share of the spool's budget.
    revision : of the chunk that it has.
    values : maps the values of the chunk from the file; None if that is impossible. Each use maps
        anew, because a mapped file takes a descriptor. Raises Unavailable.
    flags : reads from the file which elements were written. Raises Unavailable.
    basis : of its elements, with copies of its object, without what was sent to the store later.
    recorded : what it says was sent to the store, and whether that has all elements of the entry.
    """

    spool: Spool
    path: Path
    nbytes: int
    revision: int
    values: Callable[[], Values] | None
    flags: Callable[[], Values]
    basis: Basis = field(default_factory=Basis)
    recorded: dict[Sent, bool] = field(default_factory=dict)
    _added_bytes: int = 0
    _is_over: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, attempts: Iterable[Attempt]) -> None:
        """Add what is sent to the store, if there is room. Never raises.

        All this together takes no more room than the rest of the entry.
        """
        with self._lock:
            for each in attempts:
                if self.recorded.get(each.sent) in {True, each.is_whole}:
                    continue
                if self._is_added(each.record):
                    self.recorded[each.sent] = each.is_whole

    def rest_upon(self, copy: ObjectCopy) -> None:
        """Add the copy of its object, unless that may be newer. Never raises.

        Its own basis tells that: the unit may rest upon something that has some of its elements.
        """
        with self._lock:
            basis, said = self.basis.upon_copy(copy), {"is": UPON, "version": copy.version}
            if basis is not self.basis and self._is_added(packed(said)):
                self.basis = basis

    def _is_added(self, record: Packed) -> bool:
        """Add a record, if there is room. The caller holds `_lock`."""
        if self._is_over:
            return False
        try:
            self._add(record)
        except NczfsError as error:
            log.info("`nczfs recover` may take it for another client's: %s", error)
            return False
        return True

    def _add(self, record: Packed) -> None:
        size = size_of(record)
        if size > self.nbytes - 2 * self._added_bytes:
            raise NoSpace(f"{self.path}: another record takes {size} bytes")
        self.spool.reserve(size)
        try:
            add_record(self.path, record)
        except BaseException:
            self.spool.reserve(-size)
            raise
        self.nbytes += size
        self._added_bytes += size

    def end(self) -> int:
        """Let the entry as it is from now on. Returns its share of the spool's budget."""
        with self._lock:
            self._is_over = True
            return self.nbytes


@frozen
class Frozen:
    """The unsaved elements of a chunk at one time.

    Attributes
    ----------
    values : of the whole chunk; they do not change any more.
    flags : which elements were written; None: all that lie in the array.
    version : of the object that the other elements came from, if known.
    revision : of the chunk at that time.
    basis : what the stored chunk was when it was written to.
    """

    values: Values
    flags: Values | None
    version: Version | None
    revision: int
    basis: Basis = field(default_factory=Basis)


def save_chunk(
    spool: Spool,
    io: ChunkStore,
    index: ChunkIndex,
    frozen: Frozen,
    reason: str,
    *,
    always: bool = False,
) -> Saved:
    """Put a chunk into the spool. Raises NoSpace, Unavailable, CodecError.

    Parameters
    ----------
    always : whether there is room in the budget of the spool or not.
    """
    array = io.array
    is_mappable = array.dtype.vlen is None
    if is_mappable:
        values = np.ascontiguousarray(frozen.values).reshape(-1).view(np.uint8)
    else:
        values = np.frombuffer(bytes(io.pipeline(index).encode(frozen.values)), np.uint8)
    flags = np.packbits(frozen.flags) if frozen.flags is not None else None
    unit = io.unit(index)
    details = ChunkDetails.of(array, index, unit).document() | frozen.basis.document()
    nbytes = values.nbytes + (flags.nbytes if flags is not None else 0) + DESCRIPTION_BYTES
    spool.reserve(nbytes, always=always)
    try:
        with spool.log.lock:
            begun, prefix = spool.new_path(io.key(unit)), io.prefix
            spool.moves.begin(begun)
        try:
            first = packed({"is": CHUNK, **heading(spool.url, prefix, reason), **details}, flags)
            kind = VALUES if is_mappable else ENCODED
            records = [first, packed({"is": kind}, values, at=size_of(first))]
            path = write_records(begun, records)
        except BaseException:
            spool.moves.end(begun)
            raise
    except BaseException:
        spool.reserve(-nbytes)
        raise
    mapped = None
    if is_mappable and values.nbytes:
        offset = sum(map(size_of, records)) - values.nbytes
        mapped = partial(_mapped, path, array.dtype.native, frozen.values.shape, offset)
    basis, recorded = frozen.basis, dict.fromkeys(frozen.basis.sent, False)
    flagged = partial(_flags, path)
    return Saved(spool, path, nbytes, frozen.revision, mapped, flagged, basis, recorded)


def discard(spool: Spool, saved: Saved) -> None:
    """Remove a chunk from the spool; what is mapped of it stays readable."""
    with contextlib.suppress(OSError, NczfsError):
        saved.path.unlink()
        if spool.survives is Survives.POWER:
            spool.sync()
        spool.moves.end(saved.path)
    spool.reserve(-saved.end())


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int) -> Values:
    with disk(path):
        return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)


def _flags(path: Path) -> Values:
    try:
        return KeptChunk.parsed(path, read_records(path, RECORDS)).flags()
    except (SpoolError, OSError) as error:
        raise Unavailable(f"what was written can no longer be read: {error}") from error
