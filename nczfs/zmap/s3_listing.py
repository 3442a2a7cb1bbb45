"""ListObjectsV2: the questions, the pages that come back, and one level put in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from nczfs.errors import BadKey, StoreError
from nczfs.metrics import HIDDEN_KEYS
from nczfs.zmap.base import Entry, Stat, Version
from nczfs.zmap.keys import Prefix, is_name, join, parse_key

PAGE_KEYS = 1000  # S3 gives no more


@dataclass(frozen=True, slots=True)
class Found:
    """An object as a listing has it; its key is not checked."""

    key: str
    size: int
    version: Version
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Page:
    """One answer; `next_token` is "" on the last page."""

    objects: tuple[Found, ...]
    prefixes: tuple[str, ...]
    next_token: str


def question(prefix: Prefix, token: str, *, one_level: bool) -> dict[str, str]:
    """The query that asks for a page below a prefix."""
    query = {"list-type": "2", "encoding-type": "url", "max-keys": str(PAGE_KEYS)}
    if prefix:
        query["prefix"] = f"{prefix}/"
    if one_level:
        query["delimiter"] = "/"
    if token:
        query["continuation-token"] = token
    return query


def parse_page(body: bytes, where: str) -> Page:
    """Take a listing apart.

    Raises
    ------
    StoreError : it is no listing of S3.
    """
    try:
        document = ElementTree.fromstring(body)
        if _tag(document) != "ListBucketResult":
            raise ValueError(f"a document of type {_tag(document)}")
        objects: list[Found] = []
        prefixes: list[str] = []
        texts: dict[str, str] = {}
        for element in document:
            match tag := _tag(element):
                case "Contents":
                    objects.append(_found({_tag(part): part.text or "" for part in element}))
                case "CommonPrefixes":
                    prefixes += (unquote_key(part.text or "") for part in element)
                case _:
                    texts[tag] = element.text or ""
    except (ElementTree.ParseError, KeyError, ValueError) as error:
        raise StoreError(f"{where}: the answer is no listing of S3 ({error})") from error
    token = texts.get("NextContinuationToken", "") if texts.get("IsTruncated") == "true" else ""
    if texts.get("IsTruncated") == "true" and not token:
        raise StoreError(f"{where}: the listing ends early, without a way to go on")
    return Page(tuple(objects), tuple(prefixes), token)


def stats(pages: Iterator[Page]) -> Iterator[Stat]:
    """All objects whose names are keys; the others are counted as hidden."""
    for page in pages:
        for found in page.objects:
            try:
                key = parse_key(found.key)
            except BadKey:
                HIDDEN_KEYS.inc()
                continue
            yield Stat(key, found.size, found.version, found.mtime_ns)


def entries(pages: Iterator[Page], prefix: Prefix) -> Iterator[Entry]:
    """The names of one level, each once.

    S3 sorts by the bytes of the key, where ``a`` and ``a/`` may have others between them
    (``a-1``). So an object is held back until the listing has passed its name with a slash.
    """
    below = len(prefix) + 1 if prefix else 0
    held: dict[str, Stat] = {}
    for page in pages:
        items: list[tuple[bytes, str, Found | None]] = [
            (_order(found.key), found.key[below:], found) for found in page.objects
        ]
        items += ((_order(key), key[below:-1], None) for key in page.prefixes)
        items.sort(key=lambda item: item[0])
        for place, name, found in items:
            if held:
                yield from _passed(held, prefix, place)
            if not is_name(name):
                HIDDEN_KEYS.inc()
            elif found is None:
                yield Entry(name, held.pop(name, None), is_prefix=True)
            else:
                held[name] = Stat(join(prefix, name), found.size, found.version, found.mtime_ns)
    yield from (Entry(name, stat, is_prefix=False) for name, stat in held.items())


def _passed(held: dict[str, Stat], prefix: Prefix, place: bytes) -> Iterator[Entry]:
    for name in [name for name in held if _order(f"{join(prefix, name)}/") < place]:
        yield Entry(name, held.pop(name), is_prefix=False)


def _order(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def version_of(etag: str) -> Version:
    """The version that an ETag names; some servers leave its quotes out in listings."""
    return Version(etag if etag.startswith(('"', "W/")) else f'"{etag}"')


def unquote_key(text: str) -> str:
    """A key out of a listing with ``encoding-type=url``, which writes a blank as "+"."""
    return unquote_plus(text, errors="surrogateescape")


def _found(texts: dict[str, str]) -> Found:
    return Found(
        unquote_key(texts["Key"]),
        int(texts["Size"]),
        version_of(texts["ETag"]),
        _time_ns(texts["LastModified"]),
    )


@lru_cache(maxsize=1024)  # objects are written in bursts
def _time_ns(text: str) -> int:
    """Of an ISO time, cut to the second that a HEAD of the object gives."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]
