"""ListObjectsV2: the requests, their pages, and one level put in order."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

from nczfs.errors import BadKey, Conflict, StoreError
from nczfs.metrics import HIDDEN_KEYS
from nczfs.zmap.base import Entry, Glance, Stat
from nczfs.zmap.keys import Prefix, is_name, is_own, join, parse_key
from nczfs.zmap.leaving_out import leave_out
from nczfs.zmap.run import ListedRange
from nczfs.zmap.s3.answers import failure, page_fault
from nczfs.zmap.s3.messages import ANSWER_BYTES_MAX, S3Request
from nczfs.zmap.s3.page import ListingPage, parse_page
from nczfs.zmap.s3.transport import S3Transport
from nczfs.zmap.web.bodies import when_asked
from nczfs.zmap.web.headers import is_etag

PAGE_KEYS = 1000  # limit of S3
PAGES_AHEAD = 2
EMPTY_PAGES_MAX = 1000  # in a row; S3 may send some, about deleted objects
NAMES_MAX = 2_000_000  # names of one level, which its readers keep in memory
NAMES_CHARACTERS_MAX = 100_000_000  # of these names together

_TOKEN = re.compile(rb"<NextContinuationToken>([ -%\'-;=-~]+)</")  # without XML references


def pages(
    transport: S3Transport, start: str, token: str = "", *, one_level: bool
) -> Iterator[ListingPage]:
    """Yield the keys that begin with a text, requested page by page.

    A reader of the second page usually wants all: from then on the next page is requested while the
    present one is read.

    Parameters
    ----------
    token : of the first page; "": it is that of the listing.

    Raises
    ------
    StoreError : the server refuses, or the answer is not a listing.
    """
    where = f"{transport.name}/{start}".rstrip("/")

    def fetch(token: str, asked: Callable[[], None] = lambda: None) -> bytes:
        query = question(start, token, one_level=one_level)
        with when_asked(asked):
            answer = transport.send(
                S3Request("GET", "", query=query, limit=ANSWER_BYTES_MAX),
                page_fault,
            )
        if answer.status != 200:
            raise failure(answer, where, anonymous=transport.anonymous)
        return answer.document

    page = _page(fetch(token), where, start)
    yield page
    empty = 0
    tokens = _Tokens()
    with _Ahead(fetch) as ahead:
        while token := page.next_token:
            empty = 0 if page.objects or page.prefixes else empty + 1
            if tokens.come_again(token) or empty > EMPTY_PAGES_MAX:
                raise StoreError(f"{where}: the listing has no end")
            page = _page(ahead.body(token), where, start)
            yield page


def _page(body: bytes, where: str, start: str) -> ListingPage:
    page = parse_page(body, where)
    if page.left_out:
        leave_out(where, page.left_out, "the server describes it impossibly")
    names = [found.key for found in page.objects]
    if start and not all(name.startswith(start) for name in (*names, *page.prefixes)):
        # What follows takes off the beginning, and a removal deletes what is listed.
        objects = [found for found in page.objects if found.key.startswith(start)]
        prefixes = [prefix for prefix in page.prefixes if prefix.startswith(start)]
        count = len(names) + len(page.prefixes) - len(objects) - len(prefixes)
        leave_out(where, count, "the server lists it, but it does not begin with the prefix")
        page = replace(page, objects=objects, prefixes=prefixes)
    return page


class _Tokens:
    """The tokens of a listing, which come again if the server leads in a circle.

    One of them is compared with those that follow (Brent's algorithm).
    """

    def __init__(self) -> None:
        self._known = ""
        self._followed = 0
        self._power = 1

    def come_again(self, token: str) -> bool:
        """Take the next token. Returns whether it has been known to come before."""
        if token == self._known:
            return True
        self._followed += 1
        if self._followed == self._power:
            self._known, self._followed = token, 0
            self._power *= 2
        return False


class _Ahead:
    """A fetcher of the next pages in a thread, at most two ahead.

    A page is handed over after the next one was requested: parsing it keeps the thread from
    running, and the server would be idle meanwhile. The thread never waits for the reader, who may
    not come back. `_lock` guards the chain and what belongs to it.

    Parameters
    ----------
    fetch : returns the body of a token's page; calls its argument when the request is sent.
    """

    def __init__(self, fetch: Callable[[str, Callable[[], None]], bytes]) -> None:
        self._fetch = fetch
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="nczfs-list")
        self._lock = threading.Lock()
        self._chain = 0  # of pages, each of which names the next one
        self._room = 0
        self._held: _Coming | None = None  # for which there was no room
        self._coming: _Coming | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._new_chain()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def body(self, token: str) -> bytes:
        """Return the page of a token."""
        if self._coming is None or self._coming.token != token:
            self._coming = _Coming(token, self._new_chain(), Future())
            self._ask(self._coming, lambda: None)
        fetched = self._coming.page.result()
        self._coming = fetched.following
        with self._lock:
            held, self._held = self._held, None
            self._room += held is None
        if held is not None:
            self._ask(held, lambda: None)
        return fetched.body

    def _new_chain(self) -> int:
        """Begin a chain with a page that takes room; what is left of the last one is dropped."""
        with self._lock:
            self._chain += 1
            self._room, self._held = PAGES_AHEAD - 1, None
            return self._chain

    def _ask(self, coming: _Coming, asked: Callable[[], None]) -> None:
        self._pool.submit(self._fetch_into, coming, asked).add_done_callback(coming.failed)

    def _go_on(self, following: _Coming, asked: Callable[[], None]) -> None:
        """Ask for a page as soon as there is room for it."""
        with self._lock:
            if following.chain != self._chain:
                return
            if self._room:
                self._room -= 1
                self._ask(following, asked)
                return
            self._held = following
        asked()

    def _fetch_into(self, coming: _Coming, asked: Callable[[], None]) -> None:
        if coming.chain != self._chain:
            return
        try:
            body = self._fetch(coming.token, asked)
        finally:
            asked()
        token = _token_in(body)
        if token in {"", coming.token}:
            coming.page.set_result(_Fetched(body, None))
            return
        following = _Coming(token, coming.chain, Future())

        def hand_over() -> None:
            if not coming.page.done():
                coming.page.set_result(_Fetched(body, following))

        self._go_on(following, hand_over)


class _Coming(NamedTuple):
    """A page on its way."""

    token: str
    chain: int
    page: Future[_Fetched]

    def failed(self, fetching: Future[None]) -> None:
        """Pass on the error of fetching it, if there was one."""
        if not fetching.cancelled() and (error := fetching.exception()) is not None:
            self.page.set_exception(error)


class _Fetched(NamedTuple):
    """A page, and the one after it if its token was found."""

    body: bytes
    following: _Coming | None


def _token_in(body: bytes) -> str:
    """Find the token in a listing before it is parsed; "" if that is uncertain."""
    found = _TOKEN.search(body)
    return found[1].decode() if found else ""


def question(start: str, token: str, *, one_level: bool) -> dict[str, str]:
    """Return the query for a page of the keys that begin with a text."""
    query = {"list-type": "2", "encoding-type": "url", "max-keys": str(PAGE_KEYS)}
    if start:
        query["prefix"] = start
    if one_level:
        query["delimiter"] = "/"
    if token:
        query["continuation-token"] = token
    return query


def run_from(transport: S3Transport, start: str, first: str | None) -> ListedRange | None:
    """Return the objects from a key on, as many as fit into a page; None: it does not tell them.

    Some servers list in another order, or give no ETags.
    """
    where = f"{transport.name}/{start}".rstrip("/")
    query = question(start, "", one_level=False)
    if first is not None:
        query["start-after"] = _before(first)
    request = S3Request("GET", "", query=query, limit=ANSWER_BYTES_MAX)
    answer = transport.send(request, page_fault)
    if answer.status != 200:
        raise failure(answer, where, anonymous=transport.anonymous)
    page = _page(answer.document, where, start)
    keys = [found.key for found in page.objects]
    if keys != sorted(keys) or not all(is_etag(found.version) for found in page.objects):
        return None
    if page.left_out or (page.next_token and not keys):
        return None
    versions = {found.key: found.version for found in page.objects}
    return ListedRange(versions, first or start, keys[-1] if page.next_token else None)


def _before(key: str) -> str:
    """Return a text that is before a key, and behind all chunks before it."""
    return f"{key[:-1]}{chr(ord(key[-1]) - 1)}~"


def stats(pages: Iterator[ListingPage], prefix: Prefix) -> Iterator[Stat]:
    """Yield all objects whose names below a prefix are keys; the others are counted as hidden."""
    has_key = partial(_has_key, len(prefix) + 1 if prefix else 0)
    for page in pages:
        yield from page.objects if page.keys_are_usual else filter(has_key, page.objects)


def _has_key(below: int, found: Stat) -> bool:
    is_key = _is_key(found.key[below:])
    if not is_key and not _is_marker(found):
        HIDDEN_KEYS.inc()
    return is_key


def _is_marker(found: Stat) -> bool:
    """Return whether an object only marks a directory: an empty one with a slash at its end."""
    return found.key.endswith("/") and not found.size and _is_key(found.key[:-1])


def _is_key(text: str) -> bool:
    try:
        parse_key(text)
    except BadKey:
        return False
    return True


def markers(pages: Iterator[ListingPage], where: str) -> Iterator[Prefix]:
    """Yield the prefixes that have a marker.

    Raises
    ------
    Conflict : another object without a valid key is among them; `where` is the bucket, for the
        message.
    """
    for page in pages:
        for found in () if page.keys_are_usual else page.objects:
            if _is_marker(found):
                yield Prefix(found.key[:-1])
            elif not _is_key(found.key) and not is_own(found.key):
                what = f"holds {found.size} bytes" if found.key.endswith("/") else "cannot be shown"
                raise Conflict(f"{where}/{found.key}: the object of this name {what}")


def is_there(pages: Iterator[ListingPage], prefix: Prefix, *, marked: bool = True) -> bool:
    """Return whether a level has any name, shown or not, with as few pages as possible.

    Parameters
    ----------
    marked : whether a marker alone counts.
    """
    below = f"{prefix}/" if prefix else ""
    for page in pages:
        keys = [f.key for f in page.objects if marked or f.key != below or not _is_marker(f)]
        if not all(is_own(key[len(below) :]) for key in [*keys, *page.prefixes]):
            return True
    return False


def entries(pages: Iterator[ListingPage], prefix: Prefix) -> Iterator[Entry]:
    """Yield the names of one level, each once.

    Raises
    ------
    StoreError : there are more than `NAMES_MAX`, or they are longer than `NAMES_CHARACTERS_MAX`.
    """
    return _Level(prefix).entries(pages)


def glance(pages: Callable[[str], Iterator[ListingPage]], prefix: Prefix) -> Glance:
    """Do what `ZMap.glance` does.

    Parameters
    ----------
    pages : returns the pages from a token on; "": all.
    """
    first, level = next(pages("")), _Level(prefix)
    found = list(level.passed_by(first))
    if token := first.next_token:
        return found, lambda: level.copied().entries(pages(token))
    return [*found, *level.held_back()], None


class _Level:
    """The names of one level, put in order page by page.

    S3 sorts by the bytes of the key, where ``a`` and ``a/`` may have others between them
    (``a-1``). So an object is held back until the listing has passed its name with a slash.
    """

    def __init__(self, prefix: Prefix) -> None:
        self._prefix = prefix
        self._held: dict[str, Stat] = {}
        self._count = self._characters = 0

    def copied(self) -> _Level:
        """Return another one that has seen the same pages."""
        level = _Level(self._prefix)
        level._held, level._count = dict(self._held), self._count
        level._characters = self._characters
        return level

    def entries(self, pages: Iterable[ListingPage]) -> Iterator[Entry]:
        """Yield the names of the pages that are left. Raises as `entries`."""
        for page in pages:
            yield from self.passed_by(page)
        yield from self.held_back()

    def passed_by(self, page: ListingPage) -> Iterator[Entry]:
        """Yield the names that the next page has passed. Raises as `entries`."""
        prefix, held = self._prefix, self._held
        below = len(prefix) + 1 if prefix else 0
        self._count += len(page.objects) + len(page.prefixes)
        self._characters += sum(len(found.key) for found in page.objects)
        self._characters += sum(map(len, page.prefixes))
        if self._count > NAMES_MAX:
            raise StoreError(f"{prefix}: over {NAMES_MAX} names, which are not listed")
        if self._characters > NAMES_CHARACTERS_MAX:
            raise StoreError(
                f"{prefix}: names of over {NAMES_CHARACTERS_MAX} characters, which are not listed"
            )
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

    def held_back(self) -> Iterator[Entry]:
        """Yield the names that no page has passed, when there are no more."""
        return (Entry(name, stat, is_prefix=False) for name, stat in self._held.items())


def _passed(held: dict[str, Stat], prefix: Prefix, place: bytes) -> Iterator[Entry]:
    """Yield the names that need not be held any more; each held name begins with the one before."""
    while held:
        name = next(reversed(held))
        if _order(f"{join(prefix, name)}/") >= place:
            return
        yield Entry(name, held.pop(name), is_prefix=False)


def _order(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")
