"""Mappings that outlive their files: Python's own keep a descriptor, whose close stores all."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

MAP_FAILED = ctypes.c_void_p(-1).value


def write_after_close(path: Path, offset: int, data: bytes) -> None:
    """Write bytes through a mapping, between the close of its file and its own end."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    length = ctypes.c_size_t(path.stat().st_size)
    with path.open("r+b") as file:
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        place = libc.mmap(None, length, rights, mmap.MAP_SHARED, file.fileno(), ctypes.c_long(0))
    if place == MAP_FAILED:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    ctypes.memmove(place + offset, data, len(data))
    assert libc.munmap(ctypes.c_void_p(place), length) == 0
