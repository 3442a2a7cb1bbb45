"""The account of open files, and when it warns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nczfs.engine.dataset import Engine
from nczfs.engine.options import EngineOptions
from nczfs.model.hierarchy import Variable
from nczfs.vfs.datasets.access import AMPLIFIED_BYTES_MIN, Access, AccessLog
from nczfs.views.elements import ArrayElements
from nczfs.views.layout import Layout, native_run
from tests.conftest import ExpectedWarnings
from tests.support.counted import new_store, opened, variable

READ_BYTES = 4096


class Reading:
    """Programs that have values.raw of one variable open."""

    def __init__(self, variable: Variable, layout: Layout) -> None:
        self.log = AccessLog()
        self._variable = variable
        self._layout = layout

    def open(self) -> Access:
        return self.log.opened(f"memory://x /{self._variable.path} values.raw", self._layout)

    @property
    def warnings(self) -> list[bytes]:
        return [line for line in self.log.content().splitlines() if b"amplification" in line]


@pytest.fixture
def reading() -> Iterator[Reading]:
    engine = Engine(EngineOptions())
    dataset = opened(new_store(), engine)
    v = variable(dataset, "v")
    array = v.array
    yield Reading(
        v, Layout([native_run(ArrayElements(dataset.array(v), v), array.dtype, array.size)])
    )
    engine.close()


def test_who_has_far_more_decoded_than_is_read_is_warned_once(
    reading: Reading, expected_warnings: ExpectedWarnings
) -> None:
    file = reading.open()
    for _ in range(3):
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
