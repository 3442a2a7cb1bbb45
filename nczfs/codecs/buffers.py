"""Memory for decoded data, new or reused.

Touching memory that the system has just given costs more time than most decoders need to fill it.
So a caller that copies the decoded data, and keeps nothing of them, has their memory reused. If the
place for the copy has room for exactly these data, a decoder may fill it at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from nczfs.codecs.codec import Flat

REUSED_BYTES_MAX = 16 << 20  # per array: a codec chain needs two or three


class Scratch:
    """Memory that is reused, by one thread at a time."""

    def __init__(self) -> None:
        self._arrays: list[Flat] = []
        self._used = 0
        self._target: Flat | None = None

    @contextmanager
    def reused(self) -> Iterator[None]:
        """Decode into this memory during the block; the next such block overwrites the data."""
        before = _of_thread.scratch
        _of_thread.scratch = self
        self.restart()
        try:
            yield
        finally:
            self._target = None
            _of_thread.scratch = before

    def restart(self, target: Flat | None = None) -> None:
        """Overwrite what was decoded in the block so far with what is decoded now.

        Parameters
        ----------
        target : given away first, for data of exactly its size; None: there is none.
        """
        self._used = 0
        self._target = target

    def empty(self, nbytes: int) -> Flat:
        """Return an array as `buffers.empty` does; each call within a block gets another part."""
        target = self._target
        if target is not None and target.nbytes == nbytes:
            self._target = None
            return target
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
    scratch: Scratch | None = None  # None: the caller may keep the data


_of_thread = _OfThread()


def empty(nbytes: int) -> Flat:
    """Return an array of bytes with arbitrary content."""
    scratch = _of_thread.scratch
    return np.empty(nbytes, np.uint8) if scratch is None else scratch.empty(nbytes)
