"""The files that are open, by key."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from nczfs.engine.retrying import Trouble, newest
from nczfs.errors import NczfsError, StaleHandle
from nczfs.plaindata import frozen
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.names import parent_of
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import Key, Prefix, moved

log = logging.getLogger(__name__)

RENAMES_MAX = 4096  # more than there are before a node is asked for again

Place: TypeAlias = tuple[Prefix, int]
"""A directory, and the `LiveFiles.renames` of which that is true."""


@frozen
class _Rename:
    """A directory that was renamed."""

    prefix: Prefix
    goal: Prefix


class LiveFiles:
    """The live files by key.

    `_lock` guards the map, the counts of handles, the directories that are being renamed and the
    names that are being changed; it is taken within all other locks. A rename of a directory waits
    until no name below is being changed, every change of a name until no directory above is being
    renamed, and who opens a file until nobody changes its name.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._renaming: list[Prefix] = []
        self._changing: list[str] = []
        self._renames = 0
        self._renamed: deque[_Rename] = deque(maxlen=RENAMES_MAX)
        self._files: dict[Key, LiveFile] = {}

    @property
    def renames(self) -> int:
        """Return the number of directory renames so far."""
        return self._renames

    def place(self, prefix: Prefix, since: int, *, wait: bool = True) -> Place:
        """Return the present place of a directory, after renames of it or of those above.

        Parameters
        ----------
        prefix : where it was.
        since : so many renames ago.
        wait : until none of them is being renamed any more.

        Returns
        -------
        the prefix, and the `renames` of which that is true.
        """
        if since == self._renames and not (wait and self._renaming):
            return prefix, since
        with self._lock:
            if wait:
                return self._settled(prefix, since)
            return self._moved(prefix, since), self._renames

    def has_moved(self, prefix: Prefix, since: int) -> bool:
        """Return whether a directory, or one above, was renamed since, even there and back."""
        with self._lock:
            return self._has_moved(prefix, since)

    @contextmanager
    def staying(self, prefix: Prefix, since: int) -> Iterator[Prefix]:
        """Keep a directory, and those above, from being renamed during the block."""
        with self._lock:
            prefix, _ = self._settled(prefix, since)
            name = f"{prefix}/"
            self._changing.append(name)
        try:
            yield prefix
        finally:
            with self._lock:
                self._changing.remove(name)
                self._changed.notify_all()

    @property
    def unsaved_count(self) -> int:
        """Return the number of files with unsaved contents."""
        with self._lock:
            return sum(live.dirty for live in self._files.values())

    @property
    def trouble(self) -> Trouble | None:
        """Why a file is not stored; None: nothing has failed."""
        with self._lock:
            return newest(live.trouble for live in self._files.values())

    def get(self, key: Key) -> LiveFile | None:
        """Return the live file of a key; needs no lock."""
        return self._files.get(key)

    @contextmanager
    def held(self, key: Key) -> Iterator[LiveFile | None]:
        """Yield the live file of a key, which stays during the block even if it is closed."""
        with self._lock:
            live = self._files.get(key)
            if live is not None:
                live.handles += 1
        try:
            yield live
        finally:
            if live is not None:
                self.close(live, writing=False)

    @contextmanager
    def turns(self, *files: LiveFile | None) -> Iterator[None]:
        """Keep others from changing the objects of some files during the block."""
        with ExitStack() as turns:
            for live in sorted(filter(None, files), key=id):
                turns.enter_context(live.turn)
            yield

    @contextmanager
    def changing(self, *names: str, since: Sequence[int] = ()) -> Iterator[None]:
        """Keep directories above from being renamed while names are made or removed.

        Who changes several has all of them at once, and no more within.

        Parameters
        ----------
        since : for each name, so many renames ago; no directory above was renamed since, either.

        Raises
        ------
        StaleHandle : one was, and the name has become another one.
        """
        with self._lock:
            for name in names:
                self._await_rename(name)
            for name, renames in zip(names, since, strict=False):
                self._check_renames(name, renames)
            self._changing += names
        try:
            yield
        finally:
            with self._lock:
                for name in names:
                    self._changing.remove(name)
                self._changed.notify_all()

    @contextmanager
    def renaming(self, prefix: Prefix, goal: Prefix) -> Iterator[Sequence[LiveFile]]:
        """Yield the live files below a renamed directory; none is stored meanwhile.

        They are read and written to all the same; who opens another one waits. The caller has the
        name of the directory, and the new one, `changing`.
        """
        below: list[LiveFile] = []
        try:
            with self._lock:
                self._renaming.append(prefix)
                self._changed.wait_for(lambda: not self._is_changing_below(prefix))
                below += [live for key, live in self._files.items() if _is_below(key, prefix)]
                for live in below:
                    live.handles += 1
            with self.turns(*below):
                yield [live for live in below if live.linked]
            self._note_rename(prefix, goal)
        finally:
            with self._lock:
                self._renaming.remove(prefix)
                self._changed.notify_all()
            for live in below:
                self.close(live, writing=False)

    def unsaved(self, key: Key) -> LiveFile | None:
        """Return the live file of a key if it differs from the store; needs no lock."""
        live = self._files.get(key)
        return live if live is not None and live.dirty else None

    def open(
        self,
        key: Key,
        base: Stat | None,
        *,
        writing: bool,
        mark: int | None = None,
        since: int | None = None,
    ) -> LiveFile | None:
        """Count a handle; None if this mount changed the file after `base` was read.

        Parameters
        ----------
        base : what the store has.
        mark : of the store, from before it was asked.
        since : how many directories had been renamed before that. It is waited until nobody changes
            the name: halfway through a rename, what is opened would be neither file.
        """
        with self._lock:
            if since is not None:
                self._changed.wait_for(lambda: key not in self._changing)
                if self._is_renamed(key) or self._has_moved(key, since):
                    return None
            live = self._files.get(key)
            if live is None or not (live.dirty or _is_same(live.base, base)):
                if mark is not None and self._store.has_changed(key, mark):
                    return None
                live = self._files[key] = LiveFile(self._store, key, base)
            live.handles += 1
            live.writers += writing
            return live

    def leave(self, live: LiveFile) -> None:
        """End a writer, and store what the last one leaves. Never raises an `NczfsError`.

        The kernel tells of it some time after the close: what others have written or truncated by
        then is theirs to store, when it is whole.
        """
        with self._lock:
            live.leaving += 1
            is_last = live.leaving == live.writers
        try:
            if is_last:
                live.store()
        except NczfsError as error:
            log.warning("%s: was not stored when it was closed: %s", live.key, error)
        finally:
            with self._lock:
                live.leaving -= 1
                live.writers -= 1

    def close(self, live: LiveFile, *, writing: bool) -> None:
        """Undo `open`; what the last writer could not store goes to the spool."""
        with self._lock:
            live.handles -= 1
            live.writers -= writing
            if not live.handles and self._files.get(live.key) is live:
                del self._files[live.key]
                if live.base is not None:
                    self._store.delivered.keep(live.key, live.base.version, live.delivered)
        live.end_writing()

    def below(self, prefix: Prefix) -> list[LiveFile]:
        """Return the files below a prefix that differ from the store."""
        with self._lock:
            return [f for k, f in self._files.items() if f.dirty and _is_below(k, prefix)]

    def unlink(self, key: Key) -> None:
        """Note that the name of a live file is gone."""
        with self._lock:
            live = self._files.pop(key, None)
        if live is not None:
            live.unlink()

    def rename(self, live: LiveFile, key: Key) -> None:
        """Note that a live file is at another, free key."""
        with self._lock:
            self._files = {k: f for k, f in self._files.items() if f is not live}
            self._files[key] = live

    def _await_rename(self, name: str) -> None:
        if name in self._changing:
            return  # a rename that has come meanwhile waits for that
        if self._is_renamed(name):
            self._changed.wait_for(lambda: not self._is_renamed(name))
            raise StaleHandle(f"{name}: its directory was renamed meanwhile")

    def _is_renamed(self, name: str) -> bool:
        return any(_is_below(name, prefix) for prefix in self._renaming)

    def _note_rename(self, prefix: Prefix, goal: Prefix) -> None:
        with self._lock:
            self._renames += 1
            self._renamed.append(_Rename(prefix, goal))

    def _check_renames(self, name: str, since: int) -> None:
        above = parent_of(name)
        if self._moved(above, since) != above:
            raise StaleHandle(f"{name}: its directory was renamed meanwhile")

    def _settled(self, prefix: Prefix, since: int) -> Place:
        while True:
            prefix, since = self._moved(prefix, since), self._renames
            if not any(_is_at_or_below(prefix, each) for each in self._renaming):
                return prefix, since
            self._changed.wait()

    def _has_moved(self, key: str, since: int) -> bool:
        return any(_is_at_or_below(key, each.prefix) for each in self._since(since))

    def _moved(self, prefix: Prefix, since: int) -> Prefix:
        for rename in self._since(since):
            if _is_at_or_below(prefix, rename.prefix):
                prefix = Prefix(moved(prefix, rename.prefix, rename.goal))
        return prefix

    def _since(self, renames: int) -> list[_Rename]:
        return [*self._renamed][max(0, len(self._renamed) - self._renames + renames) :]

    def _is_changing_below(self, prefix: Prefix) -> bool:
        return any(_is_below(name, prefix) for name in self._changing)


def _is_same(base: Stat | None, now: Stat | None) -> bool:
    return base is not None and now is not None and base.version == now.version


def _is_at_or_below(key: str, prefix: Prefix) -> bool:
    return key == prefix or _is_below(key, prefix)


def _is_below(key: str, prefix: Prefix) -> bool:
    return not prefix or key.startswith(f"{prefix}/")
