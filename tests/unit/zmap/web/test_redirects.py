"""A redirection is followed to where it may lead, and nowhere else."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from nczfs.errors import AccessDenied, NoSuchObject, StoreError
from nczfs.zmap.http import HttpZMap
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions, open_store
from nczfs.zmap.web.redirects import Redirects, leads_to_directory
from tests.support.scripted import Asked, Reply, Script, Scripted, serving

KEY = Key("dir/key")
DATA = Reply(206, b"data", {"Content-Range": "bytes 0-3/4", "ETag": '"e"'})
Serve: TypeAlias = Callable[[Script], Scripted]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start servers; none is behind a proxy, and no password is a user's."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("NETRC", "/dev/null")
    with ExitStack() as ends:
        yield lambda script: ends.enter_context(serving(script))


def to(location: str) -> Script:
    return lambda asked: Reply(302, headers={"Location": location})


URL = "http://host/dir/key"


@pytest.mark.parametrize(
    ("url", "location", "goal"),
    [
        (URL, "/other", "http://host/other"),
        (URL, "other?a=b#c", "http://host/dir/other?a=b"),
        (URL, "//HOST:80/x", "http://host:80/x"),
        (URL, "http://me:pw@host/x", "http://host/x"),
        (URL, "https://host/dir/key", "https://host/dir/key"),
        (URL, "/a b\xfc", "http://host/a%20b%C3%BC"),
        ("https://[::1]:8443/x", "/y", "https://[::1]:8443/y"),
        ("https://[::1]/x", "https://me@[::1]/y", "https://[::1]/y"),
    ],
)
def test_within_a_host_and_port_it_is_followed(url: str, location: str, goal: str) -> None:
    assert Redirects().target(url, location, "here") == goal


@pytest.mark.parametrize(
    "location",
    [
        "http://other/dir/key",
        "http://host:8080/dir/key",
        "//127.0.0.1/x",
        "https://host:8443/dir/key",
        "https://other/dir/key",
        "http://host.evil/x",
        "http://host@evil/x",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
def test_to_another_host_or_port_only_where_a_prefix_allows_it(location: str) -> None:
    with pytest.raises(AccessDenied, match=r"here: redirected to .*--allow-redirects"):
        Redirects().target(URL, location, "here")
    with pytest.raises(AccessDenied):
        Redirects(("http://another", "https://host/dir")).target(URL, location, "here")
    scheme = location.partition("//")[0] or "http:"
    followed = Redirects((f"{scheme}//",)).target(URL, location, "here")
    assert "@" not in followed
    assert Redirects((followed,)).target(URL, location, "here") == followed


@pytest.mark.parametrize(
    ("location", "allowed"),
    [
        ("http://cdn/open/key", True),
        ("http://CDN:80/open/sub/key?signature=s", True),
        ("http://cdn/open", True),
        ("http://cdn/opened", False),
        ("http://cdn/open/../secret", False),
        ("http://cdn/open/%2e%2e/secret", False),
        ("http://cdn/open/x%2F..%2F..%2Fsecret", False),
        ("http://cdn:8080/open/key", False),
        ("https://cdn/open/key", False),
    ],
)
def test_a_prefix_allows_what_is_below_it(location: str, allowed: bool) -> None:
    redirects = Redirects(("http://cdn/open/",))
    if allowed:
        assert redirects.target(URL, location, "here")
    else:
        with pytest.raises(AccessDenied):
            redirects.target(URL, location, "here")


@pytest.mark.parametrize(
    "location",
    [
        "ftp://host/key",
        "file:///etc/passwd",
        "http://[::1",
        "http://host:port/",
        "http://host:99999/",
    ],
)
def test_what_is_no_url_of_a_web_server_is_an_error(location: str) -> None:
    everything = Redirects(("http://", "https://", "ftp://", "/"))
    with pytest.raises(StoreError, match="here: redirected"):
        everything.target(URL, location, "here")
    assert not leads_to_directory(URL, location)


def test_from_https_to_http_it_is_never_followed() -> None:
    with pytest.raises(StoreError, match="from https to 'http'"):
        Redirects(("http://",)).target("https://host/x", "http://host/x", "here")


def test_a_store_follows_what_its_option_allows(serve: Serve) -> None:
    elsewhere = serve(lambda asked: DATA)
    server = serve(to(f"{elsewhere.endpoint_url}/data/dir/key"))
    closed = HttpZMap(f"{server.endpoint_url}/data")
    with pytest.raises(AccessDenied, match=r"dir/key: redirected to http://127\.0\.0\.1:\d+, "):
        closed.read(KEY)
    assert elsewhere.asked == []
    options = StoreOptions(allow_redirects=(f"{elsewhere.endpoint_url}/data",))
    opened = HttpZMap(f"{server.endpoint_url}/data", options)
    assert bytes(opened.read(KEY).data) == b"data"
    closed.close()
    opened.close()


def test_the_policy_holds_for_each_hop(serve: Serve) -> None:
    inner = serve(lambda asked: DATA)
    middle = serve(to(f"{inner.endpoint_url}/x"))
    server = serve(to(f"{middle.endpoint_url}/x"))
    zmap = HttpZMap(server.endpoint_url, StoreOptions(allow_redirects=(middle.endpoint_url,)))
    with pytest.raises(AccessDenied):
        zmap.read(KEY)
    assert (len(middle.asked), inner.asked) == (1, [])
    zmap.close()


def test_credentials_go_to_their_host_alone(serve: Serve, tmp_path: Path) -> None:
    elsewhere = serve(lambda asked: DATA)
    server = serve(to(f"{elsewhere.endpoint_url}/key"))
    url = server.endpoint_url.replace("://", "://me%40:hush-hush@") + "/data?token=hush"
    zmap = HttpZMap(url, StoreOptions(allow_redirects=("http://",)))
    assert bytes(zmap.read(KEY).data) == b"data"
    sent = base64.b64decode(server.asked[0].headers["authorization"].removeprefix("Basic "))
    assert sent == b"me@:hush-hush"
    assert "authorization" not in elsewhere.asked[0].headers
    assert "hush" not in elsewhere.asked[0].path
    assert "hush" not in zmap.name
    zmap.close()


def references(tmp_path: Path, url: str) -> str:
    (tmp_path / "refs.json").write_text(f'{{"x/0": ["{url}/open/key", 0, 4]}}')
    return str(tmp_path / "refs.json")


@pytest.mark.parametrize("location", ["/secret", "http://127.0.0.1:{}/open/key"])
def test_a_reference_is_not_redirected_to_where_none_may_lead(
    serve: Serve, tmp_path: Path, location: str
) -> None:
    local = serve(lambda asked: Reply(206, b"hush", DATA.headers))

    def script(asked: Asked) -> Reply:
        port = local.endpoint_url.rpartition(":")[2]
        target = location.format(port)
        return Reply(302, headers={"Location": target}) if "open" in asked.path else DATA

    server = serve(script)
    allowed = StoreOptions(allow_references=(f"{server.endpoint_url}/open",))
    zmap = open_store(references(tmp_path, server.endpoint_url), allowed)
    with pytest.raises(AccessDenied, match="redirected to"):
        zmap.read(Key("x/0"))
    assert local.asked == []
    assert [asked.path for asked in server.asked] == ["/open/key"]
    zmap.close()


def test_a_reference_is_redirected_within_what_it_may_lead_to(serve: Serve, tmp_path: Path) -> None:
    def script(asked: Asked) -> Reply:
        is_moved = asked.path.endswith("moved")
        return DATA if is_moved else Reply(302, headers={"Location": "/open/moved"})

    server = serve(script)
    allowed = StoreOptions(allow_references=(f"{server.endpoint_url}/open",))
    zmap = open_store(references(tmp_path, server.endpoint_url), allowed)
    assert bytes(zmap.read(Key("x/0")).data) == b"data"
    zmap.close()


def test_a_redirection_to_a_directory_is_followed_nowhere(serve: Serve) -> None:
    server = serve(lambda asked: Reply(301, headers={"Location": f"http://far{asked.path}/"}))
    zmap = HttpZMap(server.endpoint_url)
    with pytest.raises(NoSuchObject):
        zmap.read(KEY)
    assert len(server.asked) == 1
    zmap.close()
