"""Of no answer more is taken than was asked for, and none is waited for beyond its time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Protocol, TypeAlias

import pytest

from nczfs.errors import DeadlinePassed, NoSuchObject, StoreError
from nczfs.zmap.base import ZMap
from nczfs.zmap.http import HttpZMap
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap
from nczfs.zmap.web import bodies
from tests.support.pouring import BLOCK, Pour, Pouring, dripping, endless, head, pouring

KEY = Key("dir/key")
PART = ("Content-Range: bytes 0-9/10", 'ETag: "e"')
CHUNKED = "Transfer-Encoding: chunked"
# What sockets hold on their way from a server that sends as fast as it can.
ON_THE_WAY = 32 << 20
SHORT_S = 0.7  # of attempts that end with their time

Opened: TypeAlias = tuple[Pouring, ZMap]


class Open(Protocol):
    """Starts a server, and opens a store on it."""

    def __call__(self, pour: Pour, *, attempt_timeout_s: float = 20.0) -> Opened: ...


@pytest.fixture(params=["http", "s3"])
def opened(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Start a server, and open a store on it, of either kind that asks over HTTP."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("NETRC", "/dev/null")
    with ExitStack() as ends:

        def start(pour: Pour, *, attempt_timeout_s: float = 20.0) -> Opened:
            server = ends.enter_context(pouring(pour))
            options = StoreOptions(
                endpoint_url=server.url,
                no_sign_request=True,
                request_timeout_s=2 * attempt_timeout_s,
                attempt_timeout_s=attempt_timeout_s,
            )
            zmap: ZMap
            if request.param == "s3":
                zmap = S3ZMap("bucket", options)
            else:
                zmap = HttpZMap(f"{server.url}/data", options)
            ends.callback(zmap.close)
            return server, zmap

        yield start


@pytest.mark.parametrize("headers", [(*PART, CHUNKED), (*PART, f"Content-Length: {1 << 62}"), PART])
def test_of_a_range_that_never_ends_no_more_is_taken_than_it_has(
    opened: Open, headers: tuple[str, ...]
) -> None:
    body = endless() if CHUNKED in headers else itertools.repeat(BLOCK)
    server, zmap = opened(lambda line: itertools.chain([head(206, *headers)], body))
    with pytest.raises(StoreError, match=r"dir/key: the server sends more than the 10 bytes"):
        zmap.read(KEY, 0, 10)
    assert len(server.asked) == 1
    assert server.sent < ON_THE_WAY


def test_of_a_whole_object_that_never_ends_its_part_is_taken(opened: Open) -> None:
    length = f"Content-Length: {1 << 62}"
    server, zmap = opened(
        lambda line: itertools.chain([head(200, 'ETag: "e"', length)], itertools.repeat(BLOCK))
    )
    blob = zmap.read(KEY, 70_000, 70_010)
    assert (bytes(blob.data), blob.object_size) == (BLOCK[:10], 1 << 62)
    assert server.sent < ON_THE_WAY


def test_a_whole_object_without_length_or_end_is_given_up(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "SKIPPED_UNKNOWN_MAX", 1 << 20)
    server, zmap = opened(
        lambda line: itertools.chain([head(200, 'ETag: "e"', CHUNKED)], endless())
    )
    with pytest.raises(StoreError, match="sends over 1MiB besides the requested one"):
        zmap.read(KEY, 0, 10)
    assert len(server.asked) == 1


@pytest.mark.parametrize("size", [1, len(BLOCK)])
def test_a_listing_that_never_ends_is_given_up(opened: Open, size: int) -> None:
    kind = "Content-Type: text/html"
    server, zmap = opened(
        lambda line: itertools.chain([head(200, kind, CHUNKED)], endless(size)),
        attempt_timeout_s=SHORT_S,
    )
    with pytest.raises(StoreError, match=r"the server sends more than|came too slowly"):
        list(zmap.search(ROOT))
    assert len(server.asked) == 1


def test_of_an_error_page_its_beginning_is_enough(opened: Open) -> None:
    server, zmap = opened(lambda line: itertools.chain([head(404, CHUNKED)], endless()))
    with pytest.raises(NoSuchObject, match="dir/key"):
        zmap.read(KEY, 0, 10)
    assert len(server.asked) == 1
    assert server.sent < ON_THE_WAY


LONG = ("Content-Range: bytes 0-9999/10000", 'ETag: "e"')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", head(206, *LONG) * 100),
        (b"HTTP/1.1 206 Part\r\nX: ", b"x" * 10_000),
        (head(206, *LONG, "Content-Length: 10000"), b"x" * 10_000),
        (head(206, *LONG, CHUNKED), b"0" * 10_000),
        (head(206, *LONG, CHUNKED) + b"0\r\n", b"trailer: x\r\n" * 1000),
        (b"", head(100) * 1000),
    ],
    ids=["status", "header", "body", "size of a chunk", "trailer", "continue"],
)
def test_an_answer_that_drips_ends_with_the_time(opened: Open, before: bytes, after: bytes) -> None:
    """Each byte comes in time, and there are more than the time is for."""
    server, zmap = opened(
        lambda line: itertools.chain([before], dripping(itertools.repeat(after))),
        attempt_timeout_s=SHORT_S,
    )
    with pytest.raises(DeadlinePassed, match=r"dir/key.*too slowly"):
        zmap.read(KEY, 0, 10_000)
    assert len(server.asked) == 1


def test_an_answer_that_never_begins_is_no_answer(opened: Open) -> None:
    _, zmap = opened(lambda line: itertools.repeat(head(100)), attempt_timeout_s=SHORT_S)
    with pytest.raises(DeadlinePassed, match="dir/key"):
        zmap.read(KEY, 0, 10)
