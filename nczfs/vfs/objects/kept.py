"""What a flat store cannot keep, kept for the life of the mount."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace

from nczfs.vfs.base import Changes
from nczfs.vfs.objects.names import parent_of
from nczfs.zmap.base import Stat, Version
from nczfs.zmap.keys import Prefix


@dataclass(frozen=True, slots=True)
class Kept:
    """Attributes of a file or directory; None is what the mount gives to all.

    Attributes
    ----------
    version : the one that `mtime_ns` is about, None for a directory: when another client replaced
        the object, its time is the store's.
    """

    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    mtime_ns: int | None = None
    atime_ns: int | None = None
    version: Version | None = None


NOTHING = Kept()


class KeptAttributes:
    """Modes, owners and times by key or prefix. `_lock` guards the map."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Kept] = {}

    def get(self, key: str) -> Kept:
        """What is kept of a key; no lock."""
        return self._kept.get(key, NOTHING)

    def change(self, key: str, changes: Changes, version: Version | None = None) -> None:
        """Keep what was asked for."""
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
        """A directory was made, or an entry of it was made or removed."""
        self.change(prefix, Changes(mtime_ns=time.time_ns()))

    def copy(self, key: str, copied: Stat) -> None:
        """Keep of a copy what is kept of the key that it was made of."""
        with self._lock:
            kept = self._kept.get(key, NOTHING)
            kept = replace(kept, mtime_ns=copied.mtime_ns, version=copied.version)
            self._kept[copied.key] = kept

    def move(self, key: str, new_key: str, stored: Stat | None = None) -> None:
        """What is kept of a key is that of another one now, where `stored` is."""
        with self._lock:
            kept = self._kept.pop(key, NOTHING)
            if stored is not None:
                kept = replace(kept, mtime_ns=stored.mtime_ns, version=stored.version)
            self._kept[new_key] = kept

    def below(self, prefix: Prefix) -> list[str]:
        """The keys and prefixes below a directory of which something is kept."""
        with self._lock:
            return [key for key in self._kept if key.startswith(f"{prefix}/")]

    def discard(self, key: str) -> None:
        """The key is gone."""
        with self._lock:
            self._kept.pop(key, None)


class MadeDirectories:
    """Directories that are there whether the store has keys below them or not.

    Those that were made here, and those out of which something was removed here. Whoever is in the
    set has all those above in it. `_lock` guards the map.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[Prefix, set[str]] = {}

    def add(self, prefix: Prefix) -> None:
        """Put a directory in, and all above it."""
        with self._lock:
            while prefix:
                parent = parent_of(prefix)
                self._names.setdefault(parent, set()).add(prefix.rpartition("/")[2])
                prefix = parent

    def discard(self, prefix: Prefix) -> None:
        """Take a directory out, and all below it."""
        below = f"{prefix}/"
        with self._lock:
            self._names.get(parent_of(prefix), set()).discard(prefix.rpartition("/")[2])
            for gone in [p for p in self._names if p == prefix or p.startswith(below)]:
                del self._names[gone]

    def __contains__(self, prefix: Prefix) -> bool:
        return prefix.rpartition("/")[2] in self._names.get(parent_of(prefix), ())

    def names(self, prefix: Prefix) -> list[str]:
        """The names of those directly below a directory."""
        with self._lock:
            return list(self._names.get(prefix, ()))

    def below(self, prefix: Prefix) -> list[Prefix]:
        """A directory of the set and all below it, those above first."""
        if prefix not in self:
            return []
        found = [prefix]
        for above in found:
            found += [Prefix(f"{above}/{name}") for name in self.names(above)]
        return found
