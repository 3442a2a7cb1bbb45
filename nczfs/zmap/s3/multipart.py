"""Uploads in parts, for objects that are too large to be sent again as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from nczfs.buffers import Buffer
from nczfs.errors import StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.keys import Key
from nczfs.zmap.s3.answers import (
    call_fault,
    etag_fault,
    failure,
    made_version,
)
from nczfs.zmap.s3.messages import Call, S3Answer
from nczfs.zmap.s3.transport import S3Transport

PARTS_AT_ONCE = 4  # enough for a distant line, and leaves connections to others
NO_HEADERS: Final[Mapping[str, str]] = {}
COMPLETE_S = 60.0  # joining parts "may take several minutes"; servers take a second


@frozen
class Upload:
    """An upload that has begun, and is to be completed or aborted."""

    transport: S3Transport
    key: Key
    upload_id: str

    @property
    def where(self) -> str:
        """The object, for messages."""
        return f"{self.transport.name}/{self.key}"

    def make_parts(self, makes: Sequence[Callable[[Upload, int], str]]) -> list[str]:
        """Make all parts, several at once. Returns their ETags.

        The first failure ends it: parts under way are finished, others are not begun.

        Parameters
        ----------
        makes : functions that make a part from this upload and the number of the part.
        """
        with ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="nczfs-parts") as pool:
            parts = [pool.submit(make, self, number) for number, make in enumerate(makes, 1)]
            try:
                return [part.result() for part in parts]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def send_part(self, number: int, data: Buffer) -> str:
        """Send a part. Returns its ETag."""
        answer = self._made("upload_part", {"PartNumber": number}, etag_fault, body=data)
        return answer.headers["etag"]

    def copy_part(
        self, number: int, source: Mapping[str, Any], headers: Mapping[str, str], work_s: float
    ) -> str:
        """Let the server copy a part. Returns its ETag.

        Parameters
        ----------
        source : of the copy, as boto3 takes it.
        headers : that select its version.
        """
        answer = self._made(
            "upload_part_copy",
            {"PartNumber": number, **source},
            _copy_fault,
            headers=headers,
            work_s=work_s,
        )
        return str(answer.fields["CopyPartResult"]["ETag"])

    def complete(self, etags: Sequence[str], condition: Mapping[str, str]) -> S3Answer:
        """Join the parts to an object. The answer may be 404 after an attempt without an answer."""
        parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        call = Call(
            "complete_multipart_upload",
            self.key,
            {"UploadId": self.upload_id, "MultipartUpload": {"Parts": parts}},
            condition,
            work_s=COMPLETE_S,
        )
        return self.transport.call(
            call, call_fault("CompleteMultipartUploadResult", "completed upload")
        )

    def abort(self) -> None:
        """Release the parts. An upload that is gone is no error."""
        answer = self.transport.call(
            Call("abort_multipart_upload", self.key, {"UploadId": self.upload_id})
        )
        if answer.status not in {200, 204, 404}:
            raise failure(answer, self.where, anonymous=self.transport.anonymous)

    def _made(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        fault: Callable[[S3Answer], str],
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        body: Buffer | None = None,
        work_s: float = 0.0,
    ) -> S3Answer:
        named = {"UploadId": self.upload_id, **parameters}
        answer = self.transport.call(Call(operation, self.key, named, headers, body, work_s), fault)
        if answer.status != 200:
            raise failure(answer, self.where, anonymous=self.transport.anonymous)
        return answer


def begin(transport: S3Transport, key: Key, headers: Mapping[str, str]) -> Upload:
    """Begin an upload of an object with these headers."""
    answer = transport.call(
        Call("create_multipart_upload", key, headers=headers),
        call_fault("InitiateMultipartUploadResult", "begun upload"),
    )
    if answer.status != 200:
        raise failure(answer, transport.where(key), anonymous=transport.anonymous)
    upload_id = answer.fields.get("UploadId")
    if not upload_id:
        raise StoreError(f"{transport.name}/{key}: the server began an upload without an id")
    return Upload(transport, key, upload_id)


def _copy_fault(answer: S3Answer) -> str:
    reason = call_fault("CopyPartResult", "copied part")(answer)
    if reason or answer.status != 200 or made_version(answer, "CopyPartResult") is not None:
        return reason
    return "the copied part has no ETag"
