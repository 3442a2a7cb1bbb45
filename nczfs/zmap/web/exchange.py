"""One request and its answer, which is read within limits of size and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import urllib3

from nczfs.buffers import Buffer
from nczfs.errors import StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.web.attempts import AttemptLoop, Deadline
from nczfs.zmap.web.bodies import PIECE_BYTES, Body, WantedBytes, bounded, read_body
from nczfs.zmap.web.connections import Connections
from nczfs.zmap.web.headers import length_of
from nczfs.zmap.web.silence import Silence

_NO_BODY: Final = frozenset({204, 304})
_WAYS_MAX: Final = 16  # hosts of one store: its own, and those that it redirects to

_T = TypeVar("_T")


@frozen
class ServerAnswer:
    """An answer of a server.

    Attributes
    ----------
    body : the requested part; for a refusal, its beginning.
    size : of the whole body; None if unknown; for 200 that of the object.
    """

    status: int
    headers: Mapping[str, str]
    body: Buffer
    size: int | None


@frozen
class Question:
    """A request as it is sent.

    Attributes
    ----------
    headers : with names in lower case.
    wanted : of the body of its answer.
    work_s : extra time that the server may take before it answers.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    wanted: WantedBytes
    body: Buffer = b""
    work_s: float = 0.0


class Exchange:
    """A sender of requests to the servers of one store, over persistent connections.

    Parameters
    ----------
    label, place : of the store, in the metrics and in messages.
    address_from : the setting that names the server.
    ca_bundle : as for `Connections`.
    proxy : its URL, "" without one.
    clock, sleep : for the waits between attempts, in seconds.
    """

    def __init__(
        self,
        label: str,
        place: str,
        options: StoreOptions,
        *,
        address_from: str,
        ca_bundle: str | None,
        proxy: str,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._connections = Connections(options.connections, ca_bundle, proxy)
        self._attempts = AttemptLoop(
            label,
            place,
            options.request_timeout_s,
            options.attempt_timeout_s,
            address_from=address_from,
            proxy=self._connections.proxy,
            clock=clock,
            sleep=sleep,
        )
        self._silence = self._attempts.silence
        self._ways: dict[str, _Way] = {}

    @property
    def silent_s(self) -> float:
        """The age of the oldest request after which nothing came; 0.0: the server answers."""
        return self._silence.seconds

    def run(self, what: str, attempt: Callable[[Deadline], _T], *, work_s: float = 0.0) -> _T:
        """Run attempts as `AttemptLoop.run` does."""
        return self._attempts.run(what, attempt, work_s=work_s)

    def ask(self, question: Question, deadline: Deadline, where: str) -> ServerAnswer:
        """Send a request once.

        Parameters
        ----------
        where : the target of the request, for messages.

        Raises
        ------
        AttemptFailed : the proxy refuses, or the time is over. Errors of urllib3 come, too.
        StoreError : the answer is too long.
        """
        deadline.asks(question.work_s)
        self._silence.note_question()
        headers = dict(question.headers)
        with bounded(deadline, question.wanted.limit):
            response = self._way(question.url).ask(
                question.method,
                question.url,
                body=_paced(question.body, headers, deadline, self._silence),
                headers=headers,
                timeout=urllib3.Timeout(
                    connect=self._attempts.connect_s(deadline), read=deadline.patience_s()
                ),
                pool_timeout=deadline.left_s(),
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            assert isinstance(response, urllib3.HTTPResponse)
            self._silence.note_answer()
            deadline.body_begins()
            has_body = question.method != "HEAD" and response.status not in _NO_BODY
            is_sized = "transfer-encoding" not in response.headers
            size = length_of(response.headers) if is_sized else None
            body = Body(b"", size)
            is_whole = not has_body
            try:
                if has_body:
                    if is_sized and size is None and "content-length" in response.headers:
                        raise StoreError(f"{where}: the answer has an impossible length")
                    body = read_body(response, size, question.wanted, deadline, where)
                    is_whole = body.size is not None
            finally:
                if not is_whole:
                    response.close()  # its connection still has the rest of a body
                response.release_conn()
        self._connections.check_status(response.status)
        if size is None and "chunked" in response.headers.get("transfer-encoding", "").lower():
            size = body.size  # others may not have been read to their end
        return ServerAnswer(response.status, response.headers, body.data, size)

    def close(self) -> None:
        """Release the connections; may be called twice."""
        self._connections.close()

    def _way(self, url: str) -> _Way:
        """Return the route to the host of a URL, over the connections of this process."""
        pools = self._connections.pools()
        scheme, _, rest = url.partition("://")
        origin = f"{scheme}://{rest.partition('/')[0].partition('?')[0]}"
        way = self._ways.get(origin)
        if way is None or way.pools is not pools:
            if len(self._ways) >= _WAYS_MAX:
                self._ways.clear()
            way = self._ways[origin] = _Way(pools, origin)
        return way


class _Way:
    """Connections to a host, or to a proxy in front of it."""

    def __init__(self, pools: urllib3.PoolManager, origin: str) -> None:
        self.pools = pools
        self._proxied = pools.proxy is not None
        self._pool = pools.connection_from_url(origin)
        self._before_path = len(origin)

    def ask(self, method: str, url: str, **how: Any) -> urllib3.BaseHTTPResponse:
        """Send a request for a URL at this host, as ``urlopen`` of urllib3 does."""
        if self._proxied:
            return self.pools.urlopen(method, url, **how)
        # Through the pool itself, because the manager's look-up takes as long as signing.
        return self._pool.urlopen(method, url[self._before_path :] or "/", **how)


def _paced(
    body: Buffer, headers: dict[str, str], deadline: Deadline, silence: Silence
) -> Buffer | Iterator[memoryview] | None:
    """Yield a body to send; a large one in pieces, each of which may take an attempt's time."""
    if len(body) <= PIECE_BYTES:
        return body or None
    headers["content-length"] = str(len(body))

    def pieces() -> Iterator[memoryview]:
        deadline.body_begins()
        for start in range(0, len(body), PIECE_BYTES):
            piece = memoryview(body)[start : start + PIECE_BYTES]
            yield piece
            deadline.moved(len(piece))
            silence.note_progress()

    return pieces()
