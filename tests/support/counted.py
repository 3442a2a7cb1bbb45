"""A dataset in a store that counts what is asked of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import Tally
from nczfs.errors import Unavailable
from nczfs.formats.base import FormatOptions
from nczfs.model.boxes import whole
from nczfs.model.hierarchy import Variable
from nczfs.testing.datasets import put_array, put_group, put_json
from nczfs.zmap.base import Blob, Entry, Features, Stat, Version
from nczfs.zmap.keys import ROOT, Key, Prefix, parse_key
from nczfs.zmap.memory import MemoryZMap

FIELD = np.arange(24, dtype="<f4").reshape(4, 6)


class CountedStore(MemoryZMap):
    """A store in memory that counts what is asked, claims to be far, and fails when told to."""

    def __init__(self, *, near: bool = False) -> None:
        super().__init__("memory://counted")
        self.reads: Counter[str] = Counter()
        self.searches = 0
        self.failing = False
        self._near = near

    @property
    def features(self) -> Features:
        return replace(super().features, near=self._near)

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        self.reads[key] += 1
        if self.failing:
            raise Unavailable("no route")
        return super().read(key, start, stop, version=version)

    def stat(self, key: Key) -> Stat:
        if self.failing:
            raise Unavailable("no route")
        return super().stat(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        self.searches += 1
        return super().search(prefix)


def new_store() -> CountedStore:
    """One with the variable ``v`` and its coordinates ``y`` and ``x``."""
    store = CountedStore()
    put_group(store, "", {"title": "t"})
    put_array(store, "v", FIELD, (2, 4), dimensions=("y", "x"))
    put_array(store, "y", np.arange(4, dtype="<i4"), (1,), dimensions=("y",))
    put_array(store, "x", np.arange(6, dtype="<i4"), (6,), dimensions=("x",))
    return store


def opened(store: CountedStore, engine: Engine) -> Dataset:
    cache = MetadataCache(store, engine.options, engine.pools)
    found = open_dataset(engine, cache, ROOT, FormatOptions())
    assert found is not None
    return found


def variable(dataset: Dataset, path: str) -> Variable:
    node = dataset.node(path)
    assert isinstance(node, Variable)
    return node


def values(dataset: Dataset, path: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    found = variable(dataset, path)
    out = np.empty(found.array.shape, found.array.dtype.native)
    dataset.array(found).read_box(whole(found.array.shape), out, Tally())
    return out


def consolidate(store: CountedStore) -> None:
    keys = [".zgroup", ".zattrs", *(f"{n}/{d}" for n in "vyx" for d in (".zarray", ".zattrs"))]
    documents = {key: json.loads(bytes(store.read(parse_key(key)).data)) for key in keys}
    put_json(store, ".zmetadata", {"zarr_consolidated_format": 1, "metadata": documents})
    store.reads.clear()
