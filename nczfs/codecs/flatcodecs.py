"""The codecs of numcodecs that nczfs has itself, by their names there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nczfs.codecs import arrayfilters, blocks, bytefilters, streams
from nczfs.codecs.codec import Codec, CodecSettings

FLAT_CODECS: Mapping[str, Callable[[CodecSettings], Codec]] = {
    "adler32": bytefilters.adler32,
    "astype": arrayfilters.astype,
    "base64": bytefilters.Base64,
    "bitround": arrayfilters.BitRound,
    "blosc": blocks.Blosc,
    "bz2": streams.Bz2,
    "categorize": arrayfilters.Categorize,
    "crc32": bytefilters.crc32,
    "crc32c": bytefilters.crc32c,
    "delta": arrayfilters.delta,
    "fixedscaleoffset": arrayfilters.fixedscaleoffset,
    "fletcher32": bytefilters.fletcher32,
    "gzip": streams.Gzip,
    "jenkins_lookup3": bytefilters.jenkins_lookup3,
    "lz4": blocks.Lz4,
    "lzma": streams.Lzma,
    "packbits": arrayfilters.PackBits,
    "quantize": arrayfilters.quantize,
    "shuffle": bytefilters.Shuffle,
    "zlib": streams.Zlib,
    "zstd": blocks.Zstd,
}
