"""What is sent to an S3 server, and what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.etree import ElementTree

from nczfs.zmap.base import READ_BYTES_MAX, Buffer
from nczfs.zmap.web.bodies import Wanted
from nczfs.zmap.web.exchange import Answer as WebAnswer

ANSWER_BYTES_MAX: Final = 4 << 20
"""Of a document: a page of a thousand keys of 1,024 bytes, each quoted, fits."""

_REGION = re.compile(r"[A-Za-z0-9._-]{1,63}")


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a key, or for the bucket itself (key "").

    Attributes
    ----------
    start, stop : the bytes of the object that are wanted.
    limit : a longer body is an error; None: as long as that range, or as a document may be.
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
    def wanted(self) -> Wanted:
        """What is taken of the body of the answer."""
        limit = self.limit
        if limit is None and self.method != "GET":
            limit = ANSWER_BYTES_MAX
        elif limit is None:
            limit = READ_BYTES_MAX if self.stop is None else self.stop - self.start
        return Wanted(limit, self.start, self.stop)


@dataclass(frozen=True, slots=True)
class Call:
    """A request that boto3 makes, and whose answer it reads.

    Attributes
    ----------
    operation : as boto3 calls it: ``copy_object``.
    key : that it is about, "" for the bucket.
    parameters : as boto3 takes them, besides bucket and key.
    headers : that boto3 does not know, or not in this form.
    body : that is sent, of a part.
    work_s : time that the server may take before it answers, above that of other requests.
    """

    operation: str
    key: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Buffer | None = None
    work_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said.

    Attributes
    ----------
    body : what was wanted of it; of a refusal, its beginning.
    size : of the whole body, None where it is not known; for 200 that of the object.
    code, message, region, endpoint : of S3's error document; "" without one.
    fields : of the document that answers a `Call`, as boto3 gives them.
    repeated : an attempt before this one failed, and may have taken effect.
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
        """The body, where it is not the bytes of an object."""
        return bytes(self.body)


def judged(answer: WebAnswer) -> Answer:
    """An answer, with what its error document says."""
    status, headers = answer.status, answer.headers
    if status < 300:
        return Answer(status, headers, answer.body, answer.size)
    try:
        texts = {
            element.tag.rpartition("}")[2]: element.text or ""
            for element in (ElementTree.fromstring(bytes(answer.body)) if answer.body else ())
        }
    except ElementTree.ParseError:
        texts = {}
    return refusal(status, headers, texts, answer.body)


def refusal(
    status: int, headers: Mapping[str, str], texts: Mapping[str, str], body: Buffer = b""
) -> Answer:
    """An answer that is a refusal.

    Parameters
    ----------
    texts : of its error document, by their names.
    """
    region = texts.get("Region", "")
    return Answer(
        status,
        headers,
        body,
        code=_printed(texts.get("Code", ""), 80),
        message=_printed(texts.get("Message", "").strip(), 300),
        region=region_in(headers) or (region if _REGION.fullmatch(region) else ""),
        endpoint=_printed(texts.get("Endpoint", ""), 200),
    )


def region_in(headers: Mapping[str, str]) -> str:
    """The region that an answer names; "" where it names none."""
    region = headers.get("x-amz-bucket-region", "")
    return region if _REGION.fullmatch(region) else ""


def _printed(text: str, length: int) -> str:
    """The beginning of a text from anybody, for messages and logs."""
    return "".join(character if character.isprintable() else "?" for character in text[:length])
