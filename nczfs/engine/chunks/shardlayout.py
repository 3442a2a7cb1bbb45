"""Where the chunks of an array stand in the indexes of its shards."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from math import prod
from operator import mod
from typing import TypeAlias

from nczfs.codecs.shardindex import IndexCodec, index_codec
from nczfs.errors import CodecError
from nczfs.messages import size_text
from nczfs.model.hierarchy import ArrayDescription
from nczfs.plaindata import frozen

Path: TypeAlias = "tuple[int, ...]"
"""The number of a chunk in the index of each shard that it lies in, from the outermost one on.

The first numbers alone are the path of a shard inside; () is the object.
"""


@frozen
class ShardLevel:
    """The shards of one level of nesting.

    Attributes
    ----------
    inner_shape : of what one entry of the index stands for, in elements.
    counts : of entries along each dimension of the array.
    weights : what one step along each dimension adds to the number of an entry.
    codec : of the index.
    is_at_end : whether the index follows the chunks.
    """

    inner_shape: tuple[int, ...]
    counts: tuple[int, ...]
    weights: tuple[int, ...]
    codec: IndexCodec
    is_at_end: bool

    def index_range(self, start: int, stop: int) -> tuple[int, int]:
        """Return where the index is in a shard [start, stop), or would be were it longer."""
        nbytes = self.codec.nbytes
        return (stop - nbytes, stop) if self.is_at_end else (start, start + nbytes)


@frozen
class ShardLayout:
    """The shards of a unit of some shape.

    Attributes
    ----------
    levels : of nesting, the outermost first.
    """

    levels: tuple[ShardLevel, ...]

    @property
    def chunk_count(self) -> int:
        """The number of chunks in a unit, which may lie beyond the array."""
        return prod(level.codec.count for level in self.levels)

    def path(self, position: Sequence[int]) -> Path:
        """Return the path of the chunk in which an element lies, counted from the unit's first."""
        rest, numbers = list(position), []
        for level in self.levels:
            number = 0
            for d, (length, weight) in enumerate(
                zip(level.inner_shape, level.weights, strict=True)
            ):
                place, rest[d] = divmod(rest[d], length)
                number += place * weight
            numbers.append(number)
        return tuple(numbers)


def layout_of(array: ArrayDescription, extent: Sequence[int], index_bytes_max: int) -> ShardLayout:
    """Return the layout of the units of an array that have some shape.

    Parameters
    ----------
    index_bytes_max : a longer index is refused.

    Raises
    ------
    CodecError : the shards cannot be read.
    """
    inside = [shards.shape for shards in array.shards[1:]]
    levels, outer = [], tuple(extent)
    for shards, inner in zip(array.shards, [*inside, array.chunk_shape], strict=True):
        if any(starmap(mod, zip(outer, inner, strict=True))):
            raise CodecError(f"shards of shape {outer} do not hold whole ones of {inner}")
        counts = tuple(whole // length for whole, length in zip(outer, inner, strict=True))
        weights, step = [1] * len(counts), 1
        for d in reversed(shards.order or range(len(counts))):
            weights[d], step = step, step * counts[d]
        codec = index_codec(shards.index_codecs, prod(counts))
        if codec.nbytes > index_bytes_max:
            raise CodecError(
                f"a shard of {codec.count} chunks has an index of {size_text(codec.nbytes)}, more "
                f"than the limit of {size_text(index_bytes_max)} (--memory-limit)"
            )
        levels.append(ShardLevel(inner, counts, tuple(weights), codec, shards.index_at_end))
        outer = inner
    return ShardLayout(tuple(levels))
