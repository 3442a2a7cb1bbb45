"""Telling systemd what a service is doing."""

from __future__ import annotations

import os
import socket
import sys


def notify_service_manager(state: str) -> None:
    """Report the state to systemd (Type=notify), if it expects that."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.sendto(state.encode(), address)
    except OSError as error:
        print(f"nczfs: the service manager could not be reached: {error}", file=sys.stderr)
