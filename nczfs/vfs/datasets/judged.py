"""A small text that a program is writing, judged at each write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nczfs.buffers import Buffer
from nczfs.errors import NczfsError, ObjectTooLarge
from nczfs.vfs.datasets.refusals import RefusalsOfFile
from nczfs.vfs.nodes import OpenFile

EACH_JUDGED_BYTES_MAX = 64 << 10  # longer texts are judged each time they have doubled
JUDGED_BYTES_MAX = 1 << 20  # longer texts are judged only at the close


class JudgedText:
    """The bytes of a file that is only meaningful as a whole.

    A write is refused if no later write can mend the text, since shells ignore errors of close.
    Afterwards the text is incomplete, until it is truncated or begun anew.

    `lock` guards the text; `taken` holds it.

    Parameters
    ----------
    name : of the file, for messages.
    judge : raises an error if no text with this beginning can be right.
    """

    def __init__(
        self,
        name: str,
        data: bytes,
        bytes_max: int,
        refusals: RefusalsOfFile,
        judge: Callable[[bytes], None],
    ) -> None:
        self._name = name
        self._data = bytearray(data)
        self._bytes_max = bytes_max
        self._refusals = refusals
        self._judge = judge
        self._lock = threading.Lock()
        self._known = len(data)  # number of leading bytes that were written, or were there before
        self._judged = 0  # number of leading bytes that were judged last
        self._refused: NczfsError | None = None
        self.is_dirty = False

    def __len__(self) -> int:
        return len(self._data)

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the text so far."""
        with self._lock:
            return bytes(self._data[offset : offset + size])

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes anywhere. Raises ObjectTooLarge, and what `judge` raises, without writing."""
        stop = offset + len(data)
        self._check_size(stop)
        with self._lock, self._refusals.noted():
            if not offset:
                self._judged = 0
            if offset <= self._known:
                self._check(offset, data)
                self._known = max(self._known, stop)
            if not offset:
                self._refused = None
            self._reach(offset)
            self._data[offset:stop] = data
            self.is_dirty = True

    def truncate(self, size: int) -> None:
        """Shorten the text, or extend it with NULs. Raises ObjectTooLarge."""
        self._check_size(size)
        with self._lock:
            self._reach(size)
            del self._data[size:]
            self._known = min(self._known, size)
            self._judged = min(self._judged, size)
            self._refused = None
            self.is_dirty = size > 0

    @contextmanager
    def taken(self) -> Iterator[bytes | None]:
        """Enclose the use of the text; None if nothing was written. Errors in the block are noted.

        Raises
        ------
        the error of a refused write: the text is incomplete.
        """
        with self._lock:
            if not self.is_dirty:
                yield None
                return
            if self._refused is not None:
                raise type(self._refused)(str(self._refused))
            with self._refusals.noted():
                yield bytes(self._data)
            self._refusals.settle()
            self.is_dirty = False

    def _check(self, offset: int, data: Buffer) -> None:
        """Judge the text up to the end of a write, in linear time for all writes together."""
        stop = offset + len(data)
        if stop > JUDGED_BYTES_MAX or EACH_JUDGED_BYTES_MAX < stop < 2 * self._judged:
            return
        self._judged = stop
        try:
            self._judge(bytes(self._data[:offset]) + bytes(data))
        except NczfsError as error:
            self._refused = error
            raise

    def _reach(self, size: int) -> None:
        self._data += bytes(max(0, size - len(self._data)))

    def _check_size(self, size: int) -> None:
        if size > self._bytes_max:
            raise ObjectTooLarge(f"{self._name}: {size} bytes; at most {self._bytes_max}")


class OpenJudged(OpenFile):
    """A file whose text is judged while it is written, and takes effect at the flush.

    Parameters
    ----------
    text : what the file holds.
    """

    judges_writes = True

    def __init__(self, text: JudgedText) -> None:
        self._text = text

    @property
    def size(self) -> int:
        """The bytes of the text so far."""
        return len(self._text)

    def read(self, offset: int, size: int) -> Buffer:
        return self._text.read(offset, size)

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return None

    def write(self, offset: int, data: Buffer) -> int:
        self._text.write(offset, data)
        return len(data)

    def truncate(self, size: int) -> None:
        self._text.truncate(size)
