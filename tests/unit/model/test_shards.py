"""The units of an array: what is stored as one object."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nczfs.engine.chunks.storedarray import chunk_layout, has_same_chunks
from nczfs.model.boxes import whole
from nczfs.model.dtypes import DataType
from nczfs.model.hierarchy import ArrayDescription, ChunkKeys, CodecChain, CodecSpec, Shards

TYPE = DataType("<i4", np.dtype("<i4"))
KEYS = ChunkKeys("/", "c", "c")
INDEX = (CodecSpec("bytes", {"endian": "little"}),)


def array(*shards: Shards) -> ArrayDescription:
    return ArrayDescription((10, 9), (2, 3), TYPE, 0, CodecChain(3), KEYS, shards)


def test_without_shards_a_chunk_is_a_unit() -> None:
    plain = array()
    assert plain.unit_of((3, 2)) == (3, 2)
    assert plain.units == plain.grid


def test_the_outermost_shard_is_the_unit() -> None:
    nested = array(Shards((8, 6), INDEX), Shards((4, 3), INDEX))
    assert nested.units.counts == (2, 2)
    assert [nested.unit_of(chunk) for chunk in ((0, 0), (3, 1), (3, 2), (4, 2))] == [
        (0, 0),
        (0, 0),
        (0, 1),
        (1, 1),
    ]
    assert nested.unit_index("c/1/1") == (1, 1)


def test_a_unit_has_the_chunks_of_the_grid_in_it() -> None:
    plain = array()
    assert list(plain.chunks_of((3, 2)).indexes()) == [(3, 2)]
    assert plain.chunks_of((5, 0)).size == 0
    sharded = array(Shards((4, 6), INDEX))
    assert list(sharded.chunks_of((1, 0)).indexes()) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert list(sharded.chunks_of((2, 1)).indexes()) == [(4, 2)]
    assert sharded.chunks_of((2, 2)).size == 0
    for unit in whole(sharded.units.counts).indexes():
        assert {sharded.unit_of(chunk) for chunk in sharded.chunks_of(unit).indexes()} == {unit}
    scalar = replace(sharded, shape=(), chunk_shape=(), shards=(Shards((), INDEX),))
    assert list(scalar.chunks_of(()).indexes()) == [()]


def test_arrays_with_other_shards_have_other_chunks() -> None:
    ones = [
        array(),
        array(Shards((4, 6), INDEX)),
        array(Shards((4, 6), INDEX, index_at_end=False)),
        array(Shards((4, 6), INDEX, order=(1, 0))),
        array(Shards((8, 6), INDEX)),
        array(Shards((8, 6), INDEX), Shards((4, 6), INDEX)),
    ]
    assert len({chunk_layout(one) for one in ones}) == len(ones)
    for one in ones:
        assert [other for other in ones if has_same_chunks(one, other)] == [one]
