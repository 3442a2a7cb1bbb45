"""What a file's reads so far say about the next ones."""

from __future__ import annotations

import random

import pytest

from nczfs.engine.readahead.sequence import (
    KIB,
    MIB,
    STRIDES_AHEAD_MAX,
    Backwards,
    Forwards,
    SequenceDetector,
    Strided,
)


@pytest.fixture
def detector() -> SequenceDetector:
    return SequenceDetector(MIB, 8 * MIB)


def test_reading_on_doubles_the_distance_up_to_its_bound(detector: SequenceDetector) -> None:
    assert detector.note(5 * MIB, MIB) is None
    found = [detector.note(n * MIB, MIB) for n in range(6, 13)]
    stops = [each.stop for each in found if isinstance(each, Forwards)]
    distances = [stop - (n + 1) * MIB for n, stop in enumerate(stops, 6)]
    assert distances == [1 * MIB, 2 * MIB, 4 * MIB, 8 * MIB, 8 * MIB, 8 * MIB, 8 * MIB]


def test_a_large_read_at_the_start_of_a_file_begins_reading_it_all() -> None:
    assert SequenceDetector(MIB, 8 * MIB).note(0, MIB) == Forwards(2 * MIB)
    assert SequenceDetector(MIB, 8 * MIB).note(0, 4096) is None


def test_two_requests_that_overtook_each_other_are_still_in_order(
    detector: SequenceDetector,
) -> None:
    detector.note(0, 128 * KIB)
    assert isinstance(detector.note(256 * KIB, 128 * KIB), Forwards)
    assert isinstance(detector.note(128 * KIB, 128 * KIB), Forwards)


def test_random_offsets_start_nothing(detector: SequenceDetector) -> None:
    source = random.Random(1)
    offsets = [source.randrange(10**12) for _ in range(100)]
    assert [detector.note(offset, 4096) for offset in offsets] == [None] * 100


@pytest.mark.parametrize("row", [4 * KIB, 100_000, 2 * MIB])
def test_rows_from_the_bottom_up_are_read_backwards(detector: SequenceDetector, row: int) -> None:
    offsets = [(1 << 30) + n * row for n in range(20, 0, -1)]
    found = [detector.note(offset, row) for offset in offsets]
    assert found[:2] == [None, None]
    starts = [each.start for each in found if isinstance(each, Backwards)]
    distances = [offset - start for offset, start in zip(offsets[2:], starts, strict=True)]
    assert distances[0] == MIB
    assert distances == sorted(distances)
    assert distances[-1] == 8 * MIB


def test_reading_backwards_ends_at_the_beginning_of_the_file(detector: SequenceDetector) -> None:
    found = [detector.note(n * KIB, KIB) for n in range(4, -1, -1)]
    assert found[-1] == Backwards(0)


def test_a_single_step_back_is_not_reading_backwards(detector: SequenceDetector) -> None:
    for n in range(4):
        detector.note(10 * MIB + n * MIB, MIB)
    assert detector.note(9 * MIB, 4 * KIB) is None
    assert isinstance(detector.note(9 * MIB + 4 * KIB, 4 * KIB), Forwards)


@pytest.mark.parametrize("step", [1 << 20, 50 << 20, -(3 << 20)])
def test_equal_steps_are_forecast_twice_as_many_each_time(
    detector: SequenceDetector, step: int
) -> None:
    found = [detector.note((1 << 32) + n * step, 4 * KIB) for n in range(10)]
    strides = [each for each in found if isinstance(each, Strided)]
    assert [each.places for each in strides] == [1, 2, 4, 8, 16, 16, 16]
    assert {(each.step, each.size) for each in strides} == {(step, 4 * KIB)}
    assert strides[-1].places == STRIDES_AHEAD_MAX


def test_steps_that_the_kernel_rounded_to_pages_are_equal(detector: SequenceDetector) -> None:
    """One point through time: 4 bytes every 1,038,240, of which the kernel reads whole pages."""
    step = 1_038_240
    offsets = [(7_777 + n * step) // 4096 * 4096 for n in range(40)]
    found = [detector.note(offset, 4 * KIB) for offset in offsets]
    assert all(isinstance(each, Strided) for each in found[3:])
    last = found[-1]
    assert isinstance(last, Strided)
    assert abs(last.step - step) < 1024


def test_steps_that_leave_out_little_are_reading_in_order(detector: SequenceDetector) -> None:
    found = [detector.note(n * 96 * KIB, 64 * KIB) for n in range(6)]
    assert all(isinstance(each, Forwards) for each in found[1:])
