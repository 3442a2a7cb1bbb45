"""The service as an ASGI application: from requests to answers, and these to the server.

Answers are made in threads, a piece at a time, because the engine blocks. A piece is made while the
one before it is being sent, and no earlier: a client that reads slowly costs the memory of a few
pieces, and no thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from threading import BoundedSemaphore
from typing import Final, TypeVar
from urllib.parse import quote

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nczfs.buffers import Buffer
from nczfs.errors import NczfsError, NotADirectory
from nczfs.messages import shown
from nczfs.plaindata import frozen
from nczfs.serve.answers import Answer, answer_of, is_ordinary, refusal
from nczfs.serve.budget import Budget
from nczfs.serve.cdm import CdmRemote, parse_query
from nczfs.serve.files import FileRequest, file_answer
from nczfs.serve.pages import ENDPOINT, directory_answer, place_in
from nczfs.serve.pictures import QUERY, Pictures, Wanted
from nczfs.serve.store import ServedStore
from nczfs.vfs.nodes import File
from nczfs.views.catalog import PREVIEW

log = logging.getLogger(__name__)

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; form-action 'self'; "
        b"base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every answer: no scripts, no frames, no guessing at types."""

_LAST: Final = (b"connection", b"close")

TARGET_BYTES_MAX: Final = 8 << 10
"""Of the path and the query of a request."""

SENT_BYTES: Final = 512 << 10
"""The server is given parts of pieces: it copies them, at best within the processor's cache."""

PAINTERS: Final = 2
"""Threads that draw pictures: these wait for each other, and nothing else shall wait for them."""

PICTURES_MAX: Final = 48
"""Pictures that are drawn or waited for at a time, if so many answers are allowed at all.

A browser asks for six, and does not ask again after a refusal.
"""

_LOGGED_MAX: Final = 300
_T = TypeVar("_T")


@frozen
class AppOptions:
    """Options of the application.

    Attributes
    ----------
    answers_max : at a time; others are told to come back.
    threads : that make pieces of answers.
    hosts : names by which clients may address the server; a name may begin with ``*.``, and "*" is
        any name.
    """

    answers_max: int = 64
    threads: int = 16
    hosts: tuple[str, ...] = ("*",)


def application(
    store: ServedStore, options: AppOptions, record_dimensions: frozenset[str] = frozenset()
) -> ASGIApp:
    """Return the service of a store.

    Parameters
    ----------
    record_dimensions : names of dimensions that are shown as unlimited.
    """
    budget = Budget()
    cdm = CdmRemote(store, budget, record_dimensions)
    pictures = Pictures(store)
    workers = ThreadPoolExecutor(options.threads, "nczfs-answer")
    painters = ThreadPoolExecutor(PAINTERS, "nczfs-picture")
    painting = BoundedSemaphore(max(1, min(PICTURES_MAX, options.answers_max * 3 // 4)))

    async def made(make: Callable[[], _T], threads: ThreadPoolExecutor = workers) -> _T:
        return await asyncio.wrap_future(threads.submit(make))

    async def respond(
        request: Request, answering: Awaitable[Answer], threads: ThreadPoolExecutor = workers
    ) -> Response:
        try:
            answer = await answering
            pieces = iter(answer.pieces)
            if request.method == "HEAD":
                first = None
                await made(lambda: _close(pieces))
            else:
                first = await made(lambda: next(pieces, None), threads)
                while first is not None and not len(first) and not await request.is_disconnected():
                    first = await made(lambda: next(pieces, None), threads)
        except NczfsError as error:
            if not is_ordinary(error):
                log.warning("%s: %s", shown(request.url.path), error)
            answer = answer_of(error)
            pieces = iter(answer.pieces)
            first = next(pieces)
        return _Pieces(answer, first, pieces, workers)

    async def cdmremote(request: Request) -> Response:
        path = request.path_params.get("path", "")
        url = f"{request.url.scheme}://{request.url.netloc}/{ENDPOINT}/{quote(path)}"
        return await respond(
            request,
            made(lambda: cdm.answer(path, parse_query(request.scope["query_string"]), url)),
        )

    async def node(request: Request) -> Response:
        path = request.path_params["path"]
        headers = request.headers

        none_match = headers.get("if-none-match", "")

        def find() -> tuple[Wanted, Answer | None]:
            found = store.node(path)
            if isinstance(found, File):
                raise NotADirectory(f"{shown(path)}: there are no pictures of files")
            wanted = pictures.wanted(found, path.strip("/"))
            return wanted, pictures.kept_answer(wanted, none_match)

        async def paint() -> Answer:
            wanted, kept = await made(find)
            if kept is not None:
                return kept
            if not painting.acquire(blocking=False):
                return _busy("too many pictures are being drawn")
            try:
                return await made(lambda: pictures.answer(wanted, none_match), painters)
            finally:
                painting.release()

        def make() -> Answer:
            found = store.node(path)
            if isinstance(found, File):
                wanted = FileRequest(
                    headers.get("range", ""),
                    headers.get("if-range", ""),
                    headers.get("if-match", ""),
                    headers.get("if-unmodified-since", ""),
                )
                name = path.rpartition("/")[2]
                return file_answer(found, name, wanted, budget.block_bytes)
            after = place_in(request.scope["query_string"])
            return directory_answer(store, found, path, after)

        wants_picture = request.scope["query_string"] == QUERY.encode()
        is_preview = path.rpartition("/")[2] == PREVIEW  # drawn at the first read
        return await respond(
            request, paint() if wants_picture else made(make), painters if is_preview else workers
        )

    inner = Starlette(
        routes=[
            Route(f"/{ENDPOINT}", cdmremote),
            Route(f"/{ENDPOINT}/{{path:path}}", cdmremote),
            Route("/{path:path}", node),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(options.hosts), www_redirect=False)
        ],
        exception_handlers={HTTPException: _refused},
    )
    return _Shell(inner, options.answers_max, budget)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    answer = refusal(error.status_code, error.detail)
    return _plain(replace(answer, headers=error.headers or {}))


class _Pieces(Response):
    """An answer that is sent as it is made."""

    def __init__(
        self,
        answer: Answer,
        first: Buffer | None,
        pieces: Iterator[Buffer],
        workers: ThreadPoolExecutor,
    ) -> None:
        self.status_code = answer.status
        self.media_type = None
        self.background = None
        self.body = b""
        headers = {**answer.headers, "Content-Type": answer.media_type}
        if answer.size is not None:
            headers["Content-Length"] = str(answer.size)
        self.raw_headers = [
            (name.lower().encode("latin-1"), value.encode("latin-1", "replace"))
            for name, value in headers.items()
        ]
        self._first = first
        self._pieces = pieces
        self._workers = workers
        self._following: Future[Buffer | None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        try:
            if self._first is None or await self._sends_all(receive, send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except NczfsError as error:
            # Without the end of the body the server cuts the connection.
            log.warning("%s: %s", shown(scope["path"]), error)
        finally:
            await self._end()

    async def _sends_all(self, receive: Receive, send: Send) -> bool:
        """Send the pieces. Returns False if the client has gone away. Raises NczfsError."""
        is_complete = False
        error: NczfsError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_at_disconnect, receive, group.cancel_scope)
            try:
                await self._send_each(send)
                is_complete = True
            except NczfsError as raised:  # the group would wrap it
                error = raised
            group.cancel_scope.cancel()
        if error is not None:
            raise error
        return is_complete

    async def _send_each(self, send: Send) -> None:
        piece, self._first = self._first, None
        while piece is not None:
            # Begun here and not in another task: sending gives way to others only when it waits.
            self._following = self._workers.submit(next, self._pieces, None)
            await _send(piece, send)
            piece = None
            piece = await asyncio.wrap_future(self._following)

    async def _end(self) -> None:
        """End what makes pieces, so that it releases what it holds.

        A piece that is being made is waited for here, and not in one more thread.
        """
        if self._following is not None and not self._following.cancel():
            await asyncio.gather(asyncio.wrap_future(self._following), return_exceptions=True)
        await asyncio.wrap_future(self._workers.submit(_close, self._pieces))


async def _send(piece: Buffer, send: Send) -> None:
    view = memoryview(piece)
    for start in range(0, len(view), SENT_BYTES):
        part = view[start : start + SENT_BYTES]
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _cancel_at_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _close(pieces: Iterator[Buffer]) -> None:
    close = getattr(pieces, "close", None)
    if close is not None:
        with suppress(NczfsError):
            close()


class _Shell:
    """What is around every answer: its headers, the access log, and the limit of answers."""

    def __init__(self, app: ASGIApp, answers_max: int, budget: Budget) -> None:
        self._app = app
        self._answers_max = answers_max
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        logged = _Logged(scope, send)
        self._budget.running += 1
        try:
            if (refused := self._refusal(scope)) is not None:
                await _plain(refused)(scope, receive, logged.send)
            else:
                await self._app(scope, receive, logged.send)
        except Exception:
            log.exception("internal error")
            if logged.status is None:
                answer = refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "see the log of the server")
                await _plain(answer)(scope, receive, logged.send)
        finally:
            self._budget.running -= 1
            logged.done()

    def _refusal(self, scope: Scope) -> Answer | None:
        """Return the answer to a request that is not looked at; None: it is."""
        if self._budget.running > self._answers_max:
            return _busy("too many answers are being sent")
        if len(scope["raw_path"]) + len(scope["query_string"]) > TARGET_BYTES_MAX:
            return refusal(
                HTTPStatus.REQUEST_URI_TOO_LONG, f"the URL has more than {TARGET_BYTES_MAX} bytes"
            )
        return None


def _has_body(scope: Scope) -> bool:
    """Return whether a request has a body, which no request needs here.

    Nothing may follow it on the connection: proxies and servers have disagreed about where bodies
    end, of which RFC 9112 (section 6.1) warns.
    """
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def _busy(why: str) -> Answer:
    answer = refusal(HTTPStatus.SERVICE_UNAVAILABLE, f"{why}; ask again")
    return replace(answer, headers={"Retry-After": "5"})


def _plain(answer: Answer) -> Response:
    """Return an answer that is made already."""
    return Response(
        b"".join(answer.pieces), answer.status, answer.headers, media_type=answer.media_type
    )


class _Logged:
    """The account of one answer."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._began = time.monotonic()
        self._bytes = 0
        self._length: int | None = None  # as the head says
        self._is_complete = False
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        """Pass a message on to the server."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            length = dict(message["headers"]).get(b"content-length")
            self._length = int(length) if length is not None else None
            last = (_LAST,) if _has_body(self._scope) else ()
            message = {**message, "headers": [*message["headers"], *HEADERS, *last]}
        elif message["type"] == "http.response.body":
            self._bytes += len(message.get("body", b""))
            # A client that has all bytes may leave before the server says that there are no more.
            self._is_complete = not message.get("more_body", False) or self._bytes == self._length
        await self._send(message)

    def done(self) -> None:
        """Log the answer. Of the query, only what CDM Remote knows: others may be secrets."""
        scope = self._scope
        client = scope["client"][0] if scope.get("client") else "-"
        log.info(
            '%s "%s %s" %s, %d bytes%s, %.3f s',
            client,
            scope["method"],
            _target(scope),
            self.status or "no answer",
            self._bytes,
            "" if self._is_complete else " (not complete)",
            time.monotonic() - self._began,
            extra={"repeats": ""},
        )


def _target(scope: Scope) -> str:
    """Return the target of a request for the log: printable, short."""
    target = bytes(scope.get("raw_path") or b"").decode("ascii", "backslashreplace")
    with suppress(NczfsError):
        query = parse_query(scope["query_string"])
        words = [("req", query.req), ("var", query.var), ("deflate", query.deflate)]
        known = [f"{name}={quote(str(value), safe='/:(),;')}" for name, value in words if value]
        target += f"?{'&'.join(known)}" if known else ""
    return target if len(target) <= _LOGGED_MAX else f"{target[:_LOGGED_MAX]}..."
