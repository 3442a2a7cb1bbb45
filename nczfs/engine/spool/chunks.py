"""Elements of chunks that are not in the store: saved by dirty chunks, and put back later."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from nczfs.buffers import Values
from nczfs.engine.chunks.base import ChunkStore, UnitIndex
from nczfs.engine.chunks.storedarray import codecs_digest
from nczfs.engine.spool.basis import Basis, Sent
from nczfs.engine.spool.entries import (
    SpoolEntry,
    copied,
    heading_of,
)
from nczfs.engine.spool.records import FileData, Record
from nczfs.errors import SpoolError
from nczfs.formats.elementtypes import data_type
from nczfs.model.boxes import Box
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Prefix, after_rename

log = logging.getLogger(__name__)

RECORDS: Final = 2  # of a chunk at least
CHUNK: Final = "chunk"  # is the record of one; its bytes are a bit for each element: written?
VALUES: Final = "values"  # of the chunk in C order, in native byte order
SENDING: Final = "sending"  # may follow: an object that was sent to the store later
UPON: Final = "upon"  # may follow: another version of the object that it may be put over
ENCODED: Final = "encoded"  # as the codecs of the array have them: elements of variable length


@frozen
class ChunkDetails:
    """The chunk of saved elements, its unit, and the description of its array."""

    index: ChunkIndex
    unit: UnitIndex
    origin: tuple[int, ...]
    shape: tuple[int, ...]
    chunk_shape: tuple[int, ...]
    typestr: str
    codecs: str

    @classmethod
    def of(cls, array: ArrayDescription, index: ChunkIndex, unit: UnitIndex) -> ChunkDetails:
        """Return the details of a chunk of an array."""
        dtype, codecs = array.dtype.typestr, codecs_digest(array)
        origin, extent = array.grid.origin(index), array.grid.extent(index)
        return cls(index, unit, origin, array.shape, extent, dtype, codecs)

    @classmethod
    def parsed(cls, document: Mapping[str, Any]) -> ChunkDetails:
        """Parse the details in a record. Raises KeyError, TypeError, ValueError."""
        found = cls(
            _counts(document["index"]),
            _counts(document["unit"]),
            _counts(document["origin"]),
            _counts(document["shape"]),
            _counts(document["chunk_shape"]),
            str(document["typestr"]),
            str(document["codecs"]),
        )
        ranks = map(len, (found.index, found.origin, found.shape, found.chunk_shape))
        if len(set(ranks)) > 1:
            raise ValueError("its lengths differ")
        return found

    def document(self) -> dict[str, Any]:
        """Return the form in a record."""
        return {
            "index": list(self.index),
            "unit": list(self.unit),
            "origin": list(self.origin),
            "shape": list(self.shape),
            "chunk_shape": list(self.chunk_shape),
            "typestr": self.typestr,
            "codecs": self.codecs,
        }

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements, in native byte order. Raises MetadataError."""
        is_record = self.typestr.startswith("[")
        return data_type(json.loads(self.typestr) if is_record else self.typestr, (), "").native

    @property
    def clip(self) -> Box:
        """The elements of the chunk that lie in the array."""
        lengths = zip(self.shape, self.origin, self.chunk_shape, strict=True)
        stop = tuple(min(n, max(0, shape - start)) for shape, start, n in lengths)
        return Box((0,) * len(stop), stop)

    def is_like(self, other: ChunkDetails) -> bool:
        """Return whether they are of the same chunk, apart from the length of the array."""
        return replace(self, shape=other.shape) == other and len(self.shape) == len(other.shape)

    def grown(self, other: ChunkDetails) -> ChunkDetails:
        """Return the details with the longer length of both arrays."""
        return replace(self, shape=tuple(map(max, self.shape, other.shape)))


@frozen
class RetractedPart:
    """Elements of a chunk that do not count any more, although they were written before."""

    box: Box

    def mark(self, flags: Values) -> None:
        """Clear the flags of its elements in those of the chunk."""
        flags[self.box.slices()] = False

    def put(self, values: Values, decode: Callable[[bytes], Values] | None) -> None:
        """Leave the values of the chunk as they are."""


@frozen
class WrittenPart:
    """Some elements of a chunk that were written at one time.

    Attributes
    ----------
    box : in which they lie, counted from the first element of the chunk.
    data : the values of the box.
    bits : a bit for each element of the chunk, whether it was written: then `data` are the values
        of the whole chunk. Empty: all in the box were.
    is_encoded : by the codecs of the array.
    """

    box: Box
    data: FileData
    bits: FileData | None = None
    is_encoded: bool = False

    def mark(self, flags: Values) -> None:
        """Set the flags of its elements in those of the chunk. Raises SpoolError."""
        if self.bits is None or not self.bits.size:
            flags[self.box.slices()] = True
            return
        if self.bits.size != -(-flags.size // 8):
            raise SpoolError(f"{self.bits.path}: has flags of other than {flags.size} elements")
        bits = np.unpackbits(self.bits.read("flags"), count=flags.size)
        flags |= bits.astype(bool).reshape(flags.shape)

    def put(self, values: Values, decode: Callable[[bytes], Values] | None) -> None:
        """Put its elements into the values of the chunk. Raises SpoolError, CodecError.

        Parameters
        ----------
        decode : decodes elements of variable length.
        """
        data, path = self.data.read(VALUES), self.data.path
        if self.bits is None:
            values[self.box.slices()] = data.view(values.dtype).reshape(self.box.shape)
            return
        if self.is_encoded:
            if decode is None:
                raise SpoolError(f"{path}: its values cannot be interpreted without their variable")
            given = decode(data.tobytes())
        else:
            if data.size != values.nbytes or values.dtype.hasobject:
                raise SpoolError(f"{path}: {data.size} bytes do not make such a chunk")
            given = data.view(values.dtype).reshape(values.shape)
        flags = np.zeros(values.shape, bool)
        self.mark(flags)
        np.copyto(values, given, where=flags)


@frozen(kw_only=True)
class KeptChunk(SpoolEntry):
    """Elements of a chunk of the array at the prefix `key`; without any, the array was longer.

    Attributes
    ----------
    basis : what they are based on.
    pieces : in the order in which they were written.
    done_by : objects that were sent to the store with all of it: nothing is left to put back where
        it has one of them.
    renaming : a prefix that was being renamed, with the array, and the new one; None: none was.
    """

    kind: ClassVar[str] = "chunk"

    details: ChunkDetails
    basis: Basis
    pieces: tuple[WrittenPart | RetractedPart, ...]
    done_by: tuple[Sent, ...] = ()
    renaming: tuple[Prefix, Prefix] | None = None

    @classmethod
    def parsed(cls, path: Path, records: list[Record]) -> KeptChunk:
        """Parse a separate entry. Raises KeyError, TypeError, ValueError."""
        first, second, *later = records
        named = heading_of(first.document)
        details = ChunkDetails.parsed(first.document)
        basis = Basis.parsed(first.document, int(named["saved_at"] * 1e9))
        is_encoded = {VALUES: False, ENCODED: True}[second.document["is"]]
        whole = WrittenPart(details.clip, second.data, first.data, is_encoded)
        done_by: list[Sent] = []
        for record in later:
            if record.document["is"] == UPON:
                basis = basis.upon(Version(str(record.document["version"])))
                continue
            attempt = Sent.parsed(record.document["sent"])
            if record.document["is_whole"]:
                done_by.append(attempt)
            else:
                basis = basis.sending(attempt)
        return cls(
            **named,
            files=(path,),
            details=details,
            basis=basis,
            pieces=(whole,),
            done_by=tuple(done_by),
        )

    @property
    def written_ns(self) -> int:
        """As of an entry."""
        return self.basis.written_ns

    def placed(self) -> KeptChunk:
        """Return the entry with a certain place of all its records."""
        return replace(self, basis=replace(self.basis, appended_from=None))

    def flags(self) -> Values:
        """Return which elements were written, in the chunk's shape. Raises SpoolError."""
        found = self._blank(np.dtype(bool))
        for piece in self.pieces:
            piece.mark(found)
        return found

    def values(self, dtype: np.dtype[Any], io: ChunkStore | None = None) -> Values:
        """Return the values of the whole chunk; only written ones are valid.

        Parameters
        ----------
        dtype : of the elements, in native byte order.
        io : what decodes elements of variable length.

        Raises
        ------
        SpoolError : the entry is damaged; CodecError.
        """
        values = self._blank(dtype)
        index = self.details.index
        decode = None if io is None else lambda data: io.pipeline(index).decode(data)
        for piece in self.pieces:
            piece.put(values, decode)
        return values

    def _blank(self, dtype: np.dtype[Any]) -> Values:
        shape = self.details.chunk_shape
        try:
            return np.zeros(shape, dtype)
        except (ValueError, MemoryError) as error:
            raise SpoolError(f"{self.key}: no chunk of the shape {shape} fits: {error}") from error

    def describe(self) -> str:
        """As of an entry."""
        what = self._describe_elements()
        if self.renaming is None:
            return what
        return f"{what}; was being renamed to {after_rename(self.key, *self.renaming)}"

    def _describe_elements(self) -> str:
        details, flags = self.details, self.flags()
        count = int(flags.sum())
        if not count:
            return f": its shape, {details.shape}"
        if not flags.ndim:
            return f": {count} elements"
        places = np.nonzero(flags)
        start = tuple(int(axis.min()) + at for axis, at in zip(places, details.origin, strict=True))
        stop = tuple(
            int(axis.max()) + 1 + at for axis, at in zip(places, details.origin, strict=True)
        )
        ranges = ", ".join(f"{a}:{b}" for a, b in zip(start, stop, strict=True))
        whole = Box(start, stop).size
        return f"[{ranges}]" + ("" if count == whole else f": {count} of {whole} elements")

    def export(self, path: Path) -> Path:
        """As of an entry: a ``.npy`` file of records, of a value, and whether it was written.

        Elements of variable length are a ``.chunk`` file, as the codecs of the variable have it.
        """
        for piece in self.pieces:
            if isinstance(piece, WrittenPart) and piece.is_encoded:
                piece.data.check(VALUES)
                return copied(piece.data, path.with_name(f"{path.name}.chunk"))
        values = self.values(self.details.dtype)
        record = np.empty(values.shape, [("value", values.dtype), ("written", bool)])
        record["value"] = values
        record["written"] = self.flags()
        target = path.with_name(f"{path.name}.npy")
        with open(target, "xb") as file:
            np.save(file, record)
        return target


def _counts(numbers: list[Any]) -> tuple[int, ...]:
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(f"{numbers!r} are not counts")
    return tuple(numbers)
