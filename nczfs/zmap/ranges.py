"""Ranges of an object: their meaning, and reading several with as little waiting as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from nczfs.buffers import Buffer

READ_BYTES_MAX = 1 << 30
"""The most that a read without an end gets from a far store."""

THREADS = 16
# The gap between two ranges is read, too, if that costs less than another request.
NEAR_GAP_BYTES = 8 << 10
FAR_GAP_BYTES = 256 << 10
JOINED_BYTES_MAX = 8 << 20  # longer ranges are read faster in parallel


def read_joined(
    read: Callable[[int, int], Buffer], ranges: Sequence[tuple[int, int]], *, near: bool
) -> Sequence[Buffer]:
    """Return the bytes of ranges [start, stop), in their order; they may overlap.

    Parameters
    ----------
    read : reads all bytes of one range.
    near : whether a read takes microseconds.
    """
    if len(ranges) == 1 and ranges[0][0] < ranges[0][1]:
        return [read(*ranges[0])]
    groups = joined(ranges, NEAR_GAP_BYTES if near else FAR_GAP_BYTES)
    if near or len(groups) < 2:
        found = [read(start, stop) for start, stop, _ in groups]
    else:
        with ThreadPoolExecutor(min(len(groups), THREADS), "nczfs-ranges") as pool:
            found = list(pool.map(lambda group: read(group[0], group[1]), groups))
    parts: list[Buffer] = [b""] * len(ranges)
    for data, (start, _, numbers) in zip(found, groups, strict=True):
        for number in numbers:
            first, stop = ranges[number]
            parts[number] = memoryview(data)[first - start : stop - start]
    return parts


def joined(
    ranges: Sequence[tuple[int, int]], gap_bytes: int, bytes_max: int = JOINED_BYTES_MAX
) -> list[tuple[int, int, list[int]]]:
    """Return what to read, by position: (start, stop, the numbers of the ranges in it).

    Parameters
    ----------
    gap_bytes : ranges that are no farther apart are read together.
    bytes_max : the longest joined range.
    """
    groups: list[tuple[int, int, list[int]]] = []
    for number in sorted(range(len(ranges)), key=ranges.__getitem__):
        start, stop = ranges[number]
        if start >= stop:
            continue
        if groups:
            begin, end, numbers = groups[-1]
            longer = max(end, stop)
            if stop <= end or (start - end <= gap_bytes and longer - begin <= bytes_max):
                groups[-1] = begin, longer, [*numbers, number]
                continue
        groups.append((start, stop, [number]))
    return groups


def answer_bytes_max(start: int, stop: int | None) -> int:
    """Return the most bytes that a far store gives to a read as of `ZMap.read`."""
    if stop is not None:
        return stop - start
    return -start if start < 0 else READ_BYTES_MAX


def clipped(start: int, stop: int | None, size: int) -> tuple[int, int]:
    """Return where a read as of `ZMap.read` begins and ends in an object of `size` bytes."""
    begin = max(0, size + start) if start < 0 else start
    return begin, size if stop is None else min(stop, size)
