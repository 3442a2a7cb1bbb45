"""Datasets to be verified, ways to damage them, and a store that notes what is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numcodecs
import numpy as np

from nczfs.engine.dataset import Engine
from nczfs.errors import Unavailable
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.tools.verify.findings import Finding
from nczfs.tools.verify.subject import subject_of
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.base import Blob, Features, Version, ZMap
from nczfs.zmap.keys import Key, parse_key
from nczfs.zmap.memory import MemoryZMap

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)
CODECS = {
    "blosc": numcodecs.Blosc("lz4"),
    "zlib": numcodecs.Zlib(5),
    "gzip": numcodecs.GZip(5),
    "zstd": numcodecs.Zstd(3),
    "lz4": numcodecs.LZ4(),
}


class CountedStore(MemoryZMap):
    """A store in memory that notes which chunks are read, and fails after so many reads."""

    def __init__(self, *, near: bool = True) -> None:
        super().__init__("memory://counted")
        self.chunks_read: list[str] = []
        self.reads_left: int | None = None
        self._near = near

    @property
    def features(self) -> Features:
        return replace(super().features, near=self._near)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        if key[-1].isdigit():
            if self.reads_left == 0:
                raise Unavailable("no route to the store")
            if self.reads_left is not None:
                self.reads_left -= 1
            self.chunks_read.append(key)
        return super().read(key, start, stop, version=version)


def fill(store: ZMap) -> None:
    """A sound dataset: compressed and plain chunks, a group, dimensions, a hole."""
    put_group(store, "", {"title": "t"})
    put_group(store, "g")
    put_array(store, "v", FIELD, (2, 4), dimensions=("y", "x"))
    put_array(store, "y", np.arange(4, dtype="<i4"), (1,), dimensions=("y",))
    put_array(store, "g/hole", FIELD, (2, 2), dimensions=("y", "x"), skip=frozenset({(1, 1)}))
    for name, codec in CODECS.items():
        put_compressed(store, f"g/{name}", codec)


def put_compressed(store: ZMap, path: str, codec: Any) -> None:
    put_array(store, path, np.arange(4000, dtype="<i4"), (2000,))
    document = json.loads(bytes(store.read(parse_key(f"{path}/.zarray")).data))
    put_json(store, f"{path}/.zarray", document | {"compressor": codec.get_config()})
    for number in "01":
        key = parse_key(f"{path}/{number}")
        store.write(key, bytes(codec.encode(bytes(store.read(key).data))))


def flipped(data: bytes) -> bytes:
    """One byte in the middle is another one: what a broken disk does."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def spoil(key: str, change: Callable[[bytes], bytes]) -> Callable[[ZMap], None]:
    def damage(store: ZMap) -> None:
        checked = parse_key(key)
        store.write(checked, change(bytes(store.read(checked).data)))

    return damage


def put(key: str, data: bytes) -> Callable[[ZMap], None]:
    return lambda store: void(store.write(parse_key(key), data))


def edit(key: str, **members: object) -> Callable[[ZMap], None]:
    def change(data: bytes) -> bytes:
        return json.dumps(json.loads(data) | members).encode()

    return spoil(key, change)


def remove(key: str) -> Callable[[ZMap], None]:
    return lambda store: store.delete(parse_key(key))


def void(_: object) -> None:
    return None


def verify(store: ZMap, engine: Engine, start: str = "") -> list[Finding]:
    return list(Verification(subject_of(store, engine)).run(start))
