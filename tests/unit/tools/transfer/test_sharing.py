"""Pieces of a copy: enough for all threads of a cluster, and few chunks are decoded again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nczfs
from nczfs.engine.options import EngineOptions
from nczfs.model.hierarchy import CodecSpec
from nczfs.tools.cluster import held
from nczfs.tools.cluster.copying import CopyJob, copy_sent
from nczfs.tools.cluster.opening import OpenedBy
from nczfs.tools.transfer.blocks import BlockSize, block_shape
from nczfs.tools.transfer.choices import Choices
from nczfs.tools.transfer.copy_pieces import CopyPiece, ValuesPiece, sent
from nczfs.tools.transfer.dataset_copy import Copy
from nczfs.tools.transfer.intermediate import Spread
from nczfs.tools.transfer.sharing import TIMES_MAX, Cut, shared
from nczfs.tools.transfer.target import Target
from nczfs.zmap.registry import StoreOptions
from tests.support.copies import checksums, copied, objects

SERIES = Choices({"t": 16, "y": 4, "x": 4})
OTHER_CODEC = Choices(codecs=(CodecSpec("zlib", {"level": 1}),))


class _Stopped(Exception):
    """A run that was ended."""


@pytest.fixture
def maps(tmp_path: Path) -> str:
    """16 maps of 1 KiB, each a chunk."""
    url = str(tmp_path / "maps.zarr")
    with nczfs.open(url, "w", format="zarr3") as root:
        for name in "tyx":
            root.create_dimension(name, 16)
        values = np.random.default_rng(1).integers(0, 99, (16, 16, 16)).astype("f4")
        root.create_variable("v", ("t", "y", "x"), data=values, chunks=(1, 16, 16))
        root.create_variable("small", ("t",), data=np.arange(16.0))
    return url


def in_pieces(
    pieces: list[ValuesPiece], source: str = "", *, most: int | None = None
) -> Callable[[Copy], Spread]:
    """A run that keeps the pieces, and does `most` of them as workers do; with None, all."""

    def spread(copy: Copy) -> Spread:
        def run(target: Target, made: Iterator[CopyPiece]) -> None:
            by = OpenedBy(source, StoreOptions(), EngineOptions())
            job = CopyJob("t", by, copy.new, copy.format.name, target.is_new)
            for piece in islice(made, most):
                if isinstance(piece, ValuesPiece):
                    pieces.append(piece)
                copy_sent(job, sent(piece))
            held.close_all()
            if most is not None:
                raise _Stopped

        return run

    return spread


def chunks_decoded(pieces: list[ValuesPiece]) -> int:
    return sum(piece.pair.source.array.grid.touched(piece.box).size for piece in pieces)


@pytest.mark.parametrize(
    ("threads", "count"), [(1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, TIMES_MAX), (100, TIMES_MAX)]
)
def test_maps_become_series_in_a_piece_for_each_thread_but_are_not_decoded_often(
    threads: int, count: int, maps: str, tmp_path: Path
) -> None:
    pieces: list[ValuesPiece] = []
    other = str(tmp_path / "other")
    copied(maps, other, choices=SERIES, spread=in_pieces(pieces, maps), threads=threads)
    assert len(pieces) == count
    assert chunks_decoded(pieces) == count * 16
    assert checksums(other) == checksums(maps)


@pytest.mark.parametrize(("threads", "count"), [(1, 1), (2, 8), (3, 16), (100, 16)])
def test_chunks_that_do_not_cross_are_shared_out_and_decoded_once(
    threads: int, count: int, maps: str, tmp_path: Path
) -> None:
    pieces: list[ValuesPiece] = []
    other = str(tmp_path / "other")
    copied(
        maps, other, node="v", choices=OTHER_CODEC, spread=in_pieces(pieces, maps), threads=threads
    )
    assert len(pieces) == count
    assert chunks_decoded(pieces) == 16
    assert list(checksums(other).values()) == [checksums(maps)["/v"]]


def test_many_variables_are_work_enough(maps: str, tmp_path: Path) -> None:
    with nczfs.open(maps, "r+") as root:
        for n in range(7):
            values = np.full((16, 16, 16), n, "f4")
            root.create_variable(f"v{n}", ("t", "y", "x"), data=values, chunks=(1, 16, 16))
    pieces: list[ValuesPiece] = []
    other = str(tmp_path / "other")
    copied(maps, other, choices=SERIES, spread=in_pieces(pieces, maps), threads=4)
    assert len(pieces) == 8
    assert chunks_decoded(pieces) == 8 * 16


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (2, 4)])
def test_a_copy_goes_on_that_was_cut_for_another_number_of_threads(
    before: int, after: int, maps: str, tmp_path: Path
) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    copied(maps, one, choices=SERIES)
    stopped = in_pieces([], maps, most=2)
    with pytest.raises(_Stopped):
        copied(maps, other, choices=SERIES, spread=stopped, threads=before)
    pieces: list[ValuesPiece] = []
    copied(maps, other, choices=SERIES, spread=in_pieces(pieces, maps), threads=after)
    assert objects(other) == objects(one)


@given(
    st.integers(1, 3).flatmap(
        lambda ndim: st.tuples(*[st.tuples(*[st.integers(1, 40)] * ndim)] * 3)
    ),
    st.integers(1, 2000),
    st.floats(0.1, 50),
)
def test_blocks_stay_whole_units_and_are_neither_larger_nor_too_many(
    lengths: tuple[tuple[int, ...], ...], most: int, threads: float
) -> None:
    shape, chunk, unit = lengths
    block = block_shape(shape, unit, chunk, BlockSize(max(1, most // 4), most))
    before = Cut(shape, chunk, unit, block)
    after = shared(before, threads)
    assert prod(after.block) <= prod(before.block)
    for length, n, u in zip(after.block, shape, unit, strict=True):
        assert length % u == 0 or length == n
    assert after.times <= max(before.times, TIMES_MAX)
