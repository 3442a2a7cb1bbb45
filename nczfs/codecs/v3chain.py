"""From the codecs that Zarr v3 metadata name to a chain: their kinds, order and settings."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from nczfs.buffers import Values
from nczfs.codecs import arrayorder, blocks, formfilters, serializers
from nczfs.codecs.arraycodec import (
    ArrayCodec,
    ArraySpec,
    Context,
    MemoryLimit,
    Serializer,
    StrictSettings,
)
from nczfs.codecs.bitrounding import BitRounding
from nczfs.codecs.bytechain import ByteChain, not_decoded, not_encoded
from nczfs.codecs.castvalue import CastValue
from nczfs.codecs.codec import Codec, Flat, Size
from nczfs.codecs.flatcodecs import FLAT_CODECS
from nczfs.codecs.packedbits import PackedBits
from nczfs.codecs.pcodecs import REMEDIES, PCodec
from nczfs.codecs.scaleoffset import ScaleOffset
from nczfs.codecs.sharding import Sharding
from nczfs.errors import CodecError, UnknownCodec
from nczfs.messages import reason, shown
from nczfs.model.hierarchy import CodecSpec

_MakeArray: TypeAlias = Callable[[StrictSettings, ArraySpec, Context], ArrayCodec]
_MakeSerializer: TypeAlias = Callable[[StrictSettings, ArraySpec, Context], Serializer]
_MakeBytes: TypeAlias = Callable[[StrictSettings], Codec]

_ARRAY: Mapping[str, _MakeArray] = {
    "bitround": BitRounding,
    "cast_value": CastValue,
    "numcodecs.bitround": BitRounding,
    "numcodecs.astype": formfilters.astype,
    "numcodecs.delta": formfilters.delta,
    "numcodecs.fixedscaleoffset": formfilters.fixedscaleoffset,
    "numcodecs.packbits": formfilters.PackedBooleans,
    "numcodecs.quantize": formfilters.quantize,
    "reshape": arrayorder.Reshape,
    "scale_offset": ScaleOffset,
    "transpose": arrayorder.Transpose,
}
_SERIALIZERS: Mapping[str, _MakeSerializer] = {
    "bytes": serializers.bytes_of,
    "endian": serializers.bytes_of,  # from before the standard
    "numcodecs.pcodec": PCodec,
    "packbits": PackedBits,
    "sharding_indexed": Sharding,
    "vlen-bytes": serializers.Vlen,
    "vlen-utf8": serializers.Vlen,
}
_BYTES: Mapping[str, _MakeBytes] = {
    "blosc": blocks.WordedBlosc,
    "crc32c": FLAT_CODECS["crc32c"],
    "gzip": FLAT_CODECS["gzip"],
    "zstd": FLAT_CODECS["zstd"],
}
_NUMCODECS = "numcodecs."
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "blosc": ("cname", "clevel", "shuffle", "typesize", "blocksize"),
    "crc32c": (),
    "gzip": ("level",),
    "zstd": ("level", "checksum"),
    "numcodecs.adler32": ("location",),
    "numcodecs.base64": (),
    "numcodecs.blosc": ("cname", "clevel", "shuffle", "typesize", "blocksize"),
    "numcodecs.bz2": ("level",),
    "numcodecs.crc32": ("location",),
    "numcodecs.crc32c": ("location",),
    "numcodecs.fletcher32": (),
    "numcodecs.gzip": ("level",),
    "numcodecs.jenkins_lookup3": ("initval", "prefix"),
    "numcodecs.lz4": ("acceleration",),
    "numcodecs.lzma": ("format", "check", "preset", "filters"),
    "numcodecs.shuffle": ("elementsize",),
    "numcodecs.zlib": ("level",),
    "numcodecs.zstd": ("level", "checksum"),
}
"""The settings of codecs of bytes."""

_REFUSED: Mapping[str, str] = {
    "conditional": "codecs under a condition are not supported",
    "n5_default": "blocks of N5 are not supported",
    "numcodecs.zfpy": f"zfp is not supported in Zarr v3; zarr-python reads it: {REMEDIES['zfpy']}",
    "zfp": "the compressor zfp is not supported",
}


class V3Chain:
    """The codecs of an array's chunks, in legal order.

    Attributes
    ----------
    unknown : a codec that is left out in decoding, because its metadata allow that; None: there is
        none.
    """

    def __init__(
        self,
        form: ArraySpec,
        arrays: Sequence[tuple[str, ArrayCodec]],
        serializer: tuple[str, Serializer],
        after: Sequence[tuple[str, Codec]],
        unknown: str | None,
    ) -> None:
        self._form = form
        self._arrays = tuple(arrays)
        self._undone = tuple(reversed(self._arrays))
        self._name, self._serializer = serializer
        self._bytes = ByteChain(after, self._serializer.size)
        self.unknown = unknown

    @property
    def is_cheap(self) -> bool:
        """Whether decoding takes no longer than allocating memory for the values."""
        is_cheap = self._bytes.is_cheap and self._serializer.is_cheap
        return is_cheap and all(codec.is_cheap for _, codec in self._arrays)

    @property
    def encoded_size(self) -> Size:
        """The size of an encoded chunk."""
        return self._bytes.encoded_size

    @property
    def serialized_size(self) -> Size:
        """The size of a chunk as bytes, before these are encoded."""
        return self._serializer.size

    def to_bytes(self, flat: Flat) -> Flat:
        """Undo the codecs from bytes to bytes."""
        return self._bytes.decode(flat)

    def to_values(self, flat: Flat, room: MemoryLimit) -> Values:
        """Undo the other codecs. The values have any strides and byte order."""
        at = self._name
        try:
            values = self._serializer.decode(flat, room)
            for name, codec in self._undone:
                at = name
                values = codec.decode(values)
        except MemoryError:
            raise
        except Exception as error:
            raise not_decoded(at, error) from error
        return values

    def decode(self, flat: Flat, room: MemoryLimit) -> Values:
        """Return the values of an encoded chunk, with any strides and byte order.

        Raises
        ------
        CorruptChunk : the data do not decode.
        """
        return self.to_values(self._bytes.decode(flat), room)

    def encode(self, values: Values) -> Flat:
        """Return an encoded chunk. Raises CodecError: a codec cannot encode the values."""
        if self.unknown is not None:
            raise CodecError(
                f"codec {shown(self.unknown)} is not known, and without it nothing can be written"
            )
        at = self._name
        try:
            for name, codec in self._arrays:
                at = name
                values = codec.encode(values)
            at = self._name
            flat = self._serializer.encode(values)
        except MemoryError:
            raise
        except Exception as error:
            raise not_encoded(at, error) from error
        return self._bytes.encode(flat)


def v3_chain(codecs: Sequence[CodecSpec], form: ArraySpec, context: Context) -> V3Chain:
    """Return the chain of chunks of a form.

    Raises
    ------
    UnknownCodec : a codec is not known, its settings cannot be used, or the order of the codecs is
        not array to array, array to bytes, bytes to bytes. The message names the codec.
    """
    known = [spec for spec in codecs if _is_known(spec, context)]
    skipped = [spec.name for spec in codecs if not _is_known(spec, context)]
    _check_order(known)
    arrays: list[tuple[str, ArrayCodec]] = []
    at = form
    serializer: Serializer | None = None
    name = ""
    after: list[tuple[str, Codec]] = []
    for spec in known:
        settings = StrictSettings(spec.name, spec.configuration)
        try:
            if spec.name in _ARRAY:
                codec = _ARRAY[spec.name](settings, at, context)
                arrays.append((spec.name, codec))
                at = codec.encoded
            elif spec.name in _SERIALIZERS:
                name, serializer = spec.name, _SERIALIZERS[spec.name](settings, at, context)
            elif spec.name in _SETTINGS:
                after.append((spec.name, _of_bytes(settings, at)))
            else:
                after.append((spec.name, context.installed[spec.name](spec)))
        except CodecError:
            raise
        except Exception as error:
            raise settings.refused(f"it cannot be created: {reason(error)}") from error
    assert serializer is not None
    return V3Chain(form, arrays, (name, serializer), after, skipped[0] if skipped else None)


def is_known(name: str, installed: Container[str]) -> bool:
    """Return whether a codec is one of nczfs, or of those of other packages."""
    return any(name in table for table in (_ARRAY, _SERIALIZERS, _SETTINGS, installed))


def _is_known(spec: CodecSpec, context: Context) -> bool:
    if is_known(spec.name, context.installed):
        return True
    if spec.name in _REFUSED and spec.must_understand:
        raise UnknownCodec(f"codec {shown(spec.name)}: {_REFUSED[spec.name]}")
    if spec.must_understand:
        raise UnknownCodec(f"codec {shown(spec.name)} is not installed")
    return False


def _of_bytes(settings: StrictSettings, form: ArraySpec) -> Codec:
    settings.known("id", *_SETTINGS[settings.codec])
    make = _BYTES.get(settings.codec)
    if make is None:
        if settings.codec == "numcodecs.shuffle" and settings.members.get("elementsize") is None:
            members = {**settings.members, "elementsize": form.dtype.itemsize}
            settings = StrictSettings(settings.codec, members)
        make = FLAT_CODECS[settings.codec.removeprefix(_NUMCODECS)]
    return make(settings)


_KINDS = ("array to array", "array to bytes", "bytes to bytes")


def _kind(spec: CodecSpec) -> int:
    return 0 if spec.name in _ARRAY else 1 if spec.name in _SERIALIZERS else 2


def _check_order(codecs: Sequence[CodecSpec]) -> None:
    for before, spec in pairwise(codecs):
        first, second = _kind(before), _kind(spec)
        if second < first or first == second == 1:
            raise UnknownCodec(
                f"codec {shown(spec.name)} is from {_KINDS[second]}, and cannot follow "
                f"{shown(before.name)}, which is from {_KINDS[first]}"
            )
    if all(_kind(spec) != 1 for spec in codecs):
        raise UnknownCodec("the codecs have none from array to bytes")
