"""Elements of a chunk put over what the store has, unless that is newer than they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nczfs.engine.chunks.base import ChunkStore
from nczfs.engine.chunks.fill import fill_element
from nczfs.engine.chunks.loaded import Values
from nczfs.engine.retrying import until_stored
from nczfs.engine.spool.basis import Basis, Sent, time_text
from nczfs.errors import Conflict, SpoolError
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.zmap.base import ABSENT, Stat, Version, ZMap

SHOWN_CHARS_MAX = 60


class Overlay:
    """A restorer of chunk elements, whose own stores do not count as newer."""

    def __init__(self, zmap: ZMap) -> None:
        self._zmap = zmap
        self._replaced: dict[Version, _Replaced] = {}

    def put(
        self,
        io: ChunkStore,
        index: ChunkIndex,
        flags: Values,
        values: Values,
        basis: Basis,
        *,
        force: bool,
    ) -> None:
        """Put the elements that have a flag over what the store has of a chunk.

        Does nothing where the store has just these elements.

        Parameters
        ----------
        basis : upon which versions they were written.
        force : whatever the store has.

        Raises
        ------
        SpoolError : the store has something newer; the message gives the difference. CodecError,
            StoreError.
        """
        io.confirm()
        until_stored(
            lambda _: self._put_once(io, index, flags, values, basis, force), io.key(io.unit(index))
        )

    def _put_once(
        self,
        io: ChunkStore,
        index: ChunkIndex,
        flags: Values,
        values: Values,
        basis: Basis,
        force: bool,
    ) -> None:
        unit = io.unit(index)
        stat = io.stat(unit)
        version = stat.version if stat is not None else ABSENT
        may, before = self._may_replace(stat, basis, force=force)
        grid = io.array.grid
        inside: Box = grid.box(index).relative_to(grid.origin(index))
        if may and flags[inside.slices()].all():
            merged = np.full(flags.shape, fill_element(io.array), values.dtype)
        else:
            newest, there = io.newest(unit, [index])
            found = newest[index]
            if there != version:
                raise Conflict(f"{io.key(unit)}: another client has just stored it")
            merged = np.array(found)
        merged[flags] = values[flags]
        if not may:
            # As the store would give them back: some codecs round.
            given = io.pipeline.decode(io.pipeline.encode(merged))
            different = flags & differs(given, found)
            if not different.any():
                return
            raise SpoolError(_difference(io, index, stat, basis, different, found, values))
        stored = io.store(unit, {index: merged}, version)
        if stored is not None:
            self._replaced[stored] = before

    def _may_replace(
        self, stat: Stat | None, basis: Basis, *, force: bool
    ) -> tuple[bool, _Replaced]:
        """Return whether an object may be replaced, and what it was before that happened here."""
        before = self._replaced.get(stat.version) if stat is not None else None
        if before is not None:  # by other chunks of the object; its bytes are gone
            return force or before.sent in basis.sent or is_older(before.stat, basis), before
        if force or is_older(stat, basis):
            return True, _Replaced(stat, None)
        sent = sent_as(self._zmap, stat, basis)
        return sent is not None, _Replaced(stat, sent)


@dataclass(frozen=True, slots=True)
class _Replaced:
    """An object that was replaced here; `sent` is what it was, as far as that was looked at."""

    stat: Stat | None
    sent: Sent | None


def is_older(stat: Stat | None, basis: Basis) -> bool:
    """Return whether a stored object is not newer than what was written on some versions.

    Parameters
    ----------
    stat : of the object; None: there is none.
    """
    if stat is None:
        return not basis.versions or ABSENT in basis.versions
    if stat.version in basis.versions:
        return True
    return stat.stored_ns is not None and stat.stored_ns < basis.written_ns


def sent_as(zmap: ZMap, stat: Stat | None, basis: Basis) -> Sent | None:
    """Return what of the basis the stored object is. Reads it, if anything was sent."""
    if stat is None:
        return None
    return next((each for each in basis.sent if each.is_in(zmap, stat)), None)


def differs(one: Values, other: Values) -> Values:
    """Return where two arrays differ, to the bit: NaN equals NaN."""
    if one.dtype.hasobject:
        pairs = zip(one.reshape(-1), other.reshape(-1), strict=True)
        found = np.fromiter((not np.array_equal(a, b) for a, b in pairs), bool, one.size)
    else:
        found = _bits(one) != _bits(other)
    return found.reshape(one.shape)


def _bits(values: Values) -> np.ndarray[Any, np.dtype[np.void]]:
    size = max(1, values.dtype.itemsize)
    return np.ascontiguousarray(values).reshape(-1).view(np.dtype((np.void, size)))


def _difference(
    io: ChunkStore,
    index: ChunkIndex,
    stat: Stat | None,
    basis: Basis,
    different: Values,
    found: Values,
    values: Values,
) -> str:
    first = tuple(int(axis[0]) for axis in np.nonzero(different)) if different.ndim else ()
    grid = zip(first, index, io.array.chunk_shape, strict=True)
    place = ", ".join(str(at + i * n) for at, i, n in grid)
    if stat is None:
        since = "another client has removed the chunk since"
    elif stat.stored_ns is None:
        since = "another client may have stored the chunk since"
    else:
        since = f"the chunk was stored since, at {time_text(stat.stored_ns)}"
    return (
        f"{io.key(io.unit(index))}: written at {time_text(basis.written_ns)}, and {since}: "
        f"{int(different.sum())} elements differ, the first at [{place}]: the store has "
        f"{_shown(found[first])}, the spool {_shown(values[first])}; --force puts those of the "
        "spool over it, --export DIR gives you the values"
    )


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}..."
