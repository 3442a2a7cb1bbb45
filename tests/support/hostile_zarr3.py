"""Hostile documents and shards of Zarr v3, and what is said of each."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

from nczfs.testing.datasets import put_json
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
LAST = (1 << 64) - 1


def named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def regular(*lengths: int) -> dict[str, Any]:
    return named("regular", chunk_shape=list(lengths))


def described(**members: Any) -> dict[str, Any]:
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [6],
        "data_type": "int32",
        "chunk_grid": regular(6),
        "chunk_key_encoding": "default",
        "fill_value": 0,
        "codecs": [LITTLE],
        **members,
    }


def shards(length: int, *codecs: Any) -> dict[str, Any]:
    return named(
        "sharding_indexed",
        chunk_shape=[length],
        codecs=[*codecs] or [LITTLE],
        index_codecs=[LITTLE],
    )


def within_each_other(levels: int) -> list[Any]:
    codecs: list[Any] = [LITTLE]
    for _ in range(levels):
        codecs = [shards(6, *codecs)]
    return codecs


GROUP = {"zarr_format": 3, "node_type": "group"}
HUGE = 10**4000
DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]
STRUCT: Any = "int8"
for _ in range(40):
    STRUCT = named("struct", fields=[{"name": "a", "data_type": STRUCT}])


def chain_of(codec: Any, length: int) -> list[Any]:
    return [LITTLE, *[codec] * length]


DOCUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "size": (described(attributes={"a": "x" * (1 << 24)}), "is not read (limit 16777216)"),
    "depth": (described(attributes={"a": DEEP}), "nested more than"),
    "power": (described(shape=[1 << 200], chunk_grid=regular(1 << 200)), "about 2^200 is beyond"),
    "codecs": (described(codecs=chain_of(named("gzip", level=1), 10**4)), "10001 codecs (max 64)"),
    "grid": (
        described(chunk_grid=named("rectilinear", kind="inline", chunk_shapes=[[1] * (1 << 22)])),
        "has more than 262144 members",
    ),
    "settings": (
        described(codecs=[named("bytes", **dict.fromkeys(map(str, range(1025)), 1))]),
        "'bytes': configuration has 1025 members (max 1024)",
    ),
    "digits": (described(shape=[HUGE]), "shape: '1000"),
    "beyond": (described(shape=[1 << 63]), "shape: 9223372036854775808 is beyond"),
    "rank": (described(shape=[1] * 10**5), "shape has 100000 dimensions (max 1024)"),
    "names": (described(dimension_names=["x"] * 10**5), "does not fit a shape of 1"),
    "chunks": (described(shape=[1 << 40], chunk_grid=regular(1 << 40)), "decode to"),
    "runs": (
        described(chunk_grid=named("rectilinear", kind="inline", chunk_shapes=[[[1, HUGE]]])),
        "chunk_shapes",
    ),
    "index": (
        described(shape=[1 << 31], chunk_grid=regular(1 << 31), codecs=[shards(1)]),
        "the index of 2147483648 chunks",
    ),
    "nested": (described(codecs=within_each_other(9)), "shards within shards more than 8 times"),
    "fill": (described(fill_value="x" * 10**6), "fill_value 'xxx"),
    "fields": (
        described(data_type=named("struct", fields=[{"name": "a", "data_type": "x"}])),
        "'x' is not supported",
    ),
    "deep": (described(data_type=STRUCT, codecs=[STRUCT]), "nested more than"),
    "within": (described(codecs=within_each_other(20)), "shards within shards more than 8 times"),
    "understood": (described(secret={"must_understand": True}), "'secret' is unknown"),
}
GZIPPED = gzip.compress(gzip.compress(bytes(1 << 26)))
INDEX_BEYOND = bytes(24) + struct.pack("<4Q", 0, 12, 1 << 63, 1 << 63)
VALUES: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "offset": (described(codecs=[shards(3)]), INDEX_BEYOND, "the index of the shard places"),
    "negative": (
        described(codecs=[shards(3)]),
        bytes(24) + struct.pack("<4Q", LAST - 11, 12, 0, 12),
        "the index of the shard places",
    ),
    "overlapping_bombs": (
        described(
            codecs=[
                named(
                    "sharding_indexed",
                    chunk_shape=[3],
                    codecs=[LITTLE, *[named("gzip", level=1)] * 2],
                    index_codecs=[LITTLE],
                    index_location="start",
                )
            ]
        ),
        struct.pack("<4Q", *[32, len(GZIPPED)] * 2) + GZIPPED,
        "codec 'gzip'",
    ),
    "truncated": (described(codecs=[shards(3)]), bytes(9), "the index of the shard has 9 bytes"),
    "stands_for_many": (
        described(
            shape=[1 << 17], chunk_grid=regular(1 << 17), codecs=[shards(1), named("gzip", level=1)]
        ),
        gzip.compress(bytes(4) + struct.pack("<2Q", 0, 4) * (1 << 17)),
        "131072 chunks of a shard",
    ),
    "bomb": (
        described(codecs=[LITTLE, *[named("gzip", level=1)] * 60]),
        GZIPPED,
        "codec 'gzip'",
    ),
    "checksum": (described(codecs=[LITTLE, "crc32c"]), b"abc", "codec 'crc32c'"),
    "order": (described(codecs=[named("transpose", order=[HUGE]), LITTLE]), bytes(24), "transpose"),
    "lengths": (
        described(data_type="string", fill_value="", codecs=["vlen-utf8"]),
        struct.pack("<Ii", 6, -1) + bytes(100),
        "vlen-utf8",
    ),
}


WORDS = [f"w{n}" for n in range(100_000)]
READABLE: dict[str, tuple[Any, bytes]] = {
    "words": ({"a": WORDS}, b'"w99999"'),
    "integers": ({"a": [HUGE] * 100}, b"1" + bytes([48]) * 4000),
    "many": (dict.fromkeys(WORDS, 1), b"attributes beyond 65536 are ignored"),
}
"""Attributes that are many and no more, and what the `info.json` of their array says."""


def write_hostile(directory: Path) -> None:
    """Make a dataset of hostile arrays, ``d.zarr``, and one with a hostile copy, ``copy.zarr``."""
    directory.mkdir()
    store = open_store(str(directory))
    put_json(store, "d.zarr/zarr.json", GROUP)
    for place in ("d.zarr/good", "copy.zarr/good"):
        put_json(store, f"{place}/zarr.json", described())
        store.write(parse_key(f"{place}/c/0"), bytes(range(24)))
    for name, (document, _) in DOCUMENTS.items():
        put_json(store, f"d.zarr/{name}/zarr.json", document)
    for name, (attributes, _) in READABLE.items():
        put_json(store, f"d.zarr/{name}/zarr.json", described(attributes=attributes))
    for name, (document, data, _) in VALUES.items():
        put_json(store, f"d.zarr/{name}/zarr.json", document)
        store.write(parse_key(f"d.zarr/{name}/c/0"), data)
    many: dict[str, Any] = {f"v{n}": {} for n in range(1 << 19)} | {"good": described()}
    copy = {"kind": "inline", "must_understand": False, "metadata": many}
    put_json(store, "copy.zarr/zarr.json", GROUP | {"consolidated_metadata": copy})
    store.close()
