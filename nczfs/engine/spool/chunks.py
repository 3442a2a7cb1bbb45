"""Dirty chunks as entries of the spool."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from nczfs.engine.chunkio import ChunkIO
from nczfs.engine.dirty import Frozen, Saved
from nczfs.engine.loaded import Values
from nczfs.engine.spool.basis import Basis
from nczfs.engine.spool.entries import Entry, Kind, read_entry, read_section, write_entry
from nczfs.engine.spool.space import Spool, Survives, disk
from nczfs.engine.storedarray import codecs_digest
from nczfs.errors import NczfsError, SpoolError, Unavailable
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription

VALUES: Final = "values"  # of the chunk in C order, in native byte order
ENCODED: Final = "encoded"  # as the codecs of the array have them: elements of variable length
FLAGS: Final = "flags"  # a bit for each element: whether it was written
DESCRIPTION_BYTES: Final = 1024  # what an entry counts for besides its values


@dataclass(frozen=True, slots=True)
class ChunkDetails:
    """Which chunk an entry has the elements of, and what the array was."""

    index: ChunkIndex
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    typestr: str
    codecs: str

    @classmethod
    def of(cls, array: ArrayDescription, index: ChunkIndex) -> ChunkDetails:
        """Those of a chunk of an array."""
        return cls(index, array.shape, array.chunk_shape, array.dtype.typestr, codecs_digest(array))

    @classmethod
    def parsed(cls, entry: Entry) -> ChunkDetails:
        """Those that an entry has. Raises SpoolError."""
        details = entry.details
        try:
            found = cls(
                _counts(details["index"]),
                _counts(details["shape"]),
                _counts(details["chunk_shape"]),
                str(details["typestr"]),
                str(details["codecs"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SpoolError(f"{entry.key}: the entry cannot be understood: {error!r}") from error
        if not len(found.index) == len(found.shape) == len(found.chunk_shape):
            raise SpoolError(f"{entry.key}: the entry cannot be understood: its lengths differ")
        return found

    def document(self) -> dict[str, Any]:
        """As an entry has them."""
        return {
            "index": list(self.index),
            "shape": list(self.shape),
            "chunk_shape": list(self.chunk_shape),
            "typestr": self.typestr,
            "codecs": self.codecs,
        }


def basis_of(entry: Entry) -> Basis:
    """Upon what the bytes of an entry were written. Raises SpoolError."""
    try:
        return Basis.parsed(entry.details, int(entry.saved_at * 1e9))
    except (TypeError, ValueError) as error:
        raise SpoolError(f"{entry.key}: the entry cannot be understood: {error!r}") from error


def save_chunk(
    spool: Spool,
    io: ChunkIO,
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
        first = (VALUES, np.ascontiguousarray(frozen.values))
    else:
        first = (ENCODED, np.frombuffer(bytes(io.pipeline.encode(frozen.values)), np.uint8))
    sections = [first]
    if frozen.flags is not None:
        sections.append((FLAGS, np.packbits(frozen.flags)))
    nbytes = sum(data.nbytes for _, data in sections) + DESCRIPTION_BYTES
    details = ChunkDetails.of(array, index).document() | frozen.basis.document()
    entry = Entry(Kind.CHUNK, spool.url, io.prefix, reason, details)
    spool.reserve(nbytes, always=always)
    try:
        path = write_entry(spool.new_path(io.key(index)), entry, sections)
    except BaseException:
        spool.reserve(-nbytes)
        raise
    values = None
    if is_mappable and frozen.values.nbytes:
        values = partial(_mapped, path, array.dtype.native, array.chunk_shape)
    return Saved(path, nbytes, values, partial(_flags, path))


def discard(spool: Spool, saved: Saved) -> None:
    """Remove a chunk from the spool; what is mapped of it stays readable."""
    with contextlib.suppress(OSError, NczfsError):
        saved.path.unlink()
        if spool.survives is Survives.POWER:
            spool.sync()
    spool.reserve(-saved.nbytes)


def read_flags(path: Path, entry: Entry, details: ChunkDetails) -> Values:
    """Which elements were written, in the chunk's shape. Raises SpoolError."""
    flags = entry.section(FLAGS)
    if flags is None:
        whole = np.zeros(details.chunk_shape, bool)
        lengths = zip(details.shape, details.index, details.chunk_shape, strict=True)
        whole[tuple(slice(max(0, shape - i * n)) for shape, i, n in lengths)] = True
        return whole
    count = prod(details.chunk_shape)
    if flags.size != -(-count // 8):
        raise SpoolError(f"{path}: has {flags.size} bytes of flags for {count} elements")
    bits = np.unpackbits(read_section(path, flags), count=count)
    return bits.astype(bool).reshape(details.chunk_shape)


def read_values(
    path: Path, entry: Entry, details: ChunkDetails, dtype: np.dtype[Any], io: ChunkIO | None
) -> Values:
    """The values of the whole chunk; only those that were written mean something.

    Parameters
    ----------
    dtype : of the elements, in native byte order.
    io : what decodes elements of variable length.

    Raises
    ------
    SpoolError : the entry is damaged; CodecError.
    """
    values, encoded = entry.section(VALUES), entry.section(ENCODED)
    if values is not None:
        if values.size != prod(details.chunk_shape) * dtype.itemsize:
            raise SpoolError(f"{path}: {values.size} bytes are not a chunk of {entry.key}")
        if not values.size:
            return np.empty(details.chunk_shape, dtype)
        return read_section(path, values).view(dtype).reshape(details.chunk_shape)
    if encoded is None or io is None:
        raise SpoolError(f"{path}: its values cannot be interpreted without their variable")
    return io.pipeline.decode(read_section(path, encoded).tobytes())


def _mapped(path: Path, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Values:
    with disk(path):
        return np.memmap(path, dtype, "r", shape=shape).view(np.ndarray)


def _flags(path: Path) -> Values:
    try:
        entry = read_entry(path)
        return read_flags(path, entry, ChunkDetails.parsed(entry))
    except SpoolError as error:
        raise Unavailable(f"what was written can no longer be read: {error}") from error


def _counts(numbers: list[Any]) -> tuple[int, ...]:
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(f"{numbers!r} are not counts")
    return tuple(numbers)
