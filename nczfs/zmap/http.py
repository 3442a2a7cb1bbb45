"""Files below a URL of a web server as a store that can be read.

`http_transport` sends and repeats requests, `http_listing` reads index pages, `http_names` finds
the names below a prefix; this module turns answers into bytes and errors.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Unpack

from nczfs.buffers import Buffer
from nczfs.errors import (
    AccessDenied,
    Conflict,
    NoSuchObject,
    ReadOnlyStore,
    StoreError,
)
from nczfs.zmap.base import Blob, Entry, Features, Stat, Version, WriteOptions, ZMap
from nczfs.zmap.forbidden import Forbidden
from nczfs.zmap.http_names import NameFinder
from nczfs.zmap.http_transport import HttpRequest, HttpTransport
from nczfs.zmap.keys import MAX_KEY_BYTES, Key, Prefix, join
from nczfs.zmap.registry import DEFAULTS, StoreOptions
from nczfs.zmap.url import StoreUrl
from nczfs.zmap.web.attempts import ATTEMPTS
from nczfs.zmap.web.exchange import ServerAnswer
from nczfs.zmap.web.headers import (
    ANOTHER_RANGE,
    content_range,
    is_strong,
    range_header,
    time_ns,
    version_of,
)

_PLAIN = frozenset({"", "identity"})
# A server may refuse a HEAD, or not understand it, and still answer a GET.
_HEAD_REFUSED = frozenset({400, 403, 405, 406, 501})
_GIVEN = frozenset({200, 206, 416})  # the last one: an empty object has no first byte
_FEATURES = Features(
    writable=False, conditional_writes=False, near=False, lists_sizes=False, lists_all=False
)


class HttpZMap(ZMap):
    """The files below a URL.

    The version of an object is its ETag, or without one its time of modification with its size. A
    ranged read is of one version: it comes from one answer, and sends ``If-Match``. Names come from
    the server's index pages, or without them from consolidated metadata, which
    name groups, arrays and documents but no chunks.

    Parameters
    ----------
    source : the URL. It may contain a user name, a password, and a query for every request.
    options : how to reach it.
    """

    def __init__(self, source: str, options: StoreOptions = DEFAULTS) -> None:
        self._transport = HttpTransport(source, options)
        self._name = self._transport.root_url
        self._ranges = True  # ranges are honoured, as far as is known
        self._forbidden = Forbidden(
            options.forbidden_is_absent, self._name, self._gives, self._hides
        )
        self._names = NameFinder(self, self._transport, self._stat_listed, options.documents)

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return replace(
            _FEATURES, ranges=self._ranges, forbidden_is_absent=self._forbidden.is_absent
        )

    @property
    def silent_s(self) -> float:
        return self._transport.silent_s

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        if stop is not None and stop <= start:
            return self._nothing(key, version)
        # Always a range, because its answer gives the size of the object besides that of the body.
        headers = {"range": range_header(start, stop)}
        if version is not None and is_strong(version):
            headers["if-match"] = version
        answer = self._transport.send(
            HttpRequest("GET", key, headers, start, stop),
            lambda answer: _range_fault(answer, start, stop),
        )
        if answer.status == 416:
            return self._nothing(key, version) if start >= 0 else self._end(key, -start, version)
        self._check(answer, key)
        stat = self._stat(key, answer)
        if version is not None and version != stat.version:
            raise Conflict(f"{self._name}/{key}: replaced since it was opened")
        if answer.status == 200 and (start or (stop is not None and stop < stat.size)):
            self._ranges = False
        return Blob(answer.body, stat.version, stat.size, stat.mtime_ns)

    def write(self, key: Key, data: Buffer, **options: Unpack[WriteOptions]) -> Version:
        raise ReadOnlyStore(f"{self._name}/{key}: stores over HTTP are read-only")

    def delete(self, key: Key, *, version: Version | None = None) -> None:
        raise ReadOnlyStore(f"{self._name}/{key}: stores over HTTP are read-only")

    def stat(self, key: Key) -> Stat:
        return self._asked(key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return self._names.search(prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        waiting = [prefix]
        while waiting:
            at = waiting.pop()
            for entry in self.search(at):
                if entry.stat is not None:
                    yield entry.stat
                key = join(at, entry.name)
                # A link in the server's files may lead back to its own place.
                if entry.is_prefix and len(key.encode("utf-8", "surrogateescape")) < MAX_KEY_BYTES:
                    waiting.append(Prefix(key))

    def close(self) -> None:
        self._transport.close()

    def _stat_listed(self, key: Key) -> Stat:
        """Return the `stat` of one of many objects, without long retries for it alone."""
        return self._asked(key, failures=2)

    def _asked(self, key: Key, *, failures: int = ATTEMPTS) -> Stat:
        answer = self._transport.send(HttpRequest("HEAD", key, failures=failures))
        if answer.status in _HEAD_REFUSED or (answer.status == 200 and answer.size is None):
            answer = self._transport.send(
                HttpRequest("GET", key, {"range": "bytes=0-0"}, 0, 1, failures=failures),
                lambda answer: _range_fault(answer, 0, 1),
            )
            if answer.status == 416:  # the object is empty
                answer = self._transport.send(HttpRequest("GET", key, {}, 0, 1, failures=failures))
        self._check(answer, key)
        return self._stat(key, answer)

    def _end(self, key: Key, size: int, version: Version | None) -> Blob:
        """Read the last bytes of an object from a server that does not count from the end."""
        stat = self.stat(key)
        return self.read(key, max(0, stat.size - size), stat.size, version=version or stat.version)

    def _nothing(self, key: Key, version: Version | None) -> Blob:
        """Answer a range without bytes, which cannot be requested."""
        stat = self.stat(key)
        if version is not None and version != stat.version:
            raise Conflict(f"{self._name}/{key}: replaced since it was opened")
        return Blob(b"", stat.version, stat.size, stat.mtime_ns)

    def _check(self, answer: ServerAnswer, key: Key) -> None:
        """Raise unless the answer is the object, or a part of it, as it is stored."""
        where = self._transport.where(key)
        match answer.status:
            case 200 | 206:
                encoding = answer.headers.get("content-encoding", "").strip().lower()
                if encoding not in _PLAIN:
                    raise StoreError(
                        f"{where}: the server sends it encoded ({encoding[:20]}), although nczfs "
                        "asked for the plain bytes; switch compression off for this path"
                    )
                self._forbidden.note_read(key)
            case 301 | 302 | 303 | 307 | 308 | 404 | 410:  # redirected: to a directory
                raise NoSuchObject(f"{where}: no such object")
            case 403 if self._forbidden.means_absent(key):
                raise NoSuchObject(
                    f"{where}: no such object, or access denied: the answer is 403 in both cases"
                )
            case 401 | 403 | 407:
                hint = self._forbidden.hint if answer.status == 403 else ""
                raise AccessDenied(
                    f"{where}: access denied ({answer.status}); {self._remedy()}{hint}"
                )
            case 412:
                raise Conflict(f"{where}: replaced since it was opened")
            case status:
                raise StoreError(f"{where}: the server answers {status}")

    def _remedy(self) -> str:
        if hint := self._transport.s3_hint:
            return hint
        if self._transport.has_credentials:
            return "check user and password, and the token if the URL has one"
        return (
            "check the token if the URL has one, or give user and password in ~/.netrc, or as "
            "https://USER:PASSWORD@HOST/…"
        )

    def _stat(self, key: Key, answer: ServerAnswer) -> Stat:
        found = content_range(answer.headers) if answer.status == 206 else None
        size = found.size if found is not None else answer.size
        if size is None:
            raise StoreError(
                f"{self._name}/{key}: the server does not say how long it is (no valid "
                "Content-Length)"
            )
        mtime_ns = time_ns(answer.headers.get("last-modified", ""))
        version = version_of(answer.headers.get("etag", ""), mtime_ns, size)
        return Stat(key, size, version, mtime_ns)

    def _gives(self, key: Key) -> bool:
        return self._first_byte(key) in _GIVEN

    def _hides(self, key: Key) -> bool:
        nobody = join(key.rpartition("/")[0], secrets.token_hex(16))
        return self._first_byte(nobody) == 403

    def _first_byte(self, key: Key) -> int:
        """Return the status of a GET, because servers that refuse all HEADs are not rare."""
        return self._transport.send(HttpRequest("GET", key, {"range": "bytes=0-0"}, 0, 1)).status


def open_http(url: StoreUrl, options: StoreOptions) -> ZMap:
    """Return the map rooted at an ``http`` URL."""
    return HttpZMap(url.source, options)


def _range_fault(answer: ServerAnswer, start: int, stop: int | None) -> str:
    """Return what is wrong with the answer to a ranged read; "": nothing."""
    if answer.status == 200:
        return "" if answer.size is not None else "the answer has no Content-Length"
    if answer.status != 206:
        return ""
    found = content_range(answer.headers)
    return ANOTHER_RANGE if found is None else found.fault(len(answer.body), start, stop)
