"""An S3 bucket as a store: Amazon's, and every server that speaks its protocol.

`s3_access` finds the bucket and signs (botocore), `s3_transport` sends and repeats (urllib3),
`s3_listing` reads listings; here the answers become bytes and errors.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from email.utils import parsedate_to_datetime
from functools import lru_cache

from nczfs.errors import (
    AccessDenied,
    Conflict,
    KeyTooLong,
    NoContent,
    NoSpace,
    NoSuchObject,
    ObjectExists,
    ObjectTooLarge,
    StoreError,
)
from nczfs.zmap import s3_listing
from nczfs.zmap.base import ABSENT, Blob, Buffer, Entry, Features, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.registry import DEFAULTS, StoreOptions, rooted
from nczfs.zmap.s3_access import Access
from nczfs.zmap.s3_transport import Answer, Request, Transport
from nczfs.zmap.url import StoreUrl

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")
_REFUSALS = frozenset({"AccessDenied", "AllAccessDisabled", "Forbidden", ""})
_ALWAYS: Mapping[str, str] = {}
_FEATURES = Features(conditional_writes=False, near=False)


class _ConditionFailed(Exception):
    """The server refused a write for its condition, or does not know conditions."""


class S3ZMap(ZMap):
    """A whole bucket.

    The version of an object is its ETag. Writes are one PUT and replace atomically; that
    conditions hold against racing writers is not promised, since servers differ.

    Parameters
    ----------
    bucket : its name.
    options : how to reach it.
    """

    def __init__(self, bucket: str, options: StoreOptions = DEFAULTS) -> None:
        self._options = options
        self._access = Access(bucket, options)
        site = self._access.site
        self._name = f"s3://{bucket}" if site.is_amazon else f"{site.endpoint_url}/{bucket}"
        self._transport = Transport(self._access, self._name, options)
        self._conditions = True  # of writes are honoured, as far as we know
        self._forbidden_is_absent: bool | None = {"yes": True, "no": False}.get(
            options.forbidden_is_absent
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def features(self) -> Features:
        return replace(_FEATURES, forbidden_is_absent=bool(self._forbidden_is_absent))

    def read(
        self, key: Key, start: int = 0, stop: int | None = None, *, version: Version | None = None
    ) -> Blob:
        if stop is not None and stop <= start:
            return self._nothing(key, version)
        # Always a range: its answer has the size of the object, so that a body that was cut, with
        # its Content-Length, on the way is seen.
        headers = {"range": f"bytes={start}-{'' if stop is None else stop - 1}"}
        if version is not None:
            headers["if-match"] = version.token
        answer = self._transport.send(
            Request("GET", key, headers), lambda answer: _range_fault(answer, start, stop)
        )
        if answer.status == 416:
            return self._nothing(key, version)
        if answer.status not in {200, 206}:
            raise self._refusal(answer, key)
        stat = _stat(key, answer.headers)
        if version is not None and version != stat.version:
            raise Conflict(f"{self._name}/{key}: replaced since it was opened")
        whole = answer.status == 200 and (start or stop is not None)  # a server without ranges
        data = memoryview(answer.body)[start:stop] if whole else answer.body
        return Blob(data, stat.version, stat.size, stat.mtime_ns)

    def write(self, key: Key, data: Buffer, *, replaces: Version | None = None) -> Version:
        if replaces is None:
            return self._put(key, data)
        if self._conditions:
            try:
                return self._put(key, data, _condition(replaces))
            except _ConditionFailed:
                self._compare(key, replaces)
            # The object is as the condition says: this server does not take conditions as S3 does
            # (Swift: 501 for If-Match; Ceph 16: always 412 for an ETag in quotes).
            self._conditions = False
        self._compare(key, replaces)
        return self._put(key, data)

    def delete(self, key: Key) -> None:
        answer = self._transport.send(Request("DELETE", key))
        if answer.status not in {200, 204}:
            raise self._refusal(answer, key)

    def stat(self, key: Key) -> Stat:
        answer = self._transport.send(Request("HEAD", key), _header_fault)
        if answer.status == 200:
            return _stat(key, answer.headers)
        if answer.status in {400, 403}:
            # The answer to a HEAD has no body that says why: renewed, redirected or refused.
            answer = self._transport.send(
                Request("GET", key, {"range": "bytes=0-0"}), _header_fault
            )
            if answer.status in {200, 206}:
                return _stat(key, answer.headers)
        raise self._refusal(answer, key)

    def search(self, prefix: Prefix) -> Iterator[Entry]:
        return s3_listing.entries(self._pages(prefix, one_level=True), prefix)

    def list(self, prefix: Prefix) -> Iterator[Stat]:
        return s3_listing.stats(self._pages(prefix, one_level=False))

    def close(self) -> None:
        self._transport.close()

    def _put(self, key: Key, data: Buffer, condition: Mapping[str, str] = _ALWAYS) -> Version:
        answer = self._transport.send(Request("PUT", key, condition, body=data), _etag_fault)
        if answer.status == 200:
            return _version(answer.headers)
        if condition and (answer.status in {412, 501} or answer.code == "NoSuchKey"):
            raise _ConditionFailed
        raise self._refusal(answer, key)

    def _compare(self, key: Key, replaces: Version) -> None:
        """Raise unless the object is the version named, or none where that is `ABSENT`."""
        try:
            current = self.stat(key).version
        except NoSuchObject:
            current = ABSENT
        if replaces == ABSENT != current:
            raise ObjectExists(f"{self._name}/{key}: exists already")
        if replaces != current:
            raise Conflict(f"{self._name}/{key}: replaced by somebody else")

    def _pages(self, prefix: Prefix, *, one_level: bool) -> Iterator[s3_listing.Page]:
        where = f"{self._name}/{prefix}" if prefix else self._name
        token = ""
        while True:
            query = s3_listing.question(prefix, token, one_level=one_level)
            answer = self._transport.send(Request("GET", "", query=query), _listing_fault)
            if answer.status != 200:
                raise self._failure(answer, where)
            page = s3_listing.parse_page(answer.body, where)
            yield page
            if page.next_token in {"", token}:
                return
            token = page.next_token

    def _nothing(self, key: Key, version: Version | None) -> Blob:
        """A range without bytes, for which S3 has no answer."""
        stat = self.stat(key)
        if version is not None and version != stat.version:
            raise Conflict(f"{self._name}/{key}: replaced since it was opened")
        return Blob(b"", stat.version, stat.size, stat.mtime_ns)

    def _refusal(self, answer: Answer, key: Key) -> StoreError:
        where = f"{self._name}/{key}"
        if answer.status == 404 and answer.code != "NoSuchBucket":
            return NoSuchObject(f"{where}: no such object")
        if answer.status == 403 and answer.code in _REFUSALS and self._means_absent(key):
            return NoSuchObject(
                f"{where}: no such object (or forbidden: the answer is 403 to both)"
            )
        return self._failure(answer, where)

    def _failure(self, answer: Answer, where: str) -> StoreError:
        said = " ".join(filter(None, (answer.code, answer.message))) or "no reason given"
        match answer.status:
            case 404:
                return NoContent(f"{where}: no such bucket")
            case 401 | 403:
                remedy = (
                    "the bucket is not public: give credentials"
                    if self._access.anonymous
                    else "check the credentials, or --no-sign-request for public buckets"
                )
                return AccessDenied(f"{where}: access denied ({said}); {remedy}")
            case 412:
                return Conflict(f"{where}: replaced since it was opened")
            case 413:
                return ObjectTooLarge(f"{where}: too large for this store ({said})")
            case 507:
                return NoSpace(f"{where}: the store is full ({said})")
        match answer.code:
            case "EntityTooLarge":
                return ObjectTooLarge(f"{where}: too large for one request ({said})")
            case "KeyTooLongError":
                return KeyTooLong(f"{where}: the key is too long for this store")
            case "QuotaExceeded":
                return NoSpace(f"{where}: the quota is reached ({said})")
            case "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" | "RequestExpired":
                return AccessDenied(f"{where}: the credentials have expired ({said}); renew them")
        return StoreError(f"{where}: the server answers {answer.status} ({said})")

    def _means_absent(self, key: Key) -> bool:
        """Whether the 403 for a key may be the answer to a key that does not exist.

        S3 says 404 only to those who may list. So a key that cannot exist is asked for beside it,
        and a listing: only if both are forbidden can 403 mean absent.
        """
        if self._forbidden_is_absent is None:
            folder = key.rpartition("/")[0]
            nobody = f"{folder}/{secrets.token_hex(16)}" if folder else secrets.token_hex(16)
            probe = self._transport.send(Request("GET", nobody))
            query = s3_listing.question(Prefix(folder), "", one_level=True) | {"max-keys": "1"}
            self._forbidden_is_absent = (
                probe.status == 403
                and probe.code in _REFUSALS
                and self._transport.send(Request("GET", "", query=query)).status == 403
            )
        return self._forbidden_is_absent


def open_s3(url: StoreUrl, options: StoreOptions) -> ZMap:
    """The map rooted at an ``s3`` URL; what the URL says goes before the options."""
    merged = replace(
        options,
        endpoint_url=url.endpoint_url or options.endpoint_url,
        region=url.region or options.region,
        profile=url.profile or options.profile,
        no_sign_request=url.anonymous or options.no_sign_request,
    )
    return rooted(S3ZMap(url.bucket, merged), url.prefix)


def _condition(replaces: Version) -> dict[str, str]:
    return {"if-none-match": "*"} if replaces == ABSENT else {"if-match": replaces.token}


def _range_fault(answer: Answer, start: int, stop: int | None) -> str:
    """What is wrong with the answer to a ranged read; "" where it is whole."""
    if answer.status not in {200, 206}:
        return ""
    if answer.status == 206:
        found = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
        if found is None or found[1] is None or int(found[1]) != start:
            return "the server sent another range than asked for"
        end = int(found[3]) if stop is None else min(stop, int(found[3]))
        if len(answer.body) != end - start:
            return f"{len(answer.body)} bytes came instead of {end - start}"
    return _header_fault(answer)


def _header_fault(answer: Answer) -> str:
    if answer.status >= 300:
        return ""
    if "content-length" not in answer.headers:
        return "the answer has no Content-Length"
    return _etag_fault(answer)


def _etag_fault(answer: Answer) -> str:
    return "" if answer.status >= 300 or answer.headers.get("etag") else "the answer has no ETag"


def _listing_fault(answer: Answer) -> str:
    if answer.status != 200 or answer.body.rstrip().endswith(b"ListBucketResult>"):
        return ""
    return "the answer is no listing of S3 (is this the endpoint of an S3 server?)"


def _stat(key: Key, headers: Mapping[str, str]) -> Stat:
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    size = int(found[3]) if found else int(headers["content-length"])
    return Stat(key, size, _version(headers), _time_ns(headers.get("last-modified", "")))


def _version(headers: Mapping[str, str]) -> Version:
    return s3_listing.version_of(headers["etag"])


@lru_cache(maxsize=1024)  # objects are written in bursts
def _time_ns(text: str) -> int:
    try:
        return int(parsedate_to_datetime(text).timestamp()) * 1_000_000_000
    except ValueError:
        return 0
