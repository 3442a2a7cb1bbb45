"""The S3 store against a server that answers as told: what real ones do too rarely."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable
from subprocess import PIPE
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import unescape

import pytest

from nczfs import metrics
from nczfs.errors import (
    AccessDenied,
    Conflict,
    DeadlinePassed,
    KeyTooLong,
    NoContent,
    NoSpace,
    NoSuchObject,
    ObjectTooLarge,
    StoreError,
    Unavailable,
)
from nczfs.zmap import forbidden
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import listing as s3_listing
from nczfs.zmap.s3.access import S3Access
from nczfs.zmap.s3.messages import S3Answer, S3Request
from nczfs.zmap.s3.transport import S3Transport
from nczfs.zmap.web import attempts
from nczfs.zmap.web.bodies import when_asked
from tests.conftest import ExpectedWarnings
from tests.support.s3_script import KEY, OBJECT, Serve, fault, given
from tests.support.scripted import Asked, Reply, Scripted
from tests.support.waiting import until

GIVEN = Key("dir/.zarray")


def is_listing(asked: Asked) -> bool:
    return "list-type=2" in asked.path


# What the answers mean


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (fault(404, "NoSuchKey"), NoSuchObject),
        (fault(404, "NoSuchBucket"), NoContent),
        (fault(403, "InvalidAccessKeyId"), AccessDenied),
        (fault(412, "PreconditionFailed"), Conflict),
        (fault(400, "EntityTooLarge"), ObjectTooLarge),
        (fault(400, "KeyTooLongError"), KeyTooLong),
        (fault(403, "QuotaExceeded"), NoSpace),
        (fault(403, "RequestTimeTooSkewed"), AccessDenied),
        (Reply(507), NoSpace),
        (fault(405, "MethodNotAllowed"), StoreError),
    ],
)
def test_a_refusal_is_the_error_that_it_means(
    serve: Serve, reply: Reply, error: type[StoreError]
) -> None:
    _, open_bucket = serve(lambda asked: reply)
    with pytest.raises(error, match="/bucket/dir/key") as caught:
        open_bucket().read(KEY)
    assert type(caught.value) is error


def test_why_a_stat_is_refused_is_asked_with_a_get(serve: Serve) -> None:
    _, open_bucket = serve(lambda asked: fault(403, "InvalidAccessKeyId"))
    with pytest.raises(AccessDenied, match="InvalidAccessKeyId why"):
        open_bucket().stat(KEY)


@pytest.mark.parametrize(
    ("mode", "may_list", "missing_key", "absent"),
    [
        ("auto", False, 403, True),
        ("auto", True, 403, False),
        ("auto", False, 404, False),
        ("yes", True, 403, True),
        ("no", False, 403, False),
    ],
)
def test_403_is_absent_only_where_nothing_can_tell(
    serve: Serve,
    expected_warnings: ExpectedWarnings,
    mode: str,
    may_list: bool,
    missing_key: int,
    absent: bool,
) -> None:
    expected_warnings.add("403 counts as")
    listing = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"

    def script(asked: Asked) -> Reply:
        if is_listing(asked):
            return Reply(200, listing) if may_list else fault(403, "AccessDenied")
        if asked.path.endswith(KEY):
            return fault(403, "AccessDenied")
        if asked.path.endswith(GIVEN):
            return given(asked)
        return fault(missing_key, "AccessDenied" if missing_key == 403 else "NoSuchKey")

    _, open_bucket = serve(script)
    zmap = open_bucket(forbidden_is_absent=mode)
    zmap.read(GIVEN)
    for ask in (zmap.read, zmap.stat):
        with pytest.raises(NoSuchObject if absent else AccessDenied):
            ask(KEY)
    assert zmap.features.forbidden_is_absent is absent


def test_a_bucket_that_has_closed_since_is_denied_access(
    serve: Serve, expected_warnings: ExpectedWarnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_warnings.add("403 counts as")
    monkeypatch.setattr(forbidden, "AGAIN_S", 0.0)
    is_open = [True]

    def script(asked: Asked) -> Reply:
        is_given = is_open[0] and asked.path.endswith(GIVEN)
        return given(asked) if is_given else fault(403, "AccessDenied")

    _, open_bucket = serve(script)
    zmap = open_bucket()
    for ask in (zmap.read, zmap.stat):
        with pytest.raises(AccessDenied, match=r"\(403 AccessDenied why\).*-is-absent yes"):
            ask(KEY)
    zmap.read(GIVEN)
    for ask in (zmap.read, zmap.stat):
        with pytest.raises(NoSuchObject):
            ask(KEY)
    is_open[0] = False
    for ask in (zmap.read, zmap.stat):
        with pytest.raises(AccessDenied, match=r"check the credentials"):
            ask(KEY)


def test_a_server_without_ranges_gives_the_range_all_the_same(serve: Serve) -> None:
    _, open_bucket = serve(lambda asked: Reply(200, b"0123456789", {"ETag": '"e"'}))
    blob = open_bucket().read(KEY, 2, 5)
    assert (bytes(blob.data), blob.object_size) == (b"234", 10)


def test_another_version_than_asked_for_is_a_conflict_even_if_the_server_does_not_say(
    serve: Serve,
) -> None:
    _, open_bucket = serve(lambda asked: OBJECT)
    with pytest.raises(Conflict):
        open_bucket().read(KEY, version=Version('"other"'))


# Listings


def test_a_listing_hides_what_cannot_be_a_name_and_joins_pages(serve: Serve) -> None:
    pages = {
        "": (
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t/1</NextContinuationToken>"
            + found("d/", 0)
            + found("d/a", 1)
            + found("d/a%21b+c", 2)
            + found("d/.nczfs-own", 9)
        ),
        "t/1": (
            found("d/b", 3)
            + "<CommonPrefixes><Prefix>d/a/</Prefix></CommonPrefixes>"
            + "<CommonPrefixes><Prefix>d//</Prefix></CommonPrefixes>"
        ),
    }

    def script(asked: Asked) -> Reply:
        query = parse_qs(urlsplit(asked.path).query)
        assert (query["prefix"], query["delimiter"]) == (["d/"], ["/"])
        return listing(pages[query.get("continuation-token", [""])[0]])

    server, open_bucket = serve(script)
    found_entries = open_bucket().search(Prefix("d"))
    assert {
        entry.name: (entry.stat.size if entry.stat else None, entry.is_prefix)
        for entry in found_entries
    } == {"a": (1, True), "a!b c": (2, False), "b": (3, False)}
    assert len(server.asked) == 2


def test_a_listing_is_fetched_page_by_page(serve: Serve) -> None:
    more = "<IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken>"
    server, open_bucket = serve(lambda asked: listing(more + found("a", 1) + found("b", 1)))
    zmap = open_bucket()
    items = zmap.list(ROOT)
    assert server.asked == []
    next(items)
    next(items)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        "<IsTruncated>true</IsTruncated>",
        "<Contents><Key>a</Key></Contents>",
        "<Contents><Key>a</Key><Size>many</Size></Contents>",
    ],
)
def test_a_listing_that_is_broken_is_no_empty_listing(serve: Serve, body: str) -> None:
    _, open_bucket = serve(lambda asked: listing(body))
    with pytest.raises(StoreError, match="listing"):
        list(open_bucket().list(ROOT))


@pytest.mark.parametrize("pages", [25, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.parametrize("one_level", [True, False])
def test_the_memory_of_a_listing_does_not_grow_with_it(
    serve: Serve, one_level: bool, pages: int
) -> None:
    def script(asked: Asked) -> Reply:
        query = parse_qs(urlsplit(asked.path).query)
        page = int(query.get("continuation-token", ["0"])[0])
        last = page == pages - 1
        more = "" if last else f"<NextContinuationToken>{page + 1}</NextContinuationToken>"
        keys = "".join(found(f"{page:02}-{number:03}", 1) for number in range(1000))
        return listing(f"<IsTruncated>{str(not last).lower()}</IsTruncated>{more}{keys}")

    _, open_bucket = serve(script)
    zmap = open_bucket()
    ask = zmap.search if one_level else zmap.list
    tracemalloc.start()
    try:
        assert sum(1 for _ in ask(ROOT)) == 1000 * pages
        assert tracemalloc.get_traced_memory()[1] < 6 << 20  # all of 25 pages are 8 MB
    finally:
        tracemalloc.stop()


def numbered(page: int, *, last: bool = False) -> Reply:
    """A page with one key, and the token of the next one."""
    more = "" if last else f"<NextContinuationToken>{page + 1}</NextContinuationToken>"
    truncated = f"<IsTruncated>{str(not last).lower()}</IsTruncated>"
    return listing(f"{truncated}{more}{found(str(page), 1)}")


def page_of(asked: Asked) -> int:
    return int(parse_qs(urlsplit(asked.path).query).get("continuation-token", ["0"])[0])


def test_a_page_comes_while_the_server_thinks_about_the_next_one(serve: Serve) -> None:
    was_looked_at = threading.Event()

    def script(asked: Asked) -> Reply:
        page = page_of(asked)
        if page == 2:
            assert was_looked_at.wait(120)
        return numbered(page, last=page == 2)

    server, open_bucket = serve(script)
    items = open_bucket().list(ROOT)
    assert [next(items).key, next(items).key] == ["0", "1"]
    until(lambda: len(server.asked) == 3)
    was_looked_at.set()
    assert [stat.key for stat in items] == ["2"]


ABANDONED = """
import sys
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3.store import S3ZMap
from nczfs.zmap.keys import ROOT
items = S3ZMap("bucket", StoreOptions(endpoint_url=sys.argv[1])).list(ROOT)
print([next(items).key for _ in range(2)], flush=True)
sys.stdin.read()
"""


def test_a_program_ends_that_has_not_read_a_listing_to_its_end(serve: Serve) -> None:
    server, _ = serve(lambda asked: numbered(page_of(asked)))
    command = [sys.executable, "-c", ABANDONED, server.endpoint_url]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == "['0', '1']\n"
        until(lambda: len(server.asked) == 4)  # the next two pages wait for the reader
        program.stdin.close()
        try:
            assert program.wait(60) == 0
        finally:
            program.kill()
    assert len(server.asked) == 4


def test_an_error_ends_a_listing_behind_what_came_before_it(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        page = page_of(asked)
        return fault(403, "AccessDenied") if page == 3 else numbered(page)

    _, open_bucket = serve(script)
    items = open_bucket().list(ROOT)
    assert [next(items).key for _ in range(3)] == ["0", "1", "2"]
    with pytest.raises(AccessDenied):
        next(items)


def test_who_is_told_that_it_was_asked_is_told_before_the_answer(serve: Serve) -> None:
    asked = threading.Event()
    _, open_bucket = serve(lambda _: OBJECT if asked.wait(120) else fault(500, "late"))
    with when_asked(asked.set):
        assert bytes(open_bucket().read(KEY).data) == b"data"


@pytest.mark.parametrize("token", ["1", "a&amp;b", "&#65;", "t/é+="])
def test_tokens_are_sent_back_as_they_were(serve: Serve, token: str) -> None:
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"

    def script(asked: Asked) -> Reply:
        query = parse_qs(urlsplit(asked.path).query)
        [sent] = query.get("continuation-token", [""])
        return listing(more + found("a", 1)) if sent == "" else listing(found("b", 1))

    server, open_bucket = serve(script)
    assert [stat.key for stat in open_bucket().list(ROOT)] == ["a", "b"]
    [sent] = parse_qs(urlsplit(server.asked[1].path).query)["continuation-token"]
    assert sent == unescape(token).replace("&#65;", "A")


def listing(inner: str) -> Reply:
    return Reply(
        200,
        f"<ListBucketResult><EncodingType>url</EncodingType>{inner}</ListBucketResult>".encode(),
    )


def found(key: str, size: int | str) -> str:
    return (
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;e&quot;</ETag>"
        "<LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents>"
    )


BAD_SIZES = [str(1 << 63), "9" * 5000, "-1", "many", "", "1e3", "٣"]


@pytest.mark.parametrize("size", BAD_SIZES)
def test_an_object_whose_size_cannot_be_is_left_out_alone(
    serve: Serve, expected_warnings: ExpectedWarnings, size: str
) -> None:
    expected_warnings.add("left out 1 entries")
    objects = found("a", 1) + found("bad", size) + found("c", 3)
    _, open_bucket = serve(lambda asked: listing(objects))
    hidden = metrics.value("nczfs_hidden_keys_total")
    zmap = open_bucket()
    assert [entry.name for entry in zmap.search(ROOT)] == ["a", "c"]
    assert {stat.key: stat.size for stat in zmap.list(ROOT)} == {"a": 1, "c": 3}
    assert metrics.value("nczfs_hidden_keys_total") == hidden + 2


def test_what_else_cannot_be_of_an_object_is_left_out(serve: Serve) -> None:
    odd = (
        "<Contents><Key>odd</Key><Size>7</Size><ETag>&quot;a&#10;b&quot;</ETag>"
        "<LastModified>yesterday</LastModified></Contents>"
    )
    _, open_bucket = serve(lambda asked: listing(found("a", 1) + odd))
    _, stat = open_bucket().list(ROOT)
    assert (stat.key, stat.size, stat.version, stat.mtime_ns) == ("odd", 7, "+7", None)


@pytest.mark.parametrize("token", ["same", "another"])
def test_a_listing_without_an_end_is_given_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setattr(s3_listing, "EMPTY_PAGES_MAX", 20)
    numbers = itertools.count()

    def script(asked: Asked) -> Reply:
        name = "same" if token == "same" else str(next(numbers))
        return listing(
            f"<IsTruncated>true</IsTruncated><NextContinuationToken>{name}</NextContinuationToken>"
        )

    server, open_bucket = serve(script)
    with pytest.raises(StoreError, match="the listing has no end"):
        list(open_bucket().list(ROOT))
    assert len(server.asked) < 30


@pytest.mark.parametrize("one_level", [True, False])
def test_a_listing_whose_pages_come_again_is_given_up(serve: Serve, one_level: bool) -> None:
    following = {"": "1", "1": "2", "2": "3", "3": "1"}

    def script(asked: Asked) -> Reply:
        query = parse_qs(urlsplit(asked.path).query)
        token = following[query.get("continuation-token", [""])[0]]
        more = f"<NextContinuationToken>{token}</NextContinuationToken>"
        return listing(f"<IsTruncated>true</IsTruncated>{more}{found(token, 1)}")

    server, open_bucket = serve(script)
    zmap = open_bucket()
    with pytest.raises(StoreError, match="the listing has no end"):
        for _ in zmap.search(ROOT) if one_level else zmap.list(ROOT):
            pass
    assert len(server.asked) < 12


def test_what_lies_elsewhere_is_none_of_a_listing(
    serve: Serve, expected_warnings: ExpectedWarnings
) -> None:
    """SEMANTICS A8."""
    expected_warnings.add("left out [23] entries")
    prefixes = "".join(
        f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in ("d/e/", "lone/")
    )
    objects = found("d/a", 1) + found("other/b", 1) + found("c", 1)
    _, open_bucket = serve(lambda asked: listing(objects + prefixes))
    zmap = open_bucket()
    assert [stat.key for stat in zmap.list(Prefix("d"))] == ["d/a"]
    assert {entry.name for entry in zmap.search(Prefix("d"))} == {"a", "e"}


def test_of_one_level_no_longer_names_are_taken_than_can_be_shown(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_listing, "NAMES_CHARACTERS_MAX", 5)
    _, open_bucket = serve(lambda asked: numbered(page_of(asked)))
    with pytest.raises(StoreError, match="over 5 characters"):
        list(open_bucket().search(ROOT))


def test_of_one_level_no_more_names_are_taken_than_can_be_shown(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_listing, "NAMES_MAX", 5)
    _, open_bucket = serve(lambda asked: numbered(page_of(asked)))
    with pytest.raises(StoreError, match="over 5 names"):
        list(open_bucket().search(ROOT))


# Attempts


def test_waits_are_random_and_grow_and_end_after_ten_attempts(serve: Serve) -> None:
    server, _ = serve(lambda asked: fault(503, "SlowDown"))
    waits: list[float] = []
    sender = transport_to(server, sleep=waits.append)
    with pytest.raises(Unavailable, match=r"10 attempts.*503 SlowDown"):
        sender.send(S3Request("GET", KEY))
    sender.close()
    assert len(server.asked) == attempts.ATTEMPTS == len(waits) + 1
    assert all(0 <= wait <= 0.1 * 2**turn for turn, wait in enumerate(waits))
    assert max(waits) <= 2


def test_no_attempt_begins_that_the_time_is_too_short_for(serve: Serve) -> None:
    """Each attempt takes 4.98 s; the three leave 0.06 s of 15, which no fourth one fits in."""
    server, _ = serve(lambda asked: Reply(200, b"half"))
    now = 0.0

    def half(answer: S3Answer) -> str:
        nonlocal now
        now += 4.98
        return "the half is missing"

    sender = transport_to(server, sleep=lambda wait: None, clock=lambda: now)
    with pytest.raises(DeadlinePassed, match=r"within 15 s \(3 attempts\): the half is missing"):
        sender.send(S3Request("GET", KEY), half)
    sender.close()
    assert len(server.asked) == 3


def test_a_body_that_trickles_ends_with_the_time(serve: Serve) -> None:
    server, _ = serve(lambda asked: Reply(200, bytes(1 << 22)))
    seconds = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(1000.0))
    sender = transport_to(server, clock=lambda: next(seconds))
    with pytest.raises(DeadlinePassed, match="came too slowly"):
        sender.send(S3Request("GET", KEY))
    sender.close()


@pytest.mark.parametrize("size", [1 << 16, 100 << 20])
def test_a_slow_line_takes_as_long_as_it_does(serve: Serve, size: int) -> None:
    server, _ = serve(lambda asked: Reply(200, bytes(size if asked.method == "GET" else 0)))
    seconds = itertools.count(0.0, 1.0)  # between any two looks at the clock
    sender = transport_to(server, clock=lambda: next(seconds))
    assert len(sender.send(S3Request("GET", KEY)).body) == size
    sender.send(S3Request("PUT", KEY, body=bytes(size)))
    sender.close()
    assert len(server.asked) == 2


def test_a_closed_store_says_so_at_once(serve: Serve) -> None:
    server, open_bucket = serve(lambda asked: OBJECT)
    zmap = open_bucket()
    zmap.close()
    with pytest.raises(Unavailable, match="closed"):
        zmap.read(KEY)
    assert server.asked == []


def test_a_child_process_does_not_use_the_connections_of_its_parent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, open_bucket = serve(lambda asked: OBJECT)
    zmap = open_bucket()
    zmap.read(KEY)
    zmap.read(KEY)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    zmap.read(KEY)
    first, second, third = (asked.port for asked in server.asked)
    assert first == second != third


def transport_to(server: Scripted, **time: Callable[..., object]) -> S3Transport:
    options = StoreOptions(endpoint_url=server.endpoint_url)
    return S3Transport(S3Access("bucket", options), "bucket", options, **time)  # type: ignore[arg-type]  # by name


# What is read


SUM = "8d777f385d3dfec8815d20f7496026dc"  # of b"data"
KMS = {"x-amz-server-side-encryption": "aws:kms"}
OWN = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}


@pytest.mark.parametrize(
    ("etag", "headers", "mode", "accepted"),
    [
        (f'"{SUM}"', {}, "auto", True),
        (SUM, {}, "auto", True),
        (f'"{SUM[::-1]}"', {}, "auto", False),
        (f'"{SUM[::-1]}"', {}, "yes", False),
        (f'"{SUM[::-1]}"', {}, "no", True),
        (f'"{SUM[::-1]}"', KMS, "auto", True),
        (f'"{SUM[::-1]}"', OWN, "auto", True),
        (f'"{SUM[::-1]}-7"', {}, "auto", True),
        ('"any"', {}, "yes", True),
    ],
)
def test_bytes_are_those_of_the_etag_where_it_is_their_sum(
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    etag: str,
    headers: dict[str, str],
    mode: str,
    accepted: bool,
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPTS", 2)
    found = {"ETag": etag, "Content-Range": "bytes 0-3/4"} | headers
    server, open_bucket = serve(lambda asked: Reply(206, b"data", found))
    zmap = open_bucket(check_etag=mode)
    with contextlib.nullcontext() if accepted else pytest.raises(Unavailable, match="MD5"):
        assert zmap.read(KEY).data == b"data"
    assert len(server.asked) == (1 if accepted else 2)


@pytest.mark.parametrize(("mode", "accepted"), [("auto", True), ("yes", False), ("no", True)])
def test_the_sum_of_a_large_object_is_compared_on_request(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, mode: str, accepted: bool
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPTS", 1)
    _, open_bucket = serve(lambda asked: Reply(200, bytes(1 << 19), {"ETag": f'"{SUM}"'}))
    with contextlib.nullcontext() if accepted else pytest.raises(Unavailable, match="MD5"):
        open_bucket(check_etag=mode).read(KEY)
