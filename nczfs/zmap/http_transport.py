"""Requests to a web server: their target, credentials, and redirections."""

from __future__ import annotations

import base64
import logging
import netrc
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from nczfs.errors import ServerFailed, StoreError
from nczfs.plaindata import frozen
from nczfs.version import VERSION
from nczfs.zmap.keys import place_of
from nczfs.zmap.ranges import answer_bytes_max
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.web.attempts import ATTEMPTS, Deadline
from nczfs.zmap.web.authorities import check_authorities
from nczfs.zmap.web.bodies import WantedBytes
from nczfs.zmap.web.exchange import Exchange, Question, ServerAnswer
from nczfs.zmap.web.failures import AttemptFailed
from nczfs.zmap.web.headers import pause_s
from nczfs.zmap.web.redirects import HOPS_MAX, MOVED, Redirects, leads_to_directory, origin_of

ADDRESS_FROM = "host and port of the URL"
CONNECTIONS_MAX = 48  # small web servers accept few connections at the same time

_OF_S3 = "x-amz-request-id"  # every server of S3 sends it
_AGAIN = frozenset({408, 425, 429, 502, 503, 504, 509})

_log = logging.getLogger(__name__)


@frozen
class HttpRequest:
    """A request about a key or, with a slash at its end, about a directory.

    Attributes
    ----------
    start, stop : the requested bytes of the object.
    limit : the longest accepted body; None: the length of that range.
    failures : how many answers 500 to accept before giving up.
    """

    method: str
    key: str
    headers: Mapping[str, str] = field(default_factory=dict)
    start: int = 0
    stop: int | None = None
    limit: int | None = None
    failures: int = ATTEMPTS

    @property
    def wanted(self) -> WantedBytes:
        """The accepted length of the body."""
        limit = self.limit
        if limit is None:
            limit = answer_bytes_max(self.start, self.stop)
        return WantedBytes(limit, self.start, self.stop)


class HttpTransport:
    """A sender of requests below one URL.

    A user and a password in the URL, or from ``~/.netrc``, are sent only to their host, not to
    where it redirects.

    Parameters
    ----------
    source : the URL; its query goes with every request.
    clock, sleep : for the waits between attempts, in seconds.
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
        self._copies = options.documents.copies
        self._origin = origin_of(parts)
        self.root_url = f"{parts.scheme}://{host}{_escaped(parts.path)}".rstrip("/")
        self._query = f"?{parts.query}" if parts.query else ""
        self._headers = {
            "user-agent": f"nczfs/{VERSION}",
            "accept": "*/*",
            # With an encoding, ranges would count the bytes of the encoded body.
            "accept-encoding": "identity",
        }
        self._authorization = _authorization(parts)
        self._is_s3 = False
        self._redirects = Redirects(options.allow_redirects, options.redirects_within_origin)
        if options.ca_bundle is not None:
            check_authorities(options.ca_bundle)
        self._exchange = Exchange(
            "http",
            self.root_url,
            replace(options, connections=min(options.connections, CONNECTIONS_MAX)),
            address_from=ADDRESS_FROM,
            ca_bundle=options.ca_bundle,
            proxy=proxy_for(parts.scheme, parts.hostname or ""),
            clock=clock,
            sleep=sleep,
        )

    @property
    def has_credentials(self) -> bool:
        """Whether requests carry credentials."""
        return bool(self._authorization)

    @property
    def s3_hint(self) -> str:
        """What to write instead of the URL, if the server answers as those of S3; "" otherwise."""
        if not self._is_s3:
            return ""
        url = self.root_url if urlsplit(self.root_url).path else f"{self.root_url}/BUCKET/KEY"
        return f"the server speaks S3: write {url}#mode=s3"

    @property
    def silent_s(self) -> float:
        """How long the server has been silent; see `ZMap.silent_s`."""
        return self._exchange.silent_s

    def where(self, key: str) -> str:
        """Return the URL of a key for messages, without secrets."""
        return place_of(self.root_url, key, self._copies)

    def send(
        self, request: HttpRequest, fault: Callable[[ServerAnswer], str] = lambda answer: ""
    ) -> ServerAnswer:
        """Repeat a request until there is an answer that another attempt would not change.

        Redirections are followed as `Redirects` decides, except for one to the same path with a
        slash at its end: it is an answer, and means that there is a directory.

        Parameters
        ----------
        fault : returns what is missing in an answer, so that the request is repeated; "": nothing.

        Raises
        ------
        Unavailable, DeadlinePassed : the server could not be reached.
        AccessDenied : a redirection is not allowed.
        StoreError : the redirections do not end, or the answer is too long.
        """

        def attempt(deadline: Deadline) -> ServerAnswer:
            answer = self._follow(request, deadline)
            if answer.status == 500:
                raise AttemptFailed(
                    "the server answers 500", kind=ServerFailed, attempts=request.failures
                )
            if answer.status in _AGAIN:
                raise AttemptFailed(
                    f"the server answers {answer.status}", wait_s=pause_s(answer.headers)
                )
            if reason := fault(answer):
                raise AttemptFailed(reason)
            return answer

        return self._exchange.run(self.where(request.key), attempt)

    def close(self) -> None:
        """Release the connections."""
        self._exchange.close()

    def _url(self, key: str) -> str:
        path = quote(key.encode("utf-8", "surrogateescape"), safe="-._~/")
        return f"{self.root_url}/{path}{self._query}"

    def _follow(self, request: HttpRequest, deadline: Deadline) -> ServerAnswer:
        where = self.where(request.key)
        url = self._url(request.key)
        for _ in range(HOPS_MAX + 1):
            answer = self._ask(request, url, deadline)
            location = answer.headers.get("location", "")
            if answer.status not in MOVED or not location or leads_to_directory(url, location):
                return answer
            url = self._redirects.target(url, location, where)
        raise StoreError(f"{where}: redirected more than {HOPS_MAX} times")

    def _ask(self, request: HttpRequest, url: str, deadline: Deadline) -> ServerAnswer:
        headers = self._headers | dict(request.headers)
        if self._authorization and origin_of(urlsplit(url)) == self._origin:
            headers["authorization"] = self._authorization
        question = Question(request.method, url, headers, request.wanted)
        answer = self._exchange.ask(question, deadline, self.where(request.key))
        self._is_s3 = self._is_s3 or _OF_S3 in answer.headers
        return answer


def _escaped(path: str) -> str:
    """Percent-encode the characters of a typed path that a request cannot contain."""
    return quote(path.encode("utf-8", "surrogateescape"), safe="%/:@!$&'()*+,;=-._~")


def _authorization(parts: SplitResult) -> str:
    """Return the credentials of the URL, or of ``NETRC`` or ``~/.netrc``; "": none."""
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


def proxy_for(scheme: str, host: str) -> str:
    """Return the proxy that the environment names for a host; "": none."""
    if proxy_bypass(host):
        return ""
    proxies = getproxies()
    return proxies.get(scheme) or proxies.get("all") or ""
