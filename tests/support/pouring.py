"""A server that sends bytes as a test says, without end or one by one; HTTP is up to the test."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Pour: TypeAlias = Callable[[str], Iterable[bytes]]
"""What is sent for a request, of which it gets the first line."""

BLOCK = b"x" * 65_536


@dataclass
class Pouring:
    """A running server.

    Attributes
    ----------
    asked : the first lines of requests.
    sent : how many bytes were taken from it.
    """

    url: str
    asked: list[str] = field(default_factory=list)
    sent: int = 0


@contextlib.contextmanager
def pouring(pour: Pour) -> Iterator[Pouring]:
    """Answer on a free port of loopback until the context ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Pouring(f"http://127.0.0.1:{listener.getsockname()[1]}")
    ended = threading.Event()

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            rest = b""
            while not ended.is_set():
                while b"\r\n\r\n" not in rest:
                    received = client.recv(65_536)
                    if not received:
                        return
                    rest += received
                head, _, rest = rest.partition(b"\r\n\r\n")
                line = head.partition(b"\r\n")[0].decode()
                server.asked.append(line)
                for data in pour(line):
                    if ended.is_set():
                        return
                    client.sendall(data)
                    server.sent += len(data)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def head(status: int, *headers: str) -> bytes:
    """The beginning of an answer."""
    return "\r\n".join((f"HTTP/1.1 {status} Said", *headers, "", "")).encode()


def endless(size: int = len(BLOCK)) -> Iterator[bytes]:
    """Chunks of a chunked body, without end."""
    chunk = b"%x\r\n%b\r\n" % (size, BLOCK[:size])
    return itertools.repeat(chunk * max(1, len(BLOCK) // len(chunk)))


def dripping(data: Iterable[bytes], pause_s: float = 0.02) -> Iterator[bytes]:
    """Bytes one by one, each with a pause before it."""
    for byte in itertools.chain.from_iterable(data):
        time.sleep(pause_s)
        yield bytes((byte,))
