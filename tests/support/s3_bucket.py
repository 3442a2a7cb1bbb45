"""A bucket of S3 in memory, with the manners of one server or another."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.support.s3_script import fault
from tests.support.scripted import Asked, Reply


@dataclass
class Bucket:
    """A bucket in memory, with the manners of a server.

    Attributes
    ----------
    if_match : what an If-Match may look like: "quoted", "unquoted", "ignored" or "501".
    if_none_match : whether it is honoured.
    copies_if, ends_if : whether copies, and the ends of uploads, keep conditions as PUTs do.
    deletes_if : what a DELETE makes of If-Match: "honoured", "ignored" or "501".
    source_header : that says which version is to be copied; "" where none is looked at.
    before : may answer instead.
    after : may put another answer in the place of one.
    """

    if_match: str = "quoted"
    if_none_match: bool = True
    copies_if: bool = True
    ends_if: bool = True
    deletes_if: str = "honoured"
    source_header: str = "x-amz-copy-source-if-match"
    before: Callable[[Asked], Reply | None] = lambda asked: None
    after: Callable[[Asked, Reply], Reply] = lambda asked, reply: reply
    objects: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        reply = self.before(asked)
        if reply is not None:
            return reply
        with self.lock:
            return self.after(asked, self.answer(asked))

    def answer(self, asked: Asked) -> Reply:
        parts = urlsplit(asked.path)
        key = unquote(parts.path).removeprefix("/bucket").removeprefix("/")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        match asked.method:
            case "POST" if "delete" in query:
                for name in re.findall(rb"<Key>(.*?)</Key>", asked.body):
                    self.objects.pop(name.decode(), None)
                return Reply(200, b"<DeleteResult/>")
            case "POST" if "uploads" in query:
                name = f"upload-{len(self.uploads)}"
                self.uploads[name] = {}
                self.meta = _meta(asked)
                return _document("InitiateMultipartUpload", f"<UploadId>{name}</UploadId>")
            case "POST" | "PUT" | "DELETE" if query.get("uploadId", "") not in {"", *self.uploads}:
                return fault(404, "NoSuchUpload")
            case "POST" if self.ends_if and (refusal := self.refusal(asked, key)):
                return refusal
            case "POST":
                stored = self.uploads.pop(query["uploadId"])
                body = b"".join(stored[number] for number in sorted(stored))
                self.objects[key] = (body, self.meta)
                return _document("CompleteMultipartUpload", "<ETag></ETag>")
            case "PUT" if "x-amz-copy-source" in asked.headers:
                return self.copy(asked, key, query)
            case "PUT" if "uploadId" in query:
                self.uploads[query["uploadId"]][int(query["partNumber"])] = asked.body
                return Reply(200, headers={"ETag": _etag(asked.body)})
            case "DELETE" if "uploadId" in query:
                del self.uploads[query["uploadId"]]
                return Reply(204)
            case "PUT":
                return self.refusal(asked, key) or self.put(asked, key)
            case "DELETE" if self.deletes_if == "501" and "if-match" in asked.headers:
                return fault(501, "NotImplemented")
            case "DELETE" if self.deletes_if == "honoured" and (ref := self.refusal(asked, key)):
                return ref
            case "DELETE":
                self.objects.pop(key, None)
                return Reply(204)
            case "GET" if "list-type" in query:
                return self.listing(query.get("prefix", ""), query.get("delimiter", ""))
        if key not in self.objects:
            return fault(404, "NoSuchKey")
        body, meta = self.objects[key]
        return Reply(200, body, {"ETag": _etag(body), **meta})

    def put(self, asked: Asked, key: str) -> Reply:
        self.objects[key] = (asked.body, _meta(asked))
        return Reply(200, headers={"ETag": _etag(asked.body)})

    def copy(self, asked: Asked, key: str, query: dict[str, str]) -> Reply:
        source = unquote(asked.headers["x-amz-copy-source"]).removeprefix("bucket/")
        if source not in self.objects:
            return fault(404, "NoSuchKey")
        body, meta = self.objects[source]
        wanted = asked.headers.get(self.source_header, "").strip('"')
        if wanted not in {"", _etag(body).strip('"')}:
            return fault(412, "PreconditionFailed")
        if "uploadId" in query:
            first, last = asked.headers["x-amz-copy-source-range"].removeprefix("bytes=").split("-")
            part = body[int(first) : int(last) + 1]
            self.uploads[query["uploadId"]][int(query["partNumber"])] = part
            return _document("CopyPart", f"<ETag>{escape(_etag(part))}</ETag>")
        if self.copies_if and (refusal := self.refusal(asked, key)):
            return refusal
        replaced = asked.headers.get("x-amz-metadata-directive") == "REPLACE"
        self.objects[key] = (body, _meta(asked) if replaced else meta)
        return _document("CopyObject", f"<ETag>{escape(_etag(body))}</ETag>")

    def refusal(self, asked: Asked, key: str) -> Reply | None:
        current = _etag(self.objects[key][0]) if key in self.objects else None
        if self.if_none_match and "if-none-match" in asked.headers and current is not None:
            return fault(412, "PreconditionFailed")
        wanted = asked.headers.get("if-match")
        if wanted is None or self.if_match == "ignored":
            return None
        if self.if_match == "501":
            return fault(501, "NotImplemented")
        if current is None:
            return fault(404, "NoSuchKey")
        form = current if self.if_match == "quoted" else current.strip('"')
        return None if wanted == form else fault(412, "PreconditionFailed")

    def listing(self, prefix: str, delimiter: str) -> Reply:
        found, prefixes = "", set()
        for key, (body, _) in sorted(self.objects.items()):
            if not key.startswith(prefix):
                continue
            name, *below = key[len(prefix) :].split(delimiter, 1) if delimiter else [key]
            if below:
                prefixes.add(f"{prefix}{name}{delimiter}")
                continue
            found += (
                f"<Contents><Key>{key}</Key><Size>{len(body)}</Size><ETag>&quot;e&quot;</ETag>"
                "<LastModified>2026-01-02T03:04:05Z</LastModified></Contents>"
            )
        for name in sorted(prefixes):
            found += f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"
        return _document("ListBucket", found)


def _document(what: str, inner: str) -> Reply:
    return Reply(200, f"<{what}Result>{inner}</{what}Result>".encode())


def _etag(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def _meta(asked: Asked) -> dict[str, str]:
    return {
        name: text
        for name, text in asked.headers.items()
        if name.startswith("x-amz-meta-") or name == "content-type"
    }
