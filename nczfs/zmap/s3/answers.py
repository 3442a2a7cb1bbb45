"""What an answer of S3 lacks, what it says of an object, and which error a refusal is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import lru_cache
from hashlib import md5
from xml.etree import ElementTree

from nczfs.errors import (
    AccessDenied,
    Conflict,
    KeyTooLong,
    NoContent,
    NoSpace,
    ObjectTooLarge,
    StoreError,
)
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.s3.times import time_in
from nczfs.zmap.s3.transport import Answer

REFUSALS = frozenset({"AccessDenied", "AllAccessDisabled", "Forbidden", ""})
"""Codes of 403 that say no more than "no"."""

_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+)")
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_KMS = "aws:kms"
_OWN_KEY = "x-amz-server-side-encryption-customer-algorithm"


def version_of(etag: str) -> Version:
    """The version that an ETag names; some servers leave its quotes out in listings."""
    return Version(etag if etag[:1] == '"' or etag[:2] == "W/" else f'"{etag}"')


def stat_of(key: Key, headers: Mapping[str, str]) -> Stat:
    """What the headers of a HEAD or GET say of the object."""
    found = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    size = int(found[3]) if found else int(headers["content-length"])
    return Stat(
        key,
        size,
        version_of(headers["etag"]),
        time_ns(headers.get("last-modified", "")),
        time_in(headers),
    )


def range_fault(start: int, stop: int | None, md5_bytes_max: float) -> Callable[[Answer], str]:
    """A function that says what is wrong with the answer to a ranged read; "" where it is whole.

    Parameters
    ----------
    md5_bytes_max : the MD5 of whole objects up to this size is compared with the ETag.
    """

    def fault(answer: Answer) -> str:
        if answer.status not in {200, 206}:
            return ""
        size = len(answer.body)
        if answer.status == 206:
            found = _CONTENT_RANGE.fullmatch(answer.headers.get("content-range", ""))
            if found is None or found[1] is None or int(found[1]) != start:
                return "the server sent another range than asked for"
            size = int(found[3])
            end = size if stop is None else min(stop, size)
            if len(answer.body) != end - start:
                return f"{len(answer.body)} bytes came instead of {end - start}"
        reason = header_fault(answer)
        if not reason and len(answer.body) == size <= md5_bytes_max:
            return _md5_fault(answer)
        return reason

    return fault


def _md5_fault(answer: Answer) -> str:
    """The ETag of an object that was put whole is its MD5, unless KMS encrypts it."""
    found = _MD5.fullmatch(answer.headers["etag"])
    encrypted = answer.headers.get("x-amz-server-side-encryption", "").startswith(_KMS)
    if found is None or encrypted or _OWN_KEY in answer.headers:
        return ""
    if md5(answer.body, usedforsecurity=False).hexdigest() == found[1]:
        return ""
    return (
        "the MD5 of the received bytes differs from the ETag (if the ETags of this server are "
        "not MD5 sums: --check-etag no)"
    )


def header_fault(answer: Answer) -> str:
    """What the answer to a HEAD lacks."""
    if answer.status >= 300:
        return ""
    if "content-length" not in answer.headers:
        return "the answer has no Content-Length"
    return etag_fault(answer)


def etag_fault(answer: Answer) -> str:
    """What the answer to a PUT lacks."""
    return "" if answer.status >= 300 or answer.headers.get("etag") else "the answer has no ETag"


def document_fault(answer: Answer, tag: str, what: str) -> str:
    """What the answer that shall be a document lacks: its end, or all of it."""
    if answer.status != 200 or answer.document.rstrip().endswith(f"{tag}>".encode()):
        return ""
    return f"the answer is not a {what} of S3 (is this the endpoint of an S3 server?)"


def made_version(answer: Answer) -> Version | None:
    """The version that a completed upload has, or a copy; Ceph does not say it of an upload."""
    etag = text_of(answer, "ETag").strip('"')
    return version_of(etag) if etag else None


def text_of(answer: Answer, tag: str) -> str:
    """A text of the document that was answered; "" where there is none."""
    with contextlib.suppress(ElementTree.ParseError):
        return ElementTree.fromstring(answer.document).findtext(f"{{*}}{tag}") or ""
    return ""


def failure(answer: Answer, where: str, *, anonymous: bool, hint: str = "") -> StoreError:
    """The error that an answer means, other than the absence of an object.

    Parameters
    ----------
    hint : what else helps where access is denied.
    """
    said = " ".join(filter(None, (answer.code, answer.message))) or "no reason given"
    match answer.code:
        case "EntityTooLarge":
            return ObjectTooLarge(f"{where}: too large for one request ({said})")
        case "KeyTooLongError":
            return KeyTooLong(f"{where}: the key is too long for this store")
        case "QuotaExceeded":
            return NoSpace(f"{where}: the quota is reached ({said})")
        case "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired" | "RequestExpired":
            return AccessDenied(f"{where}: the credentials have expired ({said}); renew them")
        case "RequestTimeTooSkewed":
            return AccessDenied(f"{where}: access denied ({said}); set the clock of this machine")
    match answer.status:
        case 404:
            return NoContent(f"{where}: no such bucket")
        case 401 | 403:
            remedy = (
                "the bucket is not public: give credentials"
                if anonymous
                else "check the credentials, or --no-sign-request for public buckets"
            )
            return AccessDenied(f"{where}: access denied ({answer.status} {said}); {remedy}{hint}")
        case 412:
            return Conflict(f"{where}: replaced since it was opened")
        case 413:
            return ObjectTooLarge(f"{where}: too large for this store ({said})")
        case 507:
            return NoSpace(f"{where}: the store is full ({said})")
    return StoreError(f"{where}: the server answers {answer.status} ({said})")


@lru_cache(maxsize=1024)  # objects are written in bursts
def time_ns(text: str) -> int | None:
    """Of a time as in a header; None where it is none."""
    try:
        return int(parsedate_to_datetime(text).timestamp()) * 1_000_000_000
    except ValueError:
        return None
