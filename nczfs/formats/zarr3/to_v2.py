"""Codecs of Zarr v3 by the names of Zarr v2, for copies in other formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from nczfs.formats.zarr3.stored import SHUFFLES
from nczfs.model.hierarchy import CodecSpec, Json

_PREFIX = "numcodecs."
# They turn arrays into bytes, or change the order of elements: in Zarr v2 the array says how.
_IMPLIED = frozenset({"bytes", "transpose", "vlen-bytes", "vlen-utf8"})
_SAME = frozenset({"bitround", "crc32c", "gzip"})


def codecs_of_v3(codecs: Sequence[CodecSpec]) -> tuple[CodecSpec, ...] | None:
    """Return filters and compressor of Zarr v2 for a chain of v3; None: v2 has no such codecs.

    The order of elements inside a chunk is lost.
    """
    found = tuple(_renamed(codecs))
    return None if None in found else tuple(codec for codec in found if codec is not None)


def _renamed(codecs: Sequence[CodecSpec]) -> Iterator[CodecSpec | None]:
    for codec in codecs:
        members: dict[str, Json] = dict(codec.configuration)
        if codec.name in _IMPLIED:
            continue
        if codec.name in _SAME:
            yield codec
        elif codec.name.startswith(_PREFIX):
            yield CodecSpec(codec.name.removeprefix(_PREFIX), codec.configuration)
        elif codec.name == "zstd":
            # numcodecs knows no checksum in all its versions; absent means none.
            kept = {name: value for name, value in members.items() if value is not False}
            yield CodecSpec("zstd", MappingProxyType(kept))
        elif codec.name == "blosc":
            members.pop("typesize", None)
            shuffle = members.get("shuffle")
            if shuffle in SHUFFLES:
                members["shuffle"] = SHUFFLES.index(str(shuffle))
            yield CodecSpec("blosc", MappingProxyType(members))
        else:
            yield None
