"""The directory ``.nczfs/``: the mount itself, as files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

from nczfs import metrics
from nczfs.buffers import Buffer
from nczfs.engine.chunks.loaded import Footprint
from nczfs.errors import ObjectTooLarge
from nczfs.plaindata import frozen
from nczfs.vfs.conversing import REQUEST_BYTES_MAX, AnsweringFile, Reply, Said
from nczfs.vfs.nodes import FixedContent, FixedDirectory, MadeFile, OpenFile, TreeNode

LOG_BYTES_SHOWN = 4 << 20


@frozen
class LogFile:
    """A log file, which may have lines of earlier mounts.

    Attributes
    ----------
    begin : where the lines of this mount begin, as long as the file has this inode.
    """

    path: Path
    begin: int = 0
    inode: int = 0

    @classmethod
    def from_here(cls, path: Path) -> LogFile:
        """Return a file whose present lines are of earlier mounts."""
        try:
            found = path.stat()
        except FileNotFoundError:
            return cls(path)
        return cls(path, found.st_size, found.st_ino)

    def tail(self) -> bytes:
        """Return the end of what was logged, from the first whole line on."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                is_same = found.st_ino == self.inode and found.st_size >= self.begin
                begin = self.begin if is_same else 0  # it may have been rotated
                end = file.seek(0, os.SEEK_END)
                start = file.seek(max(begin, end - LOG_BYTES_SHOWN))
                data = file.read()
        except OSError as error:
            return f"{self.path}: {error.strerror}\n".encode()
        return data if start == begin else data.partition(b"\n")[2]


class ControlDirectory(FixedDirectory):
    """Files that describe the mount, and files that control it.

    Parameters
    ----------
    status : returns the contents of ``status.json``.
    config : the effective options, with secrets masked.
    log : the log; None if the log goes elsewhere.
    access : the lines of the access log.
    refresh : forgets what is cached of a path ("" is everything), and returns what the chunk cache
        had of it.
    warm : begins to load what a text asks for.
    flush : stores everything that was written.
    """

    def __init__(
        self,
        *,
        mtime_ns: int,
        status: Callable[[], Mapping[str, object]],
        config: Mapping[str, object],
        log: LogFile | None,
        access: Callable[[], bytes],
        refresh: Callable[[str], Footprint],
        warm: Callable[[str], Reply],
        flush: Callable[[], None],
    ) -> None:
        files: dict[str, TreeNode] = {
            "status.json": _Made(mtime_ns, lambda: _json(status())),
            "config.json": _Made(mtime_ns, lambda: _json(config)),
            "metrics": _Made(mtime_ns, metrics.exposition),
            "log": _Made(mtime_ns, lambda: _tail(log)),
            "access.log": _Made(mtime_ns, access),
            "refresh": AnsweringFile(mtime_ns, lambda text: _refreshed(text, refresh)),
            "warm": AnsweringFile(mtime_ns, warm),
            "flush": _Lever(mtime_ns, flush),
        }
        super().__init__(files, mtime_ns)


class _Made(MadeFile):
    def __init__(self, mtime_ns: int, content: Callable[[], bytes]) -> None:
        super().__init__(mtime_ns)
        self._content = content

    def make(self) -> bytes:
        return self._content()


class _Lever(MadeFile):
    """An empty file that acts on what is written to it."""

    writable = True

    def __init__(self, mtime_ns: int, pull: Callable[[], None]) -> None:
        super().__init__(mtime_ns)
        self._pull = pull

    def make(self) -> bytes:
        return b""

    def truncate(self, size: int) -> None:
        """Do nothing: a shell's ``>`` truncates before it writes."""

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        return _OpenLever(self._pull)


class _OpenLever(FixedContent):
    def __init__(self, pull: Callable[[], None]) -> None:
        super().__init__(b"")
        self._pull = pull

    def write(self, offset: int, data: Buffer) -> int:
        if offset + len(data) > REQUEST_BYTES_MAX:
            raise ObjectTooLarge(f"at most {REQUEST_BYTES_MAX} bytes are taken after an open")
        self._pull()
        return len(data)


def _refreshed(text: str, refresh: Callable[[str], Footprint]) -> Reply:
    """Forget what each line of a text names. The answer has a line for each."""
    found = [refresh(line) for line in text.removesuffix("\n").split("\n")]
    return Said(json.dumps(asdict(each)) for each in found)


def _json(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, indent=2, default=str).encode() + b"\n"


def _tail(log: LogFile | None) -> bytes:
    if log is None:
        return b"the log does not go to a file: see stderr, or the journal\n"
    return log.tail()
