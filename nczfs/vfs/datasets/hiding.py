"""Names of ``datasets/`` that were removed without removing anything in the store."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable

from nczfs.views.catalog import ATTRIBUTES, INFO, LINES, RAW
from nczfs.zmap.keys import Prefix, after_rename, is_within, join

COPIED = (ATTRIBUTES, INFO, RAW, LINES)
"""The names that a copied directory can have."""


class NumberRuns:
    """A set of numbers that are mostly added in order, as runs. `_lock` guards them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._starts: list[int] = []
        self._stops: list[int] = []

    def __contains__(self, number: int) -> bool:
        with self._lock:
            at = bisect_right(self._starts, number) - 1
            return at >= 0 and number < self._stops[at]

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._starts)

    def add(self, number: int) -> None:
        with self._lock:
            at = bisect_right(self._starts, number)
            if at and number < self._stops[at - 1]:
                return
            follows = at > 0 and self._stops[at - 1] == number
            precedes = at < len(self._starts) and self._starts[at] == number + 1
            if follows and precedes:
                self._stops[at - 1] = self._stops.pop(at)
                del self._starts[at]
            elif follows:
                self._stops[at - 1] = number + 1
            elif precedes:
                self._starts[at] = number
            else:
                self._starts.insert(at, number)
                self._stops.insert(at, number + 1)

    def discard(self, number: int) -> None:
        with self._lock:
            at = bisect_right(self._starts, number) - 1
            if at < 0 or number >= self._stops[at]:
                return
            rest = ((self._starts[at], number), (number + 1, self._stops[at]))
            runs = [run for run in rest if run[0] < run[1]]
            self._starts[at : at + 1] = [start for start, _ in runs]
            self._stops[at : at + 1] = [stop for _, stop in runs]


class Hidden:
    """The hidden files of each node, by its prefix, and directories that are shown without keys.

    A removed view is hidden, since it is stored nowhere; a directory that began empty hides
    everything that was not put into it. A directory without keys is shown if it was emptied here,
    until it is removed, too. `_lock` guards the dicts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[Prefix, set[str]] = {}
        self._put: dict[Prefix, set[str]] = {}
        self._chunks: dict[Prefix, NumberRuns] = {}
        self._emptied: set[Prefix] = set()
        self._losing: set[Prefix] = set()

    def lose(self, prefix: Prefix) -> None:
        """Note that something of a node was removed, so that programs may go on to remove it."""
        with self._lock:
            self._losing.add(prefix)

    def has_lost(self, prefix: Prefix) -> bool:
        """Return whether something of a node was removed here."""
        return prefix in self._losing

    def hide(self, prefix: Prefix, name: str) -> None:
        """Hide a file or directory of a node."""
        with self._lock:
            self._names.setdefault(prefix, set()).add(name)
            self._losing.add(prefix)

    def begin(self, prefix: Prefix) -> None:
        """Show only what is put into a directory from now on."""
        with self._lock:
            self._names.pop(prefix, None)
            self._losing.discard(prefix)
            self._put[prefix] = set()

    def put(self, prefix: Prefix, name: str) -> None:
        """Show a file or directory that was put into a directory."""
        with self._lock:
            self._names.get(prefix, set()).discard(name)
            if prefix in self._put:
                self._put[prefix].add(name)

    def is_hidden(self, prefix: Prefix, name: str) -> bool:
        """Return whether a file or directory of a node is hidden."""
        put = self._put.get(prefix)
        return self.is_removed(prefix, name) or (put is not None and name not in put)

    def is_removed(self, prefix: Prefix, name: str) -> bool:
        """Return whether a file or directory of a node was removed here."""
        return name in self._names.get(prefix, ())

    def left(self, prefix: Prefix, names: Iterable[str]) -> list[str]:
        """Return those of some files and directories of a node that are not hidden."""
        hidden, put = self._names.get(prefix, ()), self._put.get(prefix)
        return [name for name in names if name not in hidden and (put is None or name in put)]

    def chunks(self, prefix: Prefix) -> NumberRuns:
        """Return the hidden chunks of an array."""
        known = self._chunks.get(prefix)
        if known is None:
            with self._lock:
                known = self._chunks.setdefault(prefix, NumberRuns())
        return known

    def keep(self, prefix: Prefix) -> None:
        """Show a directory although no key lies below it any more."""
        with self._lock:
            self._emptied.add(prefix)

    @property
    def keeps_any(self) -> bool:
        """Whether any directory is shown without keys."""
        return bool(self._emptied)

    def is_kept(self, prefix: Prefix) -> bool:
        """Return whether a directory is shown even without keys."""
        return prefix in self._emptied

    def kept_in(self, prefix: Prefix) -> list[str]:
        """Return the names of such directories right below a prefix."""
        with self._lock:
            kept = [path.rpartition("/") for path in self._emptied]
        return [name for above, _, name in kept if above == prefix]

    def move(self, prefix: Prefix, goal: Prefix) -> None:
        """Move everything at or below a prefix to another one."""
        with self._lock:
            self._names = {after_rename(path, prefix, goal): n for path, n in self._names.items()}
            self._put = {after_rename(path, prefix, goal): n for path, n in self._put.items()}
            self._chunks = {after_rename(path, prefix, goal): n for path, n in self._chunks.items()}
            self._emptied = {after_rename(path, prefix, goal) for path in self._emptied}
            self._losing = {after_rename(path, prefix, goal) for path in self._losing}

    def forget(self, prefix: Prefix) -> list[Prefix]:
        """Show everything at or below a prefix. Returns what was hidden, except single chunks."""
        with self._lock:
            hidden = [path for path in self._names if is_within(path, prefix)]
            shown = [Prefix(join(path, name)) for path in hidden for name in self._names.pop(path)]
            for path in [path for path in self._put if is_within(path, prefix)]:
                put = self._put.pop(path)
                shown += [Prefix(join(path, name)) for name in COPIED if name not in put]
            for path in [path for path in self._chunks if is_within(path, prefix)]:
                del self._chunks[path]
            self._emptied = {p for p in self._emptied if not is_within(p, prefix)}
            self._losing = {p for p in self._losing if not is_within(p, prefix)}
        return shown
