"""Codecs that follow one another, each from flat data to flat data, with a limit for each."""

from __future__ import annotations

from collections.abc import Sequence

from nczfs.codecs.codec import Codec, Flat, Size
from nczfs.errors import CodecError, CorruptChunk
from nczfs.messages import reason, shown

GROWTH_MAX = 4
GROWTH_BYTES_MAX = 1 << 20
"""So much do data grow in all codecs after the first whose length depends on the values."""


class ByteChain:
    """A chain of codecs, from flat data of a known size to bytes.

    Parameters
    ----------
    codecs : with their names, in encoding order.
    size : of the decoded data.
    """

    def __init__(self, codecs: Sequence[tuple[str, Codec]], size: Size) -> None:
        self._codecs = tuple(codecs)
        sizes = [size]
        limit = GROWTH_MAX * size.limit + GROWTH_BYTES_MAX
        for _, codec in codecs:
            grown = codec.encoded_size(sizes[-1])
            if sizes[-1].expected is None:
                grown = Size(None, min(grown.limit, limit))
            else:
                limit = GROWTH_MAX * grown.limit + GROWTH_BYTES_MAX
            sizes.append(grown)
        self._sizes = tuple(sizes)

    @property
    def is_cheap(self) -> bool:
        """Whether decoding takes no longer than allocating memory for the values."""
        return all(codec.is_cheap for _, codec in self._codecs)

    @property
    def encoded_size(self) -> Size:
        """The size of the encoded data."""
        return self._sizes[-1]

    def decode(self, flat: Flat) -> Flat:
        """Undo all codecs, the last one first.

        Raises
        ------
        CorruptChunk : the data do not decode, or are longer than what the chain makes of its data.
            Without any codec, data of any length are returned.
        """
        for place in range(len(self._codecs) - 1, -1, -1):
            name, codec = self._codecs[place]
            limit = self._sizes[place + 1].limit
            if flat.nbytes > limit:
                raise CorruptChunk(
                    f"codec {shown(name)}: {flat.nbytes} bytes of data; at most {limit} are "
                    "accepted"
                )
            try:
                flat = codec.decode(flat, self._sizes[place])
            except MemoryError:
                raise
            except Exception as error:
                raise not_decoded(name, error) from error
        return flat

    def encode(self, flat: Flat) -> Flat:
        """Apply all codecs. Raises CodecError: one of them cannot encode the data."""
        for name, codec in self._codecs:
            try:
                flat = codec.encode(flat)
            except MemoryError:
                raise
            except Exception as error:
                raise not_encoded(name, error) from error
        return flat


def not_decoded(name: str, error: Exception) -> CodecError:
    """Return the exception for data that a codec cannot decode."""
    if isinstance(error, CodecError):
        return type(error)(f"codec {shown(name)}: {error}")
    return CorruptChunk(f"codec {shown(name)}: {reason(error)}")


def not_encoded(name: str, error: Exception) -> CodecError:
    """Return the exception for values that a codec cannot encode."""
    return CodecError(f"codec {shown(name)} cannot encode the values: {reason(error)}")
