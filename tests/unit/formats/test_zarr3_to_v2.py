from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest

from nczfs.formats.zarr3.to_v2 import codecs_of_v3
from nczfs.model.hierarchy import CodecSpec


def spec(name: str, **members: Any) -> CodecSpec:
    return CodecSpec(name, MappingProxyType(members))


@pytest.mark.parametrize(
    ("codec", "wanted"),
    [
        (spec("gzip", level=3), spec("gzip", level=3)),
        (spec("zstd", level=3, checksum=False), spec("zstd", level=3)),
        (spec("zstd", level=3, checksum=True), spec("zstd", level=3, checksum=True)),
        (spec("numcodecs.zlib", level=3), spec("zlib", level=3)),
        (
            spec("blosc", cname="lz4", clevel=5, shuffle="bitshuffle", typesize=4, blocksize=0),
            spec("blosc", cname="lz4", clevel=5, shuffle=2, blocksize=0),
        ),
    ],
)
def test_codecs_of_bytes_have_names_in_zarr_2(codec: CodecSpec, wanted: CodecSpec) -> None:
    chain = [spec("transpose", order=[1, 0]), spec("bytes", endian="big"), codec]
    assert codecs_of_v3(chain) == (wanted,)
    assert codecs_of_v3([spec("vlen-utf8"), codec]) == (wanted,)


@pytest.mark.parametrize("name", ["cast_value", "sharding_indexed", "packbits", "what?"])
def test_other_codecs_have_none(name: str) -> None:
    assert codecs_of_v3([spec(name), spec("gzip", level=3)]) is None
