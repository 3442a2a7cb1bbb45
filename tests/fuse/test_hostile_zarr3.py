"""Hostile documents and shards of Zarr v3: each is refused alone, by name, in little memory."""

from __future__ import annotations

import errno
import gzip
import json
import struct
from pathlib import Path
from typing import Any

from nczfs.testing.datasets import put_json
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.enduring import enduring
from tests.support.looking import failing_with, store_served

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


HUGE = 10**4000
STRUCT: Any = "int8"
for _ in range(40):
    STRUCT = named("struct", fields=[{"name": "a", "data_type": STRUCT}])

DOCUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "digits": (described(shape=[HUGE]), "shape: '1000"),
    "beyond": (described(shape=[1 << 63]), "shape: 9223372036854775808 is beyond"),
    "rank": (described(shape=[1] * 10**5), "shape has 100000 dimensions (max 1024)"),
    "names": (described(dimension_names=["x"] * 10**6), "does not fit a shape of 1"),
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
    "understood": (described(secret={"must_understand": True}), "'secret' is unknown"),
}
INDEX_BEYOND = bytes(24) + struct.pack("<4Q", 0, 12, 1 << 63, 1 << 63)
VALUES: dict[str, tuple[dict[str, Any], bytes, str]] = {
    "offset": (described(codecs=[shards(3)]), INDEX_BEYOND, "the index of the shard places"),
    "negative": (
        described(codecs=[shards(3)]),
        bytes(24) + struct.pack("<4Q", LAST - 11, 12, 0, 12),
        "the index of the shard places",
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
        gzip.compress(gzip.compress(bytes(1 << 26))),
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


def test_each_of_many_hostile_arrays_is_refused_alone_and_by_its_name(tmp_path: Path) -> None:
    """SEMANTICS A5, A7."""
    store = open_store(str(tmp_path))
    put_json(store, "d.zarr/zarr.json", {"zarr_format": 3, "node_type": "group"})
    put_json(store, "d.zarr/good/zarr.json", described())
    store.write(parse_key("d.zarr/good/c/0"), bytes(range(24)))
    for name, (document, _) in DOCUMENTS.items():
        put_json(store, f"d.zarr/{name}/zarr.json", document)
    for name, (document, data, _) in VALUES.items():
        put_json(store, f"d.zarr/{name}/zarr.json", document)
        store.write(parse_key(f"d.zarr/{name}/c/0"), data)
    with store_served(tmp_path, "--memory-limit", "64MiB", expect="d.zarr/") as mount:
        place = mount.path / "datasets/d.zarr"
        with enduring(mount, place / "good/values.raw"):
            told = {name: (place / name / "info.json").read_text() for name in DOCUMENTS}
            for name, (document, _, _) in VALUES.items():
                path = "values.txt" if document["data_type"] == "string" else "values.raw"
                with failing_with(errno.EIO):
                    (place / name / path).read_bytes()
        assert (place / "good/values.raw").read_bytes() == bytes(range(24))
        lines = mount.log.read_text().splitlines()
    wanted = {name: (f"{name}/zarr.json", message) for name, (_, message) in DOCUMENTS.items()}
    found = {name: " ".join(json.loads(text)["problems"]) for name, text in told.items()}
    assert {
        n: found[n] for n, words in wanted.items() if not all(w in found[n] for w in words)
    } == {}
    logged = {name: [line for line in lines if f"d.zarr/{name}" in line] for name in VALUES}
    said = {name: message for name, (_, _, message) in VALUES.items()}
    assert {n: logged[n] for n, m in said.items() if m not in " ".join(logged[n])} == {}
