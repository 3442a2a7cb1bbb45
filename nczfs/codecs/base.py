"""The seam to codecs: chunk bytes to values and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Buffer: TypeAlias = "bytes | bytearray | memoryview"
Values: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
TooLong: TypeAlias = Callable[[str], object]
"""Hears what is wrong with a chunk of too many bytes, in the thread that decodes it."""


class Pipeline(ABC):
    """The codecs of one array. Immutable, and safe from any number of threads."""

    @property
    @abstractmethod
    def is_cheap(self) -> bool:
        """Whether decoding takes no longer than getting new memory for the values does."""

    @abstractmethod
    def decode(self, data: Buffer, too_long: TooLong | None = None) -> Values:
        """The values of one chunk.

        Parameters
        ----------
        too_long : hears when the chunk decodes to more bytes than it has; None: nobody does.

        Returns
        -------
        array of the full chunk shape, C-contiguous, in this machine's byte order; for
        variable-length types of objects (str, bytes, ...). It may be a view on `data`, and is then
        read-only.

        Raises
        ------
        CorruptChunk : does not decode, or to fewer bytes than the chunk has. More bytes: the
            chunk's length is taken, as netcdf-c writes over-long chunks. Never allocates much more
            than the chunk's decoded size, whatever the data claim.
        """

    @abstractmethod
    def encode(self, values: Values) -> bytes:
        """The bytes to store for the values of one chunk (full chunk shape, native byte order)."""
