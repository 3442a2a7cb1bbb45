"""Files of ``.nczfs/`` that answer: a program writes a request, and reads the answer behind it."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from nczfs.buffers import Buffer
from nczfs.errors import ObjectTooLarge, StaleHandle
from nczfs.vfs.nodes import MadeFile, OpenFile

REQUEST_BYTES_MAX = 64 << 10
KEPT_BYTES = 64 << 10  # of the lines of an open file


class Reply(ABC):
    """The lines of an answer."""

    @abstractmethod
    def line(self) -> str | None:
        """Return the next line; None after the last one. May wait for a second."""

    @abstractmethod
    def end(self) -> None:
        """Called when nobody will read on: what the answer tells of is ended."""


class Said(Reply):
    """An answer that is known at once."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    def line(self) -> str | None:
        return next(self._lines, None)

    def end(self) -> None:
        """Do nothing: it is done."""


class AnsweringFile(MadeFile):
    """A file that does what is written to it, and then contains what came of it.

    Parameters
    ----------
    ask : begins to do what a text asks for. It raises BadArgument if it is no request.
    """

    writable = True

    def __init__(self, mtime_ns: int, ask: Callable[[str], Reply]) -> None:
        super().__init__(mtime_ns)
        self._ask = ask

    def make(self) -> bytes:
        return b""

    def truncate(self, size: int) -> None:
        """Do nothing: a shell's ``>`` truncates before it writes."""

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        return _Conversation(self._ask)


class _Conversation(OpenFile):
    """An open file with the requests that were written to it, and behind each one its answer.

    `_lock` guards the text, and is held while a line is waited for.
    """

    is_slow = True

    def __init__(self, ask: Callable[[str], Reply]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._answer: Reply = Said(())
        self._begin = 0  # of the text in the file
        self._text = b""

    def read(self, offset: int, size: int) -> Buffer:
        with self._lock:
            while offset >= self._begin + len(self._text):
                line = self._answer.line()
                if line is None:
                    return b""
                self._add(f"{line}\n".encode())
            return self._part(offset, size)

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return None

    def write(self, offset: int, data: Buffer) -> int:
        if len(data) > REQUEST_BYTES_MAX:
            raise ObjectTooLarge(f"at most {REQUEST_BYTES_MAX} bytes are taken at a time")
        with self._lock:
            self._answer.end()
            self._answer = Said(())
            self._answer = self._ask(os.fsdecode(bytes(data)))
            self._add(bytes(data))
        return len(data)

    def close(self) -> None:
        self._answer.end()

    def _part(self, offset: int, size: int) -> bytes:
        if offset < self._begin:
            raise StaleHandle("only the last lines are kept")
        return self._text[offset - self._begin :][:size]

    def _add(self, data: bytes) -> None:
        self._text += data
        surplus = max(0, len(self._text) - KEPT_BYTES)
        self._text = self._text[surplus:]
        self._begin += surplus
