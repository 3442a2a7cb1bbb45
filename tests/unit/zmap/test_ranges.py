"""Which ranges are read together, and which side by side."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from nczfs.zmap.ranges import FAR_GAP_BYTES, JOINED_BYTES_MAX, joined, read_joined

DATA = bytes(range(256)) * 4

RANGES = st.lists(
    st.tuples(st.integers(0, 1024), st.integers(0, 1024)).map(lambda pair: tuple(sorted(pair))),
    max_size=20,
)


@given(ranges=RANGES, gap=st.integers(0, 100), most=st.integers(1, 1024))
def test_each_range_lies_in_one_group_and_groups_lie_apart(
    ranges: list[tuple[int, int]], gap: int, most: int
) -> None:
    groups = joined(ranges, gap, most)
    wanted = [number for number, (start, stop) in enumerate(ranges) if start < stop]
    assert sorted(number for _, _, numbers in groups for number in numbers) == wanted
    for start, stop, numbers in groups:
        assert start == min(ranges[number][0] for number in numbers)
        assert stop == max(ranges[number][1] for number in numbers)
        assert stop - start <= max(most, *(ranges[n][1] - ranges[n][0] for n in numbers))


@given(ranges=RANGES)
def test_the_bytes_are_those_of_each_range(ranges: list[tuple[int, int]]) -> None:
    found = read_joined(lambda start, stop: DATA[start:stop], ranges, near=True)
    assert [bytes(data) for data in found] == [DATA[start:stop] for start, stop in ranges]


def test_neighbours_are_read_together_and_others_side_by_side() -> None:
    far_apart = 10 * FAR_GAP_BYTES
    ranges = [(far_apart, far_apart + 10), (0, 10), (FAR_GAP_BYTES, FAR_GAP_BYTES + 5)]
    reads: list[tuple[int, int]] = []
    both = threading.Barrier(2, timeout=30)

    def read(start: int, stop: int) -> bytes:
        reads.append((start, stop))
        both.wait()
        return bytes(stop - start)

    read_joined(read, ranges, near=False)
    assert sorted(reads) == [(0, FAR_GAP_BYTES + 5), (far_apart, far_apart + 10)]


def test_long_neighbours_are_not_read_one_after_the_other() -> None:
    half = JOINED_BYTES_MAX // 2 + 1
    assert len(joined([(0, half), (half, 2 * half)], FAR_GAP_BYTES)) == 2
