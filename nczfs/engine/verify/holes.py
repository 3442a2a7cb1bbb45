"""The chunks of an array that were never written: its grid without what the store lists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from nczfs.engine.verify.subject import Subject
from nczfs.model.boxes import index_of
from nczfs.model.grid import ChunkIndex
from nczfs.model.hierarchy import ArrayDescription, Variable

BITMAP_BYTES_MAX = 64 << 20
Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.uint64]]"

_BLOCK = 1 << 16  # numbers gathered before they are put away


def holes(subject: Subject, variable: Variable) -> Iterator[ChunkIndex]:
    """The chunks of a variable that no object holds, in C order.

    Memory is a bit for each chunk of the grid, or, where that would be more than 64 MiB, eight
    bytes for each stored chunk.

    Raises
    ------
    StoreError : the store could not be asked.
    """
    counts = variable.array.grid.counts
    total = prod(counts)
    stored = _numbers(subject, variable)
    written = _from_bitmap(stored, total) if total <= 8 * BITMAP_BYTES_MAX else _in_order(stored)
    for before, after in pairwise(chain([-1], written, [total])):
        for number in range(before + 1, after):
            yield index_of(number, counts)


def _numbers(subject: Subject, variable: Variable) -> Iterator[Numbers]:
    """The stored chunks, as their places in C order of the grid, a block at a time."""
    array = variable.array
    block: list[int] = []
    cut = len(variable.key) + 1 if variable.key else 0
    for stat in subject.zmap.list(subject.dataset.prefix(variable.key)):
        index = array.chunk_index(stat.key[cut:])
        if index is not None and index in array.grid:
            block.append(_number(index, array))
            if len(block) == _BLOCK:
                yield np.array(block, np.uint64)
                block.clear()
    yield np.array(block, np.uint64)


def _number(index: ChunkIndex, array: ArrayDescription) -> int:
    number = 0
    for i, count in zip(index, array.grid.counts, strict=True):
        number = number * count + i
    return number


def _from_bitmap(blocks: Iterator[Numbers], total: int) -> Iterator[int]:
    bits = np.zeros(-(-total // 8), np.uint8)
    for block in blocks:
        np.bitwise_or.at(bits, block >> 3, np.uint8(1) << (block & 7).astype(np.uint8))
    for first in range(0, len(bits), _BLOCK):
        some = np.unpackbits(bits[first : first + _BLOCK], bitorder="little")
        yield from (np.flatnonzero(some) + 8 * first).tolist()


def _in_order(blocks: Iterator[Numbers]) -> Iterator[int]:
    numbers = np.unique(np.concatenate(list(blocks)))
    for first in range(0, len(numbers), _BLOCK):
        yield from numbers[first : first + _BLOCK].tolist()
