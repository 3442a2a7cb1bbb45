"""Requests to an S3 server, and the one loop that repeats them.

An attempt is given up when no byte moved for a while, when the connection ends early, when the
body has another length than announced, or when the server is throttled or broken. It is repeated
with exponential waits and full jitter, as long as the time of the whole request lasts. That time
stands still while the bytes of a body move: a large object over a slow line is late, not lost, and
one byte now and then keeps nobody waiting. What comes back is an answer to judge, or `Unavailable`
or `DeadlinePassed`: could not ask.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import urllib3
from urllib3.exceptions import (
    ClosedPoolError,
    ConnectTimeoutError,
    EmptyPoolError,
    HTTPError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
    SSLError,
)

from nczfs.errors import DeadlinePassed, Unavailable
from nczfs.metrics import STORE_RETRIES
from nczfs.zmap.base import Buffer
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3.access import Access

ATTEMPTS = 10
FIRST_WAIT_S = 0.1  # doubled with each attempt; a random part of it is waited
LONGEST_WAIT_S = 2.0
SHORTEST_ATTEMPT_S = 0.1  # less time than this left is none: its timeout would hide the cause
SLOWEST_BYTES_S = 16_384  # a line of 2 Mbit/s that 16 threads share
PIECE_BYTES = 262_144  # of a body between two looks at the clock; 1 MiB measured slower
ERROR_BYTES_MAX = 1 << 20  # of an error page; S3's have some hundred

_AGAIN = frozenset({408, 429, 500, 502, 503, 504, 509})
_AGAIN_CODES = frozenset(
    {"RequestTimeout", "SlowDown", "Throttling", "OperationAborted", "ConditionalRequestConflict"}
)
_EXPIRED = frozenset({"ExpiredToken", "TokenRefreshRequired", "RequestExpired"})
_ELSEWHERE = frozenset({301, 302, 307, 308})

_log = logging.getLogger(__name__)
_retries = STORE_RETRIES.labels("s3")


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
    body: bytes
    code: str = ""
    message: str = ""
    region: str = ""
    repeated: bool = False


class _AttemptFailed(Exception):
    """This attempt gave no answer; another one may."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class _Deadline:
    """When a request has to be over. Its time stands still while bytes move fast enough."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._end = clock() + seconds
        self._seen = 0.0

    def body_begins(self) -> None:
        self._seen = self._clock()

    def moved(self, size: int) -> None:
        """Count bytes of a body, and raise when they came too late."""
        now = self._clock()
        self._end += min(now - self._seen, size / SLOWEST_BYTES_S)
        self._seen = now
        if now > self._end:
            raise _AttemptFailed("the body came too slowly")

    def left_s(self) -> float:
        return self._end - self._clock()


class Transport:
    """Sends requests over a pool of connections. The lock guards which pool this process has.

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
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._common = access.headers | {"user-agent": f"nczfs/{version('nczfs')}"}
        self._lock = threading.Lock()
        self._way: _Way | None = None
        self._closed = False

    @property
    def anonymous(self) -> bool:
        """Whether requests are not signed."""
        return self._access.anonymous

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
        deadline = _Deadline(self._clock, self._options.request_timeout_s + request.work_s)
        renewed = moved = repeated = False
        attempt = 0
        while True:
            attempt += 1
            try:
                answer, signed_by = self._attempt(request, deadline)
                if answer.code in _EXPIRED and signed_by and not renewed:
                    renewed = True
                    self._access.renew(signed_by)
                    continue
                if answer.region and not moved and _is_elsewhere(answer):
                    moved = True
                    if self._access.move(answer.region):
                        continue
                if reason := _trouble(answer) or fault(answer):
                    raise _AttemptFailed(reason)
                return replace(answer, repeated=True) if repeated else answer
            except _AttemptFailed as failure:
                repeated = True
                self._wait(request, failure, attempt, deadline)

    def close(self) -> None:
        """Give back the connections."""
        with self._lock:
            self._closed = True
            way, self._way = self._way, None
        if way is not None:
            way.pools.clear()

    def _wait(
        self, request: Request, failure: _AttemptFailed, attempt: int, deadline: _Deadline
    ) -> None:
        """Wait before the next attempt, or raise when there is to be none."""
        what = f"{self.name}/{request.key}" if request.key else self.name
        if failure.final:
            raise Unavailable(f"{what}: {failure}") from failure
        wait_s = random.random() * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (attempt - 1))
        if attempt >= ATTEMPTS:
            raise Unavailable(f"{what}: given up after {attempt} attempts: {failure}") from failure
        if wait_s + SHORTEST_ATTEMPT_S >= deadline.left_s():
            raise DeadlinePassed(
                f"{what}: no answer within {self._options.request_timeout_s:g} s "
                f"({attempt} attempts): {failure}"
            ) from failure
        _retries.inc()
        _log.info("%s %s: attempt %d: %s", request.method, what, attempt, failure)
        self._sleep(wait_s)

    def _attempt(self, request: Request, deadline: _Deadline) -> tuple[Answer, str]:
        url = self._access.site.url(request.key, request.query)
        headers, signed_by = self._access.sign(
            request.method, url, self._common | dict(request.headers), request.body
        )
        left_s = max(SHORTEST_ATTEMPT_S, deadline.left_s())
        patience_s = min(self._options.attempt_timeout_s, left_s)
        try:
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
        except (HTTPError, OSError) as error:
            raise _failed(error, patience_s) from error
        return _judge(response.status, response.headers, body), signed_by

    def _open_way(self) -> _Way:
        root_url = self._access.site.root_url
        with self._lock:
            if self._closed:
                raise _AttemptFailed("the store is closed", final=True)
            way = self._way
            # A child of fork must not talk over the sockets of its parent.
            if way is None or way.process != os.getpid() or way.root_url != root_url:
                way = self._way = _new_way(self._access, root_url, self._options.connections)
            return way


class _Way:
    """Connections of this process to the host of a bucket, or to a proxy before it."""

    def __init__(self, pools: urllib3.PoolManager, root_url: str) -> None:
        self.process = os.getpid()
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


def _new_way(access: Access, root_url: str, count: int) -> _Way:
    bundle = access.ca_bundle
    ca_certs, ca_cert_dir = (None, bundle) if os.path.isdir(bundle) else (bundle, None)
    proxy = access.proxies.get(urlsplit(root_url).scheme)
    if not proxy:
        pools = urllib3.PoolManager(
            maxsize=count, block=True, ca_certs=ca_certs, ca_cert_dir=ca_cert_dir
        )
        return _Way(pools, root_url)
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    user, _, address = parts.netloc.rpartition("@")
    proxied = urllib3.ProxyManager(
        f"{parts.scheme}://{address}",
        proxy_headers=urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else None,
        maxsize=count,
        block=True,
        ca_certs=ca_certs,
        ca_cert_dir=ca_cert_dir,
    )
    return _Way(proxied, root_url)


def _paced(
    body: Buffer, headers: dict[str, str], deadline: _Deadline
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


def _body(response: urllib3.BaseHTTPResponse, deadline: _Deadline) -> bytes:
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
            raise _AttemptFailed(f"an error page of over {limit} bytes", final=True)
        deadline.moved(len(piece))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _judge(status: int, headers: Mapping[str, str], body: bytes) -> Answer:
    if status < 300:
        return Answer(status, headers, body)
    region = headers.get("x-amz-bucket-region", "")
    try:
        texts = {
            element.tag.rpartition("}")[2]: element.text or ""
            for element in (ElementTree.fromstring(body) if body else ())
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


def _failed(error: Exception, patience_s: float) -> _AttemptFailed:
    if isinstance(error, EmptyPoolError):
        return _AttemptFailed("all connections were busy")
    if isinstance(error, NewConnectionError):  # which urllib3 makes a ConnectTimeoutError
        return _AttemptFailed(_reason(error))
    if isinstance(error, ReadTimeoutError | ConnectTimeoutError | TimeoutError):
        return _AttemptFailed(f"nothing came for {patience_s:.2g} s")
    if isinstance(error, ClosedPoolError):
        return _AttemptFailed("the store is closed", final=True)
    reason = _reason(error)
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return _AttemptFailed(f"{reason} (--ca-bundle FILE names other authorities)", final=True)
    return _AttemptFailed(reason)


def _reason(error: Exception) -> str:
    """What the cause within says; urllib3's own texts quote objects and addresses."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, ProtocolError):
        return "the connection ended before the answer did"
    return f"the connection failed ({type(error).__name__})"
