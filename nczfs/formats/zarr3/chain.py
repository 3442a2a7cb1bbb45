"""The codecs of a Zarr v3 array: shards out of their list, and back into it.

The list of an array is ``[a, …, sharding_indexed, b, …]``. Where no ``b`` encodes whole shards, and
each ``a`` only moves elements or changes each for itself, a chunk within a shard is encoded by
``[a, …]`` and the codecs of `sharding_indexed`. So it can be read alone. Any other
`sharding_indexed` stays in the list, and a shard is decoded as one chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.base import FormatOptions
from nczfs.formats.jsontext import plain
from nczfs.formats.zarr3.extensions import Extension, extension
from nczfs.formats.zarr3.types import ByteOrder
from nczfs.messages import shown
from nczfs.model.hierarchy import CodecSpec, Json, Shards
from nczfs.plaindata import frozen

CODECS_MAX = 64
SHARD_LEVELS_MAX = 8
INDEX_ENTRY_BYTES = 16

SHARDING = "sharding_indexed"
TRANSPOSE = "transpose"

# Codecs that encode each element for itself.
_ELEMENTWISE = frozenset(
    {
        "bitround",
        "cast_value",
        "scale_offset",
        "numcodecs.astype",
        "numcodecs.bitround",
        "numcodecs.fixedscaleoffset",
        "numcodecs.quantize",
    }
)
_SHARDING_MEMBERS = ("chunk_shape", "codecs", "index_codecs", "index_location")


@frozen
class Chain:
    """The codecs of an array.

    Attributes
    ----------
    codecs : of a chunk, in encoding order.
    chunk_shape : of what these encode, with the dimensions in the order of the array.
    shards : that chunks lie in, the outermost first.
    """

    codecs: tuple[CodecSpec, ...]
    chunk_shape: tuple[int, ...]
    shards: tuple[Shards, ...] = ()


def read_chain(
    value: Json, chunk_shape: tuple[int, ...], where: str, options: FormatOptions
) -> Chain:
    """Return the codecs of an array, with its shards apart.

    Parameters
    ----------
    value : the member ``codecs``, parsed.
    chunk_shape : of the grid.
    where : the key of the document, for messages.

    Raises
    ------
    BadMetadata : it is not a list of codecs, or shards cannot be divided into their chunks.
    Unsupported : an index of shards is beyond the limit.

    Notes
    -----
    Whether codecs exist and can follow each other is for those who decode.
    """
    codecs = codec_specs(value, f"{where}: codecs")
    if not codecs:
        raise BadMetadata(f"{where}: codecs is empty")
    shards: list[Shards] = []
    while (place := _place_of_shards(codecs)) is not None:
        if len(shards) == SHARD_LEVELS_MAX:
            raise Unsupported(f"{where}: shards within shards more than {SHARD_LEVELS_MAX} times")
        before, sharding = codecs[:place], codecs[place]
        order = _order_after(before, len(chunk_shape), where)
        found = _Sharding.of(sharding, where)
        inner = _inner_shape(found.chunk_shape, chunk_shape, order, where)
        _check_index(chunk_shape, inner, where, options)
        is_own = order == tuple(range(len(order)))
        shards.append(
            Shards(chunk_shape, found.index_codecs, found.index_at_end, () if is_own else order)
        )
        chunk_shape, codecs = inner, (*before, *found.codecs)
        if len(codecs) > CODECS_MAX:
            raise BadMetadata(f"{where}: {len(codecs)} codecs (max {CODECS_MAX})")
    return Chain(codecs, chunk_shape, tuple(shards))


def codecs_json(chain: Chain) -> list[Json]:
    """Return the member ``codecs`` of an array: the inverse of `read_chain`.

    Shards come before codecs that change each element for itself, which encodes the same bytes.
    """
    return _nested(chain.codecs, chain.shards, chain.chunk_shape)


def codec_specs(value: Json, where: str) -> tuple[CodecSpec, ...]:
    """Read a list of codecs, in encoding order. Raises BadMetadata."""
    if not isinstance(value, list):
        raise BadMetadata(f"{where}: {shown(value)} is not a list of codecs")
    if len(value) > CODECS_MAX:
        raise BadMetadata(f"{where}: {len(value)} codecs (max {CODECS_MAX})")
    found = (extension(codec, where, is_optional=True) for codec in value)
    return tuple(
        CodecSpec(each.name, MappingProxyType(each.configuration), each.must_understand)
        for each in found
    )


def byte_order_of(codecs: Sequence[CodecSpec], where: str) -> ByteOrder:
    """Return the byte order of the elements in chunks: "<", or ">" if a codec says so.

    Raises BadMetadata if the codecs of shards are not codecs.
    """
    for codec in codecs:
        if codec.name == "bytes" and codec.configuration.get("endian") == "big":
            return ">"
        if codec.name == SHARDING and isinstance(inner := codec.configuration.get("codecs"), list):
            return byte_order_of(codec_specs(inner, f"{where}: {SHARDING}"), where)
    return "<"


def order_of(codec: CodecSpec, ndim: int) -> tuple[int, ...] | None:
    """Return the permutation of a codec `transpose`; None if it is not one of `ndim` dimensions."""
    order = codec.configuration.get("order")
    if order in ("C", "F"):  # before version 3.0 of the specification
        return tuple(range(ndim)) if order == "C" else tuple(reversed(range(ndim)))
    if not isinstance(order, list) or not all(type(axis) is int for axis in order):
        return None
    axes = tuple(axis for axis in order if isinstance(axis, int))
    return axes if sorted(axes) == list(range(ndim)) else None


@frozen
class _Sharding:
    """The configuration of a codec `sharding_indexed`."""

    chunk_shape: tuple[int, ...]
    codecs: tuple[CodecSpec, ...]
    index_codecs: tuple[CodecSpec, ...]
    index_at_end: bool

    @classmethod
    def of(cls, codec: CodecSpec, where: str) -> _Sharding:
        here = f"{where}: {SHARDING}"
        members = codec.configuration
        Extension(SHARDING, dict(members), f"{where}: codecs").check_members(_SHARDING_MEMBERS)
        lengths = members.get("chunk_shape")
        if not isinstance(lengths, list):
            raise BadMetadata(f"{here}: chunk_shape {shown(lengths)} is not a list of lengths")
        shape: list[int] = []
        for length in lengths:
            if type(length) is not int or length < 1:
                raise BadMetadata(f"{here}: chunk_shape: {shown(length)} is not a length")
            shape.append(length)
        location = members.get("index_location", "end")
        if location not in ("start", "end"):
            raise BadMetadata(f"{here}: index_location is {shown(location)}, not 'start' or 'end'")
        codecs = codec_specs(members.get("codecs"), f"{here}: codecs")
        index_codecs = codec_specs(members.get("index_codecs"), f"{here}: index_codecs")
        if not codecs or not index_codecs:
            raise BadMetadata(f"{here}: a list of codecs is empty")
        return cls(tuple(shape), codecs, index_codecs, location == "end")


def _place_of_shards(codecs: Sequence[CodecSpec]) -> int | None:
    """Return the place of the `sharding_indexed` whose chunks can be read alone; None: none."""
    last = len(codecs) - 1
    if last < 0 or codecs[last].name != SHARDING:
        return None
    before = (codec.name for codec in codecs[:last])
    return last if all(name == TRANSPOSE or name in _ELEMENTWISE for name in before) else None


def _order_after(codecs: Sequence[CodecSpec], ndim: int, where: str) -> tuple[int, ...]:
    """Return the dimensions of the array in the order that they have after some codecs."""
    axes = tuple(range(ndim))
    for codec in codecs:
        if codec.name == TRANSPOSE:
            order = order_of(codec, ndim)
            if order is None:
                found = shown(codec.configuration.get("order"))
                raise BadMetadata(f"{where}: transpose: order {found} for {ndim} dimensions")
            axes = tuple(axes[axis] for axis in order)
    return axes


def _inner_shape(
    stored: tuple[int, ...], outer: tuple[int, ...], order: tuple[int, ...], where: str
) -> tuple[int, ...]:
    """Return the shape of the chunks of a shard, with the dimensions in the array's order."""
    if len(stored) != len(outer):
        raise BadMetadata(
            f"{where}: {SHARDING}: chunk_shape has {len(stored)} dimensions, and its array "
            f"{len(outer)}"
        )
    inner = [1] * len(outer)
    for axis, length in zip(order, stored, strict=True):
        inner[axis] = length
    for length, whole in zip(inner, outer, strict=True):
        if whole % length:
            raise BadMetadata(
                f"{where}: {SHARDING}: shards of {shown(list(outer))} elements cannot be divided "
                f"into chunks of {shown(inner)}"
            )
    return tuple(inner)


def _check_index(
    outer: tuple[int, ...], inner: tuple[int, ...], where: str, options: FormatOptions
) -> None:
    count = prod(whole // length for whole, length in zip(outer, inner, strict=True))
    if count * INDEX_ENTRY_BYTES > options.chunk_bytes_max:
        raise Unsupported(
            f"{where}: {SHARDING}: the index of {shown(count)} chunks is larger than a chunk may "
            f"be (limit {options.chunk_bytes_max} bytes)"
        )


def _nested(
    codecs: tuple[CodecSpec, ...],
    shards: tuple[Shards, ...],
    chunk_shape: tuple[int, ...],
    axes: tuple[int, ...] = (),
) -> list[Json]:
    """Return codecs and the shards that remain, of an array with its dimensions in some order."""
    ndim = len(chunk_shape)
    axes = axes or tuple(range(ndim))
    if not shards:
        return [codec_json(codec) for codec in codecs]
    outer, rest = shards[0], shards[1:]
    place = 0
    wanted = outer.order or tuple(range(ndim))
    while axes != wanted:
        if codecs[place].name == TRANSPOSE:
            order = order_of(codecs[place], ndim)
            assert order is not None
            axes = tuple(axes[axis] for axis in order)
        place += 1
    inner = rest[0].shape if rest else chunk_shape
    configuration: dict[str, Json] = {
        "chunk_shape": [inner[axis] for axis in axes],
        "codecs": _nested(codecs[place:], rest, chunk_shape, axes),
        "index_codecs": [codec_json(codec) for codec in outer.index_codecs],
        "index_location": "end" if outer.index_at_end else "start",
    }
    sharding: Json = {"name": SHARDING, "configuration": configuration}
    return [*(codec_json(codec) for codec in codecs[:place]), sharding]


def codec_json(codec: CodecSpec) -> Json:
    """Return a codec as an object, the only form that all readers know."""
    members: dict[str, Json] = {"name": codec.name}
    # zarr-python reads no codec of numcodecs without one.
    if codec.configuration or codec.name.startswith("numcodecs."):
        members["configuration"] = plain(dict(codec.configuration))
    if not codec.must_understand:
        members["must_understand"] = False
    return members
