"""Requests to a web server: where they go, who asks, and how much of an answer is read."""

from __future__ import annotations

import base64
import logging
import netrc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from nczfs.errors import StoreError
from nczfs.zmap.attempts import AttemptFailed, Attempts, Connections, Deadline
from nczfs.zmap.authorities import check_authorities
from nczfs.zmap.registry import StoreOptions

REDIRECTS_MAX = 5
PIECE_BYTES = 262_144
ERROR_BYTES_MAX = 1 << 16  # of an error page; read only to keep the connection
LONGEST_PAUSE_S = 30  # that a server may ask for
CONNECTIONS_MAX = 48  # small web servers let few of those through that come at the same time

_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504, 509})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """A question about a key or, with a slash at its end, about a directory.

    Attributes
    ----------
    start, stop : the bytes of the object that are wanted, of an answer that has all of them.
    limit : a longer body is an error; None: as long as it is.
    """

    method: str
    key: str
    headers: Mapping[str, str] = field(default_factory=dict)
    start: int = 0
    stop: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said.

    Attributes
    ----------
    body : of a 200 the bytes [start, stop) of the request, of a 206 all that came.
    size : of the whole body, None where it is not known; for 200 that of the object.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    size: int | None


class Transport:
    """Sends requests below one URL.

    A user and a password in the URL, or of ``~/.netrc``, are sent to the host they are for, and
    not to where it redirects to.

    Parameters
    ----------
    source : the URL; its query goes with every request.
    clock, sleep : of the waits between attempts, in seconds.
    """

    def __init__(
        self,
        source: str,
        options: StoreOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parts = urlsplit(source)
        host = parts.netloc.rpartition("@")[2]
        self._origin = _origin(parts)
        self.root_url = f"{parts.scheme}://{host}{_escaped(parts.path)}".rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = {
            "user-agent": f"nczfs/{version('nczfs')}",
            "accept": "*/*",
            # Ranges count the bytes of the encoded body where there is an encoding.
            "accept-encoding": "identity",
        }
        self._authorization = _authorization(parts)
        if options.ca_bundle is not None:
            check_authorities(options.ca_bundle)
        self._connections = Connections(
            min(options.connections, CONNECTIONS_MAX),
            options.ca_bundle,
            _proxy(parts.scheme, parts.hostname or ""),
        )
        self._attempts = Attempts(
            "http",
            options.request_timeout_s,
            options.attempt_timeout_s,
            proxy=self._connections.proxy,
            clock=clock,
            sleep=sleep,
        )

    @property
    def has_credentials(self) -> bool:
        """Whether we say who we are."""
        return bool(self._authorization)

    def where(self, key: str) -> str:
        """The URL of a key for messages, without secrets."""
        return f"{self.root_url}/{key}" if key else self.root_url

    def send(self, request: Request, fault: Callable[[Answer], str] = lambda answer: "") -> Answer:
        """Ask until there is an answer that another attempt would not change.

        Redirections are followed, but for one to the same path with a slash at its end: it means
        that there is a directory, and is an answer.

        Parameters
        ----------
        fault : says what is missing in an answer, so that it is asked again; "" where it is whole.

        Raises
        ------
        Unavailable, DeadlinePassed : could not ask.
        StoreError : the redirections have no end, or lead from https to http.
        """

        def attempt(deadline: Deadline) -> Answer:
            answer = self._follow(request, deadline)
            self._connections.check_status(answer.status)
            if answer.status in _AGAIN:
                raise AttemptFailed(
                    f"the server answers {answer.status}", wait_s=_pause(answer.headers)
                )
            if reason := fault(answer):
                raise AttemptFailed(reason)
            return answer

        return self._attempts.run(self.where(request.key), attempt)

    def close(self) -> None:
        """Give back the connections."""
        self._connections.close()

    def _url(self, key: str) -> str:
        path = quote(key.encode("utf-8", "surrogateescape"), safe="-._~/")
        return f"{self.root_url}/{path}{self._query}"

    def _follow(self, request: Request, deadline: Deadline) -> Answer:
        url = self._url(request.key)
        for _ in range(REDIRECTS_MAX + 1):
            answer = self._ask(request, url, deadline)
            target = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not target:
                return answer
            url, before = urljoin(url, target), urlsplit(url)
            after = urlsplit(url)
            if after.path == f"{before.path}/":
                return answer
            if after.scheme not in ("https", before.scheme) or not after.hostname:
                raise StoreError(
                    f"{self.where(request.key)}: redirected from {before.scheme} to "
                    f"{after.scheme[:20]!r}, which is not followed"
                )
        raise StoreError(f"{self.where(request.key)}: redirected more than {REDIRECTS_MAX} times")

    def _ask(self, request: Request, url: str, deadline: Deadline) -> Answer:
        headers = self._headers | dict(request.headers)
        if self._authorization and _origin(urlsplit(url)) == self._origin:
            headers["authorization"] = self._authorization
        patience_s = self._attempts.patience_s(deadline)
        response = self._connections.pools().urlopen(
            request.method,
            url,
            headers=headers,
            timeout=urllib3.Timeout(connect=patience_s, read=patience_s),
            pool_timeout=deadline.left_s(),
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        assert isinstance(response, urllib3.HTTPResponse)
        is_whole = False
        try:
            answer, is_whole = self._answer(request, response, deadline)
        finally:
            if not is_whole:
                response.close()  # its connection has the rest of a body in it
            response.release_conn()
        return answer

    def _answer(
        self, request: Request, response: urllib3.HTTPResponse, deadline: Deadline
    ) -> tuple[Answer, bool]:
        """The answer, and whether all of its body was read."""
        status, headers = response.status, response.headers
        size = _length(headers)
        if request.method == "HEAD":
            return Answer(status, headers, b"", size), True
        if status >= 300:
            return Answer(status, headers, b"", size), _is_drained(response)
        start, stop = (request.start, request.stop) if status == 200 else (0, None)
        pieces: list[bytes] = []
        seen = 0
        while piece := response.read1(PIECE_BYTES):
            part = piece[max(start - seen, 0) : None if stop is None else max(stop - seen, 0)]
            seen += len(piece)
            if part:
                pieces.append(part)
            if request.limit is not None and seen > request.limit:
                raise StoreError(
                    f"{self.where(request.key)}: over {request.limit} bytes, which is not read"
                )
            if stop is not None and seen >= stop and size is not None:
                break
            deadline.moved(len(piece))
        else:
            if size is None and "chunked" in headers.get("transfer-encoding", "").lower():
                size = seen
        return Answer(status, headers, b"".join(pieces), size), seen == size


def _is_drained(response: urllib3.HTTPResponse) -> bool:
    seen = 0
    while seen <= ERROR_BYTES_MAX:
        piece = response.read1(PIECE_BYTES)
        if not piece:
            return True
        seen += len(piece)
    return False


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _pause(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    return min(int(text), LONGEST_PAUSE_S) if text.isascii() and text.isdecimal() else 0.0


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return parts.scheme, parts.hostname or "", port


def _escaped(path: str) -> str:
    """A path as typed, with what cannot stand in a request percent-encoded."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="%/:@!$&'()*+,;=-._~")


def _authorization(parts: SplitResult) -> str:
    """Of the URL, else of the file that ``NETRC`` names or ``~/.netrc``; "" for nobody's."""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    else:
        found = _of_netrc(parts.hostname or "")
        if found is None:
            return ""
        pair = f"{found[0]}:{found[2]}"
    return f"Basic {base64.b64encode(pair.encode('utf-8', 'surrogateescape')).decode()}"


def _of_netrc(host: str) -> tuple[str, str, str] | None:
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, netrc.NetrcParseError) as error:
        # The text of a parse error quotes words of the file.
        _log.warning("the passwords of .netrc are not used: %s", type(error).__name__)
        return None


def _proxy(scheme: str, host: str) -> str:
    if proxy_bypass(host):
        return ""
    proxies = getproxies()
    return proxies.get(scheme) or proxies.get("all") or ""
