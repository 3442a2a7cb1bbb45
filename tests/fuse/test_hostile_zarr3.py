"""Hostile documents and shards of Zarr v3: each is refused alone, by name, in little memory."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nczfs.testing.datasets import put_json
from nczfs.zmap.keys import parse_key
from nczfs.zmap.registry import open_store
from tests.support.enduring import Cost, costing, enduring
from tests.support.httpd import WebServer
from tests.support.looking import failing_with, store_served
from tests.support.sample import upload, zip_up
from tests.support.servers import S3Server

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


def in_a_directory(written: Path, _: pytest.FixtureRequest) -> str:
    return str(written)


def in_a_zip(written: Path, _: pytest.FixtureRequest) -> str:
    place = written.with_name("zip")
    place.mkdir()
    for name in os.listdir(written):
        zip_up(written / name, place / f"{name}.zip")
    return str(place)


def on_the_web(written: Path, request: pytest.FixtureRequest) -> str:
    server: WebServer = request.getfixturevalue("nginx")
    directory = server.new_directory()
    shutil.copytree(written, directory, dirs_exist_ok=True)
    for path in directory.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return f"{server.url}/json/{directory.name}/"


def on_s3(written: Path, request: pytest.FixtureRequest) -> str:
    server: S3Server = request.getfixturevalue("swift")
    bucket = server.new_bucket()
    client = server.client()
    for name in os.listdir(written):
        upload(client, bucket, name, written / name)
    client.close()
    return server.url(bucket)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a dataset of hostile arrays, and one with a hostile copy."""
    directory = tmp_path_factory.mktemp("hostile") / "store"
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
    return directory


def hostile_view(name: str) -> str:
    """The file of values that cannot be read."""
    return "values.txt" if VALUES[name][0]["data_type"] == "string" else "values.raw"


@pytest.mark.parametrize(
    "stored",
    [
        in_a_directory,
        on_the_web,
        pytest.param(in_a_zip, marks=pytest.mark.long),
        pytest.param(on_s3, marks=pytest.mark.long),
    ],
)
def test_each_of_many_hostile_documents_is_refused_alone_and_by_its_name(
    written: Path, request: pytest.FixtureRequest, stored: Callable[..., str]
) -> None:
    """SEMANTICS A5, A7."""
    store = stored(written, request)
    expect = r"d\.zarr|copy\.zarr"
    with store_served(store, "--memory-limit", "64MiB", expect=expect) as mount:
        datasets = mount.path / "datasets"
        names = {name.removesuffix(".zip"): datasets / name for name in os.listdir(datasets)}
        place, beside = names["d.zarr"], names["copy.zarr"]
        with enduring(mount, place / "good/values.raw"):
            told = {name: (place / name / "info.json").read_bytes() for name in DOCUMENTS}
            large = {name: (place / name / "info.json").read_bytes() for name in READABLE}
            for name in VALUES:
                with failing_with(errno.EIO):
                    (place / name / hostile_view(name)).read_bytes()
            copied = json.loads((beside / "info.json").read_bytes())
            hierarchy = json.loads((beside / "zom.json").read_bytes())
            assert (beside / "good/values.raw").read_bytes() == bytes(range(24))
        assert (place / "good/values.raw").read_bytes() == bytes(range(24))
        lines = mount.log.read_text().splitlines()
    wanted = {name: (f"{name}/zarr.json", message) for name, (_, message) in DOCUMENTS.items()}
    found = {name: " ".join(json.loads(text)["problems"]) for name, text in told.items()}
    assert {
        n: found[n] for n, words in wanted.items() if not all(w in found[n] for w in words)
    } == {}
    assert [name for name, (_, part) in READABLE.items() if part not in large[name]] == []
    logged = {name: [line for line in lines if f"/{name}" in line] for name in VALUES}
    said = {name: message for name, (_, _, message) in VALUES.items()}
    assert {n: logged[n] for n, m in said.items() if m not in " ".join(logged[n])} == {}
    refused = "has more than 262144 members"
    assert f"{refused}: the single documents are shown instead" in copied["problems"][0]
    assert len(copied["problems"]) == 1
    assert "good" in hierarchy["members"]
    assert any(refused in line for line in lines)


CPU_MAX_S = 1.0
MEMORY_MAX_BYTES = 256 << 20


def test_each_hostile_document_costs_a_second_and_256_mib_at_most(written: Path) -> None:
    costs: dict[str, Cost] = {}
    with store_served(written, "--memory-limit", "64MiB", expect=r"d\.zarr|copy\.zarr") as mount:
        place, beside = (mount.path / f"datasets/{name}.zarr" for name in ("d", "copy"))
        for name in ("good", *DOCUMENTS, *READABLE):
            with costing(mount) as costs[name]:
                (place / name / "info.json").read_bytes()
        for name in VALUES:
            (place / name / "info.json").read_bytes()
            with costing(mount) as costs[f"values of {name}"], failing_with(errno.EIO):
                (place / name / hostile_view(name)).read_bytes()
        with costing(mount) as costs["copy"]:
            (beside / "info.json").read_bytes()
        with costing(mount) as costs["hierarchy"]:
            (beside / "zom.json").read_bytes()
    assert {
        name: cost
        for name, cost in costs.items()
        if cost.cpu_s >= CPU_MAX_S or cost.memory_bytes >= MEMORY_MAX_BYTES
    } == {}
