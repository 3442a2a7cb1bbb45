"""ListObjectsV2: the questions, the pages that come, and one level put in order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from typing import NamedTuple, Self

from nczfs.errors import BadKey
from nczfs.metrics import HIDDEN_KEYS
from nczfs.zmap.base import Entry, Stat
from nczfs.zmap.keys import Prefix, is_name, join, parse_key
from nczfs.zmap.s3.answers import document_fault, failure
from nczfs.zmap.s3.page import Page, parse_page
from nczfs.zmap.s3.transport import Request, Transport

PAGE_KEYS = 1000  # S3 gives no more
PAGES_AHEAD = 2

_TOKEN = re.compile(rb"<NextContinuationToken>([ -%\'-;=-~]+)</")  # without references of XML


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
        return answer.document

    page = parse_page(fetch(""), where)
    yield page
    token = ""
    with _Ahead(fetch) as ahead:
        while page.next_token not in {"", token}:
            token = page.next_token
            page = parse_page(ahead.body(token), where)
            yield page


class _Ahead:
    """Fetches the coming pages in a thread, two ahead at most.

    The thread asks for the next page before it hands one over: so it is on its way when taking
    this one apart begins to keep the other thread from running.

    Parameters
    ----------
    fetch : the body of the page of a token.
    """

    def __init__(self, fetch: Callable[[str], bytes]) -> None:
        self._fetch = fetch
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="nczfs-list")
        self._room = Semaphore(PAGES_AHEAD)
        self._left = False
        self._coming: tuple[str, Future[_Fetched]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        self._room.release()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def body(self, token: str) -> bytes:
        """The page of a token."""
        if self._coming is None or self._coming[0] != token:
            self._coming = (token, self._pool.submit(self._fetch_on, token))
        fetched = self._coming[1].result()
        self._coming = fetched.coming
        self._room.release()
        return fetched.body

    def _fetch_on(self, token: str) -> _Fetched:
        self._room.acquire()
        if self._left:
            return _Fetched(b"", None)
        body = self._fetch(token)
        ahead = _token_in(body)
        if ahead in {"", token} or self._left:
            return _Fetched(body, None)
        return _Fetched(body, (ahead, self._pool.submit(self._fetch_on, ahead)))


class _Fetched(NamedTuple):
    """A page, and the one after it where its token was found."""

    body: bytes
    coming: tuple[str, Future[_Fetched]] | None


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


def stats(pages: Iterator[Page]) -> Iterator[Stat]:
    """All objects whose names are keys; the others are counted as hidden."""
    for page in pages:
        yield from page.objects if page.keys_are_usual else filter(_has_key, page.objects)


def _has_key(found: Stat) -> bool:
    is_key = _is_key(found.key)
    if not is_key and not _is_marker(found):
        HIDDEN_KEYS.inc()
    return is_key


def _is_marker(found: Stat) -> bool:
    """Whether an object stands for a directory alone: an empty one with a slash at its end."""
    return found.key.endswith("/") and not found.size and _is_key(found.key[:-1])


def _is_key(text: str) -> bool:
    try:
        parse_key(text)
    except BadKey:
        return False
    return True


def markers(pages: Iterator[Page]) -> Iterator[Prefix]:
    """The prefixes that have one."""
    for page in pages:
        for found in filter(_is_marker, page.objects):
            yield Prefix(found.key[:-1])


def is_there(pages: Iterator[Page], prefix: Prefix) -> bool:
    """Whether one level has a name, or is only marked; no more pages are asked for than needed."""
    for page in pages:
        if any(found.key == f"{prefix}/" for found in page.objects):
            return True
        if next(entries(iter([page]), prefix), None) is not None:
            return True
    return False


def entries(pages: Iterator[Page], prefix: Prefix) -> Iterator[Entry]:
    """The names of one level, each once.

    S3 sorts by the bytes of the key, where ``a`` and ``a/`` may have others between them
    (``a-1``). So an object is held back until the listing has passed its name with a slash.
    """
    below = len(prefix) + 1 if prefix else 0
    held: dict[str, Stat] = {}
    for page in pages:
        items: list[tuple[bytes, str, Stat | None]] = [
            (_order(found.key), found.key[below:], found) for found in page.objects
        ]
        items += ((_order(key), key[below:-1], None) for key in page.prefixes)
        items.sort(key=lambda item: item[0])
        for place, name, found in items:
            if held:
                yield from _passed(held, prefix, place)
            if not is_name(name):
                if found is None or not _is_marker(found):
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
