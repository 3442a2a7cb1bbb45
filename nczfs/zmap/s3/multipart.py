"""Uploads in parts: for objects that are too large to be sent again as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from nczfs.errors import StoreError
from nczfs.zmap.base import Buffer, Version
from nczfs.zmap.keys import Key
from nczfs.zmap.s3.answers import document_fault, etag_fault, failure, version_of
from nczfs.zmap.s3.transport import Answer, Request, Transport

PART_BYTES_MIN = 5 << 20  # of S3, but for the last part
PARTS_MAX = 10_000
PARTS_AT_ONCE = 4  # fills a line that is far, and leaves connections to others
COMPLETE_S = 60.0  # "may take several minutes" to put parts together; servers take a second

_MIB = 1 << 20


def part_bytes(size: int, wanted: int) -> int:
    """The size of all parts but the last of an upload of `size` bytes.

    As wanted, and in whole MiB more where that would be over 10,000 parts.
    """
    least = -(-size // PARTS_MAX)
    return max(wanted, -(-least // _MIB) * _MIB)


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload that was begun, and is to be completed or aborted."""

    transport: Transport
    key: Key
    upload_id: str

    @property
    def where(self) -> str:
        """The object, for messages."""
        return f"{self.transport.name}/{self.key}"

    def send_parts(self, data: Buffer, size: int) -> list[str]:
        """Send the data in parts, several at once; gives their ETags.

        The first failure ends it: parts under way come to their end, the others are not sent.
        """
        view = memoryview(data)
        starts = range(0, len(data), size)
        with ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="nczfs-parts") as pool:
            parts = [
                pool.submit(self._send_part, number, view[start : start + size])
                for number, start in enumerate(starts, 1)
            ]
            try:
                return [part.result() for part in parts]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def complete(self, etags: list[str]) -> Answer:
        """Make the parts an object. The answer may be 404, after an attempt that was not seen."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
            for number, etag in enumerate(etags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        request = Request(
            "POST",
            self.key,
            {"content-type": "application/xml"},
            {"uploadId": self.upload_id},
            body,
            work_s=COMPLETE_S,
        )
        # Amazon sends 200 before it knows: an error is then the body.
        return self.transport.send(
            request,
            lambda answer: document_fault(
                answer, "CompleteMultipartUploadResult", "completed upload"
            ),
        )

    def abort(self) -> None:
        """Give the parts back. An upload that is gone is no error."""
        answer = self.transport.send(
            Request("DELETE", self.key, query={"uploadId": self.upload_id})
        )
        if answer.status not in {200, 204, 404}:
            raise failure(answer, self.where, anonymous=self.transport.anonymous)

    def _send_part(self, number: int, data: memoryview) -> str:
        query = {"partNumber": str(number), "uploadId": self.upload_id}
        answer = self.transport.send(Request("PUT", self.key, query=query, body=data), etag_fault)
        if answer.status != 200:
            raise failure(answer, self.where, anonymous=self.transport.anonymous)
        return answer.headers["etag"]


def begin(transport: Transport, key: Key, headers: Mapping[str, str]) -> Upload:
    """Begin an upload of an object with these headers."""
    answer = transport.send(
        Request("POST", key, headers, {"uploads": ""}),
        lambda answer: document_fault(answer, "InitiateMultipartUploadResult", "begun upload"),
    )
    if answer.status != 200:
        raise failure(answer, f"{transport.name}/{key}", anonymous=transport.anonymous)
    upload_id = _text_of(answer, "UploadId")
    if not upload_id:
        raise StoreError(f"{transport.name}/{key}: the server began an upload without an id")
    return Upload(transport, key, upload_id)


def completed_version(answer: Answer) -> Version | None:
    """The version that a completed upload has; Ceph does not say it."""
    etag = _text_of(answer, "ETag").strip('"')
    return version_of(etag) if etag else None


def _text_of(answer: Answer, tag: str) -> str:
    """A text of the document that was answered; "" where there is none."""
    with contextlib.suppress(ElementTree.ParseError):
        return ElementTree.fromstring(answer.body).findtext(f"{{*}}{tag}") or ""
    return ""
