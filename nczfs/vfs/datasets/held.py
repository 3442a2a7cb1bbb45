"""Files that are kept on this machine until it is known where their bytes belong."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from nczfs.buffers import Buffer
from nczfs.errors import BadArgument, BadHandle, StaleHandle
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.nodes import File, NodeStat, OpenFile
from nczfs.vfs.staging import StagedFile


class HeldFile(File):
    """Bytes in the spool, under its budget.

    `_lock` guards the staged file and the number of open files. `_placing` is held while the bytes
    are placed, which may take long.

    Parameters
    ----------
    name : for messages.
    place : called at each close: puts the bytes where they belong if that is known, and returns
        whether it was.
    """

    writable = True
    waits_for = "their directory got no info.json, or they have a temporary name"

    def __init__(self, name: str, staged: StagedFile, place: Callable[[HeldFile], bool]) -> None:
        self.name = name
        self._staged = staged
        self._place = place
        self._mtime_ns = time.time_ns()
        self._lock = threading.Lock()
        self._placing = threading.Lock()
        self._opens = 0
        self._closed_changes: int | None = None  # of the staged file when it was last closed
        self._is_let_go = False
        self._is_discarded = False
        self._placed: tuple[Callable[[HeldFile], bool], int] | None = None  # where, which bytes

    @property
    def token(self) -> object:
        return self

    @property
    def size(self) -> int:
        """The bytes so far."""
        return self._staged.size

    @property
    def is_open(self) -> bool:
        """Whether a file is open that may still write."""
        return self._opens > 0

    @property
    def is_whole(self) -> bool:
        """Whether a descriptor was closed, and nothing was written since.

        (The kernel says later that the last descriptor was closed.)
        """
        return self._closed_changes == self._staged.changes

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(self.size, self._mtime_ns)

    def change(self, changes: AttributeChanges) -> None:
        """Accept all changes; a time is shown as long as the file is held."""
        if changes.mtime_ns is not None:
            self._mtime_ns = changes.mtime_ns

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        with self._lock:
            if self._is_let_go:
                # The kernel then looks the path up again.
                raise StaleHandle(f"{self.name}: is not held any more")
            if truncate:
                self._cut(0)
            self._opens += 1
        return _OpenHeld(self)

    def truncate(self, size: int) -> None:
        self.cut(size)
        self.place()

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes of the file, cut at its end."""
        with self._lock:
            found = self._staged.read(offset, size)
        assert found is not None  # all of its bytes are here
        return found

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes anywhere; a gap before them becomes zeros. Raises NoSpace."""
        with self._lock:
            self._check()
            self._staged.write(offset, data)
            self._mtime_ns = time.time_ns()

    def cut(self, size: int) -> None:
        """Set the size; added bytes are zeros. Raises NoSpace."""
        with self._lock:
            self._cut(size)

    def _cut(self, size: int) -> None:
        self._check()
        self._staged.truncate(size)

    def place(self) -> bool:
        """Put the bytes where they belong, if that is known. Returns whether it was.

        The close of a descriptor does that, and what makes the place known.
        """
        with self._placing:
            with self._lock:
                if self._is_discarded:
                    return self._placed is not None
                # Another descriptor may write, or the file get another name, meanwhile.
                now = self._place, self._staged.changes
                self._closed_changes = now[1]
                self._opens += 1  # the bytes stay until they are placed
            try:
                if now != self._placed and not self._put(now[0]):
                    return False
                self._placed = now
                return True
            finally:
                self._end_use()

    def _put(self, place: Callable[[HeldFile], bool]) -> bool:
        return place(self)

    def belongs(self, place: Callable[[HeldFile], bool]) -> None:
        """Give the file another place."""
        self._place, self._placed = place, None

    def let_go(self) -> None:
        """Release the bytes, except for those who have the file open."""
        with self._lock:
            self._is_let_go = True
            self._discard_if_unused()

    def closed(self) -> None:
        """Count one open file less."""
        self._end_use()

    def _end_use(self) -> None:
        with self._lock:
            self._opens -= 1
            self._discard_if_unused()

    def _discard_if_unused(self) -> None:
        if self._is_let_go and not self._opens and not self._is_discarded:
            self._is_discarded = True
            self._staged.discard()

    def _check(self) -> None:
        if self._is_discarded:
            raise BadHandle(f"{self.name}: is gone")


class _OpenHeld(OpenFile):
    """An open held file."""

    def __init__(self, held: HeldFile) -> None:
        self._held = held

    def read(self, offset: int, size: int) -> Buffer:
        return self._held.read(offset, size)

    def read_if_cached(self, offset: int, size: int) -> Buffer | None:
        return None

    def write(self, offset: int, data: Buffer) -> int:
        self._held.write(offset, data)
        return len(data)

    def truncate(self, size: int) -> None:
        self._held.cut(size)

    def flush(self) -> None:
        self._held.place()

    def fsync(self) -> None:
        if not self._held.place():
            raise BadArgument(
                f"{self._held.name}: cannot be stored before it is known what it belongs to: it "
                "waits for info.json, or for its name"
            )

    def close(self) -> None:
        self._held.closed()

    def drop(self) -> None:
        self._held.closed()
