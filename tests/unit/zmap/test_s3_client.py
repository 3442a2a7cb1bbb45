"""The requests that boto3 makes are bounded in time and size, and repeated in one place."""

from __future__ import annotations

import hashlib
import itertools
import logging
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from nczfs.errors import AccessDenied, DeadlinePassed, StoreError, Unavailable
from nczfs.zmap.base import ByteRange, Part, Stat, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap
from nczfs.zmap.s3.pieces import PART_BYTES_MIN
from nczfs.zmap.web import attempts
from tests.support.pouring import Pour, dripping, endless, head, pouring
from tests.support.s3_bucket import Bucket
from tests.support.s3_script import KEY, SECRET, TOKEN, Serve, fault, write_credentials
from tests.support.scripted import Asked, Reply

GOAL = Key("dir/goal")
MIB = 1 << 20


def delete(zmap: S3ZMap) -> None:
    zmap.delete_many([KEY, GOAL])


def copy(zmap: S3ZMap) -> None:
    zmap.set_mtime(Stat(KEY, 5, Version('"e"')), 7)


def upload(zmap: S3ZMap) -> None:
    zmap.write(KEY, bytes(21 * MIB))


Ask: TypeAlias = Callable[[S3ZMap], None]
ASKS: Mapping[Ask, str] = {
    delete: "POST /bucket?delete",
    copy: "PUT",
    upload: "POST /bucket/dir/key?uploads",
}


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., S3ZMap]]:
    """Open a bucket at an endpoint, without credentials and, unless asked, much patience."""
    monkeypatch.setenv("no_proxy", "*")
    opened: list[S3ZMap] = []

    def start(url: str, patience_s: float = 1.5) -> S3ZMap:
        options = StoreOptions(
            endpoint_url=url,
            no_sign_request=True,
            request_timeout_s=patience_s,
            attempt_timeout_s=patience_s / 2,
            part_bytes=PART_BYTES_MIN,
        )
        opened.append(S3ZMap("bucket", options))
        return opened[-1]

    yield start
    for zmap in opened:
        zmap.close()


def answering(ask: Ask, *body: Iterable[bytes]) -> Pour:
    """Everything is answered rightly, but for the request that boto3 makes."""

    def pour(line: str) -> Iterator[bytes]:
        if line.startswith(ASKS[ask]) and "probe" not in line:
            return itertools.chain([head(200, "Transfer-Encoding: chunked")], *body)
        ok = head(200, 'ETag: "e"', "Content-Length: 0")
        return iter([head(204, "Content-Length: 0") if line.startswith("DELETE") else ok])

    return pour


@pytest.mark.parametrize("ask", [delete, upload])
def test_an_answer_that_never_ends_is_given_up(far: Callable[..., S3ZMap], ask: Ask) -> None:
    with pouring(answering(ask, endless())) as server:
        with pytest.raises(StoreError, match="the server sends more than the 4194304 bytes"):
            ask(far(server.url, patience_s=60.0))
        assert sum(line.startswith(ASKS[ask]) for line in server.asked) == 1


def test_an_answer_made_to_take_memory_is_not_parsed(far: Callable[..., S3ZMap]) -> None:
    bomb = b"<InitiateMultipartUploadResult>%b" % (b"<UploadId>" * 300_000)
    chunked = [b"%x\r\n%b\r\n0\r\n\r\n" % (len(bomb), bomb)]
    with (
        pouring(answering(upload, chunked)) as server,
        pytest.raises(StoreError, match=r"not one of S3 \(more than 16 levels"),
    ):
        upload(far(server.url, patience_s=60.0))
    assert sum(line.startswith(ASKS[upload]) for line in server.asked) == 2


def test_an_answer_that_drips_ends_with_the_time(far: Callable[..., S3ZMap]) -> None:
    drips = dripping([b"%x\r\n%b\r\n" % (1000, b" " * 1000)] * 100)
    with (
        pouring(answering(upload, drips)) as server,
        pytest.raises(DeadlinePassed, match=r"dir/key.*too slowly"),
    ):
        upload(far(server.url))


def test_what_fails_is_repeated_as_often_as_other_requests(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "ATTEMPTS", 3)
    server, open_bucket = serve(lambda asked: fault(503, "SlowDown"))
    with pytest.raises(Unavailable, match=r"given up after 3 attempts.*503 SlowDown"):
        open_bucket().delete_many([KEY, GOAL])
    assert len(server.asked) == 3


def test_no_module_of_boto3_is_loaded_before_it_is_needed() -> None:
    """Reading, writing and listing take no part of the 0.1 s that it takes."""
    program = """
import sys
from tests.support.s3_bucket import Bucket
from tests.support.scripted import serving
from nczfs.zmap.keys import ROOT, Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap
with serving(Bucket()) as server:
    zmap = S3ZMap("bucket", StoreOptions(endpoint_url=server.endpoint_url, no_sign_request=True))
    zmap.write(Key("a"), b"data")
    assert bytes(zmap.read(Key("a")).data) == b"data"
    assert [stat.key for stat in zmap.list(ROOT)] == ["a"]
    zmap.delete(Key("a"))
    assert "boto3" not in sys.modules
    zmap.delete_many([Key("a"), Key("b")])
    assert "boto3" in sys.modules
    zmap.close()
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root, timeout=120)


def test_they_are_signed_and_marked_as_all_others(serve: Serve) -> None:
    bucket = Bucket()
    server, open_bucket = serve(bucket)
    zmap = open_bucket(
        part_bytes=PART_BYTES_MIN,
        requester_pays=True,
        expected_bucket_owner="123456789012",
        region="eu-west-3",
    )
    upload(zmap)
    parts: list[Part] = [b"new", ByteRange(zmap.stat(KEY), 3, 21 * MIB)]
    zmap.write_parts(GOAL, parts)
    zmap.delete_many([KEY, GOAL])
    assert bucket.objects == {}
    for asked in server.asked:
        assert "Credential=AKOLD/" in asked.headers["authorization"]
        assert "/eu-west-3/s3/aws4_request" in asked.headers["authorization"]
        assert asked.headers["x-amz-security-token"] == TOKEN
        assert asked.headers["x-amz-request-payer"] == "requester"
        assert asked.headers["x-amz-expected-bucket-owner"] == "123456789012"
        assert asked.headers["x-amz-content-sha256"] == hashlib.sha256(asked.body).hexdigest()
        assert asked.headers["user-agent"].startswith("nczfs/")
        assert not {"expect", "transfer-encoding", "x-amz-trailer"} & asked.headers.keys()
    [batch] = [asked for asked in server.asked if "?delete" in asked.path]
    digest = hashlib.md5(batch.body, usedforsecurity=False).digest()
    assert batch.headers["content-md5"] == b64encode(digest).decode()


def test_expired_credentials_are_fetched_anew_once(serve: Serve, credentials: Path) -> None:
    bucket = Bucket()

    def expired(asked: Asked) -> Reply | None:
        write_credentials(credentials, "AKNEW")
        return None if "AKNEW" in asked.headers["authorization"] else fault(400, "ExpiredToken")

    bucket.before = expired
    server, open_bucket = serve(bucket)
    open_bucket().delete_many([KEY, GOAL])
    assert len(server.asked) == 2


def test_missing_credentials_are_denied_access_with_the_remedy(
    serve: Serve, credentials: Path
) -> None:
    server, open_bucket = serve(Bucket())
    credentials.unlink()
    with pytest.raises(AccessDenied, match="--no-sign-request for public buckets"):
        open_bucket().delete_many([KEY, GOAL])
    assert server.asked == []


@pytest.mark.parametrize("named", ["header", "document"])
def test_another_region_is_followed(serve: Serve, named: str) -> None:
    bucket = Bucket()

    def elsewhere(asked: Asked) -> Reply | None:
        if "/eu-north-1/" in asked.headers["authorization"]:
            return None
        if named == "header":
            return Reply(301, b"", {"x-amz-bucket-region": "eu-north-1"})
        return fault(400, "AuthorizationHeaderMalformed", "<Region>eu-north-1</Region>")

    bucket.before = elsewhere
    server, open_bucket = serve(bucket)
    zmap = open_bucket(region="us-east-1")
    zmap.delete_many([KEY, GOAL])
    zmap.delete_many([KEY, GOAL])
    assert len(server.asked) == 3


def test_where_a_redirection_does_not_say_where_to_the_bucket_is_looked_up(serve: Serve) -> None:
    bucket = Bucket()
    bucket.objects[KEY] = (b"data", {})

    def elsewhere(asked: Asked) -> Reply | None:
        if asked.method == "HEAD" and asked.path.rstrip("/") == "/bucket":
            return Reply(200, b"", {"x-amz-bucket-region": "eu-north-1"})
        if "/eu-north-1/" in asked.headers["authorization"]:
            return None
        return fault(301, "PermanentRedirect")

    bucket.before = elsewhere
    _, open_bucket = serve(bucket)
    assert bytes(open_bucket(region="us-east-1").read(KEY).data) == b"data"


@pytest.mark.parametrize("region", ["", "a\nb", "x" * 64, "eu/../evil", "évil"])
def test_a_redirection_without_a_region_names_the_option(serve: Serve, region: str) -> None:
    more = f"<Region>{region}</Region><Endpoint>s3.far.example.org</Endpoint>"
    _, open_bucket = serve(lambda asked: fault(301, "PermanentRedirect", more))
    with pytest.raises(
        StoreError, match=r"at s3\.far\.example\.org \(301 PermanentRedirect .*--region"
    ):
        open_bucket().read(KEY)


def test_nothing_secret_is_in_errors_or_logs(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _, open_bucket = serve(
        lambda asked: fault(403, "SignatureDoesNotMatch", f"<StringToSign>{TOKEN}</StringToSign>")
    )
    zmap = open_bucket(part_bytes=PART_BYTES_MIN)
    with pytest.raises(AccessDenied) as caught:
        upload(zmap)
    for text in (repr(zmap), str(caught.value), caplog.text, repr(vars(zmap))):
        assert SECRET not in text
        assert TOKEN not in text
        assert "Signature=" not in text
