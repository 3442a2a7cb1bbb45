"""Arrays of very many chunks, of which few are stored: what is stored is the work to be done."""

from __future__ import annotations

import hashlib
import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.model.hierarchy import CodecSpec, Variable
from nczfs.testing.datasets import put_array, put_group
from nczfs.tools.diff.comparison import Extent, compare
from nczfs.tools.diff.differences import DatasetDifference
from nczfs.tools.diff.side import Side, dataset_side
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.usage import node_usages
from nczfs.tools.verify.holes import holes
from nczfs.tools.verify.subject import subject_at
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.base import Blob
from nczfs.zmap.keys import Key, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from tests.support.copies import checksums, chunk_keys, copied, new_url

SIDE = 1000
STORED = 400
READS_MAX = 3 * STORED
"""Of chunks: each stored one, and some that the work finds missing."""

LIMIT_BYTES = 64 << 20
PEAK_BYTES_MAX = 400 << 20


def places() -> list[tuple[int, int, int]]:
    """The stored chunks: some lie close to each other, most do not."""
    return [(n * 7 % SIDE, n // 4 * 13 % SIDE, n) for n in range(STORED)]


@pytest.fixture(scope="module")
def url() -> str:
    """An array with a grid of 10^9 chunks of one element each, and 400 of them."""
    url = new_url()
    store = open_store(url)
    put_group(store, "")
    put_array(store, "v", np.zeros((1, 1, 1), "i1"), (1, 1, 1), dimensions=("x", "y", "z"))
    document = json.loads(bytes(store.read(Key("v/.zarray")).data))
    document["shape"] = [SIDE, SIDE, SIDE]
    document["fill_value"] = 3
    store.write(Key("v/.zarray"), json.dumps(document).encode())
    store.delete(Key("v/0.0.0"))
    for number, place in enumerate(places()):
        store.write(parse_key("v/" + ".".join(map(str, place))), bytes([number % 100]))
    return url


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the chunks of all stores in memory were read, which fails beyond a limit."""
    counted: Counter[str] = Counter()
    read = MemoryZMap.read

    def noted(self: MemoryZMap, key: Key, *arguments: Any, **options: Any) -> Blob:
        if not key.rpartition("/")[2].startswith("."):
            counted[key] += 1
            assert counted.total() <= READS_MAX, "chunks are read that are not stored"
        return read(self, key, *arguments, **options)

    monkeypatch.setattr(MemoryZMap, "read", noted)
    return counted


@contextmanager
def bounded_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_the_space_of_stored_chunks_is_shown(url: str, reads: Counter[str]) -> None:
    with bounded_memory(), nczfs.open(url) as root:
        variable = next(usage for usage in node_usages(root) if usage.variable is not None)
    assert variable.usage.objects == STORED + 2  # and two documents
    assert variable.decoded_bytes == SIDE**3
    assert set(reads) <= {"zarr.json"}


def test_stored_chunks_are_verified(url: str, reads: Counter[str]) -> None:
    with bounded_memory(), subject_at(url) as subject:
        run = Verification(subject)
        assert list(run.run()) == []
    assert run.counts.chunks == STORED
    assert reads.total() - reads["zarr.json"] == STORED


def test_the_first_holes_are_shown_at_once(url: str, reads: Counter[str]) -> None:
    with bounded_memory(), subject_at(url) as subject:
        node = subject.dataset.node("v")
        assert isinstance(node, Variable)
        found = list(islice(holes(subject, node), 10_000))
    assert len(found) == 10_000
    assert found[:3] == [(0, 0, 1), (0, 0, 2), (0, 0, 3)]
    assert set(reads) <= {"zarr.json"}


def test_a_checksum_reads_what_is_stored(url: str, reads: Counter[str]) -> None:
    with bounded_memory():
        found = checksums(url)["/v"]
    hasher = hashlib.sha256()
    for x in range(SIDE):
        values = np.full((SIDE, SIDE), 3, "i1")
        for number, (a, b, c) in enumerate(places()):
            if a == x:
                values[b, c] = number % 100
        hasher.update(values.data)
    assert found == hasher.hexdigest()


@pytest.mark.parametrize(
    "choices",
    [
        Choices(),
        Choices(codecs=(CodecSpec("zlib", {"level": 1}),)),
        Choices(chunks={"z": 3}),
    ],
    ids=["as they are stored", "with other codecs", "in other chunks"],
)
def test_stored_chunks_are_copied(url: str, reads: Counter[str], choices: Choices) -> None:
    target = new_url()
    done: list[float] = []
    with bounded_memory():
        copied(url, target, choices=choices, memory_limit_bytes=LIMIT_BYTES, progress=done.append)
    assert sum(done) == pytest.approx(SIDE**3)
    assert 0 < len(chunk_keys(target)) <= STORED
    reads.clear()
    with nczfs.open(target) as root:
        variable = root["v"]
        assert isinstance(variable, nczfs.Variable)
        found = [int(variable[place]) for place in places()]
        assert found == [number % 100 for number in range(STORED)]
        assert int(variable[SIDE - 1, 0, 0]) == 3


def test_stored_chunks_are_compared(url: str, reads: Counter[str]) -> None:
    target = new_url()
    copied(url, target)
    open_store(target).write(parse_key("v/999.999.998"), b"\x07")
    reads.clear()

    def side(root: nczfs.OpenDataset) -> Side:
        return dataset_side(root, "", lambda _: None, skip_unsupported=False)

    with bounded_memory(), nczfs.open(url) as one, nczfs.open(target) as other:
        limit = LIMIT_BYTES
        (found,) = compare(side(one), side(other), Extent(), limit, lambda _: None)
    assert isinstance(found, DatasetDifference)
    assert found.values is not None
    assert (found.values.count, found.values.first) == (1, (999, 999, 998))
