"""Requests to an S3 server: signed, sent, and repeated by `attempts` where they failed.

What comes back is an answer to judge, or `Unavailable` or `DeadlinePassed`: could not ask.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import urllib3

from nczfs.zmap.attempts import AttemptFailed, Attempts, Connections, Deadline
from nczfs.zmap.base import Buffer
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3.access import Access
from nczfs.zmap.s3.bodies import ONE_BUFFER_POOLS, whole

PIECE_BYTES = 262_144  # of a body between two looks at the clock; 1 MiB measured slower
ERROR_BYTES_MAX = 1 << 20  # of an error page; S3's have some hundred

_AGAIN = frozenset({408, 429, 500, 502, 503, 504, 509})
_AGAIN_CODES = frozenset(
    {"RequestTimeout", "SlowDown", "Throttling", "OperationAborted", "ConditionalRequestConflict"}
)
_EXPIRED = frozenset({"ExpiredToken", "TokenRefreshRequired", "RequestExpired"})
_ELSEWHERE = frozenset({301, 302, 307, 308})


@dataclass(frozen=True, slots=True)
class Request:
    """A request for a key, or for the bucket itself (key "").

    Attributes
    ----------
    work_s : time that the server may take before it answers, above that of other requests.
    """

    method: str
    key: str
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Buffer = b""
    work_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said.

    Attributes
    ----------
    code, message, region : of S3's error document; "" without one.
    repeated : an attempt before this one failed, and may have taken effect.
    """

    status: int
    headers: Mapping[str, str]
    body: Buffer
    code: str = ""
    message: str = ""
    region: str = ""
    repeated: bool = False

    @property
    def document(self) -> bytes:
        """The body, where it is not the bytes of an object."""
        return bytes(self.body)


class Transport:
    """Sends requests over a pool of connections.

    Parameters
    ----------
    access : where the bucket is, and who signs.
    name : of the bucket, for messages.
    clock, sleep : of the waits between attempts, in seconds.
    """

    def __init__(
        self,
        access: Access,
        name: str,
        options: StoreOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self.name = name
        self._common = access.headers | {"user-agent": f"nczfs/{version('nczfs')}"}
        proxy = access.proxies.get(urlsplit(access.site.root_url).scheme, "")
        self._connections = Connections(
            options.connections, access.ca_bundle, proxy, ONE_BUFFER_POOLS
        )
        self._attempts = Attempts(
            "s3",
            options.request_timeout_s,
            options.attempt_timeout_s,
            proxy=self._connections.proxy,
            clock=clock,
            sleep=sleep,
        )
        self._way: _Way | None = None

    @property
    def anonymous(self) -> bool:
        """Whether requests are not signed."""
        return self._access.anonymous

    def copy_source(self, key: str) -> dict[str, str]:
        """The header of a request that copies an object of this bucket."""
        return {"x-amz-copy-source": self._access.copy_source(key)}

    def send(self, request: Request, fault: Callable[[Answer], str] = lambda answer: "") -> Answer:
        """Ask until there is an answer that another attempt would not change.

        Parameters
        ----------
        fault : says what is missing in an answer, so that it is asked again; "" where it is whole.

        Raises
        ------
        Unavailable : no attempt got an answer, or the server was throttled or broken each time.
        DeadlinePassed : the time was over before.
        AccessDenied : there are no credentials to sign with.
        """
        first = True

        def attempt(deadline: Deadline) -> Answer:
            nonlocal first
            repeated, first = not first, False
            answer = self._ask(request, deadline)
            self._connections.check_status(answer.status)
            if reason := _trouble(answer) or fault(answer):
                raise AttemptFailed(reason)
            return replace(answer, repeated=True) if repeated else answer

        what = f"{self.name}/{request.key}" if request.key else self.name
        return self._attempts.run(what, attempt, work_s=request.work_s)

    def close(self) -> None:
        """Give back the connections."""
        self._connections.close()

    def _ask(self, request: Request, deadline: Deadline) -> Answer:
        """Ask once; once more with new credentials, and once more where the bucket is."""
        renewed = moved = False
        while True:
            answer, signed_by = self._send(request, deadline)
            if answer.code in _EXPIRED and signed_by and not renewed:
                renewed = True
                self._access.renew(signed_by)
            elif answer.region and not moved and _is_elsewhere(answer):
                moved = True
                if not self._access.move(answer.region):
                    return answer
            else:
                return answer

    def _send(self, request: Request, deadline: Deadline) -> tuple[Answer, str]:
        url = self._access.site.url(request.key, request.query)
        headers, signed_by = self._access.sign(
            request.method, url, self._common | dict(request.headers), request.body
        )
        left_s = deadline.left_s()
        patience_s = self._attempts.patience_s(deadline)
        response = self._open_way().ask(
            request.method,
            url,
            body=_paced(request.body, headers, deadline),
            headers=headers,
            timeout=urllib3.Timeout(
                connect=patience_s, read=min(patience_s + request.work_s, left_s)
            ),
            pool_timeout=left_s,
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        try:
            body = _body(response, deadline)
        except BaseException:
            response.close()  # its connection has the rest of a body in it
            raise
        finally:
            response.release_conn()
        return _judge(response.status, response.headers, body), signed_by

    def _open_way(self) -> _Way:
        """The way to where the bucket is now, over the connections of this process."""
        pools, root_url = self._connections.pools(), self._access.site.root_url
        way = self._way
        if way is None or way.pools is not pools or way.root_url != root_url:
            way = self._way = _Way(pools, root_url)
        return way


class _Way:
    """Connections to the host of a bucket, or to a proxy before it."""

    def __init__(self, pools: urllib3.PoolManager, root_url: str) -> None:
        self.root_url = root_url
        self.pools = pools
        self._proxied = pools.proxy is not None
        self._pool = pools.connection_from_url(root_url)
        scheme, _, rest = root_url.partition("://")
        self._before_path = len(f"{scheme}://{rest.partition('/')[0]}")

    def ask(self, method: str, url: str, **how: Any) -> urllib3.BaseHTTPResponse:
        """Send a request for a URL below the root; as ``urlopen`` of urllib3."""
        if self._proxied:
            return self.pools.urlopen(method, url, **how)
        # To the pool itself: that the manager looks for it takes as long as signing.
        return self._pool.urlopen(method, url[self._before_path :], **how)


def _paced(
    body: Buffer, headers: dict[str, str], deadline: Deadline
) -> Buffer | Iterator[memoryview] | None:
    """A body to send; a large one in pieces, each of which may take the time of an attempt."""
    if len(body) <= PIECE_BYTES:
        return body or None
    headers["content-length"] = str(len(body))

    def pieces() -> Iterator[memoryview]:
        deadline.body_begins()
        for start in range(0, len(body), PIECE_BYTES):
            piece = memoryview(body)[start : start + PIECE_BYTES]
            yield piece
            deadline.moved(len(piece))

    return pieces()


def _body(response: urllib3.BaseHTTPResponse, deadline: Deadline) -> Buffer:
    """The whole body; urllib3 checks it against Content-Length."""
    assert isinstance(response, urllib3.HTTPResponse)
    limit = ERROR_BYTES_MAX if response.status >= 300 else None
    pieces: list[bytes] = []
    size = 0
    deadline.body_begins()
    while piece := response.read1(PIECE_BYTES):
        pieces.append(piece)
        size += len(piece)
        if limit is not None and size > limit:
            raise AttemptFailed(f"an error page of over {limit} bytes", final=True)
        deadline.moved(len(piece))
    return whole(pieces)


def _judge(status: int, headers: Mapping[str, str], body: Buffer) -> Answer:
    if status < 300:
        return Answer(status, headers, body)
    region = headers.get("x-amz-bucket-region", "")
    try:
        texts = {
            element.tag.rpartition("}")[2]: element.text or ""
            for element in (ElementTree.fromstring(bytes(body)) if body else ())
        }
    except ElementTree.ParseError:
        texts = {}
    return Answer(
        status,
        headers,
        body,
        code=texts.get("Code", "")[:80],
        message=texts.get("Message", "").strip()[:300],
        region=region or texts.get("Region", ""),
    )


def _trouble(answer: Answer) -> str:
    """Why the server did not even look at the request; "" where it did."""
    if answer.status in _AGAIN or answer.code in _AGAIN_CODES:
        return f"the server answers {answer.status} {answer.code or 'without a reason'}"
    return ""


def _is_elsewhere(answer: Answer) -> bool:
    """The bucket is in another region: a redirection, or (400) a signature for the wrong one."""
    return answer.status in _ELSEWHERE or answer.status == 400
