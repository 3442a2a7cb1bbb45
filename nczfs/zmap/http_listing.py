"""Index pages of web servers: nginx (HTML and JSON), Apache, lighttpd, Caddy, Python.

Other pages are not taken for listings: an HTML page is a listing if its title or first heading says
so; its names are the links to what is directly below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from lxml import etree

from nczfs.buffers import Buffer
from nczfs.plaindata import frozen
from nczfs.zmap.jsonparts import JsonParts
from nczfs.zmap.keys import is_name
from nczfs.zmap.web.headers import SIZE_END, time_ns

LISTING_BYTES_MAX: Final = 16 << 20  # some hundred thousand names
NAME_BYTES_MAX: Final = 16 << 10  # bytes of an object in JSON, or of a link

_TITLES = ("index of ", "directory listing for ", "directory: ", "listing of ")
_ROOT_TITLES = frozenset({"index of"})


@frozen
class ListedName:
    """A name of an index page.

    Attributes
    ----------
    size, mtime_s : if the page gives them exactly, otherwise None.
    """

    name: str
    is_directory: bool
    size: int | None = None
    mtime_s: int | None = None


def parse_listing(body: Buffer, content_type: str, url: str) -> list[ListedName] | None:
    """Parse the names of an index page, each once, without hidden ones; None: it is not one.

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


def _of_json(body: Buffer) -> list[ListedName] | None:
    """Parse nginx's ``autoindex_format json``: a list of objects, each with a name and a type."""
    found: list[ListedName] = []

    def take(at: int) -> int:
        item, end = parts.value(at, NAME_BYTES_MAX)
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ValueError("an item without a name")  # noqa: TRY004 - of the document
        size, mtime = item.get("size"), item.get("mtime")
        found.append(
            ListedName(
                item["name"],
                item.get("type") == "directory",
                size if type(size) is int and 0 <= size < SIZE_END else None,
                _seconds(mtime),
            )
        )
        return end

    parts = JsonParts(body)
    try:
        parts.check_end(parts.items(parts.begin(), take))
    except ValueError:
        return None
    return found


def _seconds(text: object) -> int | None:
    found = time_ns(text) if isinstance(text, str) else None
    return None if found is None else found // 1_000_000_000


def _of_html(body: Buffer, url: str) -> list[ListedName] | None:
    page = _Page()
    content = bytes(body)
    try:
        content.decode()
        encoding = "utf-8"
    except UnicodeDecodeError:
        encoding = "iso-8859-1"  # each character is a byte here
    try:
        etree.fromstring(content, etree.HTMLParser(target=page, encoding=encoding))
    except etree.LxmlError:
        return None
    if not any(_is_title(text) for text in (page.title, page.heading)):
        return None
    base = urlsplit(url).path
    links = page.links if encoding == "utf-8" else map(_as_bytes, page.links)
    return [entry for link in links if (entry := _entry(link, base)) is not None]


def _as_bytes(link: str) -> str:
    """Decode a link whose characters are bytes, if these are UTF-8."""
    return link.encode("iso-8859-1", "xmlcharrefreplace").decode("utf-8", "surrogateescape")


def _is_title(text: str) -> bool:
    words = " ".join(text.split()).lower()
    return words.startswith(_TITLES) or words in _ROOT_TITLES


def _entry(link: str, base: str) -> ListedName | None:
    """Return the name directly below the page that a link leads to; None: there is none."""
    path = link.partition("#")[0].partition("?")[0]
    if "://" in path or path.startswith("//"):
        try:
            path = urlsplit(path).path
        except ValueError:
            return None
    if path.startswith("/"):
        if not unquote(path).startswith(unquote(base)):
            return None
        path = unquote(path, errors="surrogateescape")[len(unquote(base)) :]
    elif ":" in path.partition("/")[0]:
        return None  # another scheme: servers write such names as ./NAME or with %3A
    else:
        path = unquote(path.removeprefix("./"), errors="surrogateescape")
    name = path.removesuffix("/")
    return ListedName(name, path.endswith("/")) if is_name(name) else None


class _Page:
    """A parser of a page's title, first heading and links, which builds no tree.

    libxml2 parses any page in linear time; Python's own parser takes 10 seconds for 48 KiB of ``<a
    href="``.
    """

    def __init__(self) -> None:
        self.title = ""
        self.heading = ""
        self.links: list[str] = []
        self._inside = ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handle the beginning of a tag."""
        if tag == "a":
            link = attributes.get("href")
            if link and len(link) <= NAME_BYTES_MAX:
                self.links.append(link)
        elif tag in ("title", "h1"):
            self._inside = tag

    def end(self, tag: str) -> None:
        """Handle the end of a tag."""
        if tag == self._inside:
            self._inside = ""

    def data(self, text: str) -> None:
        """Handle text between tags."""
        if self._inside == "title" and len(self.title) < NAME_BYTES_MAX:
            self.title += text
        elif self._inside == "h1" and len(self.heading) < NAME_BYTES_MAX:
            self.heading += text

    def close(self) -> None:
        """Handle the end of the page."""
