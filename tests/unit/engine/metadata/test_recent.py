"""Nodes that were read a moment ago."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.metadata import recent
from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.engine.options import EngineOptions
from nczfs.formats.base import Documents, FormatOptions, Node
from nczfs.formats.nczarr.layouts import DatasetWriter
from nczfs.formats.zarr2.base import Zarr2Documents
from nczfs.formats.zarr2.format import Zarr2Format
from nczfs.library.opening import open_zmap
from nczfs.testing.datasets import put_array, put_group
from nczfs.vfs.tree import VfsOptions
from nczfs.zmap.keys import ROOT, parse_key, parse_prefix
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.wrappers import Prefixed
from tests.support.trees import find, tree_over
from tests.support.writing import close, open_file

FIELD = np.arange(4, dtype="<f4")


@pytest.fixture
def reads() -> Iterator[Counter[str]]:
    """How often a node was made of its documents, by path."""
    found: Counter[str] = Counter()
    read_node = Zarr2Documents.read_node

    def counted(self: Zarr2Documents, path: str, documents: Documents) -> Node | None:
        found[path] += 1
        return read_node(self, path, documents)

    with mock.patch.object(Zarr2Documents, "read_node", counted):
        yield found


@pytest.fixture
def store() -> MemoryZMap:
    found = MemoryZMap()
    put_group(found, "", {})
    put_array(found, "v", FIELD, (2,), dimensions=("x",))
    return found


@pytest.fixture
def cache(store: MemoryZMap) -> Iterator[MetadataCache]:
    engine = Engine(EngineOptions(metadata_ttl_s=0.0))
    yield MetadataCache(store, engine.options, engine.pools)
    engine.close()


def node(cache: MetadataCache, read_as: Zarr2Format, path: str = "v") -> Node | None:
    return StoreDocuments(cache, ROOT, FormatOptions()).node(read_as, path)


def test_a_node_is_read_again_when_one_of_its_documents_has_another_version(
    store: MemoryZMap, cache: MetadataCache, reads: Counter[str]
) -> None:
    zarr = Zarr2Format(FormatOptions(), DatasetWriter())
    first = node(cache, zarr)
    assert node(cache, zarr) is first
    assert reads["v"] == 1
    put_array(store, "v", np.arange(6, dtype="<f4"), (2,), dimensions=("x",))
    second = node(cache, zarr)
    assert second is not None
    assert second.array.shape == (6,)  # type: ignore[union-attr]
    assert reads["v"] == 2


def test_a_node_that_is_read_by_the_rules_of_another_format_is_read_again(
    cache: MetadataCache, reads: Counter[str]
) -> None:
    for _ in range(2):
        node(cache, Zarr2Format(FormatOptions(), DatasetWriter()))
    assert reads["v"] == 2


def test_a_node_is_known_with_the_versions_of_its_documents_each_time(
    cache: MetadataCache,
) -> None:
    zarr = Zarr2Format(FormatOptions(), DatasetWriter())
    documents = [StoreDocuments(cache, ROOT, FormatOptions()) for _ in range(2)]
    for each in documents:
        each.node(zarr, "v")
    assert documents[0].used == documents[1].used != {}
    assert documents[0].mtime_ns == documents[1].mtime_ns


def test_only_the_last_few_and_small_nodes_are_remembered(
    store: MemoryZMap, cache: MetadataCache, reads: Counter[str]
) -> None:
    zarr = Zarr2Format(FormatOptions(), DatasetWriter())
    for number in range(recent.COUNT):
        put_array(store, f"v{number}", FIELD, (2,), dimensions=("x",))
    long = "t" * recent.DOCUMENT_BYTES_MAX
    put_array(store, "long", FIELD, (2,), dimensions=("x",), attributes={"long": long})
    for _ in range(2):
        node(cache, zarr, "long")
    assert reads["long"] == 2
    node(cache, zarr)
    for number in range(recent.COUNT):
        node(cache, zarr, f"v{number}")
    node(cache, zarr)
    assert reads["v"] == 2


def test_a_claim_hides_no_change_of_another_client(
    store: MemoryZMap, cache: MetadataCache, reads: Counter[str]
) -> None:
    zarr, key = Zarr2Format(FormatOptions(), DatasetWriter()), parse_key("v/.zarray")
    node(cache, zarr)
    before = store.stat(key).version
    noted = cache.write(key, bytes(store.read(key).data) + b" ", before)
    cache.recent.still(ROOT, "v", key, before, noted)
    node(cache, zarr)
    assert reads["v"] == 1
    put_array(store, "v", np.arange(6, dtype="<f4"), (2,), dimensions=("x",))
    cache.recent.still(ROOT, "v", key, before, store.stat(key).version)  # not upon what was read
    found = node(cache, zarr)
    assert found is not None
    assert found.array.shape == (6,)  # type: ignore[union-attr]


def test_an_append_reads_each_version_of_its_documents_once(
    reads: Counter[str], tmp_path: Path
) -> None:
    memory = MemoryZMap()
    with open_zmap(Prefixed(memory, parse_prefix("d.zarr")), "w") as root:
        root.create_dimension("t", None)
        root.create_variable("r", ("t",), "<i4", chunks=(4,))
    options = VfsOptions(read_only=False, spool_dir=tmp_path / "spool")
    fs = tree_over(memory, options)
    handle = open_file(fs, "datasets/d.zarr/r/values.raw", os.O_WRONLY | os.O_APPEND)
    rounds = 5
    for number in range(rounds + 1):
        if number == 1:
            reads.clear()
        fs.write(handle, find(fs, "datasets/d.zarr/r/values.raw").size, b"\1\0\0\0")
        fs.fsync(handle, data_only=False)
    close(fs, handle)
    fs.close()
    # The array with its new length, and the group with the longer dimension; a claim is no change.
    assert reads["r"] <= rounds
    assert reads[""] <= rounds + 1
