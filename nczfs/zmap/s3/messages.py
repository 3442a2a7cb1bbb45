"""Requests to an S3 server, and its answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from nczfs.buffers import Buffer
from nczfs.plaindata import frozen
from nczfs.zmap.ranges import answer_bytes_max
from nczfs.zmap.s3.documents import read_document
from nczfs.zmap.web.bodies import WantedBytes
from nczfs.zmap.web.exchange import ServerAnswer as WebAnswer

ANSWER_BYTES_MAX: Final = 4 << 20
"""The longest document: a page of a thousand quoted keys of 1,024 bytes fits."""

_REGION = re.compile(r"[A-Za-z0-9._-]{1,63}")


@frozen
class S3Request:
    """A request for a key, or for the bucket itself (key "").

    Attributes
    ----------
    start, stop : the requested bytes of the object.
    limit : the longest accepted body; None: the length of that range, or of a document.
    """

    method: str
    key: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Buffer = b""
    start: int = 0
    stop: int | None = None
    limit: int | None = None

    @property
    def wanted(self) -> WantedBytes:
        """The accepted part of the body of the answer."""
        limit = self.limit
        if limit is None and self.method != "GET":
            limit = ANSWER_BYTES_MAX
        elif limit is None:
            limit = answer_bytes_max(self.start, self.stop)
        return WantedBytes(limit, self.start, self.stop)


@frozen
class Call:
    """A request that boto3 makes, and whose answer it parses.

    Attributes
    ----------
    operation : in boto3's words: ``copy_object``.
    key : of the object, "" for the bucket.
    parameters : for boto3, besides bucket and key.
    headers : that boto3 does not know, or not in this form.
    body : of a part.
    work_s : extra time that the server may take before it answers.
    """

    operation: str
    key: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Buffer | None = None
    work_s: float = 0.0


@frozen
class S3Answer:
    """An answer of the server.

    Attributes
    ----------
    body : the requested part; for a refusal, its beginning.
    size : of the whole body; None if unknown; for 200 that of the object.
    code, message, region, endpoint : of S3's error document; "" without one.
    fields : of the document that answers a `Call`, as parsed by boto3.
    repeated : whether an earlier attempt failed, which may have taken effect.
    """

    status: int
    headers: Mapping[str, str]
    body: Buffer = b""
    size: int | None = None
    code: str = ""
    message: str = ""
    region: str = ""
    endpoint: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    repeated: bool = False

    @property
    def document(self) -> bytes:
        """The body, if it is not the bytes of an object."""
        return bytes(self.body)


def judged(answer: WebAnswer) -> S3Answer:
    """Return an answer with the contents of its error document."""
    status, headers = answer.status, answer.headers
    if status < 300:
        return S3Answer(status, headers, answer.body, answer.size)
    texts: dict[str, str] = {}

    def take(path: tuple[str, ...], text: str) -> None:
        if len(path) == 2:
            texts[path[1]] = text

    try:
        read_document(bytes(answer.body), take)
    except ValueError:
        texts = {}
    return refusal(status, headers, texts, answer.body)


def refusal(
    status: int, headers: Mapping[str, str], texts: Mapping[str, str], body: Buffer = b""
) -> S3Answer:
    """Return an answer that is a refusal.

    Parameters
    ----------
    texts : of its error document, by name.
    """
    region = texts.get("Region", "")
    return S3Answer(
        status,
        headers,
        body,
        code=_printed(texts.get("Code", ""), 80),
        message=_printed(texts.get("Message", "").strip(), 300),
        region=region_in(headers) or (region if _REGION.fullmatch(region) else ""),
        endpoint=_printed(texts.get("Endpoint", ""), 200),
    )


def region_in(headers: Mapping[str, str]) -> str:
    """Return the region that an answer names; "": none."""
    region = headers.get("x-amz-bucket-region", "")
    return region if _REGION.fullmatch(region) else ""


def _printed(text: str, length: int) -> str:
    """Return the beginning of a foreign text, for messages and logs."""
    return "".join(character if character.isprintable() else "?" for character in text[:length])
