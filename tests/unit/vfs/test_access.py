"""The account of open files, and when it warns."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest

from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.options import EngineOptions
from nczfs.vfs.datasets.access import (
    AMPLIFIED_BYTES_MIN,
    BOXES_MAX,
    STEP_SAMPLES_MAX,
    Access,
    AccessLog,
)
from nczfs.views.elements import ArrayElements
from nczfs.views.layout import Layout, native_run
from nczfs.views.segments import Literal, Segment
from tests.conftest import ExpectedWarnings
from tests.support.counted import new_store, opened, variable

READ_BYTES = 4096


class Reading:
    """Programs that have values.raw of one variable open."""

    def __init__(self, dataset: Dataset) -> None:
        self.log = AccessLog()
        self._dataset = dataset
        self._variable = variable(dataset, "v")
        self._layout = Layout([self.run()])

    def run(self) -> Segment:
        """All elements of the variable."""
        v = self._variable
        return native_run(ArrayElements(self._dataset.array(v), v), v.array.dtype, v.array.size)

    def open(self, layout: Layout | None = None) -> Access:
        what = f"memory://x /{self._variable.path} values.raw"
        return self.log.opened(what, layout or self._layout)

    @property
    def lines(self) -> list[str]:
        return self.log.content().decode().splitlines()

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.lines if "amplification" in line]


@pytest.fixture
def reading() -> Iterator[Reading]:
    engine = Engine(EngineOptions())
    yield Reading(opened(new_store(), engine))
    engine.close()


def test_who_has_far_more_decoded_than_is_read_is_warned_once(
    reading: Reading, expected_warnings: ExpectedWarnings
) -> None:
    file = reading.open()
    for _ in range(4):
        file.tally.bytes_decoded += AMPLIFIED_BYTES_MIN
        file.answered(0, READ_BYTES)
    assert len(reading.warnings) == 1
    expected_warnings.add("read amplification")


def test_what_was_decoded_ahead_for_one_may_be_answered_to_another(reading: Reading) -> None:
    """The kernel asks by whichever open file it was that wanted a page first."""
    ahead, behind = reading.open(), reading.open()
    behind.answered(0, AMPLIFIED_BYTES_MIN)
    behind.closed()
    ahead.tally.bytes_decoded = 2 * AMPLIFIED_BYTES_MIN
    ahead.answered(0, READ_BYTES)
    assert reading.warnings == []


def test_what_was_read_before_excuses_nobody(
    reading: Reading, expected_warnings: ExpectedWarnings
) -> None:
    before = reading.open()
    before.answered(0, AMPLIFIED_BYTES_MIN)
    before.closed()
    file = reading.open()
    file.tally.bytes_decoded = 2 * AMPLIFIED_BYTES_MIN
    file.answered(0, READ_BYTES)
    assert len(reading.warnings) == 1
    expected_warnings.add("read amplification")


@pytest.mark.parametrize(
    ("decoded", "answered", "is_warned"),
    [
        (AMPLIFIED_BYTES_MIN, 1, False),
        (AMPLIFIED_BYTES_MIN + 1, 1, True),
        (2 * AMPLIFIED_BYTES_MIN, AMPLIFIED_BYTES_MIN // 4, False),  # eight times
        (2 * AMPLIFIED_BYTES_MIN + 1, AMPLIFIED_BYTES_MIN // 4, True),
    ],
)
def test_a_warning_needs_much_decoding_and_eight_times_what_was_read(
    reading: Reading,
    expected_warnings: ExpectedWarnings,
    *,
    decoded: int,
    answered: int,
    is_warned: bool,
) -> None:
    expected_warnings.add("read amplification")
    file = reading.open()
    file.tally.bytes_decoded = decoded
    file.answered(0, answered)
    assert len(reading.warnings) == is_warned


def test_each_file_has_its_warning_and_the_log_of_the_mount_has_one_for_a_view(
    reading: Reading, expected_warnings: ExpectedWarnings, caplog: pytest.LogCaptureFixture
) -> None:
    expected_warnings.add("read amplification")
    for _ in range(2):
        file = reading.open()
        file.tally.bytes_decoded = 2 * AMPLIFIED_BYTES_MIN
        file.answered(0, READ_BYTES)
        file.answered(0, READ_BYTES)
        file.closed()
    assert len(reading.warnings) == 2
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 1


ROW = 6 * 4  # bytes


@pytest.mark.parametrize(
    ("offsets", "along"),
    [
        ([0], ", variable v"),
        ([0, 4, 8], ", variable v, axis x"),
        ([ROW, ROW + 4, ROW + 8], ", variable v, axis x"),
        ([0, ROW, 2 * ROW], ", variable v, axis y"),
        ([2 * ROW, ROW, 0], ", variable v, axis y"),
        ([0, ROW, 2 * ROW, 2 * ROW + 4], ", variable v, axis y"),  # most of them
        ([0, ROW, 3 * ROW, 6 * ROW, 5 * ROW], ", variable v, axis y"),  # one of four
        ([0, ROW, 3 * ROW, 6 * ROW, 5 * ROW, 3 * ROW], ", variable v"),  # one of five
    ],
)
def test_a_warning_names_the_axis_along_which_most_reads_go(
    reading: Reading, expected_warnings: ExpectedWarnings, offsets: Sequence[int], along: str
) -> None:
    expected_warnings.add("read amplification")
    file = reading.open()
    *before, last = offsets
    for offset in before:
        file.answered(offset, READ_BYTES)
    file.tally.bytes_decoded = 2 * AMPLIFIED_BYTES_MIN
    file.answered(last, READ_BYTES)
    factor = 2 * AMPLIFIED_BYTES_MIN // READ_BYTES / len(offsets)
    (line,) = reading.warnings
    assert f" values.raw: read amplification {factor:.0f}x{along}: the reads " in line


def test_what_is_kept_of_the_steps_of_a_file_is_bounded(reading: Reading) -> None:
    file = reading.open()
    for number in range(STEP_SAMPLES_MAX + 2):
        file.answered(number * number, 1)
    assert len(file._steps) == STEP_SAMPLES_MAX - 2  # between so many reads, but the last one


def test_a_file_that_was_read_has_a_line_with_its_box_and_cost(reading: Reading) -> None:
    unread, file = reading.open(), reading.open()
    file.tally.chunks_loaded, file.tally.bytes_decoded = 3, 192
    file.answered(ROW + 16, 4)
    file.answered(ROW, 8)
    unread.closed()
    file.closed()
    (line,) = reading.lines
    assert line.endswith(
        " memory://x /v values.raw box=[1:2,0:5] reads=2 bytes=12 chunks_loaded=3 bytes_decoded=192"
    )


def test_a_line_names_each_variable_between_the_first_and_the_last_byte_up_to_a_number(
    reading: Reading, expected_warnings: ExpectedWarnings
) -> None:
    expected_warnings.add("read amplification")
    runs = [reading.run() for _ in range(BOXES_MAX + 2)]
    layout = Layout([Literal(b"head"), *runs])
    few, many, header = (reading.open(layout) for _ in range(3))
    few.answered(4 + ROW, ROW)
    few.answered(4 + 4 * ROW, 4)
    few.closed()
    many.tally.bytes_decoded = 2 * AMPLIFIED_BYTES_MIN
    many.answered(0, layout.size)
    many.closed()
    header.answered(0, 4)
    header.closed()
    boxes = [line.partition("box=")[2].partition(" ")[0] for line in reading.lines]
    every = ",".join(["v[0:4,0:6]"] * BOXES_MAX)
    assert boxes == ["v[1:4,0:6],v[0:1,0:1]", "", f"{every},+2", "header"]
    assert "x: the reads go across" in reading.warnings[0]


def test_a_variable_that_a_file_has_twice_has_one_box(reading: Reading) -> None:
    run = reading.run()
    file = reading.open(Layout([run, Literal(b"between"), run]))
    file.answered(2 * ROW, run.size)  # the end of the first one and the beginning of the other
    file.closed()
    assert " box=[0:4,0:6] " in reading.lines[0]
