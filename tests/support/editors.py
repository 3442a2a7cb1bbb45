"""Python libraries that change one element of a netCDF file, each time in a process of its own.

    python -m tests.support.editors DESCRIPTOR

forks for each request that comes by this socket, so that the libraries are imported once, and
what one of them is left with when a mount ends ends with its process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import h5py
import netCDF4

from tests.interop.netcdf_programs.field import VARIABLE

_MESSAGE_BYTES = 1 << 16

Edits = Callable[[Path, float, tuple[int, ...]], bool]


def _by_netcdf4(file: str, value: float, index: tuple[int, ...]) -> None:
    with netCDF4.Dataset(file, "r+") as dataset:
        dataset[VARIABLE][index] = value


def _by_h5py(file: str, value: float, index: tuple[int, ...]) -> None:
    with h5py.File(file, "r+") as opened:
        opened[VARIABLE][index] = value


LIBRARIES: Mapping[str, Callable[[str, float, tuple[int, ...]], None]] = MappingProxyType(
    {"netcdf4": _by_netcdf4, "h5py": _by_h5py}
)


@contextmanager
def editor_of(library: str) -> Iterator[Edits]:
    """What changes an element by a library, and says whether that took it for stored."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    command = [sys.executable, "-m", "tests.support.editors", str(number)]
    with (
        theirs,
        subprocess.Popen(command, pass_fds=[number], stderr=subprocess.DEVNULL),
        ours,  # is closed before the process is waited for
    ):
        theirs.close()

        def edit(file: Path, value: float, index: tuple[int, ...]) -> bool:
            ours.send(json.dumps((library, os.fspath(file), value, index)).encode())
            return int(json.loads(ours.recv(_MESSAGE_BYTES))) == 0

        yield edit


def _serve(requests: socket.socket) -> None:
    while message := requests.recv(_MESSAGE_BYTES):
        library, file, value, index = json.loads(message)
        pid = os.fork()
        if not pid:
            status = 1
            try:
                LIBRARIES[library](file, value, tuple(index))
                status = 0
            finally:
                os._exit(status)  # an exit would let HDF5 try to write what it has
        requests.send(json.dumps(os.waitpid(pid, 0)[1]).encode())


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
