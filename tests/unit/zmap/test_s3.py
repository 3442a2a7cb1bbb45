"""The S3 store against a server that answers as told: what real ones do too rarely."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

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
    UsageError,
)
from nczfs.zmap.base import Version
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap
from nczfs.zmap.s3_access import Access
from nczfs.zmap.s3_transport import ATTEMPTS, Request, Transport
from tests.support.scripted import Asked, Reply, Script, Scripted, serving

SECRET = "hush-hush"
TOKEN = "token-token"
OBJECT = Reply(
    206, b"data", {"ETag": '"e"', "Content-Range": "bytes 0-3/4", "x-amz-request-id": "1"}
)
KEY = Key("dir/key")


@pytest.fixture
def credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with nothing of AWS but one file of credentials."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    write_credentials(tmp_path / "credentials", "AKOLD")
    return tmp_path / "credentials"


Serve = Callable[[Script], tuple[Scripted, Callable[..., S3ZMap]]]


@pytest.fixture
def serve(credentials: Path) -> Iterator[Serve]:
    """Start a server, and give what opens a bucket on it with the options named."""
    ends: list[Callable[[], object]] = []

    def start(script: Script) -> tuple[Scripted, Callable[..., S3ZMap]]:
        context = serving(script)
        server = context.__enter__()
        ends.append(lambda: context.__exit__(None, None, None))

        def open_bucket(**options: object) -> S3ZMap:
            given = StoreOptions(endpoint_url=server.endpoint_url, **options)  # type: ignore[arg-type]  # by name
            zmap = S3ZMap("bucket", given)
            ends.insert(0, zmap.close)
            return zmap

        return server, open_bucket

    yield start
    for end in ends:
        end()


def write_credentials(path: Path, access_key: str) -> None:
    path.write_text(
        f"[default]\naws_access_key_id = {access_key}\naws_secret_access_key = {SECRET}\n"
        f"aws_session_token = {TOKEN}\n"
    )


def fault(status: int, code: str, more: str = "") -> Reply:
    return Reply(status, f"<Error><Code>{code}</Code><Message>why</Message>{more}</Error>".encode())


def is_listing(asked: Asked) -> bool:
    return "list-type=2" in asked.path


# Who asks


def test_a_request_is_signed_with_the_credentials_found(serve: Serve) -> None:
    server, open_bucket = serve(lambda asked: OBJECT)
    assert bytes(open_bucket(region="eu-west-3").read(KEY).data) == b"data"
    [asked] = server.asked
    assert asked.path == "/bucket/dir/key"
    assert "Credential=AKOLD/" in asked.headers["authorization"]
    assert "/eu-west-3/s3/aws4_request" in asked.headers["authorization"]
    assert asked.headers["x-amz-security-token"] == TOKEN


def test_an_anonymous_request_has_no_signature(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, open_bucket = serve(lambda asked: OBJECT)
    open_bucket(no_sign_request=True).read(KEY)
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "YES")
    open_bucket().read(KEY)
    assert all("authorization" not in asked.headers for asked in server.asked)


def test_missing_credentials_are_denied_access_with_the_remedy(
    serve: Serve, credentials: Path
) -> None:
    server, open_bucket = serve(lambda asked: OBJECT)
    credentials.unlink()
    with pytest.raises(AccessDenied, match="--no-sign-request for public buckets"):
        open_bucket().read(KEY)
    assert server.asked == []


def test_an_unknown_profile_is_an_error_that_lists_the_known(serve: Serve) -> None:
    _, open_bucket = serve(lambda asked: OBJECT)
    with pytest.raises(UsageError, match=r"nobody.*known profiles: default"):
        open_bucket(profile="nobody")


def test_expired_credentials_are_fetched_anew_once(serve: Serve, credentials: Path) -> None:
    def script(asked: Asked) -> Reply:
        write_credentials(credentials, "AKNEW")
        new = "AKNEW" in asked.headers["authorization"] and "gone" not in asked.path
        return OBJECT if new else fault(400, "ExpiredToken")

    server, open_bucket = serve(script)
    zmap = open_bucket()
    assert bytes(zmap.read(KEY).data) == b"data"
    assert len(server.asked) == 2
    with pytest.raises(AccessDenied, match="expired"):
        zmap.read(Key("gone"))
    assert len(server.asked) == 4


def test_payer_and_owner_stand_in_every_request(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, open_bucket = serve(lambda asked: OBJECT)
    open_bucket(requester_pays=True, expected_bucket_owner="123456789012").read(KEY)
    monkeypatch.setenv("AWS_REQUEST_PAYER", "requester")
    open_bucket().read(KEY)
    assert [asked.headers["x-amz-request-payer"] for asked in server.asked] == ["requester"] * 2
    assert server.asked[0].headers["x-amz-expected-bucket-owner"] == "123456789012"


def test_no_secret_is_in_repr_errors_or_logs(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _, open_bucket = serve(
        lambda asked: fault(403, "SignatureDoesNotMatch", f"<StringToSign>{TOKEN}</StringToSign>")
    )
    zmap = open_bucket()
    with pytest.raises(AccessDenied) as caught:
        zmap.read(KEY)
    for text in (repr(zmap), str(caught.value), caplog.text, repr(vars(zmap))):
        assert SECRET not in text
        assert TOKEN not in text


# Where it asks


def test_another_region_is_followed_and_remembered(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        if "/eu-north-1/" in asked.headers["authorization"]:
            return OBJECT
        return fault(400, "AuthorizationHeaderMalformed", "<Region>eu-north-1</Region>")

    server, open_bucket = serve(script)
    zmap = open_bucket(region="us-east-1")
    zmap.read(KEY)
    zmap.read(KEY)
    assert len(server.asked) == 3


def test_a_redirection_names_the_region_in_a_header(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        if "/eu-north-1/" in asked.headers["authorization"]:
            return Reply(200, b"data", {"ETag": '"e"'})
        return Reply(301, b"", {"x-amz-bucket-region": "eu-north-1"})

    server, open_bucket = serve(script)
    assert open_bucket().stat(KEY).size == 4
    assert len(server.asked) == 2


def test_a_redirection_to_nowhere_is_an_error(serve: Serve) -> None:
    server, open_bucket = serve(lambda asked: Reply(301, b"", {"x-amz-bucket-region": "x-1"}))
    with pytest.raises(StoreError, match="301"):
        open_bucket().read(KEY)
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("bucket", "options", "variables", "root"),
    [
        ("buck", {"region": "eu-west-1"}, {}, "https://buck.s3.eu-west-1.amazonaws.com"),
        ("a.b", {"region": "eu-west-1"}, {}, "https://s3.eu-west-1.amazonaws.com/a.b"),
        ("buck", {"region": "cn-north-1"}, {}, "https://buck.s3.cn-north-1.amazonaws.com.cn"),
        ("buck", {"endpoint_url": "http://h:1"}, {}, "http://h:1/buck"),
        (
            "buck",
            {"endpoint_url": "http://h:1", "force_path_style": False},
            {},
            "http://buck.h:1",
        ),
        ("buck", {"endpoint_url": "http://h"}, {"AWS_VIRTUAL_HOSTING": "TRUE"}, "http://buck.h"),
        ("buck", {}, {"AWS_ENDPOINT_URL_S3": "http://h:2"}, "http://h:2/buck"),
        ("buck", {}, {"AWS_S3_ENDPOINT": "h:3"}, "https://h:3/buck"),
        ("buck", {}, {"AWS_S3_ENDPOINT": "h:3", "AWS_HTTPS": "NO"}, "http://h:3/buck"),
        (
            "buck",
            {"force_path_style": True},
            {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"},
            "https://s3.eu-west-1.amazonaws.com/buck",
        ),
    ],
)
@pytest.mark.usefixtures("credentials")
def test_options_and_variables_say_where_the_bucket_is(
    bucket: str,
    options: dict[str, object],
    variables: dict[str, str],
    root: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    access = Access(bucket, StoreOptions(**options))  # type: ignore[arg-type]  # by name
    assert access.site.root_url == root


@pytest.mark.usefixtures("credentials")
def test_amazons_endpoint_moves_with_the_region() -> None:
    for endpoint in (None, "https://s3.us-east-1.amazonaws.com"):
        access = Access("buck", StoreOptions(endpoint_url=endpoint, region="us-east-1"))
        assert access.move("eu-west-1")
        assert access.site.root_url == "https://buck.s3.eu-west-1.amazonaws.com"
        assert not access.move("eu-west-1")


@pytest.mark.usefixtures("credentials")
def test_an_endpoint_that_is_no_url_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="HOST"):
        S3ZMap("bucket", StoreOptions(endpoint_url="host:9000"))
    with pytest.raises(UsageError, match="--ca-bundle"):
        S3ZMap("bucket", StoreOptions(endpoint_url="https://h", ca_bundle="/no/such/file"))


def test_the_proxy_of_the_environment_is_asked(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = serve(lambda asked: OBJECT)
    address = server.endpoint_url.removeprefix("http://")
    monkeypatch.setenv("HTTP_PROXY", f"http://user:{SECRET}@{address}")
    zmap = S3ZMap("bucket", StoreOptions(endpoint_url="http://s3.invalid"))
    assert bytes(zmap.read(KEY).data) == b"data"
    zmap.close()
    assert server.asked[0].path == "http://s3.invalid/bucket/dir/key"
    assert server.asked[0].headers["proxy-authorization"].startswith("Basic ")


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
        (fault(403, "QuotaExceeded"), AccessDenied),
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
    serve: Serve, mode: str, may_list: bool, missing_key: int, absent: bool
) -> None:
    listing = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"

    def script(asked: Asked) -> Reply:
        if is_listing(asked):
            return Reply(200, listing) if may_list else fault(403, "AccessDenied")
        if asked.path.endswith(KEY):
            return fault(403, "AccessDenied")
        return fault(missing_key, "AccessDenied" if missing_key == 403 else "NoSuchKey")

    _, open_bucket = serve(script)
    zmap = open_bucket(forbidden_is_absent=mode)
    for ask in (zmap.read, zmap.stat):
        with pytest.raises(NoSuchObject if absent else AccessDenied):
            ask(KEY)
    assert zmap.forbidden_is_absent is absent


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


def listing(inner: str) -> Reply:
    return Reply(200, f"<ListBucketResult>{inner}</ListBucketResult>".encode())


def found(key: str, size: int) -> str:
    return (
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;e&quot;</ETag>"
        "<LastModified>2026-01-02T03:04:05.678Z</LastModified></Contents>"
    )


# Attempts


def test_waits_are_random_and_grow_and_end_after_ten_attempts(serve: Serve) -> None:
    server, _ = serve(lambda asked: fault(503, "SlowDown"))
    waits: list[float] = []
    transport = transport_to(server, sleep=waits.append)
    with pytest.raises(Unavailable, match=r"10 attempts.*503 SlowDown"):
        transport.send(Request("GET", KEY))
    transport.close()
    assert len(server.asked) == ATTEMPTS == len(waits) + 1
    assert all(0 <= wait <= 0.1 * 2**turn for turn, wait in enumerate(waits))
    assert max(waits) <= 2


def test_no_attempt_begins_that_the_time_is_too_short_for(serve: Serve) -> None:
    server, _ = serve(lambda asked: fault(503, "SlowDown"))
    seconds = itertools.count(0.0, 3.0)
    transport = transport_to(server, sleep=lambda wait: None, clock=lambda: next(seconds))
    with pytest.raises(DeadlinePassed, match=r"within 15 s .*503 SlowDown"):
        transport.send(Request("GET", KEY))
    transport.close()
    assert 1 <= len(server.asked) < ATTEMPTS


def test_a_body_that_trickles_ends_with_the_time(serve: Serve) -> None:
    server, _ = serve(lambda asked: Reply(200, bytes(1 << 22)))
    seconds = itertools.chain([0.0, 0.0, 0.0], itertools.repeat(60.0))
    transport = transport_to(server, clock=lambda: next(seconds))
    with pytest.raises(DeadlinePassed, match="bytes came in time"):
        transport.send(Request("GET", KEY))
    transport.close()


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


def transport_to(server: Scripted, **time: Callable[..., object]) -> Transport:
    options = StoreOptions(endpoint_url=server.endpoint_url)
    return Transport(Access("bucket", options), "bucket", options, **time)  # type: ignore[arg-type]  # by name
