"""The rare requests, which boto3 makes and parses: uploads in parts, copies, batch deletions.

boto3 builds a request, signs it, and parses the answer. nczfs sends it (`web.exchange`): over the
connections of all other requests, with their deadline and limits of bytes. boto3's own retries are
switched off.

This module is imported on first use: loading boto3 and making a client takes 0.1 s.
"""

from __future__ import annotations

import io
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import md5
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import boto3
from botocore import UNSIGNED
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.session import Session

from nczfs.buffers import Buffer
from nczfs.errors import StoreError
from nczfs.zmap.s3.documents import Excessive, check_document
from nczfs.zmap.s3.messages import ANSWER_BYTES_MAX, Call, S3Answer, refusal
from nczfs.zmap.web.bodies import WantedBytes
from nczfs.zmap.web.exchange import Question
from nczfs.zmap.web.exchange import ServerAnswer as WebAnswer
from nczfs.zmap.web.failures import AttemptFailed

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Ask: TypeAlias = Callable[[Question], WebAnswer]
"""Sends a request."""

_NOT_SENT: Final = frozenset({"expect", "user-agent"})  # headers that the signature omits


@dataclass(slots=True)
class _Calling:
    """A call that is passing through boto3.

    Attributes
    ----------
    body : of the answer.
    """

    call: Call
    ask: Ask
    is_sent: bool = False
    body: Buffer = b""


class _Current(threading.local):
    calling: _Calling | None = None


class Clients:
    """A maker of the client of one bucket, replaced when the credentials or the server change.

    Parameters
    ----------
    headers : of every request.
    """

    def __init__(self, bucket: str, *, anonymous: bool, headers: Mapping[str, str]) -> None:
        self._bucket = bucket
        self._anonymous = anonymous
        self._headers = headers
        self._botocore: Session | None = None
        self._session: boto3.Session | None = None
        self._place: tuple[str, str, bool] | None = None
        self._client: Client | None = None

    def client(self, session: Session, endpoint_url: str, region: str, *, by_path: bool) -> Client:
        """Return the client for a server. For one thread at a time.

        Parameters
        ----------
        session : with the credentials.
        by_path : the bucket stands in the path, not in front of the host.
        """
        place = endpoint_url, region, by_path
        if self._session is None or self._botocore is not session:
            self.close()
            self._botocore, self._session = session, boto3.Session(botocore_session=session)
        if self._client is None or self._place != place:
            self.close()
            config = Config(
                signature_version=UNSIGNED if self._anonymous else "s3v4",
                s3={
                    "addressing_style": "path" if by_path else "virtual",
                    "payload_signing_enabled": True,
                    "use_accelerate_endpoint": False,
                },
                use_dualstack_endpoint=False,  # the endpoint is given
                use_fips_endpoint=False,
                retries={"total_max_attempts": 1, "mode": "standard"},
                user_agent="nczfs",  # is not sent; making up boto3's own takes a sixth of a call
                # Many servers do not know the checksums of Amazon's.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            )
            made = self._session.client(
                "s3", endpoint_url=endpoint_url, region_name=region, config=config
            )
            self._client, self._place = Client(made, self._bucket, self._headers), place
        return self._client

    def close(self) -> None:
        """Release what the client holds."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


class Client:
    """boto3's client for one bucket. Thread-safe.

    Parameters
    ----------
    made : by boto3.
    headers : of every request.
    """

    def __init__(self, made: S3Client, bucket: str, headers: Mapping[str, str]) -> None:
        self._boto3 = made
        self._bucket = bucket
        self._headers = headers
        self._current = _Current()
        made.meta.events.register_last("before-parameter-build.s3", _stay)
        made.meta.events.register_last("before-call.s3", self._complete)
        answer: Any = self._send  # the stubs know no answer here
        made.meta.events.register("before-send.s3", answer)

    def call(self, call: Call, ask: Ask) -> S3Answer:
        """Make a request once, and parse the answer.

        Raises
        ------
        AttemptFailed : the answer is not one of S3.
        StoreError : there is no such request.
        """
        parameters: dict[str, Any] = {"Bucket": self._bucket, **call.parameters}
        if call.key:
            parameters["Key"] = call.key
        if call.body is not None:
            parameters["Body"] = _Payload(call.body)
        calling = self._current.calling = _Calling(call, ask)
        try:
            fields = getattr(self._boto3, call.operation)(**parameters)
        except ClientError as error:
            return _refused(error.response, calling.body)
        except ResponseParserError as error:
            raise AttemptFailed("the answer is not one of S3") from error
        except BotoCoreError as error:
            raise StoreError(f"{call.key}: {error}") from error
        finally:
            self._current.calling = None
        meta = fields["ResponseMetadata"]
        return S3Answer(meta["HTTPStatusCode"], meta["HTTPHeaders"], calling.body, fields=fields)

    def close(self) -> None:
        """Release what boto3 holds."""
        self._boto3.close()

    def _complete(self, model: Any, params: dict[str, Any], **_: object) -> None:
        """Add the headers that boto3 does not add; it then signs them."""
        calling = self._current.calling
        assert calling is not None
        headers = params["headers"]
        headers.update(self._headers)
        headers.update(calling.call.headers)
        if model.name == "DeleteObjects":
            # boto3 uses another checksum, which older servers do not know.
            digest = md5(params["body"], usedforsecurity=False).digest()
            headers["content-md5"] = b64encode(digest).decode()

    def _send(self, request: Any, **_: object) -> AWSResponse:
        """Send the request instead of boto3."""
        calling = self._current.calling
        assert calling is not None
        assert not calling.is_sent, "boto3 asks again"
        calling.is_sent = True
        headers = {
            name.lower(): value.decode() if isinstance(value, bytes) else value
            for name, value in request.headers.items()
            if name.lower() not in _NOT_SENT
        }
        body = request.body.data if isinstance(request.body, _Payload) else request.body or b""
        answer = calling.ask(
            Question(
                request.method,
                request.url,
                headers,
                WantedBytes(ANSWER_BYTES_MAX),
                body,
                calling.call.work_s,
            )
        )
        try:
            check_document(bytes(answer.body))
        except Excessive as error:
            raise AttemptFailed(f"the answer is not one of S3 ({error})", attempts=2) from error
        except ValueError:
            pass  # boto3 knows what it means
        calling.body = answer.body
        said: Any = answer.headers
        return AWSResponse(request.url, answer.status, said, _Raw(answer.body))


def _stay(context: dict[str, Any], **_: object) -> None:
    """Keep boto3 from following a redirection, which it would do without end."""
    context.setdefault("s3_redirect", {})["redirected"] = True


class _Payload(io.RawIOBase):
    """The body of a part as a file, because boto3 takes no buffers for its checksum.

    Reading it makes views: a copy of each part takes as long as its checksum.
    """

    def __init__(self, data: Buffer) -> None:
        self.data = memoryview(data).cast("B")
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:  # boto3 takes any buffer
        start = self._at
        self._at = len(self.data) if size < 0 else min(start + size, len(self.data))
        return self.data[start : self._at]

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self.data)}[whence]
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        return self._at


class _Raw:
    """The body of an answer as boto3 reads it."""

    def __init__(self, body: Buffer) -> None:
        self._body = bytes(body)

    def stream(self, **_: object) -> Iterator[bytes]:
        """Yield the whole body."""
        yield self._body


def _refused(response: Any, body: Buffer) -> S3Answer:
    meta = response["ResponseMetadata"]
    status = meta["HTTPStatusCode"]
    found = response.get("Error", {}).items()  # some fields are None, and a code may be boto3's own
    texts = {name: str(text) for name, text in found if text and text != str(status)}
    return refusal(status, meta["HTTPHeaders"], texts, body)
