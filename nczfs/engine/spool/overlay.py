"""Elements of chunks put over what the store has of their unit, unless that is newer than they."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs.fillelement import fill_element
from nczfs.engine.chunks.base import ChunkStore, UnitIndex
from nczfs.engine.retrying import until_stored
from nczfs.engine.spool.basis import Basis, Sent, time_text
from nczfs.errors import CodecError, Conflict, NczfsError, SpoolError
from nczfs.model.grid import ChunkIndex
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, Stat, Version, ZMap
from nczfs.zmap.securing import secure

SHOWN_CHARS_MAX = 60

Problem = NczfsError | None


@frozen
class Written:
    """Elements of a chunk that are not in the store.

    Attributes
    ----------
    flags : which ones, in the shape of the chunk.
    values : of the whole chunk; the others are not valid.
    basis : upon which versions of the unit they were written.
    done_by : objects that have all of them, or what this client wrote there later.
    """

    index: ChunkIndex
    flags: Values
    values: Values
    basis: Basis
    done_by: Sequence[Sent] = ()

    def is_done(self, zmap: ZMap, stat: Stat | None) -> bool:
        """Return whether nothing is left to put over an object. Reads it, if it was sent."""
        return stat is not None and any(each.is_in(zmap, stat) for each in self.done_by)

    def over(self, base: Values) -> Values:
        """Return the values of the chunk with these elements over others."""
        merged = np.array(base)
        merged[self.flags] = self.values[self.flags]
        return merged


def overlay(
    zmap: ZMap, io: ChunkStore, unit: UnitIndex, several: Sequence[Written], *, force: bool
) -> list[Problem]:
    """Put elements over what the store has of a unit, all onto one version of it.

    Nothing is written where the store has just these elements: they are made durable.

    Parameters
    ----------
    several : of chunks of the unit; the later ones count where they are of the same elements.
    force : whatever the store has.

    Returns
    -------
    for each of them why it stays: SpoolError, the store has something newer, and the message gives
    the difference; CodecError, the store has something else than a chunk. None: it is stored.

    Raises
    ------
    CodecError, StoreError : nothing is stored.
    """
    io.confirm()

    def put(_: int) -> list[Problem]:
        stat = io.stat(unit)
        left = _left(zmap, several, stat)
        problems = iter(_put(zmap, io, unit, [*filter(None, left)], stat, force))
        if stat is not None:  # who wrote what is there already may not have waited for the disk
            secure(zmap, stat.key)
        return [None if each is None else next(problems) for each in left]

    return until_stored(put, io.key(unit))


def _left(zmap: ZMap, several: Sequence[Written], stat: Stat | None) -> list[Written | None]:
    """Return what is left to put over an object; None: nothing.

    What an object has of an entry, it has of older ones, too: that, or something newer.
    """
    left: list[Written | None] = []
    done: dict[ChunkIndex, Values] = {}
    for each in reversed(several):
        newer = done.get(each.index, np.False_)
        if each.is_done(zmap, stat):
            done[each.index] = newer | each.flags
            left.append(None)
        else:
            flags = each.flags & ~newer
            left.append(replace(each, flags=flags) if flags.any() else None)
    return left[::-1]


def _put(
    zmap: ZMap,
    io: ChunkStore,
    unit: UnitIndex,
    several: Sequence[Written],
    stat: Stat | None,
    force: bool,
) -> list[Problem]:
    may = {each: force or may_replace(zmap, stat, each) for each in {w.basis for w in several}}
    covered: dict[ChunkIndex, Values] = {}
    for each in several:
        if may[each.basis]:
            covered[each.index] = covered.get(each.index, np.False_) | each.flags
    unsure = {w.index for w in several if not may[w.basis]}
    # Elements beyond the ends, too: others may have stored them, and not yet the length.
    read = unsure | {index for index, flags in covered.items() if not flags.all()}
    found = _read(io, unit, read, stat)
    for index in covered.keys() - unsure:
        inside = io.array.grid.inside(index).slices()
        if isinstance(found.get(index), CodecError) and covered[index][inside].all():
            del found[index]  # it is replaced: nobody can read the rest
    problems: list[Problem] = []
    stored: dict[ChunkIndex, Values] = {}
    for number, each in enumerate(several):
        base = found.get(each.index)
        if isinstance(base, CodecError):
            problems.append(base)
        elif may[each.basis]:
            if base is None:
                base = np.full(each.flags.shape, fill_element(io.array), each.values.dtype)
            stored[each.index] = each.over(stored.get(each.index, base))
            problems.append(None)
        else:
            assert base is not None
            later = [w.flags for w in several[number + 1 :] if w.index == each.index]
            problems.append(_newer(io, unit, each, base, later, stat))
    if stored:
        io.store(unit, stored, _version(stat))
    return problems


def may_replace(zmap: ZMap, stat: Stat | None, basis: Basis) -> bool:
    """Return whether an object is surely not newer than what was written.

    Reads it, if it was sent.

    Parameters
    ----------
    stat : of the object; None: there is none.
    """
    if stat is None:
        return not basis.versions or ABSENT in basis.versions
    if basis.is_upon(stat, zmap.features.time_resolution_ns):
        return True
    return any(each.is_in(zmap, stat) for each in basis.sent)


def _version(stat: Stat | None) -> Version:
    return stat.version if stat is not None else ABSENT


def _read(
    io: ChunkStore, unit: UnitIndex, chunks: set[ChunkIndex], stat: Stat | None
) -> dict[ChunkIndex, Values | CodecError]:
    """Return the values of chunks in a version of their unit, or why they cannot be read."""
    if not chunks:
        return {}
    try:
        found, version = io.newest(unit, chunks)
    except CodecError as error:
        if len(chunks) == 1:
            return dict.fromkeys(chunks, error)
        parts = [_read(io, unit, {chunk}, stat) for chunk in chunks]
        return {chunk: values for part in parts for chunk, values in part.items()}
    if version != _version(stat):
        raise Conflict(f"{io.key(unit)}: another client has just stored it")
    return dict(found)


def _newer(
    io: ChunkStore,
    unit: UnitIndex,
    written: Written,
    found: Values,
    later: Sequence[Values],
    stat: Stat | None,
) -> Problem:
    """Return how newer values of the store differ from what was written; None: not at all.

    Parameters
    ----------
    later : the elements that were written after these, which do not matter.
    """
    # As the store would give them back: some codecs round.
    pipeline = io.pipeline(written.index)
    given = pipeline.decode(pipeline.encode(written.over(found)))
    different = written.flags & differs(given, found)
    for flags in later:
        different = different & ~flags
    if not different.any():
        return None
    first = tuple(int(axis[0]) for axis in np.nonzero(different)) if different.ndim else ()
    origin = io.array.grid.origin(written.index)
    place = ", ".join(str(at + start) for at, start in zip(first, origin, strict=True))
    if stat is None:
        since = "another client has removed the chunk since"
    elif stat.stored_ns is None or stat.stored_ns < written.basis.written_ns:
        since = "another client may have stored the chunk since"
    else:
        since = f"the chunk was stored since, at {time_text(stat.stored_ns)}"
    return SpoolError(
        f"{io.key(unit)}: written at {time_text(written.basis.written_ns)}, and {since}: "
        f"{int(different.sum())} elements differ, the first at [{place}]: the store has "
        f"{_shown(found[first])}, the spool {_shown(written.values[first])}; --force puts those of "
        "the spool over it, --export DIR gives you the values"
    )


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


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}..."
