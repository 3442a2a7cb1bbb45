"""What can be written before the rest of a line is known."""

from __future__ import annotations

import numpy as np
import pytest

from nczfs.model.dtypes import DataType
from nczfs.views.forms import BinaryForm
from nczfs.views.layout import Layout
from nczfs.views.segments import Literal, Run
from nczfs.views.text import text_form
from nczfs.views.writer import settled
from tests.support.elements import Numbers

TEXT = text_form(DataType("<i2", np.dtype("<i2")))
assert TEXT is not None
LINES = Layout([Literal(b"head"), Run(Numbers(np.zeros(3, "i2")), TEXT, 0, 3)])
NUMBERS = Layout([Run(Numbers(np.zeros(3, "i2")), BinaryForm(np.dtype("i2")), 0, 3)])


@pytest.mark.parametrize(
    ("start", "stop", "wanted"),
    [
        (0, 3, 3),
        (0, 4, 4),
        (0, 5, 4),
        (4, 11, 11),
        (4, 12, 11),
        (4, 10, 4),
        (5, 10, 10),  # inside one line: what stands around it completes it
        (5, 12, 11),
        (0, 25, 25),
        (11, 11, 11),
    ],
)
def test_half_a_line_waits_when_it_begins_among_the_bytes(
    start: int, stop: int, wanted: int
) -> None:
    assert settled(LINES, start, stop) == wanted


def test_numbers_in_binary_wait_for_nothing() -> None:
    assert [settled(NUMBERS, 0, stop) for stop in range(7)] == list(range(7))
