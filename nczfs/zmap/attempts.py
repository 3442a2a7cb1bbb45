"""The loop that repeats requests over HTTP, and the connections they go over.

An attempt is given up when no byte came for a while, when the connection ends early, when the
body has another length than announced, or when the server is throttled or broken. It is repeated
with exponential waits and full jitter, as long as the time of the whole request lasts.
"""

from __future__ import annotations

import logging
import os
import random
import re
import resource
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import urllib3
from urllib3.exceptions import (
    ClosedPoolError,
    ConnectTimeoutError,
    EmptyPoolError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
)

from nczfs.errors import DeadlinePassed, Unavailable
from nczfs.metrics import STORE_RETRIES
from nczfs.zmap.proxy import parse_proxy

ATTEMPTS = 10
FIRST_WAIT_S = 0.1  # doubled with each attempt; a random part of it is waited
LONGEST_WAIT_S = 2.0
SLOWEST_BYTES_S = 8 << 10  # a line of 2 Mbit/s that 32 threads share
SHORTEST_ATTEMPT_S = 0.1  # less time than this left is none: its timeout would hide the cause

_PROXY_REFUSES = 407  # a status that no server has, only a proxy
_PASSING = frozenset({408, 429})  # of 4xx, what may be another one at the next attempt
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3}) ?(.*)")  # of http.client
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})  # OpenSSL 3.0, and later
# Of X509_STORE_CTX_get_error(3): no issuer, self-signed, a chain without end, not trusted.
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})

_T = TypeVar("_T")

_log = logging.getLogger(__name__)


class AttemptFailed(Exception):
    """This attempt gave no answer; another one may.

    Attributes
    ----------
    final : another attempt would end the same way.
    wait_s : the server asked not to come back earlier.
    """

    def __init__(self, reason: str, *, final: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.final = final
        self.wait_s = wait_s


class Deadline:
    """When a request has to be over. Its time stands still while bytes move fast enough."""

    def __init__(self, clock: Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._seen = clock()
        self._end = self._seen + seconds

    def body_begins(self) -> None:
        """Count the time from now on as time in which a body moves."""
        self._seen = self._clock()

    def moved(self, size: int) -> None:
        """Count bytes of a body, and raise when they came too late."""
        now = self._clock()
        self._end += min(now - self._seen, size / SLOWEST_BYTES_S)
        self._seen = now
        if now > self._end:
            raise AttemptFailed("the body came too slowly")

    def left_s(self) -> float:
        """The time that is left; a little where there is none."""
        return max(SHORTEST_ATTEMPT_S, self._end - self._clock())

    def is_within(self, seconds: float) -> bool:
        """Whether it comes so soon that no attempt fits in before it."""
        return self._clock() + seconds + SHORTEST_ATTEMPT_S >= self._end


class Attempts:
    """Repeats attempts until one has an answer or the time of the request is over.

    Parameters
    ----------
    label : of the store in the metrics.
    timeout_s : of a request with all its attempts.
    patience_s : an attempt that gets no byte for this long is given up.
    proxy : that requests go through, for messages.
    clock, sleep : in seconds.
    """

    def __init__(
        self,
        label: str,
        timeout_s: float,
        patience_s: float,
        *,
        proxy: str = "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._retries = STORE_RETRIES.labels(label)
        self._timeout_s = timeout_s
        self._patience_s = patience_s
        self._proxy = proxy
        self._clock = clock
        self._sleep = sleep

    def run(self, what: str, attempt: Callable[[Deadline], _T], *, work_s: float = 0.0) -> _T:
        """What an attempt gives; it gets its deadline, and raises `AttemptFailed`.

        Parameters
        ----------
        what : is asked for, in messages.
        work_s : time that is given above that of other requests.

        Raises
        ------
        Unavailable : no attempt got an answer.
        DeadlinePassed : the time was over before.
        """
        deadline = Deadline(self._clock, self._timeout_s + work_s)
        count = 0
        while True:
            count += 1
            try:
                return attempt(deadline)
            except AttemptFailed as failure:
                reason = failure
            except (HTTPError, OSError) as error:
                reason = _failed(error, self.patience_s(deadline), self._proxy)
            self._wait(what, reason, count, deadline)

    def patience_s(self, deadline: Deadline) -> float:
        """How long to wait for the next byte."""
        return min(self._patience_s, deadline.left_s())

    def _wait(self, what: str, failure: AttemptFailed, count: int, deadline: Deadline) -> None:
        """Wait before the next attempt, or raise when there is to be none."""
        if failure.final:
            raise Unavailable(f"{what}: {failure}") from failure
        wait_s = random.random() * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** (count - 1))
        wait_s += failure.wait_s
        if count >= ATTEMPTS:
            raise Unavailable(f"{what}: given up after {count} attempts: {failure}") from failure
        if deadline.is_within(wait_s):
            raise DeadlinePassed(
                f"{what}: no answer within {self._timeout_s:g} s ({count} attempts): {failure}"
            ) from failure
        self._retries.inc()
        _log.info("%s: attempt %d: %s", what, count, failure)
        self._sleep(wait_s)


class Connections:
    """Pools of connections, one a process. The lock guards which pool this process has.

    Parameters
    ----------
    count : of them, and so the most requests at once; a quarter of the descriptors that the process
        may have where that is less.
    ca_bundle : a file or directory of certificate authorities; None: the system's.
    proxy : the URL of a proxy, "" without one.
    pool_classes : of connections to a server, by scheme, where they are not urllib3's.

    Raises
    ------
    UsageError : the proxy is none that can be asked.
    """

    def __init__(
        self,
        count: int,
        ca_bundle: str | None,
        proxy: str,
        pool_classes: Mapping[str, type[urllib3.HTTPConnectionPool]] | None = None,
    ) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        is_limited = descriptors != resource.RLIM_INFINITY
        self._count = max(1, min(count, descriptors // 4)) if is_limited else count
        self._ca_bundle = ca_bundle
        self._proxy = parse_proxy(proxy)
        self._pool_classes = pool_classes
        self._lock = threading.Lock()
        self._pools: urllib3.PoolManager | None = None
        self._process = 0
        self._closed = False

    @property
    def proxy(self) -> str:
        """The host and port of the proxy, "" without one."""
        return self._proxy.name if self._proxy is not None else ""

    def check_status(self, status: int) -> None:
        """Raise AttemptFailed for the status of an answer that is the proxy's own."""
        if status == _PROXY_REFUSES and self._proxy is not None:
            raise _proxy_failed(self.proxy, _refused(status))

    def pools(self) -> urllib3.PoolManager:
        """The pools of this process; a child of fork must not talk over its parent's sockets."""
        with self._lock:
            if self._closed:
                raise AttemptFailed("the store is closed", final=True)
            if self._pools is None or self._process != os.getpid():
                self._pools, self._process = self._new(), os.getpid()
                if self._pool_classes is not None:
                    self._pools.pool_classes_by_scheme = dict(self._pool_classes)
            return self._pools

    def close(self) -> None:
        """Give back the connections; may be called twice."""
        with self._lock:
            self._closed = True
            pools, self._pools = self._pools, None
        if pools is not None:
            pools.clear()

    def _new(self) -> urllib3.PoolManager:
        bundle = self._ca_bundle
        is_dir = bundle is not None and os.path.isdir(bundle)
        ca_certs, ca_cert_dir = (None, bundle) if is_dir else (bundle, None)
        if self._proxy is None:
            return urllib3.PoolManager(
                maxsize=self._count, block=True, ca_certs=ca_certs, ca_cert_dir=ca_cert_dir
            )
        user = self._proxy.user
        return urllib3.ProxyManager(
            self._proxy.url,
            proxy_headers=urllib3.make_headers(proxy_basic_auth=user) if user else None,
            maxsize=self._count,
            block=True,
            ca_certs=ca_certs,
            ca_cert_dir=ca_cert_dir,
        )


def _failed(error: Exception, patience_s: float, proxy: str) -> AttemptFailed:
    if isinstance(error, ProxyError):
        return _proxy_failed(proxy, _failed(error.original_error, patience_s, proxy))
    if tunnel := _TUNNEL.match(str(error)):
        return _refused(int(tunnel[1]), tunnel[2])
    if isinstance(error, EmptyPoolError):
        return AttemptFailed("all connections were busy")
    if isinstance(error, NameResolutionError):
        return AttemptFailed(f"{error.conn.host}: {_reason(error)}")
    if isinstance(error, NewConnectionError):  # which urllib3 makes a ConnectTimeoutError
        return AttemptFailed(_reason(error))
    if isinstance(error, ReadTimeoutError | ConnectTimeoutError | TimeoutError):
        return AttemptFailed(f"nothing came for {patience_s:.2g} s")
    if isinstance(error, ClosedPoolError):
        return AttemptFailed("the store is closed", final=True)
    return _tls_failed(error) or AttemptFailed(_reason(error))


def _proxy_failed(proxy: str, failure: AttemptFailed) -> AttemptFailed:
    return AttemptFailed(f"proxy {proxy}: {failure}", final=failure.final)


def _refused(status: int, reason: str = "") -> AttemptFailed:
    """What a proxy says that does not let us through."""
    if status == _PROXY_REFUSES:
        reason = "check its user and password"
    return AttemptFailed(
        f"answers {status} ({reason.strip()[:80] or 'no reason given'})",
        final=400 <= status < 500 and status not in _PASSING,
    )


def _tls_failed(error: Exception) -> AttemptFailed | None:
    """What is wrong with the other side's TLS or certificate; None for all else."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            is_unknown = cause.verify_code in _UNKNOWN_AUTHORITY
            hint = " (--ca-bundle FILE names other authorities)" if is_unknown else ""
            return AttemptFailed(
                f"the certificate is not trusted: {cause.verify_message}{hint}", final=True
            )
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            return AttemptFailed("does not speak TLS (http:// instead of https://?)", final=True)
    return None


def _causes(error: Exception) -> Iterator[BaseException]:
    """An error and what it came from; urllib3 wraps that, or raises from or while handling it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        wrapped = next((arg for arg in cause.args if isinstance(arg, BaseException)), None)
        cause = wrapped or cause.__cause__ or cause.__context__


def _reason(error: Exception) -> str:
    """What the cause within says; urllib3's own texts quote objects and addresses."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    if isinstance(error, ProtocolError):
        return "the connection ended before the answer did"
    return f"the connection failed ({type(error).__name__})"
