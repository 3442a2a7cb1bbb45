"""Stores that refuse what is written, or are not there, for as long as a test wants."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.places import Place, bucket_of, directory_at
from tests.support.ports import free_port, wait_for
from tests.support.servers import TOOLS, Faults, S3Server


@dataclass(frozen=True, slots=True)
class Refusing:
    """A store that can be told to refuse.

    Attributes
    ----------
    number : the errno of what it refuses.
    refuse, allow : from now on.
    """

    place: Place
    number: int
    refuse: Callable[[], None]
    allow: Callable[[], None]


@contextmanager
def small_disk(path: Path, size_mib: int) -> Iterator[None]:
    """A disk of its own for a directory, which is made."""
    path.mkdir()
    _as_root("mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=0777", "nczfs-test", str(path))
    try:
        yield
    finally:
        _as_root("umount", str(path))


def full_disk(directory: Path) -> Refusing:
    """A directory on a small disk; whatever is free there is taken, and given back."""
    place = directory_at(directory / "store")
    filler = directory / "filler"

    def refuse() -> None:
        with filler.open("wb", buffering=0) as file:
            for size in (4096, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError as error:
                    assert error.errno == errno.ENOSPC  # noqa: PT017 - it must end so

    return Refusing(place, errno.ENOSPC, refuse, filler.unlink)


def refusing_bucket(faults: Faults, rule: str, number: int) -> Refusing:
    """A bucket behind a proxy that answers in its stead."""
    return Refusing(bucket_of(faults.server), number, lambda: faults.set(rule), faults.set)


class Relay:
    """A relay before a server: without it there is no server at its address."""

    def __init__(self, server: S3Server) -> None:
        self._port = free_port()
        self._to = server.endpoint_url
        self._process: subprocess.Popen[bytes] | None = None
        self.server = server.at(f"http://127.0.0.1:{self._port}")

    def start(self) -> None:
        """Be there."""
        command = ["delay", "0", "--to", self._to, "--port", str(self._port)]
        self._process = subprocess.Popen(
            [sys.executable, TOOLS / "s3-faults", *command], stdout=subprocess.DEVNULL
        )
        wait_for(self._port, self._process)

    def stop(self) -> None:
        """Be gone: connections are closed, and new ones refused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Be silent: connections are taken, and nothing comes."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def _as_root(*command: str) -> None:
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    subprocess.run([*sudo, *command], check=True)
