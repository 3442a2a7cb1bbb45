"""Who asks an S3 server, and where: credentials, regions, endpoints, proxies."""

from __future__ import annotations

import json
import logging
import traceback
from pathlib import Path

import pytest

from nczfs.errors import AccessDenied, StoreError, UsageError
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap
from nczfs.zmap.s3.access import S3Access
from tests.support.s3_script import KEY, OBJECT, SECRET, TOKEN, Serve, fault, write_credentials
from tests.support.scripted import Asked, Reply

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


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("/no/such/program", "No such file or directory: /no/such/program"),
        ("sh -c 'echo token-token >&2; exit 1'", "custom-process failed"),
        ("true", "not the expected JSON"),
        ("echo token-token", "not the expected JSON"),
        ('echo ["token-token"]', "AttributeError"),
        ('echo {"Version":1,"AccessKeyId":"token-token"}', "custom-process failed"),
        (
            'echo {"Version":1,"AccessKeyId":7,"SecretAccessKey":"token-token"}',
            "they are not text",
        ),
        ("cat EXPIRED", "still expired"),
    ],
    ids=["absent", "fails", "silent", "no JSON", "list", "incomplete", "number", "expired"],
)
def test_a_program_that_gives_no_credentials_is_denied_access_without_its_words(
    serve: Serve,
    credentials: Path,
    program: str,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expired = credentials.with_name("expired.json")
    times = {"Expiration": "2020-01-01T00:00:00Z", "SessionToken": TOKEN}
    keys = {"AccessKeyId": "AK", "SecretAccessKey": SECRET}
    expired.write_text(json.dumps({"Version": 1, **keys, **times}))
    command = program.replace("EXPIRED", str(expired)).replace('"', '\\"')
    credentials.write_text("")
    credentials.with_name("config").write_text(f"[default]\ncredential_process = {command}\n")
    server, open_bucket = serve(lambda asked: OBJECT)
    with pytest.raises(AccessDenied, match=f"credentials cannot be obtained: .*{reason}") as caught:
        open_bucket().read(KEY)
    assert server.asked == []
    told = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert TOKEN not in told
    assert SECRET not in told


@pytest.mark.parametrize(
    "variable", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]
)
def test_credentials_that_no_header_can_hold_are_denied_access(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv(variable, "te\nst")
    _, open_bucket = serve(lambda asked: OBJECT)
    with pytest.raises(AccessDenied, match=r"cannot be obtained: .* control characters"):
        open_bucket().read(KEY)


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
    access = S3Access(bucket, StoreOptions(**options))  # type: ignore[arg-type]  # by name
    assert access.site.root_url == root


@pytest.mark.usefixtures("credentials")
def test_amazons_endpoint_moves_with_the_region() -> None:
    for endpoint in (None, "https://s3.us-east-1.amazonaws.com"):
        access = S3Access("buck", StoreOptions(endpoint_url=endpoint, region="us-east-1"))
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
