"""Index pages of web servers: nginx (HTML and JSON), Apache, lighttpd, Caddy, Python.

Pages of people are not taken for listings: an HTML page is one if its title or first heading says
so, and its names are the links to what stands directly below it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

from nczfs.zmap.keys import is_name

LISTING_BYTES_MAX = 64 << 20

_TITLES = ("index of ", "directory listing for ", "directory: ", "listing of ")
_ROOT_TITLES = frozenset({"index of"})


@dataclass(frozen=True, slots=True)
class Listed:
    """A name of an index page.

    Attributes
    ----------
    size, mtime_s : where the page tells them exactly, else None.
    """

    name: str
    is_directory: bool
    size: int | None = None
    mtime_s: int | None = None


def parse_listing(body: bytes, content_type: str, url: str) -> list[Listed] | None:
    """The names of an index page, each once, without hidden ones; None: it is no index page.

    Parameters
    ----------
    url : of the directory, with a slash at its end.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        found = _of_json(body)
    elif kind in ("text/html", "application/xhtml+xml"):
        found = _of_html(body, url)
    else:
        return None
    if found is None:
        return None
    return list({entry.name: entry for entry in found if is_name(entry.name)}.values())


def _of_json(body: bytes) -> list[Listed] | None:
    """nginx's ``autoindex_format json``: a list of objects, each with a name and a type."""
    try:
        document = json.loads(body.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, list):
        return None
    found = []
    for item in document:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            return None
        size = item.get("size")
        found.append(
            Listed(
                item["name"],
                item.get("type") == "directory",
                size if type(size) is int and size >= 0 else None,
                _seconds(item.get("mtime")),
            )
        )
    return found


def _seconds(text: object) -> int | None:
    try:
        return int(parsedate_to_datetime(text).timestamp()) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _of_html(body: bytes, url: str) -> list[Listed] | None:
    page = _Page()
    page.feed(body.decode("utf-8", "surrogateescape"))
    page.close()
    if not any(_is_title(text) for text in (page.title, page.heading)):
        return None
    base = urlsplit(url).path
    return [entry for link in page.links if (entry := _entry(link, base)) is not None]


def _is_title(text: str) -> bool:
    words = " ".join(text.split()).lower()
    return words.startswith(_TITLES) or words in _ROOT_TITLES


def _entry(link: str, base: str) -> Listed | None:
    """What a link names directly below the page; None: it leads elsewhere, or sorts the page."""
    path = link.partition("#")[0].partition("?")[0]
    if "://" in path or path.startswith("//"):
        path = urlsplit(path).path
    if path.startswith("/"):
        if not unquote(path).startswith(unquote(base)):
            return None
        path = unquote(path, errors="surrogateescape")[len(unquote(base)) :]
    elif ":" in path.partition("/")[0]:
        return None  # of another scheme: servers write such names as ./NAME or with %3A
    else:
        path = unquote(path.removeprefix("./"), errors="surrogateescape")
    name = path.removesuffix("/")
    return Listed(name, path.endswith("/")) if is_name(name) else None


class _Page(HTMLParser):
    """Title, first heading and links of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.heading = ""
        self.links: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("title", "h1"):
            self._inside = tag
        elif tag == "a":
            self.links += (value for name, value in attrs if name == "href" and value)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data
        elif self._inside == "h1":
            self.heading += data
