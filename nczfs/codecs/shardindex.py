"""The index of a shard: where each of its chunks lies in the object.

Notes
-----
Zarr v3, codec ``sharding_indexed``, version 1.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from nczfs.buffers import Buffer, Flags
from nczfs.codecs.codec import Codec, CodecSettings, Size, from_buffer
from nczfs.errors import CorruptChunk, UnknownCodec
from nczfs.messages import shown
from nczfs.model.hierarchy import CodecSpec
from nczfs.plaindata import frozen

MISSING: Final = (1 << 64) - 1
"""Offset and length of a chunk that the shard does not have."""


Places: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"
"""Offset and length of each chunk, from the start of the shard; of shape (n, 2)."""

_ENTRY_BYTES: Final = 16
_CHECKSUM_BYTES: Final = 4
_ENDIANS: Final[Mapping[object, str]] = {"little": "<u8", "big": ">u8"}
_NAMES: Final = ("bytes", "endian")  # the second one in data from before the standard


@frozen
class IndexCodec:
    """The form of an index, whose encoded length is fixed.

    Attributes
    ----------
    count : of the chunks in a shard; a shard at the edge has as many.
    dtype : of the numbers as stored.
    checksums : how many follow the numbers, each of all that is before it.
    """

    count: int
    dtype: np.dtype[Any]
    checksums: int

    @property
    def nbytes(self) -> int:
        """The encoded length."""
        return _ENTRY_BYTES * self.count + _CHECKSUM_BYTES * self.checksums

    def decode(self, data: Buffer) -> Places:
        """Return the places in an encoded index, as a copy.

        They are what the shard claims: see `are_inside`.

        Raises
        ------
        CorruptChunk : the index has another length, or a wrong checksum.
        """
        flat = from_buffer(data)
        if flat.size != self.nbytes:
            raise CorruptChunk(
                f"the index of the shard has {flat.size} bytes instead of {self.nbytes}"
            )
        for _ in range(self.checksums):
            try:
                flat = _checksum().decode(flat, Size.exactly(flat.size))
            except ValueError as error:
                raise CorruptChunk(f"the index of the shard: {error}") from error
        return np.array(flat.view(self.dtype), np.uint64).reshape(self.count, 2)

    def encode(self, places: Places) -> bytes:
        """Return the encoded index."""
        assert places.shape == (self.count, 2)
        flat = np.ascontiguousarray(places, self.dtype).reshape(-1).view(np.uint8)
        for _ in range(self.checksums):
            flat = _checksum().encode(flat)
        return flat.tobytes()


def index_codec(codecs: Sequence[CodecSpec], count: int) -> IndexCodec:
    """Return the form of an index of `count` chunks.

    Parameters
    ----------
    codecs : of the index, in encoding order: ``bytes``, and any number of ``crc32c``.

    Raises
    ------
    UnknownCodec : the chain has another form, or a codec whose output has no fixed length.
    """
    if not codecs or codecs[0].name not in _NAMES:
        first = shown(codecs[0].name) if codecs else "missing"
        raise UnknownCodec(f"index_codecs: the first one is {first}, not 'bytes'")
    settings = dict(codecs[0].configuration)
    endian = settings.pop("endian", None)
    dtype = _ENDIANS.get(endian) if isinstance(endian, str) else None
    if dtype is None:
        raise UnknownCodec(f"index_codecs: endian is {shown(endian)}, not 'little' or 'big'")
    for spec in codecs[1:]:
        if spec.name != "crc32c":
            raise UnknownCodec(
                f"index_codecs: codec {shown(spec.name)} is not supported for the index of a "
                "shard, only 'bytes' and 'crc32c' are"
            )
        settings |= spec.configuration
    if settings:
        raise UnknownCodec(f"index_codecs: the setting {shown(min(settings))} is unknown")
    return IndexCodec(count, np.dtype(dtype), len(codecs) - 1)


def are_missing(places: Places) -> Flags:
    """Return for each chunk whether the shard does not have it."""
    missing: Flags = (places == MISSING).all(axis=1)
    return missing


def are_inside(places: Places, nbytes: int) -> Flags:
    """Return for each chunk whether its place lies in a shard of `nbytes`; a missing one has none.

    Places may overlap each other and the index: the specification allows all of that.
    """
    offsets, lengths = places.T
    size = np.uint64(nbytes)
    within = offsets <= size
    # The subtraction cannot wrap where it counts, and a sum could.
    inside: Flags = within & (lengths <= np.where(within, size - offsets, 0))
    return inside


def place_of(places: Places, number: int, nbytes: int) -> tuple[int, int] | None:
    """Return where a chunk starts and stops in a shard of `nbytes`; None: it is missing.

    Parameters
    ----------
    number : of the chunk in the index.

    Raises
    ------
    CorruptChunk : it does not lie in the shard.
    """
    offset, length = map(int, places[number])
    if offset == length == MISSING:
        return None
    if offset + length > nbytes:
        raise CorruptChunk(
            f"the index of the shard places a chunk of {length} bytes at {offset}, and the shard "
            f"has {nbytes}"
        )
    return offset, offset + length


def in_a_row(lengths: Sequence[int | None], start: int) -> Places:
    """Return the places of chunks that follow one another without gaps.

    Parameters
    ----------
    lengths : of all chunks in the order of the index; None: the shard does not have it.
    start : where the first one begins.
    """
    is_missing = np.array([length is None for length in lengths], np.bool_)
    places = np.empty((len(lengths), 2), np.uint64)
    places[:, 1] = [length or 0 for length in lengths]
    places[:, 0] = np.cumsum(places[:, 1]) - places[:, 1] + np.uint64(start)
    places[is_missing] = MISSING
    return places


@cache
def _checksum() -> Codec:
    from nczfs.codecs.bytefilters import crc32c  # a mount starts without numcodecs

    return crc32c(CodecSettings("crc32c", {}))
