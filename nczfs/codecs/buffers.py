"""Memory for decoded data, new or used again.

Memory that the system has just given costs more to touch than most decoders take to fill it. Who
copies what was decoded, and keeps nothing of it, lets it be written over the next time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nczfs.codecs.codec import Flat

REUSED_BYTES_MAX = 16 << 20  # of one array: a thread keeps no more than two or three of them


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.arrays: list[Flat] = []
        self.used: int | None = None  # None: nobody said that he keeps nothing


_of_thread = _OfThread()


@contextmanager
def reused() -> Iterator[None]:
    """Within it, what this thread decodes is written over by the next such block."""
    _of_thread.used = 0
    try:
        yield
    finally:
        _of_thread.used = None


def empty(nbytes: int) -> Flat:
    """An array of bytes with any content."""
    number = _of_thread.used
    if number is None or nbytes > REUSED_BYTES_MAX:
        return np.empty(nbytes, np.uint8)
    arrays = _of_thread.arrays
    if number == len(arrays):
        arrays.append(np.empty(nbytes, np.uint8))
    elif arrays[number].nbytes < nbytes:
        arrays[number] = np.empty(nbytes, np.uint8)
    _of_thread.used = number + 1
    return arrays[number][:nbytes]
