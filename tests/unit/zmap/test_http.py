"""The store over HTTP before a server that answers as told."""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from nczfs import metrics
from nczfs.errors import (
    AccessDenied,
    Conflict,
    DeadlinePassed,
    NamesUnknown,
    NoSuchObject,
    ServerFailed,
    StoreError,
    Unavailable,
)
from nczfs.zmap import forbidden
from nczfs.zmap.base import Version
from nczfs.zmap.http import HttpZMap
from nczfs.zmap.keys import ROOT, Key, Prefix
from nczfs.zmap.registry import StoreOptions
from tests.conftest import ExpectedWarnings
from tests.support.knowing import KNOWN
from tests.support.scripted import Asked, Reply, Script, Scripted, serving

KEY = Key("dir/key")
GIVEN = Key("dir/.zarray")
DOTS = KNOWN.usual + KNOWN.others
DATA = bytes(range(100))
CHUNKED = {"Transfer-Encoding": "chunked"}
DATE = "Wed, 21 Oct 2026 07:28:00 GMT"
Serve: TypeAlias = Callable[..., tuple[Scripted, HttpZMap]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Serve]:
    """Start a server, and open a store below it; no proxy and no password are those of a user."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    ends: list[Callable[[], object]] = []

    def start(
        script: Script, path: str = "/data", user: str = "", **options: object
    ) -> tuple[Scripted, HttpZMap]:
        context = serving(script)
        server = context.__enter__()
        ends.append(lambda: context.__exit__(None, None, None))
        url = server.endpoint_url.replace("://", f"://{user}")
        given = {"request_timeout_s": 15.0, "attempt_timeout_s": 5.0, "documents": KNOWN} | options
        zmap = HttpZMap(url + path, StoreOptions(**given))  # type: ignore[arg-type]  # by name
        ends.insert(0, zmap.close)
        return server, zmap

    yield start
    for end in ends:
        end()


def ranged(asked: Asked, data: bytes = DATA, etag: str = '"one"') -> Reply:
    """What a server with ranges and conditions answers."""
    headers = {"ETag": etag, "Last-Modified": DATE}
    if asked.headers.get("if-match", etag) != etag:
        return Reply(412)
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", asked.headers.get("range", ""))
    if found is None:
        return Reply(200, data, headers)
    start, stop = int(found[1] or 0), min(int(found[2] or len(data)) + 1, len(data))
    if not found[1]:
        start, stop = max(0, len(data) - int(found[2])), len(data)
    if start >= len(data):
        return Reply(416, headers={"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return Reply(206, data[start:stop], headers)


def whole(asked: Asked) -> Reply:
    """What a server without ranges, ETags and times answers."""
    return Reply(200, DATA)


def first(count: int, reply: Reply) -> Script:
    """The first requests are answered with `reply`, later ones rightly."""
    left = [reply] * count
    return lambda asked: left.pop() if left else ranged(asked)


def test_a_range_is_asked_for_and_pinned_to_its_version(serve: Serve) -> None:
    server, zmap = serve(ranged)
    blob = zmap.read(KEY, 10, 20)
    assert (bytes(blob.data), blob.object_size) == (DATA[10:20], 100)
    assert bytes(zmap.read(KEY, 20, 30, version=blob.version).data) == DATA[20:30]
    asked = server.asked[-1]
    assert asked.path == "/data/dir/key"
    assert (asked.headers["range"], asked.headers["if-match"]) == ("bytes=20-29", '"one"')
    assert asked.headers["accept-encoding"] == "identity"
    assert blob.mtime_ns == 1792567680 * 10**9


def test_a_version_that_was_replaced_is_a_conflict_and_never_mixed(serve: Serve) -> None:
    etags = iter(['"one"', '"two"', '"two"'])
    _, zmap = serve(lambda asked: ranged(asked, etag=next(etags)))
    version = zmap.read(KEY, 0, 5).version
    with pytest.raises(Conflict, match="dir/key"):
        zmap.read(KEY, 5, 10, version=version)


@pytest.mark.parametrize(
    "headers", [{"ETag": 'W/"weak"'}, {"Last-Modified": DATE}, {}], ids=["weak", "date", "size"]
)
def test_a_version_that_no_server_compares_is_compared_here(
    serve: Serve, headers: dict[str, str]
) -> None:
    sizes = iter([100, 100, 90])

    def script(asked: Asked) -> Reply:
        size = next(sizes)
        changed = {name: value.replace("w", "x") for name, value in headers.items()}
        return Reply(200, DATA[:size], headers if size == 100 else changed)

    server, zmap = serve(script)
    version = zmap.read(KEY).version
    assert zmap.read(KEY, 3, 5, version=version).version == version
    with pytest.raises(Conflict):
        zmap.read(KEY, 3, 5, version=version)
    assert not any("if-match" in asked.headers for asked in server.asked)


def test_a_server_without_ranges_is_read_whole_and_known(serve: Serve) -> None:
    _, zmap = serve(whole)
    assert bytes(zmap.read(KEY).data) == DATA
    assert zmap.features.ranges
    blob = zmap.read(KEY, 40, 50)
    assert (bytes(blob.data), blob.object_size) == (DATA[40:50], 100)
    assert not zmap.features.ranges


@pytest.mark.parametrize("size", [7, 100, 200])
def test_the_end_is_asked_for_in_one_request(serve: Serve, size: int) -> None:
    server, zmap = serve(lambda asked: ranged(asked, DATA))
    blob = zmap.read(KEY, -size)
    assert (bytes(blob.data), blob.object_size) == (DATA[-size:], 100)
    assert [asked.headers["range"] for asked in server.asked] == [f"bytes=-{size}"]


def test_the_end_is_read_from_a_server_that_does_not_count_from_it(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        is_end = asked.headers.get("range", "").startswith("bytes=-")
        return Reply(416) if is_end else ranged(asked)

    _, zmap = serve(script)
    blob = zmap.read(KEY, -7)
    assert (bytes(blob.data), blob.object_size) == (DATA[-7:], 100)
    assert bytes(zmap.read(KEY, -7, version=blob.version).data) == DATA[-7:]


@pytest.mark.parametrize("headers", [{}, CHUNKED], ids=["length", "chunked"])
@pytest.mark.parametrize("size", [7, 100, 200])
def test_the_end_is_taken_of_what_a_server_without_ranges_sends(
    serve: Serve, headers: dict[str, str], size: int
) -> None:
    body = b"64\r\n%b\r\n0\r\n\r\n" % DATA if headers else DATA
    _, zmap = serve(lambda asked: Reply(200, body, headers))
    blob = zmap.read(KEY, -size)
    assert (bytes(blob.data), blob.object_size) == (DATA[-size:], 100)


def test_of_a_long_answer_no_more_is_read_than_wanted(serve: Serve) -> None:
    endless = Reply(200, b"0123456789" * 10, {"Content-Length": str(10**15)})
    server, zmap = serve(lambda asked: endless)
    blob = zmap.read(KEY, 5, 15)
    assert (bytes(blob.data), blob.object_size) == (b"5678901234", 10**15)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "bad",
    [
        Reply(500),
        Reply(503, b"busy", {"Retry-After": "0"}),
        Reply(429),
        Reply(206, DATA[:10], {"Content-Range": "bytes 0-9/100"}),
        Reply(206, DATA[5:9], {"Content-Range": "bytes 5-14/100"}),
        Reply(206, DATA[5:15]),
        Reply(
            206,
            DATA[5:12],
            {"Content-Range": "bytes 5-14/100", "Content-Length": "10", "Connection": "close"},
        ),
        Reply(206, DATA[5:12], {"Content-Range": "bytes 5-14/100", "Content-Length": "10"}),
    ],
    ids=["500", "503", "429", "wrong", "short", "nowhere", "cut", "stalled"],
)
def test_a_read_outlasts_what_passes_and_names_what_lasts(serve: Serve, bad: Reply) -> None:
    server, zmap = serve(first(2, bad), attempt_timeout_s=3.0)
    assert bytes(zmap.read(KEY, 5, 15).data) == DATA[5:15]
    assert len(server.asked) == 3
    _, lasting = serve(lambda asked: bad, request_timeout_s=0.6)
    with pytest.raises((Unavailable, DeadlinePassed), match="dir/key"):
        lasting.read(KEY, 5, 15)


def test_a_server_that_asks_for_a_pause_beyond_the_deadline_is_left_alone(serve: Serve) -> None:
    server, zmap = serve(first(1, Reply(503, headers={"Retry-After": "20"})))
    with pytest.raises(DeadlinePassed, match=r"\(1 attempt\), the next .* is asked for in 20 s"):
        zmap.read(KEY)
    assert len(server.asked) == 1


def test_nobody_at_the_other_end_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    zmap = HttpZMap("http://127.0.0.1:1/data", StoreOptions(request_timeout_s=2.0))
    with pytest.raises((Unavailable, DeadlinePassed), match="refused"):
        zmap.read(KEY)


@pytest.mark.parametrize("refusal", [403, 405, 501])
def test_a_stat_does_without_head(serve: Serve, refusal: int) -> None:
    def script(asked: Asked) -> Reply:
        return Reply(refusal) if asked.method == "HEAD" else ranged(asked)

    _, zmap = serve(script)
    assert (zmap.stat(KEY).size, zmap.stat(KEY).version) == (100, Version('"one"'))


def test_a_stat_of_an_empty_object_does_without_head(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        return Reply(405) if asked.method == "HEAD" else ranged(asked, b"")

    _, zmap = serve(script)
    stat = zmap.stat(KEY)
    assert (stat.size, stat.version) == (0, Version('"one"'))
    assert zmap.read(KEY).version == stat.version


def test_an_encoded_body_is_refused(serve: Serve) -> None:
    body = gzip.compress(DATA)
    _, zmap = serve(lambda asked: Reply(200, body, {"Content-Encoding": "gzip"}))
    with pytest.raises(StoreError, match=r"dir/key.*encoded \(gzip\)"):
        zmap.read(KEY)


@pytest.mark.parametrize("status", [404, 410])
def test_absent_is_what_the_server_says_is_absent(serve: Serve, status: int) -> None:
    _, zmap = serve(lambda asked: Reply(status))
    for ask in (zmap.read, zmap.stat):
        with pytest.raises(NoSuchObject, match="dir/key"):
            ask(KEY)


def hides_the_absent(asked: Asked) -> Reply:
    return ranged(asked) if asked.path.endswith(GIVEN) else Reply(403)


def tells_the_absent(asked: Asked) -> Reply:
    return hides_the_absent(asked) if len(asked.path) < 30 else Reply(404)


@pytest.mark.parametrize(
    ("option", "script", "error"),
    [
        ("yes", tells_the_absent, NoSuchObject),
        ("no", hides_the_absent, AccessDenied),
        ("auto", tells_the_absent, AccessDenied),
        ("auto", hides_the_absent, NoSuchObject),
    ],
)
def test_forbidden_is_absent_as_the_option_says(
    serve: Serve,
    expected_warnings: ExpectedWarnings,
    option: str,
    script: Script,
    error: type[StoreError],
) -> None:
    expected_warnings.add("403 counts as")
    _, zmap = serve(script, forbidden_is_absent=option)
    zmap.read(GIVEN)
    for ask in (zmap.read, zmap.stat):
        with pytest.raises(error, match="403"):
            ask(KEY)
    assert zmap.features.forbidden_is_absent is (error is NoSuchObject)


def test_a_server_that_has_closed_since_is_denied_access(
    serve: Serve, expected_warnings: ExpectedWarnings, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected_warnings.add("403 counts as")
    monkeypatch.setattr(forbidden, "AGAIN_S", 0.0)
    is_open = [True]
    _, zmap = serve(lambda asked: hides_the_absent(asked) if is_open[0] else Reply(403))
    with pytest.raises(AccessDenied, match=r"denied \(403\).*--forbidden-is-absent yes"):
        zmap.read(KEY)
    zmap.read(GIVEN)
    with pytest.raises(NoSuchObject):
        zmap.read(KEY)
    is_open[0] = False
    with pytest.raises(AccessDenied, match=r"denied \(403\)"):
        zmap.read(KEY)


def test_a_redirection_is_followed_and_one_to_a_directory_is_not(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        if asked.path == "/data/dir":
            return Reply(301, headers={"Location": "/data/dir/"})
        if asked.path.startswith("/data"):
            return Reply(302, headers={"Location": f"/moved{asked.path}"})
        return ranged(asked)

    server, zmap = serve(script)
    assert bytes(zmap.read(KEY, 1, 3).data) == DATA[1:3]
    assert server.asked[-1].path == "/moved/data/dir/key"
    with pytest.raises(NoSuchObject):
        zmap.read(Key("dir"))


@pytest.mark.parametrize("target", ["/data/dir/key?again", "ftp://host/key", "file:///etc/passwd"])
def test_a_redirection_without_end_or_to_elsewhere_is_an_error(serve: Serve, target: str) -> None:
    server, zmap = serve(lambda asked: Reply(302, headers={"Location": target}))
    with pytest.raises(StoreError, match=r"dir/key: redirected"):
        zmap.read(KEY)
    assert len(server.asked) <= 6


def test_credentials_of_netrc_are_used_and_those_that_are_missing_asked_for(
    serve: Serve, tmp_path: Path
) -> None:
    def script(asked: Asked) -> Reply:
        return ranged(asked) if "authorization" in asked.headers else Reply(401)

    _, nobody = serve(script)
    with pytest.raises(AccessDenied, match=r"dir/key.*netrc"):
        nobody.read(KEY)
    with pytest.raises(AccessDenied, match="listing"):
        list(nobody.search(ROOT))
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password hush-hush\n")
    _, somebody = serve(script)
    assert bytes(somebody.read(KEY).data) == DATA


def test_a_broken_netrc_is_told_without_its_words(
    serve: Serve,
    tmp_path: Path,
    expected_warnings: ExpectedWarnings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected_warnings.add(r"\.netrc are not used")
    (tmp_path / "netrc").write_text("machine 127.0.0.1 hush-hush\n")
    _, zmap = serve(ranged)
    assert bytes(zmap.read(KEY).data) == DATA
    assert "hush" not in caplog.text


def test_a_query_goes_with_every_request_and_into_no_message(serve: Serve) -> None:
    server, zmap = serve(lambda asked: Reply(404), path="/data?token=hush-hush")
    with pytest.raises(NoSuchObject) as caught:
        zmap.read(KEY)
    assert server.asked[0].path == "/data/dir/key?token=hush-hush"
    assert "hush" not in str(caught.value) + zmap.name


def test_a_proxy_of_the_environment_is_asked(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, _ = serve(ranged)
    monkeypatch.setenv("http_proxy", proxy.endpoint_url)
    zmap = HttpZMap("http://far.example.org/data")
    assert bytes(zmap.read(KEY, 0, 5).data) == DATA[:5]
    assert proxy.asked[0].path == "http://far.example.org/data/dir/key"
    zmap.close()


def test_a_store_that_was_closed_says_so(serve: Serve) -> None:
    _, zmap = serve(ranged)
    zmap.close()
    with pytest.raises(Unavailable, match="closed"):
        zmap.read(KEY)


INDEX = (
    b"<html><head><title>Index of /data</title></head><body><a href='../'>../</a>"
    b"<a href='dir/'>dir/</a></body></html>"
)


def test_names_that_a_page_of_people_holds_are_none(serve: Serve) -> None:
    page = INDEX.replace(b"Index of /data", b"Welcome")

    def script(asked: Asked) -> Reply:
        if asked.path.endswith("/"):
            return Reply(200, page, {"Content-Type": "text/html"})
        return Reply(404)

    _, zmap = serve(script)
    with pytest.raises(NamesUnknown, match="sends an HTML page that is no listing"):
        list(zmap.search(ROOT))


def test_a_prefix_is_known_to_be_absent_where_others_are_listed(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        if asked.path == "/data/":
            return Reply(200, INDEX, {"Content-Type": "text/html; charset=utf-8"})
        return Reply(404)

    _, zmap = serve(script)
    assert list(zmap.search(Prefix("absent"))) == []
    assert [entry.name for entry in zmap.search(ROOT)] == ["dir"]


def test_directories_inside_themselves_have_an_end(serve: Serve) -> None:
    def script(asked: Asked) -> Reply:
        if asked.path.endswith("/"):
            return Reply(200, INDEX, {"Content-Type": "text/html"})
        return Reply(404)

    server, zmap = serve(script, request_timeout_s=30.0)
    assert list(zmap.list(Prefix("a" * 990))) == []
    assert len(server.asked) < 120


@pytest.mark.parametrize("metadata", [b"[]", b"{}", b'{"metadata": []}', b"[" * 100_000, b"\xff"])
def test_consolidated_metadata_that_are_none_are_an_error(serve: Serve, metadata: bytes) -> None:
    def script(asked: Asked) -> Reply:
        return ranged(asked, metadata) if asked.path == "/data/.zmetadata" else Reply(404)

    _, zmap = serve(script)
    with pytest.raises(StoreError, match=r"\(\.zmetadata\): is not a document of Zarr"):
        list(zmap.search(ROOT))


# Entries that the server cannot tell of


def listing(*names: str) -> Reply:
    links = "".join(f"<a href='{name}'>{name}</a>" for name in names)
    page = f"<title>Index of /</title>{links}"
    return Reply(200, page.encode(), {"Content-Type": "text/html"})


BAD = {
    "forbidden": Reply(403),
    "broken": Reply(500),
    "huge": Reply(200, headers={"Content-Length": str(1 << 63), "Connection": "close"}),
    "digits": Reply(200, headers={"Content-Length": "9" * 5000, "Connection": "close"}),
    "teapot": Reply(418),
}


def lists(*names: str, bad: dict[str, Reply] = BAD) -> Script:
    def script(asked: Asked) -> Reply:
        if asked.path.endswith("/"):
            return listing(*names)
        name = asked.path.rpartition("/")[2]
        return bad.get(name) or (Reply(404) if name.startswith(".") else ranged(asked))

    return script


@pytest.mark.parametrize("first", [True, False])
def test_an_entry_that_the_server_cannot_tell_of_is_left_out_alone(
    serve: Serve, expected_warnings: ExpectedWarnings, first: bool
) -> None:
    expected_warnings.add(r"/data: left out 5 entries, the first: .*/data/\w+: ")
    names = [*BAD, "good"] if first else ["good", *BAD]
    _, zmap = serve(lists(*names, "dir/"))
    hidden = metrics.value("nczfs_hidden_keys_total")
    assert {entry.name for entry in zmap.search(ROOT)} == {"good", "dir"}
    assert metrics.value("nczfs_hidden_keys_total") == hidden + 5


def test_a_server_that_can_tell_of_nothing_has_no_empty_listing(serve: Serve) -> None:
    _, zmap = serve(lists("forbidden"))
    with pytest.raises(AccessDenied, match="data/forbidden"):
        list(zmap.search(ROOT))
    server, zmap = serve(lists("broken"))
    with pytest.raises(ServerFailed, match=r"data/broken.*2 attempts.*500"):
        list(zmap.search(ROOT))
    assert sum(asked.path.endswith("broken") for asked in server.asked) == 2


def test_a_server_that_is_busy_has_no_shorter_listing(serve: Serve) -> None:
    busy = {"busy": Reply(503, headers={"Retry-After": "9" * 5000})}
    _, zmap = serve(lists("good", "busy", bad=busy))
    with pytest.raises(DeadlinePassed, match="data/busy"):
        list(zmap.search(ROOT))


def test_documents_that_no_page_lists_are_shown_as_far_as_they_are_given(serve: Serve) -> None:
    bad = {".zattrs": Reply(403), ".nczarr": Reply(500)}

    def script(asked: Asked) -> Reply:
        return ranged(asked) if asked.path.endswith(".zgroup") else lists("a", bad=bad)(asked)

    _, zmap = serve(script)
    assert {entry.name for entry in zmap.search(ROOT)} == {"a", ".zgroup"}


def test_sizes_that_json_tells_are_taken_where_they_can_be(serve: Serve) -> None:
    mtime = '"mtime":"Wed, 21 Oct 2026 07:28:00 GMT"'
    sizes = {"good": "100", "huge": str(1 << 63), "digits": "9" * 300, "minus": "-1"}
    items = (
        f'{{"name":"{name}","type":"file",{mtime},"size":{size}}}' for name, size in sizes.items()
    )
    page = Reply(200, f"[{','.join(items)}]".encode(), {"Content-Type": "application/json"})
    _, zmap = serve(lambda asked: page if asked.path.endswith("/") else ranged(asked))
    assert {stat.key: stat.size for stat in zmap.list(ROOT)} == dict.fromkeys(
        [*sizes, *(name for name in DOTS if name.startswith("."))], 100
    )
