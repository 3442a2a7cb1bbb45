"""Tools on arrays whose chunks lie in shards: an object is one shard, whatever it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nczfs
from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.errors import UsageError
from nczfs.library.opening import open_zmap
from nczfs.model.hierarchy import CodecSpec, Variable
from nczfs.testing.datasets import put_json
from nczfs.tools.diff.comparison import Extent, compare
from nczfs.tools.diff.differences import DatasetDifference
from nczfs.tools.diff.side import dataset_side
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.transfer.listed import stored_units
from nczfs.tools.usage import chunk_usages
from nczfs.tools.verify.digest import digest_of
from nczfs.tools.verify.holes import holes
from nczfs.tools.verify.subject import subject_of
from nczfs.tools.verify.verification import Verification
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import open_store
from tests.support.copies import copied, new_url

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
INSIDE = {
    "chunk_shape": [5, 5],
    "codecs": [LITTLE, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    "index_codecs": [LITTLE, {"name": "crc32c"}],
}
VALUES = np.arange(1, 25 * 20 + 1, dtype="i4").reshape(25, 20)
UNITS = {f"v/c/{i}/{j}" for i in range(3) for j in range(2)}


def put_sharded(store: ZMap, shape: tuple[int, int]) -> None:
    """An array of shards of 10 x 10 elements, in chunks of 5 x 5."""
    put_json(store, "zarr.json", {"zarr_format": 3, "node_type": "group"})
    document: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": "int32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10, 10]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": INSIDE}],
        "dimension_names": ["y", "x"],
    }
    put_json(store, "v/zarr.json", document)


def fill(store: ZMap) -> None:
    """Six shards of up to four chunks; in (1, 1) the chunk (3, 3) is missing, (2, 0) is missing."""
    put_sharded(store, VALUES.shape)
    with open_zmap(store, "r+") as dataset:
        variable = dataset.variables["v"]
        variable[:20] = np.where(hole(), 0, VALUES)[:20]
        variable[20:, 10:] = VALUES[20:, 10:]


def hole() -> np.ndarray[Any, np.dtype[np.bool_]]:
    """The elements that were never written."""
    missing = np.zeros(VALUES.shape, bool)
    missing[15:20, 15:] = missing[20:, :10] = True
    return missing


STORED = np.where(hole(), 0, VALUES)


@pytest.fixture
def url() -> str:
    url = new_url()
    fill(open_store(url))
    return url


def shards(url: str) -> set[str]:
    return {str(stat.key) for stat in open_store(url).list(ROOT) if "/c/" in stat.key}


def chunks(url: str) -> dict[str, bytes]:
    store = open_store(url)
    return {key: bytes(store.read(parse_key(key)).data) for key in shards(url)}


def values(url: str) -> Any:
    with nczfs.open(url) as root:
        return root.variables["v"][...]


def test_the_store_has_one_object_for_each_shard(url: str) -> None:
    assert shards(url) == UNITS - {"v/c/2/0"}
    assert values(url).tolist() == STORED.tolist()


def test_usage_counts_shards(url: str) -> None:
    with nczfs.open(url) as root:
        (usage,) = chunk_usages(root, [root.variables["v"].description])
    sizes = [len(data) for data in chunks(url).values()]
    assert (usage.objects, usage.bytes) == (5, sum(sizes))


def test_holes_are_chunks_that_no_shard_has_and_those_of_missing_shards(url: str) -> None:
    engine = Engine(EngineOptions())
    subject = subject_of(open_store(url), engine)
    node = subject.dataset.node("v")
    assert isinstance(node, Variable)
    assert list(holes(subject, node)) == [(3, 3), (4, 0), (4, 1)]
    engine.close()


def test_verify_decodes_every_chunk_of_a_shard(url: str) -> None:
    store = open_store(url)
    store.write(parse_key("v/c/9/0"), b"beyond the shape")
    engine = Engine(EngineOptions())
    run = Verification(subject_of(store, engine))
    (finding,) = run.run()
    assert finding.line == "note /v v/c/9/0: a shard beyond the shape [25, 20]; never read"
    assert run.counts.chunks == 17
    assert run.counts.stored_bytes == sum(map(len, chunks(url).values())) - 16
    engine.close()


def test_checksums_do_not_depend_on_shards(url: str) -> None:
    plain = MemoryZMap()
    with open_zmap(plain, "w", format="zarr2") as root:
        root.create_variable("v", VALUES.shape, "i4", chunks=(7, 20), data=STORED)
        wanted = digest_of(root.engine_dataset.array(root.variables["v"].description))
    with nczfs.open(url) as root:
        dataset, variable = root.engine_dataset, root.variables["v"].description
        found = stored_units(dataset, "v", {"v": variable}, lambda _: None)["v"]
        assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1)]
        for stored in (None, found):
            assert digest_of(dataset.array(variable), stored=stored) == wanted


def test_shards_are_copied_as_they_are_stored(url: str) -> None:
    target = new_url()
    done: list[float] = []
    copied(url, target, progress=done.append)
    assert chunks(target) == chunks(url)
    assert sum(done) == pytest.approx(VALUES.nbytes)


@pytest.mark.parametrize(
    "choices",
    [
        Choices(codecs=(CodecSpec("gzip", {"level": 1}),)),
        Choices(chunks={"y": 7}),
    ],
    ids=["with other codecs", "in other chunks"],
)
def test_values_of_shards_are_copied(url: str, choices: Choices) -> None:
    target = new_url()
    done: list[float] = []
    copied(url, target, choices=choices, progress=done.append)
    assert values(target).tolist() == STORED.tolist()
    assert sum(done) == pytest.approx(VALUES.nbytes)


def test_a_copy_into_shards_writes_each_of_them_once(url: str) -> None:
    target = new_url()
    copied(url, target, choices=Choices(codecs=(CodecSpec("gzip", {"level": 1}),)))
    with nczfs.open(target) as root:
        array = root.variables["v"].description.array
    assert array.unit_shape == (10, 10)
    assert shards(target) == UNITS - {"v/c/2/0"}


def test_chosen_shards_are_whole_chunks_and_stay_where_chunks_change(url: str) -> None:
    wanted = [
        (Choices(shards={"y": 14, "x": 1000}), (5, 5), (15, 20)),
        (Choices(chunks={"y": 3}), (3, 5), (12, 10)),
        (Choices(chunks={"y": 4, "x": 4}, shards={"y": 25}), (4, 4), (28, 12)),
    ]
    for choices, chunk_shape, shard_shape in wanted:
        target = new_url()
        copied(url, target, choices=choices)
        with nczfs.open(target) as root:
            array = root.variables["v"].description.array
            assert (array.chunk_shape, array.unit_shape) == (chunk_shape, shard_shape)
        assert values(target).tolist() == STORED.tolist()


def test_chunks_of_zarr_2_are_copied_into_shards_and_back() -> None:
    plain, sharded, back = new_url(), new_url(), new_url()
    with nczfs.open(plain, "w", format="zarr2") as root:
        for name, length in zip("yx", STORED.shape, strict=True):
            root.create_dimension(name, length)
        root.create_variable("v", ("y", "x"), "i4", chunks=(5, 5), data=STORED)
    copied(plain, sharded, format="zarr3", choices=Choices(shards={"y": 10}))
    assert shards(sharded) == {f"v/c/{i}/{j}" for i in range(3) for j in range(4)}
    copied(sharded, back, format="zarr2")
    assert values(sharded).tolist() == values(back).tolist() == STORED.tolist()
    with pytest.raises(UsageError, match="zarr2 has no shards; zarr3 has"):
        copied(sharded, new_url(), format="zarr2", choices=Choices(shards={"y": 10}))


def differences(one: str, other: str) -> tuple[int, tuple[int, ...]] | None:
    """Return how many values differ, and the place of the first."""
    with nczfs.open(one) as a, nczfs.open(other) as b:
        sides = [dataset_side(r, "", lambda _: None, skip_unsupported=False) for r in (a, b)]
        found = list(compare(sides[0], sides[1], Extent(), 1 << 20, lambda _: None))
    if not found:
        return None
    (difference,) = found
    assert isinstance(difference, DatasetDifference)
    assert difference.values is not None
    return difference.values.count, difference.values.first


def test_shards_are_compared(url: str) -> None:
    other = new_url()
    fill(open_store(other))
    assert differences(url, other) is None
    with nczfs.open(other, "r+") as root:
        root.variables["v"][17, 18] = 7
    assert differences(url, other) == (1, (17, 18))


FEW = {(395, 399): 1, (200, 7): 2, (3, 300): 3}


@pytest.fixture
def few() -> str:
    """Three shards of 1600."""
    url = new_url()
    store = open_store(url)
    put_sharded(store, (400, 400))
    with open_zmap(store, "r+") as dataset:
        for place, value in FEW.items():
            dataset.variables["v"][place] = value
    assert shards(url) == {"v/c/39/39", "v/c/20/0", "v/c/0/30"}
    return url


def sparse_values() -> np.ndarray[Any, np.dtype[np.int32]]:
    found = np.zeros((400, 400), "i4")
    for place, value in FEW.items():
        found[place] = value
    return found


@pytest.mark.parametrize("chunks", [{}, {"y": 40, "x": 3}], ids=["same", "other chunks"])
def test_few_shards_of_many_are_copied(few: str, chunks: dict[str, int]) -> None:
    target = new_url()
    choices = Choices(codecs=(CodecSpec("gzip", {"level": 1}),), chunks=chunks)
    copied(few, target, choices=choices)
    assert values(target).tolist() == sparse_values().tolist()
    assert chunks or shards(target) == shards(few)


def test_few_shards_of_many_are_compared_and_summed_up(few: str) -> None:
    plain = MemoryZMap()
    with open_zmap(plain, "w", format="zarr2") as root:
        root.create_variable("v", (400, 400), "i4", data=sparse_values())
        wanted = digest_of(root.engine_dataset.array(root.variables["v"].description))
    other = new_url()
    copied(few, other)
    with nczfs.open(few) as root:
        dataset, variable = root.engine_dataset, root.variables["v"].description
        found = stored_units(dataset, "v", {"v": variable}, lambda _: None)["v"]
        assert digest_of(dataset.array(variable), stored=found) == wanted
    assert differences(few, other) is None
    with nczfs.open(other, "r+") as root:
        root.variables["v"][396, 390] = 9
    assert differences(few, other) == (1, (396, 390))


def test_a_shorter_dimension_leaves_nothing_in_its_shards(url: str) -> None:
    with nczfs.open(url, "r+") as root:
        root.resize_dimension("y", 12)
        root.sync()
        assert shards(url) == {f"v/c/{i}/{j}" for i in range(2) for j in range(2)}
        root.resize_dimension("y", 25)
        root.sync()
    wanted = STORED.copy()
    wanted[12:] = 0
    assert values(url).tolist() == wanted.tolist()
