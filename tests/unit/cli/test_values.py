"""Forms of values."""

from __future__ import annotations

import math

import pytest

from nczfs.cli import values
from nczfs.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("4096", 4096),
        ("512MiB", 512 << 20),
        ("512M", 512 << 20),
        ("2G", 2 << 30),
        ("2gib", 2 << 30),
        ("1.5GiB", 3 << 29),
        ("1MB", 1_000_000),
        ("1 TiB", 1 << 40),
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert values.size(text) == expected


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1e6", "12 apples"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size; write 512MiB"):
        values.size(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30.0),
        ("30s", 30.0),
        ("250ms", 0.25),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("minimal", values.MINIMAL_S),
        ("indefinite", math.inf),
    ],
)
def test_times(text: str, expected: float) -> None:
    assert values.duration(text) == expected


@pytest.mark.parametrize("text", ["", "-1s", "soon", "1y"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time; write 30s"):
        values.duration(text)


@pytest.mark.parametrize("text", ["0", "indefinite"])
def test_a_deadline_comes_some_time(text: str) -> None:
    with pytest.raises(UsageError, match="must be above zero"):
        values.deadline(text)


def test_permission_bits_are_octal() -> None:
    assert values.octal("0644") == values.octal("644") == 0o644
    for text in ("8", "1000", "rw", "-1"):
        with pytest.raises(UsageError, match="permission bits"):
            values.octal(text)


def test_users_and_groups_by_number_or_name() -> None:
    assert values.user("1234") == 1234
    assert values.user("root") == 0
    assert values.group("root") == 0
    with pytest.raises(UsageError, match="no user is called 'nobody-at-all'"):
        values.user("nobody-at-all")
    with pytest.raises(UsageError, match="no group is called"):
        values.group("nobody-at-all")


def test_lists_take_commas_colons_and_blanks() -> None:
    assert values.names("values.raw,info.json chunks:a") == {
        "values.raw",
        "info.json",
        "chunks",
        "a",
    }


def test_flags_are_words() -> None:
    assert all(values.flag(word) for word in ("yes", "TRUE", "1", "on", ""))
    assert not any(values.flag(word) for word in ("no", "False", "0", "off"))
    with pytest.raises(UsageError, match="neither yes nor no"):
        values.flag("maybe")


@pytest.mark.parametrize("text", ["http://h", "https://h:9000", "http://[::1]:9000/s3/"])
def test_an_endpoint_is_the_url_of_a_server(text: str) -> None:
    assert values.endpoint(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "http://user:hush@host",
        "http://hush@host",
        "http://host?token=hush",
        "http://host#hush",
        "host:9000",
        "ftp://host",
        "http://",
        "http://[::1",
        "http://host:port",
        "",
    ],
)
def test_what_is_no_endpoint_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(UsageError, match="endpoint") as caught:
        values.endpoint(text)
    assert "hush" not in str(caught.value)


def test_prefixes_hold_no_password() -> None:
    assert values.prefixes("https://host/a,s3://bucket") == {"https://host/a", "s3://bucket"}
    with pytest.raises(UsageError, match="no user name") as caught:
        values.prefixes("https://host/a,https://user:hush@host")
    assert "hush" not in str(caught.value)
