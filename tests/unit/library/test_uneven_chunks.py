"""Arrays whose chunks have listed lengths are read and written as any other."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.engine.options import EngineOptions
from nczfs.errors import UsageError
from nczfs.formats.zarr3.grids import grid_json
from nczfs.library.opening import open_zmap
from nczfs.model.dtypes import DataType
from nczfs.model.grid import UnevenCuts
from nczfs.model.hierarchy import ArrayDescription, CodecChain
from nczfs.testing import indexing
from nczfs.vfs.tree import VfsOptions, mount_tree
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import parse_key
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.registry import StoreOptions, open_store
from tests.support.grids import uneven_cuts
from tests.support.trees import find, listing, read, tree_over
from tests.support.writing import close, open_file, truncate, write

TYPE = DataType("<i4", np.dtype("<i4"))
FILL = -7
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
shapes = st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple)


def put(zmap: ZMap, array: ArrayDescription, values: Any, codecs: list[Any]) -> None:
    """Write an array as another program would; chunks with values of 0 alone are not there."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(array.shape),
        "data_type": "int32",
        "chunk_grid": grid_json(array),
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "fill_value": FILL,
        "codecs": codecs,
    }
    group = {"zarr_format": 3, "node_type": "group"}
    zmap.write(parse_key("zarr.json"), json.dumps(group).encode())
    zmap.write(parse_key("v/zarr.json"), json.dumps(document).encode())
    if values is None:
        return
    for unit in product(*map(range, array.units.counts)):
        chunk = np.full(array.units.extent(unit), FILL, "<i4")
        piece = values[array.units.box(unit).slices()]
        chunk[tuple(slice(n) for n in piece.shape)] = piece
        name = ".".join(("c", *map(str, unit)))
        zmap.write(parse_key(f"v/{name}"), chunk.tobytes())


def described(shape: tuple[int, ...], cuts: tuple[UnevenCuts, ...]) -> ArrayDescription:
    largest = tuple(max(each.lengths) for each in cuts)
    return ArrayDescription(shape, largest, TYPE, FILL, CodecChain(3), cuts=cuts)


@given(shapes, st.sampled_from([0, 100, 1 << 20]), st.data())
def test_every_index_reads_and_writes_what_numpy_does(
    shape: tuple[int, ...], budget: int, data: st.DataObject
) -> None:
    array = described(shape, tuple(data.draw(uneven_cuts(n)) for n in shape))
    model = np.arange(int(np.prod(shape)), dtype="i4").reshape(shape)
    zmap = MemoryZMap()
    put(zmap, array, model, [BYTES])
    options = EngineOptions(memory_limit_bytes=budget)
    with open_zmap(zmap, "r+", options=options) as dataset:
        for number in range(data.draw(st.integers(1, 4))):
            index = data.draw(indexing.indices(shape))
            assert np.array_equal(dataset.variables["v"][index], indexing.read(model, index))
            index = data.draw(indexing.indices(shape))
            values = np.full(indexing.result_shape(shape, index), -number, "i4")
            dataset.variables["v"][index] = values
            indexing.write(model, index, values)
    with open_zmap(zmap, options=options) as dataset:
        assert np.array_equal(dataset.variables["v"][...], model)


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "a.zarr"
    path.mkdir()
    return str(path)


def test_chunk_files_have_the_lengths_that_are_listed(url: str) -> None:
    cuts = UnevenCuts(((1, 1), (3, 2))), UnevenCuts(((4, 1), (2, 1)))
    model = np.arange(35, dtype="<i4").reshape(7, 5)
    put(open_store(url, StoreOptions(read_only=False)), described((7, 5), cuts), model, [BYTES])
    tree = mount_tree(url, options=VfsOptions(read_only=True))
    try:
        assert find(tree, "datasets/a.zarr/v/chunks/2.1").size == 3 * 2 * 4
    finally:
        tree.close()


@pytest.fixture
def listed() -> MemoryZMap:
    """Five values along an unlimited dimension, in chunks for seven."""
    zmap = MemoryZMap()
    put(zmap, described((5,), (UnevenCuts(((2, 1), (3, 1), (2, 1))),)), None, [BYTES])
    key = parse_key("v/zarr.json")
    document = json.loads(bytes(zmap.read(key).data)) | {"dimension_names": ["t"]}
    zmap.write(key, json.dumps(document).encode())
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"_nczfs_unlimited": ["t"]}}
    zmap.write(parse_key("zarr.json"), json.dumps(group).encode())
    return zmap


def test_an_array_does_not_grow_beyond_the_chunks_that_are_listed(listed: MemoryZMap) -> None:
    with open_zmap(listed, "r+") as dataset:
        variable = dataset.variables["v"]
        other = dataset.create_variable("w", ("t",), "i4", chunks=(4,))
        variable[6] = 1
        for each in (variable, other):
            with pytest.raises(UsageError, match=r"^/v: dimension 't' cannot have length 8.*at 7"):
                each[7] = 1
        with pytest.raises(UsageError, match="cannot have length 100"):
            dataset.resize_dimension("t", 100)
    with open_zmap(listed) as dataset:
        assert dataset.variables["v"][...].tolist() == [FILL] * 6 + [1]
        assert dataset.variables["w"].shape == (7,)


def test_a_mount_refuses_what_is_appended_beyond_them(listed: MemoryZMap) -> None:
    """SEMANTICS W67."""
    with closing(tree_over(listed, VfsOptions(read_only=False))) as tree:
        (name,) = listing(tree, "datasets")
        place = f"datasets/{name}/v/values.raw"
        write(tree, place, np.array([1, 2], "<i4").tobytes(), 20, flags=0)
        handle = open_file(tree, place)
        with pytest.raises(UsageError, match="the lengths of the chunks are listed, and end at 7"):
            tree.write(handle, 28, np.array([3], "<i4").tobytes())
        close(tree, handle)
        with pytest.raises(UsageError, match="end at 7"):
            truncate(tree, place, 32)
        assert find(tree, place).size == 28
        assert np.frombuffer(read(tree, place), "<i4").tolist() == [FILL] * 5 + [1, 2]
