"""Headers may say anything, and are taken for what they should be or for nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nczfs.zmap.web.headers import (
    LONGEST_PAUSE_S,
    SIZE_END,
    content_range,
    etag_in,
    is_etag,
    is_strong,
    length_of,
    pause_s,
    time_ns,
    version_of,
)

MANY_DIGITS = "9" * 5000  # more than int() takes
TEXTS = st.one_of(
    st.text(),
    st.text('0123456789-/*bytes "W'),
    st.sampled_from([MANY_DIGITS, "²", "٣", "-1", "+1", " 1", "1_0", "0x10", "1e3", str(SIZE_END)]),
)


@given(TEXTS)
def test_no_header_is_more_than_a_number_of_bytes(text: str) -> None:
    length = length_of({"content-length": text})
    assert length is None or (0 <= length < SIZE_END and text.isascii() and text.isdigit())
    found = content_range({"content-range": f"bytes 0-1/{text}"})
    assert (found.size if found else None) == length
    assert content_range({"content-range": text}) is None or "/" in text
    assert 0 <= pause_s({"retry-after": text}) <= LONGEST_PAUSE_S


@given(TEXTS)
def test_no_header_is_more_than_a_time_that_a_file_can_have(text: str) -> None:
    for told in (text, f"Wed, 21 Oct {text} 07:28:00 GMT", f"Wed, 21 Oct 2026 {text}"):
        found = time_ns(told)
        assert found is None or 0 <= found < SIZE_END


@given(TEXTS)
def test_an_etag_can_be_sent_back_in_a_header(text: str) -> None:
    found = etag_in(text)
    assert found == "" or found.isprintable()
    assert found in {"", text, f'"{text}"'}
    version = version_of(text, 7_000_000_000, 3)
    assert is_etag(version) is bool(found)
    assert version == (found or "7+3")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        ("31", 30),
        (MANY_DIGITS, 30),
        ("-7", 0),
        ("7.5", 0),
        ("soon", 0),
        ("", 0),
    ],
)
def test_a_pause_is_as_long_as_asked_for_and_never_long(text: str, seconds: float) -> None:
    assert pause_s({"retry-after": text}) == seconds


@pytest.mark.parametrize(
    ("text", "etag", "strong"),
    [
        ('"abc-3"', '"abc-3"', True),
        ('W/"abc"', 'W/"abc"', False),
        ("abc", '"abc"', True),
        ('""', '""', True),
        ("", "", False),
        ('"a\x01b"', "", False),
        ('"a\r\n b"', "", False),
        ('"a", "b"', "", False),
        ('"ä"', "", False),
    ],
)
def test_an_etag_is_one_token(text: str, etag: str, strong: bool) -> None:
    assert etag_in(text) == etag
    assert is_strong(version_of(text, None, 1)) is strong


def test_what_has_no_etag_has_a_version_by_time_and_size() -> None:
    date = time_ns("Wed, 21 Oct 2026 07:28:00 GMT")
    assert date == 1792567680 * 10**9
    assert version_of("", date, 5) == "1792567680+5"
    assert version_of("", None, 5) == "+5"
    assert len({version_of("", date, 5), version_of("", date, 6), version_of("", None, 5)}) == 3
