"""Times in the metadata of objects, as other programs write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.zmap.s3.times import HEADER, headers_of, time_in

SECOND_NS = 10**9


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0"),
        (1_354_040_105_123_123_123, "1354040105.123123123"),
        (1_354_040_105 * SECOND_NS, "1354040105"),
        (7_500_000_000, "7.500000000"),
        (1, "0.000000001"),
        (-1, "-0.000000001"),
        (-1_500_000_000, "-1.500000000"),
    ],
)
def test_a_time_has_nine_digits_after_the_point_or_no_point(time_ns: int, text: str) -> None:
    assert headers_of(time_ns) == {HEADER: text}
    assert time_in({HEADER: text}) == time_ns


def test_no_time_is_no_header() -> None:
    assert headers_of(None) == {}
    assert time_in({}) is None


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_every_time_comes_back(time_ns: int) -> None:
    assert time_in(headers_of(time_ns)) == time_ns


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("1354040105.5", 1_354_040_105_500_000_000),
        ("1354040105.", 1_354_040_105_000_000_000),
        ("1354040105.1234567899", 1_354_040_105_123_456_789),
        (" 12 ", 12 * SECOND_NS),
        ("0012", 12 * SECOND_NS),
    ],
)
def test_other_forms_are_read(text: str, time_ns: int) -> None:
    assert time_in({HEADER: text}) == time_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "1e9",
        "+1",
        "--1",
        ".5",
        "1,5",
        "0x10",
        "nan",
        "inf",
        "9999999999",
        "-9999999999",
        "1" * 5000,
        "1." + "1" * 5000,
        "١٢",
        "1\n2",
        "2012-11-27T18:15:05Z",
    ],
)
def test_what_is_no_time_is_ignored(text: str) -> None:
    assert time_in({HEADER: text}) is None
