"""Arrays in shards: random writes of nczfs and of others, read by all of them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import tensorstore
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import nczfs
from nczfs.engine.options import EngineOptions

NUMBERS: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
CHECKSUM = {"name": "crc32c"}
COMPRESSORS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "zstd": [{"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    "gzip and a checksum": [{"name": "gzip", "configuration": {"level": 1}}, CHECKSUM],
}
FILL = -1
TINY = EngineOptions(memory_limit_bytes=256 << 10, cache_bytes_max=0)


@dataclass(frozen=True)
class Case:
    """An array in shards.

    Attributes
    ----------
    factors : how many of what is inside lie along each dimension of a shard, the innermost first.
    order : in which a codec before the shards puts the dimensions.
    """

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]
    at_end: bool
    has_checksum: bool
    compressor: str
    order: tuple[int, ...]

    def document(self) -> dict[str, Any]:
        codecs = [NUMBERS, *COMPRESSORS[self.compressor]]
        shape = self.chunk
        for factors in self.factors:
            configuration = {
                "chunk_shape": self._ordered(shape),
                "codecs": codecs,
                "index_codecs": [NUMBERS, *[CHECKSUM] * self.has_checksum],
                "index_location": "end" if self.at_end else "start",
            }
            codecs = [{"name": "sharding_indexed", "configuration": configuration}]
            shape = tuple(a * b for a, b in zip(shape, factors, strict=True))
        if self.is_transposed:
            configuration = {"order": list(self.order)}
            codecs = [{"name": "transpose", "configuration": configuration}, *codecs]
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": "int32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": FILL,
            "codecs": codecs,
            "attributes": {},
        }

    @property
    def is_transposed(self) -> bool:
        return self.order != tuple(range(len(self.shape)))

    def _ordered(self, shape: Sequence[int]) -> list[int]:
        return [shape[d] for d in self.order]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 3))
    few = st.integers(1, 3)

    def each() -> tuple[int, ...]:
        return tuple(draw(few) for _ in range(rank))

    chunk, factors = each(), tuple(each() for _ in range(draw(st.integers(1, 2))))
    order = tuple(draw(st.permutations(range(rank)))) if draw(st.booleans()) else tuple(range(rank))
    sides = [prod(f) * c for c, f in zip(chunk, zip(*factors, strict=True), strict=True)]
    shape = tuple(draw(st.integers(1, 2 * side + 1)) for side in sides)
    return Case(
        shape,
        chunk,
        factors,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(sorted(COMPRESSORS))),
        order,
    )


@st.composite
def writes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], bool]:
    """A box, and whether fill is written to it."""
    box = []
    for length in shape:
        start = draw(st.integers(0, length - 1))
        box.append(slice(start, draw(st.integers(start + 1, length))))
    return tuple(box), draw(st.integers(0, 3)) == 0


@contextmanager
def stored(case: Case) -> Iterator[Path]:
    with TemporaryDirectory() as directory:
        root = Path(directory) / "d.zarr"
        (root / "v").mkdir(parents=True)
        (root / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group"}))
        (root / "v" / "zarr.json").write_text(json.dumps(case.document()))
        yield root


def by_zarr(root: Path, mode: Any = "r") -> Any:
    return zarr.open_array(root / "v", mode=mode)


def by_tensorstore(root: Path) -> Any:
    store = {"driver": "file", "path": str(root / "v")}
    return tensorstore.open({"driver": "zarr3", "kvstore": store}).result()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_writes_are_read_by_all(data: st.DataObject) -> None:
    case = data.draw(cases())
    wanted = np.full(case.shape, FILL, np.int32)
    with stored(case) as root:
        for number in range(data.draw(st.integers(1, 4))):
            with nczfs.open(str(root), "r+", options=TINY) as dataset:
                for _ in range(data.draw(st.integers(1, 3))):
                    box, is_fill = data.draw(writes(case.shape))
                    values = wanted[box]
                    values[...] = (
                        FILL if is_fill else np.arange(values.size).reshape(values.shape) + number
                    )
                    dataset.variables["v"][box] = values
                assert np.array_equal(dataset.variables["v"][...], wanted)
            box, _ = data.draw(writes(case.shape))
            wanted[box] = 1000 + number
            by_tensorstore(root)[box] = wanted[box]
        with nczfs.open(str(root), options=TINY) as dataset:
            assert np.array_equal(dataset.variables["v"][...], wanted)
        assert np.array_equal(by_tensorstore(root).read().result(), wanted)
        if not case.is_transposed:  # of which zarr-python warns, and which it refuses in part
            assert np.array_equal(by_zarr(root)[...], wanted)


@pytest.mark.parametrize("compressor", sorted(COMPRESSORS))
@pytest.mark.parametrize("at_end", [True, False], ids=["end", "start"])
@pytest.mark.parametrize("factors", [((4, 2),), ((2, 2), (2, 1))], ids=["one level", "nested"])
def test_what_zarr_python_writes_is_read_and_can_be_changed(
    factors: tuple[tuple[int, ...], ...], at_end: bool, compressor: str
) -> None:
    case = Case((21, 13), (2, 3), factors, at_end, True, compressor, (0, 1))
    wanted = np.arange(21 * 13, dtype=np.int32).reshape(21, 13)
    with stored(case) as root:
        by_zarr(root, "r+")[...] = wanted
        with nczfs.open(str(root), "r+") as dataset:
            assert np.array_equal(dataset.variables["v"][...], wanted)
            assert np.array_equal(dataset.variables["v"][5:9, ::4], wanted[5:9, ::4])
            dataset.variables["v"][3:17, 4] = wanted[3:17, 4] = 7
        by_zarr(root, "r+")[4:6, :] = wanted[4:6, :] = 9
        with nczfs.open(str(root)) as dataset:
            assert np.array_equal(dataset.variables["v"][...], wanted)


@pytest.mark.parametrize("at_end", [True, False], ids=["end", "start"])
def test_two_programs_that_write_into_one_shard_lose_nothing(at_end: bool) -> None:
    case = Case((16, 16), (2, 2), ((4, 4), (2, 2)), at_end, True, "zstd", (0, 1))
    wanted = np.full((16, 16), FILL, np.int32)
    with stored(case) as root:

        def write(first: int) -> None:
            with nczfs.open(str(root), "r+", options=TINY) as dataset:
                for row in range(first, 16, 2):
                    dataset.variables["v"][row] = np.arange(16) + 100 * row
                    dataset.sync()

        both = [threading.Thread(target=write, args=(first,)) for first in range(2)]
        for each in both:
            each.start()
        for each in both:
            each.join()
        for row in range(16):
            wanted[row] = np.arange(16) + 100 * row
        assert np.array_equal(by_tensorstore(root).read().result(), wanted)
        assert np.array_equal(by_zarr(root)[...], wanted)
