"""The stored form of a new Zarr v3 array's elements: its type, and its codecs."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from nczfs.errors import Unsupported
from nczfs.formats.base import StoredType
from nczfs.formats.zarr2.chain import chain_of as chain_of_v2
from nczfs.formats.zarr2.stored import pure_type
from nczfs.formats.zarr3.types import ByteOrder, data_type, data_type_json, fixed_json
from nczfs.model.declaration import ElementType
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import CodecChain, CodecSpec, Json
from nczfs.model.smallnumbers import small_number

ARRAY_TO_BYTES = frozenset(
    {
        "bytes",
        "packbits",
        "sharding_indexed",
        "vlen-bytes",
        "vlen-utf8",
        "numcodecs.pcodec",
        "numcodecs.zfpy",
    }
)
ARRAY_TO_ARRAY = frozenset(
    {
        "bitround",
        "cast_value",
        "reshape",
        "scale_offset",
        "transpose",
        "numcodecs.astype",
        "numcodecs.bitround",
        "numcodecs.delta",
        "numcodecs.fixedscaleoffset",
        "numcodecs.packbits",
        "numcodecs.quantize",
    }
)
BYTES_TO_BYTES = frozenset(
    {
        "blosc",
        "crc32c",
        "gzip",
        "zstd",
        "numcodecs.adler32",
        "numcodecs.bz2",
        "numcodecs.crc32",
        "numcodecs.crc32c",
        "numcodecs.fletcher32",
        "numcodecs.gzip",
        "numcodecs.jenkins_lookup3",
        "numcodecs.lz4",
        "numcodecs.lzma",
        "numcodecs.shuffle",
        "numcodecs.zlib",
        "numcodecs.zstd",
    }
)
# The codecs of numcodecs that have no name of their own in Zarr v3.
_NUMCODECS = frozenset(
    {
        "adler32",
        "astype",
        "bz2",
        "crc32",
        "delta",
        "fixedscaleoffset",
        "fletcher32",
        "jenkins_lookup3",
        "lz4",
        "lzma",
        "packbits",
        "pcodec",
        "quantize",
        "shuffle",
        "zfpy",
        "zlib",
    }
)
_OBJECT_CODECS = frozenset({"vlen-bytes", "vlen-utf8"})
SHUFFLES = ("noshuffle", "shuffle", "bitshuffle")


def stored_type(
    wanted: ElementType,
    *,
    byte_order: str | None,
    string_bytes: int | None,
    object_codec: CodecSpec | None,
) -> StoredType:
    """Return the stored type of Zarr v3; see `MetadataFormat.stored_type`."""
    where = "a new variable"
    if isinstance(wanted, np.dtype) and _has_small_numbers(wanted):
        order: ByteOrder = ">" if (byte_order or _own_order(wanted)) == ">" else "<"
        return StoredType(data_type(fixed_json(wanted, where), order, where))
    stored = pure_type(
        wanted, byte_order=byte_order, string_bytes=string_bytes, object_codec=object_codec
    )
    for codec in stored.filters:
        if codec.name not in _OBJECT_CODECS:
            raise Unsupported(f"{where}: Zarr v3 has no codec {codec.name!r}; use string")
    data_type_json(stored.dtype, where)
    return stored


def _has_small_numbers(dtype: np.dtype[Any]) -> bool:
    """Return whether a type, or one of its fields, is of ml_dtypes."""
    if dtype.names is not None:
        return any(_has_small_numbers(dtype[name]) for name in dtype.names)
    return small_number(dtype) is not None


def _own_order(dtype: np.dtype[Any]) -> str:
    """Return the byte order of a type; of records that of the first field that has one."""
    if dtype.names is not None:
        orders = map(_own_order, (dtype[name] for name in dtype.names))
        return next((order for order in orders if order == ">"), "<")
    return ">" if dtype.str.startswith(">") else "<"


def chain_of(codecs: Sequence[CodecSpec], dtype: DataType) -> CodecChain:
    """Return the codec chain of a new array.

    Parameters
    ----------
    codecs : the wanted codecs in encoding order, by the names of Zarr v3 or of numcodecs.
    dtype : of the array. It completes the codecs that need it, and says whether there is a byte
        order.

    Notes
    -----
    netCDF's ``shuffle`` and ``zlib`` become Blosc with zlib, and zlib alone gzip: these compress
    as well, and most programs know no others. ``numcodecs.zlib`` asks for the very codec.
    """
    completed = chain_of_v2(_for_most_readers(codecs), dtype).codecs
    chain = [codec_of_v2(codec, dtype) for codec in completed]
    if not any(c.name in ARRAY_TO_BYTES for c in chain):
        place = next((i for i, c in enumerate(chain) if c.name not in ARRAY_TO_ARRAY), len(chain))
        chain.insert(place, bytes_codec(dtype.stored))
    return CodecChain(3, tuple(chain))


def _for_most_readers(codecs: Sequence[CodecSpec]) -> list[CodecSpec]:
    chain: list[CodecSpec] = []
    for codec in codecs:
        level = codec.configuration.get("level", 4)
        if codec.name == "zlib" and chain and chain[-1].name == "shuffle":
            size = chain.pop().configuration.get("elementsize")
            chain.append(_codec("blosc", cname="zlib", clevel=level, shuffle=1, typesize=size))
        elif codec.name == "zlib":
            chain.append(_codec("gzip", level=level))
        else:
            chain.append(codec)
    return chain


def codec_of_v2(codec: CodecSpec, dtype: DataType) -> CodecSpec:
    """Return a codec of Zarr v2 by its name and configuration in Zarr v3; others unchanged."""
    members = dict(codec.configuration)
    match codec.name:
        case "blosc":
            return _blosc(members, dtype)
        case "zstd":
            return _codec("zstd", level=members.get("level", 0), checksum=_flag(members))
        case "gzip":
            return _codec("gzip", level=members.get("level", 5))
        case "bitround" if not codec.must_understand or "keepbits" in members:
            return _codec("numcodecs.bitround", **members)
        case "packbits" if members or dtype.stored.kind != "b":
            return codec  # of Zarr v3, which packs other numbers, too
        case "crc32c" if members:
            return _codec("numcodecs.crc32c", **members)
        case name if name in _NUMCODECS:
            return _codec(f"numcodecs.{name}", **members)
        case _:
            return codec


def _blosc(members: dict[str, Json], dtype: DataType) -> CodecSpec:
    shuffle = members.get("shuffle", 1)
    if isinstance(shuffle, int):
        if shuffle == -1:  # automatic: by bits for single bytes
            shuffle = 2 if dtype.item_size == 1 else 1
        shuffle = SHUFFLES[shuffle] if 0 <= shuffle < len(SHUFFLES) else shuffle
    size = members.get("typesize") or max(1, dtype.item_size)
    # Blosc has room for one byte; with larger elements it shuffles nothing.
    if isinstance(size, int) and size > 255:
        size = 1
    return _codec(
        "blosc",
        typesize=size,
        cname=members.get("cname", "lz4"),
        clevel=members.get("clevel", 5),
        shuffle=shuffle,
        blocksize=members.get("blocksize", 0),
    )


def _flag(members: dict[str, Json]) -> Json:
    return bool(members.get("checksum", False))


def bytes_codec(stored: np.dtype[Any]) -> CodecSpec:
    """Return the codec from elements to bytes, in their byte order."""
    # numpy gives even a byte of ml_dtypes an order.
    is_a_byte = stored.itemsize == 1 and small_number(stored) is not None
    if stored.names is None and (stored.byteorder == "|" or is_a_byte):
        return _codec("bytes")
    return _codec("bytes", endian="little" if stored == stored.newbyteorder("<") else "big")


def _codec(name: str, **members: Json) -> CodecSpec:
    return CodecSpec(name, MappingProxyType(members))
