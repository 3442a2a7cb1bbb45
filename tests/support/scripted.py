"""An HTTP server that answers as a test says, for what real servers do too rarely."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the server got it.

    Attributes
    ----------
    headers : with names in small letters.
    port : of the client, which tells its connections apart.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answers; Content-Length is of the body, unless `headers` says otherwise."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Script: TypeAlias = Callable[[Asked], Reply]


@dataclass(frozen=True, slots=True)
class Scripted:
    """A running server and what it was asked."""

    endpoint_url: str
    asked: list[Asked]


@contextlib.contextmanager
def serving(script: Script) -> Iterator[Scripted]:
    """Answer on a free port of loopback, in threads, until the context ends."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            size = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Asked(
                self.command, self.path, headers, self.rfile.read(size), self.client_address[1]
            )
            asked.append(request)
            reply = script(request)
            self.send_response(reply.status)
            for name, value in {
                "Content-Length": str(len(reply.body)),
                **reply.headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_CONNECT = answer

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing on stderr."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Say nothing of clients that do not read on."""
            if not isinstance(sys.exception(), ConnectionError):
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Scripted(f"http://127.0.0.1:{server.server_port}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
