"""The interfaces of codecs of a Zarr v3 chain that know the shape of a chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np

from nczfs.buffers import Values
from nczfs.codecs import buffers
from nczfs.codecs.codec import Codec, CodecSettings, Flat, Size
from nczfs.errors import CorruptChunk
from nczfs.messages import shown, size_text
from nczfs.model.dtypes import VlenKind
from nczfs.model.hierarchy import CodecSpec
from nczfs.plaindata import frozen


@frozen(eq=False)
class ArraySpec:
    """The array between two codecs of a chain.

    Attributes
    ----------
    shape : of a chunk.
    dtype : of the elements, in this machine's byte order.
    fill : the fill value, as an array of rank 0; codecs that change elements change it.
    vlen : the kind of elements of variable length; None for others.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fill: Values
    vlen: VlenKind | None = None

    @property
    def count(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements (for variable-length types: of their references)."""
        return self.count * self.dtype.itemsize

    def of_shape(self, shape: tuple[int, ...]) -> ArraySpec:
        """Return the form of an array of the same elements in another shape."""
        return replace(self, shape=shape)

    def empty(self) -> Values:
        """Return an array of this form with arbitrary elements."""
        if self.dtype.hasobject:
            return np.empty(self.shape, self.dtype)
        return buffers.empty(self.nbytes).view(self.dtype).reshape(self.shape)

    def plain(self, values: Values) -> Values:
        """Return the values C-contiguous and in this machine's byte order."""
        if values.flags.c_contiguous and values.dtype == self.dtype:
            return values
        # copyto converts the byte order without the GIL, field by field in structured types.
        target = self.empty()
        np.copyto(target, values)
        return target


class MemoryLimit:
    """The memory that elements of variable length may take, which only the data state."""

    __slots__ = ("_left", "_limit")

    def __init__(self, nbytes: int) -> None:
        self._limit = nbytes
        self._left = nbytes

    def take(self, nbytes: int) -> None:
        """Raise CorruptChunk if so many bytes more are too much."""
        self._left -= nbytes
        if self._left < 0:
            raise CorruptChunk(
                f"the elements of the chunk take more than {size_text(self._limit)} of memory, "
                "which is the limit (--memory-limit)"
            )


class ArrayCodec(ABC):
    """A codec from array to array. Immutable, and safe to use from any number of threads.

    Arrays between codecs have any strides and byte order; `ArraySpec.plain` gives what a codec
    needs.

    Attributes
    ----------
    encoded : the form of the encoded arrays.
    """

    is_cheap: bool = True
    """Whether it decodes more than about 1 GB/s."""

    encoded: ArraySpec

    @abstractmethod
    def decode(self, values: Values) -> Values:
        """Undo the codec, for an array of the form `encoded`."""

    @abstractmethod
    def encode(self, values: Values) -> Values:
        """Apply the codec."""


class Serializer(ABC):
    """A codec from array to bytes. Immutable, and safe to use from any number of threads.

    Attributes
    ----------
    size : of the encoded bytes.
    """

    is_cheap: bool = True
    """Whether it decodes more than about 1 GB/s."""

    size: Size

    @abstractmethod
    def decode(self, data: Flat, room: MemoryLimit) -> Values:
        """Undo the codec; surplus bytes are ignored. The result may be a view of the data."""

    @abstractmethod
    def encode(self, values: Values) -> Flat:
        """Apply the codec."""


class ChunkCodecs(Protocol):
    """All codecs of a chunk, for codecs that contain chains."""

    @property
    def is_cheap(self) -> bool: ...
    @property
    def encoded_size(self) -> Size: ...
    def decode(self, flat: Flat, room: MemoryLimit) -> Values: ...
    def encode(self, values: Values) -> Flat: ...


class MakeChain(Protocol):
    """A function that makes the chain of arrays of a form, and raises UnknownCodec."""

    def __call__(
        self, codecs: Sequence[CodecSpec], form: ArraySpec, context: Context
    ) -> ChunkCodecs: ...


MakeInstalled: TypeAlias = Callable[[CodecSpec], Codec]
"""A function that makes a codec of another package."""


@frozen
class Context:
    """What the codecs of a chain have in common.

    Attributes
    ----------
    memory_bytes : that the elements of a chunk may take if they are of variable length.
    chain : makes the chains within a codec.
    installed : codecs of bytes that other packages have, by their names.
    levels : of shards around it.
    chunks : how many of its chunks a decoded one consists of.
    """

    memory_bytes: int
    chain: MakeChain
    installed: Mapping[str, MakeInstalled]
    levels: int = 0
    chunks: int = 1


class StrictSettings(CodecSettings):
    """The configuration of a Zarr v3 codec, where every member must be known."""

    def known(self, *names: str) -> None:
        """Raise UnknownCodec if there are members besides these."""
        for name in self.members:
            if name not in names:
                raise self.refused(f"its setting {shown(name)} is unknown")

    def one_of(self, name: str, words: Sequence[str], default: str | None) -> str | None:
        """Return one of some words; the default where there is none."""
        value = self.members.get(name)
        if value is None:
            return default
        if isinstance(value, str) and value in words:
            return value
        choice = ", ".join(map(repr, words[:-1])) + f" or {words[-1]!r}"
        raise self.refused(f"{name} is {shown(value)}; it must be {choice}")
