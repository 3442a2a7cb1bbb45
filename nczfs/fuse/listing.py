"""The kernel's position in a directory that it reads in pieces."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from nczfs.engine.headway import Headway
from nczfs.vfs import effects
from nczfs.vfs.base import DirectoryEntry, FileSystem, HandleNo

# One reply of the kernel's usual 32 KiB takes about 200 entries, a page of an S3 listing is 1000.
_BATCH = 1000


class Listing:
    """The entries of one open directory after a cookie, loaded in batches.

    Used by one request at a time. What was loaded and did not fit into a reply is kept for the
    next; a request that starts elsewhere, or comes after one that failed, takes a new `Listing`.
    """

    def __init__(self, fs: FileSystem, handle: HandleNo, cookie: int) -> None:
        self._fs = fs
        self._handle = handle
        self._entries: Iterator[DirectoryEntry] | None = None
        self._loaded: deque[DirectoryEntry] = deque()
        self._headway = Headway()
        self.cookie = cookie
        """The cookie that the next entry follows."""
        self.ended = False
        """Whether all entries were loaded."""

    def load(self) -> None:
        """Load the next batch; may block. The request waits as long as names are being found."""
        with effects.waiting_for(self._headway), self._headway.noted():
            if self._entries is None:
                self._entries = self._fs.readdir(self._handle, self.cookie)
            batch = list(islice(self._entries, _BATCH))
        self.ended = len(batch) < _BATCH
        self._loaded.extend(batch)

    def peek(self) -> DirectoryEntry | None:
        """Return the next entry, if one is loaded."""
        return self._loaded[0] if self._loaded else None

    def take(self) -> None:
        """Go on to the entry after the next."""
        self.cookie = self._loaded.popleft().cookie
