"""Limits of the arrays that are read and made, whatever their format."""

from __future__ import annotations

from math import prod

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.messages import shown
from nczfs.model.hierarchy import ArrayDescription

LENGTH_MAX = 2**63 - 1
CHUNK_COUNT_MAX = 2**64


def check_array(array: ArrayDescription, where: str, options: FormatOptions) -> None:
    """Refuse an impossible array.

    Parameters
    ----------
    where : the key of its document or its path, for messages.

    Raises
    ------
    BadMetadata : its shape is impossible. Unsupported : its chunks are beyond the limit.
    """
    shapes = ("shape", array.shape), ("chunks", array.chunk_shape), ("shards", array.unit_shape)
    for member, lengths in shapes:
        for length in lengths:
            if length > LENGTH_MAX:
                raise BadMetadata(f"{where}: {member}: {shown(length)} is beyond 2^63 - 1")
    for axis, (cuts, length) in enumerate(zip(array.cuts, array.shape, strict=False)):
        if cuts.stop is not None and cuts.stop < length:
            raise BadMetadata(
                f"{where}: the chunks along dimension {axis} end at {shown(cuts.stop)}, and the "
                f"array at {shown(length)}"
            )
    if array.chunk_bytes > options.chunk_bytes_max:
        raise Unsupported(
            f"{where}: chunks of {shown(prod(array.chunk_shape))} elements decode to "
            f"{shown(array.chunk_bytes)} bytes each (limit {options.chunk_bytes_max})"
        )
    if array.grid.chunk_count > CHUNK_COUNT_MAX:
        raise BadMetadata(f"{where}: {shown(array.grid.chunk_count)} chunks (max 2^64)")
