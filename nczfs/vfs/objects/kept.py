"""Attributes that a flat store cannot store, kept while the mount lives."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from nczfs.plaindata import frozen
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.objects.names import parent_of
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Prefix


@frozen
class LocalAttributes:
    """Attributes of a file or directory; None: the mount's default.

    Attributes
    ----------
    version : that `mtime_ns` belongs to; None for a directory. If another client replaces the
        object, the store's time counts.
    """

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    mtime_ns: int | None = None
    atime_ns: int | None = None
    version: Version | None = None


NOTHING = LocalAttributes()


class KeptAttributes:
    """Modes, owners and times by key or prefix. `_lock` guards the map."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, LocalAttributes] = {}

    def get(self, key: str) -> LocalAttributes:
        """Return the attributes of a key. Takes no lock."""
        return self._kept.get(key, NOTHING)

    def change(self, key: str, changes: AttributeChanges, version: Version | None = None) -> None:
        """Set the requested attributes."""
        with self._lock:
            kept = self._kept.get(key, NOTHING)
            named = {
                name: value
                for name in ("mode", "uid", "gid", "mtime_ns", "atime_ns")
                if (value := getattr(changes, name)) is not None
            }
            if "mtime_ns" in named:
                kept = replace(kept, version=version)
            self._kept[key] = replace(kept, **named)

    def touch(self, prefix: Prefix) -> None:
        """Note that a directory was made, or an entry of it was made or removed."""
        self.change(prefix, AttributeChanges(mtime_ns=time.time_ns()))

    def copy(self, key: str, copied: Stat) -> None:
        """Give a copy the attributes of its source."""
        with self._lock:
            kept = self._kept.get(key, NOTHING)
            kept = replace(kept, mtime_ns=copied.mtime_ns, version=copied.version)
            self._kept[copied.key] = kept

    def move(self, key: str, new_key: str, stored: Stat | None = None) -> None:
        """Move the attributes of a key to another one, which has the version `stored`."""
        with self._lock:
            kept = self._kept.pop(key, NOTHING)
            if stored is not None:
                kept = replace(kept, mtime_ns=stored.mtime_ns, version=stored.version)
            self._kept[new_key] = kept

    def below(self, prefix: Prefix) -> list[str]:
        """Return the keys and prefixes below a directory that have attributes."""
        with self._lock:
            return [key for key in self._kept if key.startswith(f"{prefix}/")]

    def discard(self, key: str) -> None:
        """Remove the attributes of a key that is gone."""
        with self._lock:
            self._kept.pop(key, None)


class MadeDirectories:
    """Directories that exist even if the store has no keys below them.

    These are directories that were made here, and those from which something was removed here. With
    a directory the set contains all directories above it. `_lock` guards the map.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[Prefix, set[str]] = {}

    def add(self, prefix: Prefix) -> None:
        """Add a directory, and all above it."""
        with self._lock:
            while prefix:
                parent = parent_of(prefix)
                self._names.setdefault(parent, set()).add(prefix.rpartition("/")[2])
                prefix = parent

    def discard(self, prefix: Prefix) -> None:
        """Remove a directory, and all below it."""
        below = f"{prefix}/"
        with self._lock:
            self._names.get(parent_of(prefix), set()).discard(prefix.rpartition("/")[2])
            for gone in [p for p in self._names if p == prefix or p.startswith(below)]:
                del self._names[gone]

    def __contains__(self, prefix: Prefix) -> bool:
        return prefix.rpartition("/")[2] in self._names.get(parent_of(prefix), ())

    def names(self, prefix: Prefix) -> list[str]:
        """Return the names of those directly below a directory."""
        with self._lock:
            return list(self._names.get(prefix, ()))

    def below(self, prefix: Prefix) -> list[Prefix]:
        """Return a directory of the set and all below it, from the top."""
        if prefix not in self:
            return []
        found = [prefix]
        for above in found:
            found += [Prefix(f"{above}/{name}") for name in self.names(above)]
        return found
