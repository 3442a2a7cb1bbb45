"""Connections to a host that may have several addresses, with one timeout for all."""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from urllib3.util.connection import allowed_gai_family, create_connection

ADDRESSES_MAX: Final = 8  # addresses of a host; more are not tried


def connect(
    host: str, port: int, timeout_s: float, socket_options: Any, source_address: Any
) -> socket.socket:
    """Connect to the first address of a host that accepts.

    Raises
    ------
    socket.gaierror : the host is unknown.
    TimeoutError : the time was over.
    OSError : the last address refused.
    """
    end = time.monotonic() + timeout_s
    addresses = _addresses(host.strip("[]"), port, timeout_s)[:ADDRESSES_MAX]
    for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
        share_s = max((end - time.monotonic()) / left, 0.001)
        try:
            return create_connection(
                (address, port),
                share_s,
                source_address=source_address,
                socket_options=socket_options,
            )
        except OSError:
            if left == 1:
                raise
    raise OSError(f"{host} has no address")


def _addresses(host: str, port: int, timeout_s: float) -> Sequence[str]:
    """Return the addresses of a host, each once; a numeric address is itself."""
    family = allowed_gai_family()
    try:
        host.encode("idna")
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, "not the name of a host") from None
    try:
        found = socket.getaddrinfo(
            host, port, family, socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        found = _looked_up(host, port, family, timeout_s)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))


def _looked_up(host: str, port: int, family: int, timeout_s: float) -> Any:
    """Call getaddrinfo in a separate thread, because it has no timeout."""
    answer: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answer.put(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM))
        except OSError as error:
            answer.put(error)

    threading.Thread(target=ask, name="nczfs-resolve", daemon=True).start()
    try:
        found = answer.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError(f"{host}: its name was not resolved in time") from None
    if isinstance(found, Exception):
        raise found
    return found
