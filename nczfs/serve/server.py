"""The server: a listening socket, limits of connections and requests, and the end.

uvicorn speaks HTTP. What it does not limit is limited here: how long a request may take to arrive
(`_Protocol`), and how long a client may accept nothing, which the kernel enforces
(``TCP_USER_TIMEOUT``), so that no code waits for a client that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import field

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from nczfs.errors import UsageError
from nczfs.plaindata import frozen

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 16 << 10
"""Of the line and the headers of a request."""

_CLOSING_S = 10.0  # for what is cancelled at the end
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_THREAD = "nczfs-serve"


@frozen
class ServerOptions:
    """Options of a server.

    Attributes
    ----------
    host, port : to listen at; port 0: any free one.
    connections_max : others are answered 503.
    request_s : within which a request must have arrived, from its first byte on, or from the
        beginning of the connection.
    stall_s : a connection whose client accepts nothing for so long is closed.
    stop_s : that running answers have at the end.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    connections_max: int = 256
    request_s: float = 20.0
    stall_s: float = 60.0
    stop_s: float = 30.0


def listen(options: ServerOptions) -> socket.socket:
    """Return a socket that listens. Raises UsageError : that is impossible."""
    try:
        found = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise UsageError(f"--listen {where}: {error.strerror or error}") from error
    # Connections inherit it.
    listener.setsockopt(
        socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(1000 * options.stall_s))
    )
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(
    app: ASGIApp,
    listener: socket.socket,
    options: ServerOptions,
    on_ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests until SIGTERM or SIGINT. Must be called by the main thread.

    Then the socket is closed, and running answers go on for `stop_s` at most; a second signal ends
    them at once.

    Parameters
    ----------
    on_ready : called when clients are answered.
    """
    with _signals() as heard, answering(app, listener, options) as server:
        on_ready()  # the socket listens already
        heard.first.wait()
        log.info("ends; running answers have %g s", options.stop_s)
        threading.Thread(
            target=_force, args=(heard.second, server), name="nczfs-serve-end", daemon=True
        ).start()
    if any(thread.name == _THREAD for thread in threading.enumerate()):
        log.error("gave up waiting for answers that cannot be cancelled")
        os._exit(1)


@contextlib.contextmanager
def answering(
    app: ASGIApp, listener: socket.socket, options: ServerOptions
) -> Iterator[uvicorn.Server]:
    """Answer requests in another thread during the block, and then as `serve` says."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # `app` logs what matters
    server = uvicorn.Server(_config(app, options))
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name=_THREAD, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.should_exit = True
        thread.join(options.stop_s + _CLOSING_S)


def _force(asked: threading.Event, server: uvicorn.Server) -> None:
    asked.wait()
    server.force_exit = True


@frozen
class _Heard:
    """What is set by the first signal that asks for the end, and by the second one."""

    first: threading.Event = field(default_factory=threading.Event)
    second: threading.Event = field(default_factory=threading.Event)


@contextlib.contextmanager
def _signals() -> Iterator[_Heard]:
    """Hear signals that ask for the end, whichever thread the kernel interrupts with them.

    A handler in Python runs only when the main thread does, and that may wait for a lock, from
    which a signal to another thread does not wake it. So another thread reads the pipe into which
    the handler in C writes.
    """
    heard = _Heard()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=_hear, args=(reader, heard), name="nczfs-serve-signals")
    thread.start()
    fd_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(fd_before)
        os.close(writer)
        thread.join()
        os.close(reader)


def _hear(reader: int, heard: _Heard) -> None:
    while data := os.read(reader, 1):
        if data[0] in _SIGNALS:
            (heard.second if heard.first.is_set() else heard.first).set()


def _config(app: ASGIApp, options: ServerOptions) -> uvicorn.Config:
    class Protocol(_Protocol):
        request_s = options.request_s

    return uvicorn.Config(
        app,
        loop="asyncio",
        http=Protocol,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=options.connections_max,
        h11_max_incomplete_event_size=REQUEST_BYTES_MAX,
        timeout_keep_alive=round(options.request_s),
        timeout_graceful_shutdown=round(options.stop_s),
    )


class _Protocol(H11Protocol):
    """uvicorn's protocol, with a deadline for the arrival of each request.

    uvicorn itself limits the time between requests, but forgets it with the first byte of the next
    one, and has none for a new connection.
    """

    request_s = 20.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._disarm()  # a request has arrived
        elif self._deadline is None and (self.cycle is None or self.cycle.response_complete):
            self._arm()

    def _arm(self) -> None:
        self._deadline = self.loop.call_later(self.request_s, self._give_up)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()
