"""Uploads in parts: for objects that are too large to be sent again as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from xml.sax.saxutils import escape

from nczfs.errors import StoreError
from nczfs.zmap.base import Buffer
from nczfs.zmap.keys import Key
from nczfs.zmap.s3.answers import (
    document_fault,
    etag_fault,
    failure,
    text_of,
)
from nczfs.zmap.s3.transport import Answer, Request, Transport

PARTS_AT_ONCE = 4  # fills a line that is far, and leaves connections to others
COMPLETE_S = 60.0  # "may take several minutes" to put parts together; servers take a second


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

    def make_parts(self, makes: Sequence[Callable[[Upload, int], str]]) -> list[str]:
        """Make all parts, several at once; gives their ETags.

        The first failure ends it: parts under way come to their end, the others are not made.

        Parameters
        ----------
        makes : the functions that make the parts, from this and the number of a part.
        """
        with ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="nczfs-parts") as pool:
            parts = [pool.submit(make, self, number) for number, make in enumerate(makes, 1)]
            try:
                return [part.result() for part in parts]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def send_part(self, number: int, data: Buffer) -> str:
        """Send a part; gives its ETag."""
        answer = self._make_part(number, {}, data, etag_fault)
        return answer.headers["etag"]

    def copy_part(self, number: int, headers: Mapping[str, str], work_s: float) -> str:
        """Have the server copy a part, of what the headers say; gives its ETag."""
        answer = self._make_part(
            number,
            headers,
            b"",
            lambda answer: document_fault(answer, "CopyPartResult", "copied part"),
            work_s,
        )
        return text_of(answer, "ETag")

    def complete(self, etags: Sequence[str], condition: Mapping[str, str]) -> Answer:
        """Make the parts an object. The answer may be 404, after an attempt that was not seen."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(etag)}</ETag></Part>"
            for number, etag in enumerate(etags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        request = Request(
            "POST",
            self.key,
            {"content-type": "application/xml", **condition},
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

    def _make_part(
        self,
        number: int,
        headers: Mapping[str, str],
        data: Buffer,
        fault: Callable[[Answer], str],
        work_s: float = 0.0,
    ) -> Answer:
        query = {"partNumber": str(number), "uploadId": self.upload_id}
        request = Request("PUT", self.key, headers, query, data, work_s=work_s)
        answer = self.transport.send(request, fault)
        if answer.status != 200:
            raise failure(answer, self.where, anonymous=self.transport.anonymous)
        return answer


def begin(transport: Transport, key: Key, headers: Mapping[str, str]) -> Upload:
    """Begin an upload of an object with these headers."""
    answer = transport.send(
        Request("POST", key, headers, {"uploads": ""}),
        lambda answer: document_fault(answer, "InitiateMultipartUploadResult", "begun upload"),
    )
    if answer.status != 200:
        raise failure(answer, f"{transport.name}/{key}", anonymous=transport.anonymous)
    upload_id = text_of(answer, "UploadId")
    if not upload_id:
        raise StoreError(f"{transport.name}/{key}: the server began an upload without an id")
    return Upload(transport, key, upload_id)
