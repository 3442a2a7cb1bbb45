"""Answers of S3: what they lack, what they say about an object, and the errors of refusals."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import md5
from typing import Final

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
from nczfs.zmap.s3.messages import S3Answer
from nczfs.zmap.s3.times import time_in
from nczfs.zmap.web.headers import ANOTHER_RANGE, content_range, etag_in, time_ns, version_of

REFUSALS = frozenset({"AccessDenied", "AllAccessDisabled", "Forbidden", ""})
"""Codes of 403 that give no reason."""

DOCUMENT_HEAD_BYTES: Final = 1024  # the beginning, in which a document names itself

_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_KMS = "aws:kms"
_OWN_KEY = "x-amz-server-side-encryption-customer-algorithm"


def stat_of(key: Key, answer: S3Answer) -> Stat:
    """Return what the answer to a HEAD or GET says about the object."""
    headers = answer.headers
    found = content_range(headers) if answer.status == 206 else None
    size = found.size if found is not None else answer.size
    assert size is not None  # see `header_fault`
    mtime_ns = time_ns(headers.get("last-modified", ""))
    version = version_of(headers.get("etag", ""), mtime_ns, size)
    return Stat(key, size, version, mtime_ns, time_in(headers))


def range_fault(start: int, stop: int | None, md5_bytes_max: float) -> Callable[[S3Answer], str]:
    """Return a function that finds what is wrong with the answer to a ranged read; "": nothing.

    Parameters
    ----------
    md5_bytes_max : the MD5 of whole objects up to this size is compared with the ETag.
    """

    def fault(answer: S3Answer) -> str:
        if answer.status not in {200, 206}:
            return ""
        size = answer.size
        if answer.status == 206:
            found = content_range(answer.headers)
            if found is None:
                return ANOTHER_RANGE
            size = found.size
            if reason := found.fault(len(answer.body), start, stop):
                return reason
        reason = header_fault(answer)
        if not reason and len(answer.body) == size and size <= md5_bytes_max:
            return _md5_fault(answer)
        return reason

    return fault


def _md5_fault(answer: S3Answer) -> str:
    """Compare the MD5: the ETag of an object that was put whole, unless KMS encrypts it."""
    found = _MD5.fullmatch(answer.headers.get("etag", ""))
    encrypted = answer.headers.get("x-amz-server-side-encryption", "").startswith(_KMS)
    if found is None or encrypted or _OWN_KEY in answer.headers:
        return ""
    if md5(answer.body, usedforsecurity=False).hexdigest() == found[1]:
        return ""
    return (
        "the MD5 of the received bytes differs from the ETag (if the ETags of this server are "
        "not MD5 sums: --check-etag no)"
    )


def header_fault(answer: S3Answer) -> str:
    """Return what the answer to a HEAD lacks."""
    if answer.status >= 300 or answer.size is not None:
        return ""
    return "the answer has no valid Content-Length"


def etag_fault(answer: S3Answer) -> str:
    """Return what the answer to a PUT lacks."""
    if answer.status >= 300 or etag_in(answer.headers.get("etag", "")):
        return ""
    return "the answer has no ETag"


def page_fault(answer: S3Answer) -> str:
    """Return what a page of a listing lacks: its end, or all of it."""
    return _document_fault(answer, "ListBucketResult", "listing", has_end=True)


def call_fault(tag: str, what: str) -> Callable[[S3Answer], str]:
    """Return a function that finds what the answer to a call lacks, as parsed by boto3.

    Parameters
    ----------
    tag : of the expected document. boto3 finds no fields in another one.
    """
    return lambda answer: _document_fault(answer, tag, what, has_end=False)


def _document_fault(answer: S3Answer, tag: str, what: str, *, has_end: bool) -> str:
    document = answer.document
    if answer.status != 200 or (
        f"<{tag}".encode() in document[:DOCUMENT_HEAD_BYTES]
        and (not has_end or document.rstrip().endswith(f"{tag}>".encode()))
    ):
        return ""
    return f"the answer is not a {what} of S3"


def made_version(answer: S3Answer, *document: str) -> Version | None:
    """Return the version of a new object; None if the server does not say, as Ceph for an upload.

    Parameters
    ----------
    document : the part of the answer with its ETag.
    """
    fields = answer.fields
    for name in document:
        fields = fields.get(name) or {}
    etag = etag_in(fields.get("ETag") or "")
    return Version(etag) if etag else None


def failure(answer: S3Answer, where: str, *, anonymous: bool, hint: str = "") -> StoreError:
    """Return the error that an answer means, other than the absence of an object.

    Parameters
    ----------
    hint : a remedy if access is denied.
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
        case 301 | 302 | 307 | 308:
            place = f", at {answer.endpoint}" if answer.endpoint else ""
            return StoreError(
                f"{where}: the bucket is in another region{place} ({answer.status} {said}); name "
                "it by --region, or its server by --endpoint-url"
            )
        case 412:
            return Conflict(f"{where}: replaced since it was opened")
        case 413:
            return ObjectTooLarge(f"{where}: too large for this store ({said})")
        case 507:
            return NoSpace(f"{where}: the store is full ({said})")
    return StoreError(f"{where}: the server answers {answer.status} ({said})")
