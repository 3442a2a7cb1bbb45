"""The seam to codecs: chunk bytes to values and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from nczfs.buffers import Buffer, Values

MEMORY_BYTES = 512 << 20
"""What the elements of a chunk may take in memory if they are of variable length."""

TooLong: TypeAlias = Callable[[str], object]
"""Receives the message about a chunk with too many bytes, in the thread that decodes it."""


class Pipeline(ABC):
    """The codecs of one array. Immutable, and safe to use from any number of threads."""

    @property
    @abstractmethod
    def is_cheap(self) -> bool:
        """Whether decoding takes no longer than allocating memory for the values."""

    @abstractmethod
    def decode(self, data: Buffer, too_long: TooLong | None = None) -> Values:
        """Decode the values of one chunk.

        Parameters
        ----------
        too_long : called when the chunk decodes to more bytes than it should have; None: nothing
            is.

        Returns
        -------
        array of the full chunk shape, C-contiguous, in this machine's byte order; for
        variable-length types an array of objects (str, bytes, ...). It may be a view of `data`, and
        is then read-only.

        Raises
        ------
        CorruptChunk : the data do not decode, or decode to fewer bytes than the chunk has. Surplus
            bytes are cut off, because netcdf-c writes over-long chunks. Decoding never allocates
            much more than the chunk's decoded size, whatever the data claim.
        """

    @abstractmethod
    def encode(self, values: Values) -> bytes:
        """Encode the values of one chunk (full chunk shape, native byte order) for the store."""
