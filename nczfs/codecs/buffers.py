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

REUSED_BYTES_MAX = 16 << 20  # of one array: a codec chain asks for two or three of them


class Scratch:
    """Memory that is used again, by one thread at a time."""

    def __init__(self) -> None:
        self._arrays: list[Flat] = []
        self._used = 0

    @contextmanager
    def reused(self) -> Iterator[None]:
        """Within it, what this thread decodes is written over by the next block of this memory."""
        self._used = 0
        _of_thread.scratch = self
        try:
            yield
        finally:
            _of_thread.scratch = None

    def empty(self, nbytes: int) -> Flat:
        """As `buffers.empty`; another part of the memory for each call within a block."""
        if nbytes > REUSED_BYTES_MAX:
            return np.empty(nbytes, np.uint8)
        number = self._used
        if number == len(self._arrays):
            self._arrays.append(np.empty(nbytes, np.uint8))
        elif self._arrays[number].nbytes < nbytes:
            self._arrays[number] = np.empty(nbytes, np.uint8)
        self._used = number + 1
        return self._arrays[number][:nbytes]


class _OfThread(threading.local):
    scratch: Scratch | None = None  # None: nobody said that he keeps nothing


_of_thread = _OfThread()


def empty(nbytes: int) -> Flat:
    """An array of bytes with any content."""
    scratch = _of_thread.scratch
    return np.empty(nbytes, np.uint8) if scratch is None else scratch.empty(nbytes)
