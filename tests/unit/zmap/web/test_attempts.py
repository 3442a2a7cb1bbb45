"""What is said when a server, or a proxy before it, cannot be asked, and whether it is asked again.

Both stores that speak HTTP ask through the same attempts; that over HTTP stands for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nczfs.errors import DeadlinePassed, Unavailable, UsageError
from nczfs.zmap.http import HttpZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap
from tests.support.ports import free_port
from tests.support.scripted import Reply, Scripted, serving

KEY = Key("key")
ONCE = StoreOptions(request_timeout_s=5.0)  # of which a first contact takes a small part


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the proxies, passwords and credentials of a user."""
    for name in os.environ:
        if name.lower().endswith("_proxy") or name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


@pytest.fixture
def answering() -> Iterator[Callable[[int], Scripted]]:
    """Start servers that answer everything with a status."""
    with ExitStack() as servers:
        yield lambda status: servers.enter_context(serving(lambda asked: Reply(status)))


def failure(url: str, options: StoreOptions = ONCE) -> str:
    zmap = HttpZMap(url, options)
    with pytest.raises((Unavailable, DeadlinePassed)) as caught:
        zmap.read(KEY)
    zmap.close()
    return str(caught.value)


def test_a_proxy_that_does_not_listen_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = f"127.0.0.1:{free_port()}"
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", f"http://joe:hush@{proxy}")
        text = failure(f"{scheme}://far.example.org/data")
        assert f"proxy {proxy}: Connection refused" in text
        assert "hush" not in text


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_does_not_know_us_is_asked_once(
    scheme: str, answering: Callable[[int], Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = answering(407)
    address = proxy.endpoint_url.partition("//")[2]
    monkeypatch.setenv(f"{scheme}_proxy", f"joe:hush@{address}")
    text = failure(f"{scheme}://far.example.org/data", StoreOptions())
    assert text.endswith(f"proxy {address}: answers 407 (check its user and password)")
    assert len(proxy.asked) == 1


def test_a_proxy_that_forbids_a_host_is_asked_once(
    answering: Callable[[int], Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = answering(403)
    monkeypatch.setenv("https_proxy", proxy.endpoint_url)
    assert "answers 403 (Forbidden)" in failure("https://far.example.org/data", StoreOptions())
    assert len(proxy.asked) == 1


def test_a_proxy_that_is_out_of_order_is_asked_again(
    answering: Callable[[int], Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = answering(503)
    monkeypatch.setenv("https_proxy", proxy.endpoint_url)
    assert "answers 503 (Service Unavailable)" in failure("https://far.example.org/data")
    assert len(proxy.asked) > 1


@pytest.mark.parametrize(
    ("proxy", "reason"),
    [
        ("foo://joe:hush@host", "foo://host, is of an unknown kind"),
        ("socks5://joe:hush@host:1080", "known: http://HOST:PORT"),
        ("http://joe:hush@host:port", "malformed host or port"),
        ("http://[hush", "malformed host or port"),
        ("http://", "malformed host or port"),
    ],
)
def test_what_is_no_proxy_is_wrong_usage_at_once(
    proxy: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    for opened in (
        lambda: HttpZMap("https://far.example.org/data"),
        lambda: S3ZMap("bucket", StoreOptions(endpoint_url="https://far.example.org")),
    ):
        with pytest.raises(UsageError) as caught:
            opened()
        assert reason in str(caught.value)
        assert "hush" not in str(caught.value)


def test_a_server_without_tls_is_asked_once_and_the_remedy_named(
    answering: Callable[[int], Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = answering(200).endpoint_url.replace("http:", "https:")
    text = failure(f"{url}/data", StoreOptions())
    assert text == f"{url}/data/key: does not speak TLS (http:// instead of https://?)"
    address = url.partition("//")[2]
    monkeypatch.setenv("https_proxy", url)
    text = failure("https://far.example.org/data", StoreOptions())
    assert f"proxy {address}: does not speak TLS" in text


def test_the_host_that_was_looked_up_is_named() -> None:
    options = StoreOptions(
        endpoint_url="http://nowhere.invalid",
        force_path_style=False,
        no_sign_request=True,
        request_timeout_s=5.0,
    )
    zmap = S3ZMap("bucket", options)
    with pytest.raises(Unavailable, match=r"bucket\.nowhere\.invalid: .*check --endpoint-url"):
        zmap.read(KEY)
    zmap.close()


@pytest.mark.parametrize("content", [b"", b"junk"])
def test_a_file_without_certificates_is_wrong_usage_at_once(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "junk.pem"
    file.write_bytes(content)
    for opened in (
        lambda options: HttpZMap("https://far.example.org/data", options),
        lambda options: S3ZMap("bucket", options),
    ):
        options = StoreOptions(ca_bundle=str(file), endpoint_url="https://far.example.org")
        with pytest.raises(UsageError, match=r"junk\.pem: contains no certificate"):
            opened(options)
        with pytest.raises(UsageError, match="--ca-bundle"):
            opened(StoreOptions(ca_bundle=str(tmp_path / "absent")))
