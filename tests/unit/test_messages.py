"""What stands in messages of data that others stored."""

from __future__ import annotations

import time

import numpy as np
import pytest

from nczfs.formats.jsontext import Real, Word
from nczfs.messages import LENGTH_MAX, REASON_LENGTH_MAX, reason, shown


@pytest.mark.parametrize(
    "value",
    [1, True, None, 2.5, "a", [1, "b", [None]], {"a": [1], "b": {}}, (1,), (), (1, 2), b"ab"],
)
def test_a_short_value_is_shown_as_python_writes_it(value: object) -> None:
    assert shown(value) == repr(value)


def test_numbers_and_words_of_documents_are_shown_as_what_they_are() -> None:
    assert shown([Real("1.50"), Word("abc")]) == "[1.5, 'abc']"


@pytest.mark.parametrize(
    "value",
    ["x" * 10**6, ["x"] * 10**6, {"x" * 999: "y" * 999}, [["x" * 40] * 9] * 9, bytes(10**6)],
)
def test_a_long_value_is_cut(value: object) -> None:
    assert len(shown(value)) == LENGTH_MAX
    assert shown(value).endswith("...")


def test_a_long_integer_is_told_by_its_size() -> None:
    assert shown(10**5000) == "about 2^16609"
    assert shown([10**5000]) == "[about 2^16609]"


def test_a_value_costs_no_more_than_what_is_shown_of_it() -> None:
    value: list[object] = ["x" * 1000] * 1000
    for _ in range(8):
        value = [value] * 1000  # 10^27 members
    deep: list[object] = []
    for _ in range(10**5):
        deep = [deep]
    before = time.process_time()
    assert len(shown(value)) == len(shown(deep)) == LENGTH_MAX
    assert time.process_time() - before < 0.5


@pytest.mark.parametrize("text", ["\x1b[31m", "a\nb", "\x9b0m", "\udc80", "\u202e", "\0"])
def test_no_control_character_is_left(text: str) -> None:
    assert shown(text).isprintable()
    assert shown([text]).isprintable()
    assert reason(ValueError(text)).isprintable()


def test_other_objects_are_shown_by_their_own_words() -> None:
    assert shown(np.dtype("<f4")) == "dtype('float32')"


def test_a_reason_is_cut_and_never_empty() -> None:
    assert reason(ValueError("no such thing")) == "no such thing"
    assert reason(ValueError()) == "ValueError"
    assert len(reason(ValueError("x" * 10**6))) <= REASON_LENGTH_MAX
