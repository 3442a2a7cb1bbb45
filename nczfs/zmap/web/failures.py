"""Descriptions of failed connections, and whether to try again."""

from __future__ import annotations

import errno
import re
import ssl
from collections.abc import Iterator
from http.client import BadStatusLine, RemoteDisconnected
from typing import Final

from urllib3.exceptions import (
    ClosedPoolError,
    ConnectTimeoutError,
    EmptyPoolError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
)

from nczfs.errors import OutOfDescriptors, StoreError, Unavailable

PROXY_REFUSES: Final = 407  # a status that only proxies use

_PASSING = frozenset({408, 429})  # 4xx that may change at the next attempt
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3}) ?(.*)")  # text of http.client
_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"})  # OpenSSL 3.0, and later
# From X509_STORE_CTX_get_error(3): no issuer, self-signed, incomplete chain, not trusted.
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})


class AttemptFailed(Exception):
    """This attempt gave no answer; another one may.

    Attributes
    ----------
    final : whether another attempt would end the same way.
    is_stranger : whether nothing at that address speaks HTTP.
    wait_s : the pause that the server requested.
    kind : the error to raise if there is no other attempt.
    attempts : the most attempts that may end so; None: no special limit.
    """

    def __init__(
        self,
        reason: str,
        *,
        final: bool = False,
        is_stranger: bool = False,
        wait_s: float = 0.0,
        kind: type[StoreError] = Unavailable,
        attempts: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.final = final
        self.is_stranger = is_stranger
        self.wait_s = wait_s
        self.kind = kind
        self.attempts = attempts


def failed(error: Exception, patience_s: float, proxy: str) -> AttemptFailed:
    """Describe an error of urllib3, or of the operating system.

    Parameters
    ----------
    patience_s : how long the next byte was waited for.
    proxy : that requests go through, for the message; "": none.
    """
    if isinstance(error, ProxyError):
        return proxy_failed(proxy, failed(error.original_error, patience_s, proxy))
    if tunnel := _TUNNEL.match(str(error)):
        return refused_by_proxy(int(tunnel[1]), tunnel[2])
    if any(_is_out_of_descriptors(cause) for cause in _causes(error)):
        return AttemptFailed("this process has no descriptor left", kind=OutOfDescriptors)
    match error:
        case EmptyPoolError():
            return AttemptFailed("all connections were busy")
        case NameResolutionError():
            return AttemptFailed(f"{error.conn.host}: {_reason(error)}", is_stranger=True)
        case NewConnectionError():  # urllib3 makes a ConnectTimeoutError of it
            return AttemptFailed(_reason(error), is_stranger=True)
        case ConnectTimeoutError():
            return AttemptFailed("there is no answer at this address", is_stranger=True)
        case ReadTimeoutError() | TimeoutError():
            return AttemptFailed(f"nothing came for {patience_s:.2g} s")
        case ClosedPoolError():
            return AttemptFailed("the store is closed", final=True)
    if any(_is_no_http(cause) for cause in _causes(error)):
        return AttemptFailed("does not speak HTTP", is_stranger=True)
    return _tls_failed(error) or AttemptFailed(_reason(error))


def proxy_failed(proxy: str, failure: AttemptFailed) -> AttemptFailed:
    """Return the failure of a named proxy."""
    return AttemptFailed(
        f"proxy {proxy}: {failure}",
        final=failure.final,
        is_stranger=failure.is_stranger,
        kind=failure.kind,
    )


def refused_by_proxy(status: int, reason: str = "") -> AttemptFailed:
    """Describe the answer of a proxy that refuses."""
    if status == PROXY_REFUSES:
        reason = "check its user and password"
    return AttemptFailed(
        f"answers {status} ({reason.strip()[:80] or 'no reason given'})",
        final=400 <= status < 500 and status not in _PASSING,
    )


def _is_out_of_descriptors(cause: BaseException) -> bool:
    return isinstance(cause, OSError) and cause.errno in {errno.EMFILE, errno.ENFILE}


def _is_no_http(cause: BaseException) -> bool:
    return isinstance(cause, BadStatusLine) and not isinstance(cause, RemoteDisconnected)


def _tls_failed(error: Exception) -> AttemptFailed | None:
    """Describe what is wrong with the server's TLS or certificate; None: something else."""
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
    """Yield an error and its causes, which urllib3 wraps, chains, or handles."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        wrapped = next((arg for arg in cause.args if isinstance(arg, BaseException)), None)
        cause = wrapped or cause.__cause__ or cause.__context__


def _reason(error: Exception) -> str:
    """Describe the inner cause, since urllib3's texts quote objects and addresses."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    if isinstance(error, ProtocolError):
        return "the connection ended before the answer did"
    return f"the connection failed ({type(error).__name__})"
