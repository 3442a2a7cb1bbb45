"""Index pages of servers give their names, and no other page does."""

from __future__ import annotations

import pytest

from nczfs.zmap.http_listing import ListedName, parse_listing
from tests.support.bounded import watched

URL = "https://host/data/x%20y/"
NGINX = """<html><head><title>Index of /data/x y/</title></head>
<body><h1>Index of /data/x y/</h1><hr><pre><a href="../">../</a>
<a href="g%C3%BC/">gü/</a>                21-Oct-2026 07:28       -
<a href="0.0%20%26">0.0 &amp;</a>         21-Oct-2026 07:28    1234
</pre><hr></body></html>"""
APACHE = """<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN"><html>
 <head><title>Index of /data/x y</title></head><body><h1>Index of /data/x y</h1>
<ul><li><a href="/data/"> Parent Directory</a></li>
<li><a href="?C=N;O=D">Name</a></li>
<li><a href="g%c3%bc/"> gü/</a></li><li><a href="0.0%20&amp;"> 0.0 &amp;</a></li></ul>"""
PYTHON = """<!DOCTYPE HTML><html><head><title>Directory listing for /data/x%20y/</title></head>
<body><h1>Directory listing for /data/x y/</h1><ul><li><a href="g%C3%BC/">gü/</a></li>
<li><a href="0.0%20%26">0.0 &amp;</a></li></ul></body></html>"""
CADDY = """<html><head><title>Other</title></head><body><h1>Index of x</h1>
<a href="./g%C3%BC/">g</a><a href="./0.0%20&">0</a><a href="https://caddyserver.com">Caddy</a>"""
ABSOLUTE = """<title>Index of /</title><a href="/data/x%20y/g%C3%BC/">g</a>
<a href="https://host/data/x y/0.0 %26">0</a><a href="/data/other">o</a><a href="/">top</a>"""


@pytest.mark.parametrize("page", [NGINX, APACHE, PYTHON, CADDY, ABSOLUTE])
def test_an_index_page_gives_the_names_directly_below_it(page: str) -> None:
    found = parse_listing(page.encode(), "text/html; charset=UTF-8", URL)
    assert found == [ListedName("gü", True), ListedName("0.0 &", False)]


def test_the_json_of_nginx_gives_sizes_and_times() -> None:
    page = (
        b'[{ "name":"g", "type":"directory", "mtime":"Wed, 21 Oct 2026 07:28:00 GMT" },'
        b'{ "name":"0", "type":"file", "mtime":"Wed, 21 Oct 2026 07:28:00 GMT", "size":7 },'
        b'{ "name":"odd", "type":"file", "mtime":"yesterday", "size":-7 },'
        b'{ "name":"..", "type":"directory" }, { "name":"a/b", "type":"file" }]'
    )
    assert parse_listing(page, "application/json", URL) == [
        ListedName("g", True, None, 1792567680),
        ListedName("0", False, 7, 1792567680),
        ListedName("odd", False),
    ]


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        (b"<title>Welcome</title><a href='a'>a</a>", "text/html"),
        (NGINX.encode(), "application/octet-stream"),
        (b"", "text/html"),
        (b"<" * 10_000, "text/html"),
        (b"{}", "application/json"),
        (b"[1]", "application/json"),
        (b'[{"name": 1}]', "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"\xff", "application/json"),
    ],
)
def test_a_page_that_lists_nothing_is_no_empty_listing(page: bytes, kind: str) -> None:
    assert parse_listing(page, kind, URL) is None


@pytest.mark.parametrize(
    "link",
    ["../up", "a/b", "%2e%2e/", "..", "a%2Fb", "%00", "//host/data/x%20y/../z", "mailto:me", ""],
)
def test_links_to_elsewhere_are_no_names(link: str) -> None:
    page = f"<title>Index of /</title><a href='{link}'>x</a><a name='n'>y</a>"
    found = parse_listing(page.encode(), "text/html", URL)
    assert found == []


@pytest.mark.parametrize("link", [b"%FF", b"\xff"])
def test_names_that_are_not_utf8_are_kept_as_bytes(link: bytes) -> None:
    page = b"<title>Index of /</title><a href='%b'>x</a><a href='g\xc3\xbc'>y</a>" % link
    found = parse_listing(page, "text/html", URL)
    assert found == [ListedName("\udcff", False), ListedName("gü", False)]


@pytest.mark.parametrize("link", ["http://[::1", "//[", "http://host:port/data/x y/z", "http:/"])
def test_a_link_that_is_no_url_is_no_name(link: str) -> None:
    page = f"<title>Index of /</title><a href='{link}'>x</a><a href='good'>y</a>"
    found = parse_listing(page.encode(), "text/html", "http://other/")
    assert ListedName("good", False) in (found or ())


HOSTILE = [
    *("<", "<a ", "<a<", "<a>", "<a href=x>", '<a href="', "<div>", "<!--", "<![CDATA[", "&a"),
    *("&#1", "<?", "</", "</a ", "<b><i>", "<table><a>", "<!", "<script>", "<p><b>", "<svg><a>"),
    *("<font><b><a href=q>", "<select><option>", "<title>", "<h1>", "<a {}={} "),
]
PARSE = """
from nczfs.zmap.http_listing import LISTING_BYTES_MAX, parse_listing
shape, kind = sys.argv[1], sys.argv[2]
size = LISTING_BYTES_MAX // 4
count = size // (len(shape) + 8 * ("{}" in shape))
body = "".join(shape.format(n, n) for n in range(count)) if "{}" in shape else shape * count
body = ("<title>Index of /</title>" * (kind == "text/html") + body).encode()[:size]
"""


@pytest.mark.parametrize("shape", HOSTILE)
def test_no_page_takes_long_to_parse_or_much_memory(shape: str) -> None:
    """A quarter of what a page may have: Python's own parser takes hours for some of them."""
    took = watched(PARSE, 'parse_listing(body, kind, "http://host/")', shape, "text/html")
    assert took.grown_mib < 150
    assert took.longest_s < 5


@pytest.mark.parametrize("shape", ["[],", "{},", '"",', "[", '{"name":"', '{"name":"n"},', "1,"])
def test_no_json_takes_long_to_parse_or_much_memory(shape: str) -> None:
    act = 'parse_listing(b"[" + body, kind, "http://host/")'
    took = watched(PARSE, act, shape, "application/json")
    assert took.grown_mib < 100
    assert took.longest_s < 5
