"""The cost of a read, before it is made: counted where arithmetic can, measured on a sample.

The first chunk of an object may cost more than further ones, because a shard has an index. So both
kinds are measured, each on a few objects that lie all over the selection, several at a time as
reads do it.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from math import prod

import numpy as np

from nczfs import metrics
from nczfs.engine.arrays.selection import Axis, select
from nczfs.library.variable import Variable
from nczfs.model.grid import ChunkIndex, Cuts
from nczfs.plaindata import frozen

SAMPLE_MAX = 16  # objects, and as many further chunks
SAMPLE_BYTES = 64 << 20  # decoded
FURTHER = 2  # chunks of one object
LISTED_MAX = 1 << 20  # chunks along one dimension that a step selects


@frozen
class ReadSample:
    """What reading a few chunks of a kind took.

    Attributes
    ----------
    bytes : as stored. missing : chunks that were never written.
    """

    chunks: int = 0
    requests: float = 0.0
    bytes: float = 0.0
    missing: float = 0.0
    seconds: float = 0.0


@frozen
class ReadCost:
    """What reading a selection takes, with nothing in any cache.

    Attributes
    ----------
    shape : of the result.
    wanted_bytes : of the result; None for elements of variable length.
    chunks, objects : that the selection touches; chunks of a shard lie in one object.
    decoded_bytes : of these chunks.
    requests, stored_bytes : extrapolated from the sample, unless that is everything.
    seconds : at the rate of the sample.
    sampled : the chunks that were read for it.
    missing : how many of these were never written.
    """

    shape: tuple[int, ...]
    wanted_bytes: int | None
    chunks: int
    objects: int
    decoded_bytes: int
    requests: int
    stored_bytes: int
    seconds: float
    sampled: int
    missing: int


def read_cost(variable: Variable, box: tuple[object, ...]) -> ReadCost:
    """Tell what ``variable[box]`` costs. Reads at most 64 MiB, or two chunks.

    Raises
    ------
    BadSelection, CodecError, StoreError.
    """
    array = variable.description.array
    selection = select(box, array.shape)
    cuts, units = array.grid.cuts, array.units.cuts
    numbers = [touched(axis, c) for axis, c in zip(selection.axes, cuts, strict=True)]
    objects = [touched(axis, u) for axis, u in zip(selection.axes, units, strict=True)]
    chunk_count, object_count = prod(map(len, numbers)), prod(map(len, objects))
    most = max(1, min(SAMPLE_MAX, SAMPLE_BYTES // (2 * max(1, array.chunk_bytes))))
    first: list[ChunkIndex] = []
    further: list[ChunkIndex] = []
    for unit in _spread([*objects], most):
        within = [
            _within(n, number, c, u)
            for n, number, c, u in zip(numbers, unit, cuts, units, strict=True)
        ]
        index, *others = islice(product(*within), 1 + FURTHER)
        first.append(index)
        further += others
    one, other = _measured(variable, first), _measured(variable, further[:most])
    counts = (object_count, one), (chunk_count - object_count, other if other.chunks else one)

    def total(figure: Callable[[ReadSample], float]) -> float:
        return sum(n * figure(kind) / max(1, kind.chunks) for n, kind in counts)

    return ReadCost(
        shape=selection.result_shape,
        wanted_bytes=(
            None if array.dtype.vlen is not None else prod(selection.shape) * array.dtype.item_size
        ),
        chunks=chunk_count,
        objects=object_count,
        decoded_bytes=chunk_count * array.chunk_bytes,
        requests=round(total(lambda kind: kind.requests)),
        stored_bytes=round(total(lambda kind: kind.bytes)),
        seconds=total(lambda kind: kind.seconds),
        sampled=one.chunks + other.chunks,
        missing=round(one.missing + other.missing),
    )


def touched(axis: Axis, cuts: Cuts) -> Sequence[int]:
    """Return the chunks (or objects) along a dimension that a selection touches, in order."""
    if not len(axis):
        return ()
    assert isinstance(axis, range)
    first, last = cuts.at(axis[0]).number, cuts.at(axis[-1]).number
    if axis.step <= min(cuts.lengths) or len(axis) > LISTED_MAX:
        return range(first, last + 1)
    numbers, _ = cuts.found(np.arange(axis.start, axis.stop, axis.step))
    found: list[int] = numbers[np.diff(numbers, prepend=-1) > 0].tolist()
    return found


def _object(number: int, cuts: Cuts, units: Cuts) -> int:
    return units.at(cuts.place(number).start).number


def _within(numbers: Sequence[int], unit: int, cuts: Cuts, units: Cuts) -> list[int]:
    """Return the first two of the chunks that lie in one object."""
    at = bisect_left(numbers, unit, key=lambda number: _object(number, cuts, units))
    return [n for n in numbers[at : at + 2] if _object(n, cuts, units) == unit]


def _spread(sides: list[Sequence[int]], most: int) -> list[tuple[int, ...]]:
    """Return a few of all combinations, far from each other."""
    count = prod(map(len, sides))
    wanted = min(count, most)
    found = []
    for n in range(wanted):
        rest = n * (count - 1) // max(1, wanted - 1)
        index: list[int] = []
        for side in reversed(sides):
            rest, position = divmod(rest, len(side))
            index.insert(0, side[position])
        found.append(tuple(index))
    return found


def _measured(variable: Variable, chunks: list[ChunkIndex]) -> ReadSample:
    if not chunks:
        return ReadSample()
    before = _counted()
    begun = time.perf_counter()
    with ThreadPoolExecutor(len(chunks), "nczfs-sample") as pool:
        for _ in pool.map(variable.chunk, chunks):
            pass
    seconds = time.perf_counter() - begun
    requests, read, missing = (b - a for a, b in zip(before, _counted(), strict=True))
    return ReadSample(len(chunks), requests, read, missing, seconds)


def _counted() -> tuple[float, float, float]:
    """Return the reads of stores, their bytes, and the missing chunks of this process so far."""
    return (
        metrics.total("nczfs_store_requests_total", operation="read"),
        metrics.total("nczfs_store_read_bytes_total"),
        metrics.value("nczfs_chunks_missing_total"),
    )
