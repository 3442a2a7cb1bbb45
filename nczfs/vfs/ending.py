"""What a mount that has ended could not store, reported to those who waited for its end."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from nczfs.plaindata import frozen


@frozen
class Ending:
    """How a mount has ended.

    Attributes
    ----------
    spool : the directory of what is left to `nczfs recover`; "": everything else is stored.
    lost : what is neither in the store nor in the spool, each with the reason, in words.
    failure : why something was not stored; "": no attempt failed.
    """

    spool: str = ""
    lost: tuple[str, ...] = ()
    failure: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether everything that was written is stored."""
        return not (self.spool or self.lost or self.failure)

    @classmethod
    def parsed(cls, document: Mapping[str, Any]) -> Ending:
        """Parse the form in a note. Raises KeyError."""
        return cls(document["spool"], tuple(document["lost"]), document["failure"])


class EndNote:
    """A file without a name, in which a daemon says how its mount has ended.

    Who waits for the end opens it while the daemon lives.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._fd = os.memfd_create("nczfs-end") if descriptor is None else descriptor

    @classmethod
    def opened(cls, path: str) -> EndNote:
        """Open the note of another process. Raises OSError."""
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    @property
    def path(self) -> str:
        """Where other processes open it."""
        return f"/proc/{os.getpid()}/fd/{self._fd}"

    def write(self, ending: Ending) -> None:
        """Say how the mount has ended."""
        os.pwrite(self._fd, json.dumps(asdict(ending)).encode(), 0)

    def read(self) -> Ending | None:
        """Return how the mount has ended; None: the daemon was killed before it said that."""
        size = os.fstat(self._fd).st_size
        with suppress(ValueError, KeyError):
            return Ending.parsed(json.loads(os.pread(self._fd, size, 0)))
        return None

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)
