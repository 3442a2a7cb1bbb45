"""Sources of the bytes of an archive."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nczfs.buffers import Buffer
from nczfs.errors import Conflict, NoSuchObject
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key


class ArchiveBytes(ABC):
    """The bytes of an archive, which stay the same as at its opening. Thread-safe."""

    name: str
    """The URL without secrets, for messages."""
    near: bool
    """Whether a read takes microseconds."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of bytes."""

    @property
    @abstractmethod
    def mtime_ns(self) -> int | None:
        """When the archive was last changed; None if unknown."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """The identity of the archive and its version."""

    @abstractmethod
    def read(self, start: int, stop: int) -> Buffer:
        """Read bytes [start, stop), fewer only at the end. Raises Conflict: they have changed."""


class ObjectBytes(ArchiveBytes):
    """An archive that is an object of a store."""

    def __init__(self, source: ZMap, key: Key) -> None:
        self.name = f"{source.name}/{key}"
        self.near = source.features.near
        self._source = source
        self._key = key
        self._pinned = source.stat(key)

    @property
    def size(self) -> int:
        return self._pinned.size

    @property
    def mtime_ns(self) -> int | None:
        return self._pinned.mtime_ns

    @property
    def identity(self) -> str:
        return f"{self.name} {self._pinned.size} {self._pinned.version}"

    def read(self, start: int, stop: int) -> Buffer:
        try:
            return self._source.read(self._key, start, stop, version=self._pinned.version).data
        except NoSuchObject as error:
            # Not NoSuchObject, which would mean that the member was never written.
            raise Conflict(f"{self.name}: the archive was removed since it was opened") from error
