"""A write that passed its deadline: it does not overtake the next one of its key."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from nczfs.errors import DeadlinePassed
from nczfs.zmap.keys import Key
from nczfs.zmap.registry import StoreOptions
from nczfs.zmap.s3 import S3ZMap

KEY = Key("d.zarr/v/0")
PATIENCE_S = 120.0


class Holding:
    """A server that reads the first request and does not answer it; it answers all others.

    Attributes
    ----------
    bodies : of the requests, in the order in which they came.
    was_open : whether the connection of the first one was still open when the second one came.
    """

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.was_open: bool | None = None
        self._first: socket.socket | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE_S)
            body = _body(connection)
            if body is None:  # to end this
                connection.close()
                return
            self.bodies.append(body)
            if self._first is None:
                self._first = connection
                continue
            self.was_open = _is_open(self._first)
            connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "2"\r\nContent-Length: 0\r\n\r\n')
            connection.close()

    def close(self) -> None:
        with socket.create_connection(self._listener.getsockname()):
            pass
        self._thread.join()
        self._listener.close()
        if self._first is not None:
            self._first.close()


def _body(connection: socket.socket) -> bytes | None:
    """The body of a request; None: there is none."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    size = next(int(s.partition(":")[2]) for s in lines if s.startswith("content-length:"))
    while len(body) < size:
        body += connection.recv(65536)
    return body


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


@pytest.fixture
def server() -> Iterator[Holding]:
    holding = Holding()
    yield holding
    holding.close()


def test_the_next_write_of_a_key_is_sent_when_the_connection_of_the_late_one_is_closed(
    server: Holding, credentials: object
) -> None:
    options = StoreOptions(endpoint_url=server.url, request_timeout_s=5.0, attempt_timeout_s=5.0)
    zmap = S3ZMap("bucket", options)
    try:
        with pytest.raises(DeadlinePassed):
            zmap.write(KEY, b"old")
        zmap.write(KEY, b"new")
    finally:
        zmap.close()
    assert server.bodies == [b"old", b"new"]
    assert server.was_open is False
