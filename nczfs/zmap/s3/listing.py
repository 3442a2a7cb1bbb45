"""ListObjectsV2: the questions, the pages that come back, and one level put in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_plus
from xml.etree import ElementTree

from nczfs.errors import BadKey, StoreError
from nczfs.metrics import HIDDEN_KEYS
from nczfs.zmap.base import Entry, Stat, Version
from nczfs.zmap.keys import Key, Prefix, is_name, join, parse_key
from nczfs.zmap.s3.answers import document_fault, failure, version_of
from nczfs.zmap.s3.transport import Request, Transport

PAGE_KEYS = 1000  # S3 gives no more

_TOKEN = re.compile(rb"<NextContinuationToken>([ -%\'-;=-~]+)</")  # without references of XML
# Most keys are of this form, and are keys: the full check takes three times as long.
_USUAL = re.compile(r"(?:(?!\.nczfs-)\.?[\w-][\w.-]*(?:/(?!$)|$))+", re.ASCII)
_USUAL_LENGTH_MAX = 1000


class Found(NamedTuple):
    """An object as a listing has it; its key is not checked."""

    key: str
    size: int
    version: Version
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Page:
    """One answer; `next_token` is "" on the last page."""

    objects: Sequence[Found]
    prefixes: Sequence[str]
    next_token: str


def pages(transport: Transport, start: str, *, one_level: bool) -> Iterator[Page]:
    """The keys that begin with a text, asked for page by page.

    Whoever asks for the second page will want them all: from then on the next one is on its way
    while this one is looked at.

    Raises
    ------
    StoreError : the server refuses, or answers something else.
    """
    where = f"{transport.name}/{start}".rstrip("/")

    def fetch(token: str) -> bytes:
        answer = transport.send(
            Request("GET", "", query=question(start, token, one_level=one_level)),
            lambda answer: document_fault(answer, "ListBucketResult", "listing"),
        )
        if answer.status != 200:
            raise failure(answer, where, anonymous=transport.anonymous)
        return answer.body

    page = parse_page(fetch(""), where)
    yield page
    if not page.next_token:
        return
    pool = ThreadPoolExecutor(1, thread_name_prefix="nczfs-list")
    try:
        token = page.next_token
        coming = pool.submit(fetch, token)
        while token:
            body = coming.result()
            ahead = _token_in(body)
            if ahead:
                coming = pool.submit(fetch, ahead)
            page = parse_page(body, where)
            yield page
            if page.next_token == token:
                return
            token = page.next_token
            if token != ahead:
                coming = pool.submit(fetch, token)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _token_in(body: bytes) -> str:
    """The token in a listing, found before it is taken apart; "" where that is not sure."""
    found = _TOKEN.search(body)
    return found[1].decode() if found else ""


def question(start: str, token: str, *, one_level: bool) -> dict[str, str]:
    """The query that asks for a page of the keys that begin with a text."""
    query = {"list-type": "2", "encoding-type": "url", "max-keys": str(PAGE_KEYS)}
    if start:
        query["prefix"] = start
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
        space, _, what = document.tag.rpartition("}")
        space += "}" if space else ""
        if what != "ListBucketResult":
            raise ValueError(f"a document of type {what}")
        objects = [_found(element, space) for element in document.iterfind(f"{space}Contents")]
        prefixes = [
            unquote_key(element.text or "")
            for element in document.iterfind(f"{space}CommonPrefixes/{space}Prefix")
        ]
    except (ElementTree.ParseError, TypeError, ValueError) as error:
        raise StoreError(f"{where}: the answer is no listing of S3 ({error})") from error
    truncated = document.findtext(f"{space}IsTruncated") == "true"
    token = (document.findtext(f"{space}NextContinuationToken") or "") if truncated else ""
    if truncated and not token:
        raise StoreError(f"{where}: the listing ends early, without a way to go on")
    return Page(objects, prefixes, token)


def stats(pages: Iterator[Page]) -> Iterator[Stat]:
    """All objects whose names are keys; the others are counted as hidden."""
    for page in pages:
        for found in page.objects:
            key = _key(found.key)
            if key is None:
                HIDDEN_KEYS.inc()
            else:
                yield Stat(key, found.size, found.version, found.mtime_ns)


def _key(text: str) -> Key | None:
    if len(text) <= _USUAL_LENGTH_MAX and _USUAL.fullmatch(text):
        return Key(text)
    try:
        return parse_key(text)
    except BadKey:
        return None


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


def unquote_key(text: str) -> str:
    """A key out of a listing with ``encoding-type=url``, which writes a blank as "+"."""
    return unquote_plus(text, errors="surrogateescape") if "%" in text or "+" in text else text


def _found(element: ElementTree.Element, space: str) -> Found:
    text = element.findtext
    # None, where a text is missing, is a TypeError: in this loop each name takes its time.
    return Found(
        unquote_key(text(f"{space}Key")),  # type: ignore[arg-type]
        int(text(f"{space}Size")),  # type: ignore[arg-type]
        version_of(text(f"{space}ETag")),  # type: ignore[arg-type]
        _time_ns(text(f"{space}LastModified")[:19]),  # type: ignore[index]
    )


@lru_cache(maxsize=1024)  # objects are written in bursts
def _time_ns(text: str) -> int:
    """Of an ISO time in UTC without fractions: the second that a HEAD of the object gives."""
    return int(datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1_000_000_000
