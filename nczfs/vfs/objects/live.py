"""Files that are open: what all handles of one key share."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nczfs.errors import NczfsError, PathExists, StaleHandle
from nczfs.vfs.base import Buffer
from nczfs.vfs.objects.attempts import Attempt, attempt_of
from nczfs.vfs.objects.store import ObjectStore
from nczfs.vfs.staging import StagedFile
from nczfs.zmap.base import ABSENT, Part, Stat, Version
from nczfs.zmap.keys import Key, Prefix

log = logging.getLogger(__name__)


class LiveFile:
    """An object, as those see it who have it open in this mount.

    `base` is the version in the store, None before the first one is stored. Once something is
    written, a staged file stands before it, until the last writer closes.

    `lock` guards all but the counts of handles, and is held while the store is asked: whoever reads
    or writes meanwhile waits for what is being stored. Without it, the attributes may be looked at.

    Attributes
    ----------
    dirty : something is not in the store yet.
    linked : it has a name; what is removed while it is open goes nowhere.
    """

    def __init__(self, store: ObjectStore, key: Key, base: Stat | None) -> None:
        self.key = key
        self.base = base
        self.lock = threading.RLock()
        self.dirty = base is None
        self.linked = True
        self.mtime_ns = time.time_ns()
        self.handles = 0
        self.writers = 0
        self._store = store
        self._replaces: Version = base.version if base is not None else ABSENT
        self._only_truncated = False
        self._refused: NczfsError | None = None
        self._lost = False
        self._staged: StagedFile | None = None
        self._in_doubt: Attempt | None = None

    @property
    def size(self) -> int:
        if (staged := self._staged) is not None:
            return staged.size
        return self.base.size if self.base is not None else 0

    @property
    def is_staged(self) -> bool:
        """Whether reads must come here, and not go to `base`."""
        return self._staged is not None or self.base is None

    def read(self, offset: int, size: int) -> Buffer | None:
        """Bytes as they were written, None when nothing is staged.

        Raises
        ------
        StaleHandle : they could not be stored, and nobody holds them any more.
        """
        with self.lock:
            if self._staged is not None:
                return self._staged.read(offset, size)
            if self._lost:
                raise self._loss()
            return b"" if self.base is None else None

    def write(self, offset: int, data: Buffer, *, at_end: bool = False) -> None:
        """Write bytes; `at_end` where the file ends, if this is the only writer."""
        with self.lock:
            staged = self._stage()
            staged.write(staged.size if at_end and self.writers == 1 else offset, data)
            self._touch()
            self._note_unsaved()

    def truncate(self, size: int, *, opening: bool = False) -> None:
        """Set the size; `opening`: by O_TRUNC, which a shell does before anything is written."""
        with self.lock:
            if self.base is None and self.size == size:
                return
            only = opening and (self._only_truncated or not self.dirty)
            self._stage().truncate(size)
            self._touch()
            self._only_truncated = only
            self._note_unsaved()

    def store(self, *, truncated_too: bool = True) -> None:
        """Store what was written. With `truncated_too` false, not if it was only truncated.

        A shell opens, duplicates and closes before a program writes a byte.

        Raises
        ------
        StaleHandle : another client changed the object; StoreError. It stays dirty, and the bytes
            can be read.
        """
        with self.lock:
            if not self.dirty or not self.linked:
                return
            if not truncated_too and (self._only_truncated or self._may_not_begin_empty()):
                return
            self._store_as(self.key, self._replaces)

    def give_up(self) -> None:
        """Drop what was written, where nobody else has the file open: its writer was told."""
        with self.lock:
            if self.handles == 1:
                self.dirty = False
                if self._staged is not None:
                    self._staged.note_saved()

    def store_elsewhere(self, key: Key, *, replace: bool) -> Stat:
        """Store what was written under another key, which the file has from now on.

        Raises
        ------
        PathExists : there is an object, and it is not to be replaced.
        """
        with self.lock:
            return self._store_as(key, None if replace else ABSENT)

    def copied(self, key: Key) -> Stat | None:
        """Store what the file holds now under another key as well, where none is.

        None when that is what the store has of it. Raises PathExists.
        """
        with self.lock:
            if not self.dirty:
                return None
            if self._staged is None:
                return self._store.make(key, [b""], self.mtime_ns)
            copies = self._store.zmap.features.server_copies
            with self._staged.parts(copies=copies) as parts:
                return self._store.make(key, parts, self.mtime_ns)

    def check_base(self) -> None:
        """Raises StaleHandle when another client replaced or deleted the object."""
        with self.lock:
            found = self._store.find(self.key)
            is_same = found is not None and found.version == self._replaces
            if not is_same and self._landed(self.key) is None:
                raise StaleHandle(f"{self.key}: replaced or deleted since it was opened")

    def moved(self, base: Stat) -> None:
        """The object was copied to another key, and the file is that one from now on."""
        with self.lock:
            self.key = base.key
            self._become(base)

    def hold(self) -> None:
        """Take what others can still read on the disk: its object is about to go.

        The caller has it `LiveFiles.held`.
        """
        with self.lock:
            try:
                if self.handles > 1 and self.size:
                    self._stage().fill()
            except NczfsError as error:
                log.warning(
                    "%s: cannot be kept for the programs that have it open: %s", self.key, error
                )

    def unlink(self) -> None:
        """The name is gone."""
        with self.lock:
            self.linked = False
            self.dirty = False
            if self._staged is not None:
                self._staged.note_saved()

    def end_writing(self) -> None:
        """The last writer has closed; what could not be stored stays in the spool."""
        if self._staged is None and not self.dirty:
            return
        with self.lock:
            if self.writers or (self.handles and not self.linked):
                return
            staged, self._staged = self._staged, None
            if not self.dirty:
                if staged is not None:
                    staged.discard()
                return
            self.dirty = False
            self._lost = self.base is None
            self.linked = not self._lost
            staged = staged or self._store.stage(self.key, None)
            why = self._refused or "the mount ended before it was closed"
            try:
                kept = staged.keep(self.key, self._replaces, str(why))
            except NczfsError as error:
                log.critical("%s: lost: not stored (%s) and not kept: %s", self.key, why, error)
            else:
                log.error(
                    "%s: not stored (%s); `nczfs recover` puts it back: %s", self.key, why, kept
                )
        self._store.lost(self.key)

    def _may_not_begin_empty(self) -> bool:
        """What is new and empty, where it could not be replaced by what comes next."""
        return self._store.zmap.features.write_once and self.base is None and not self.size

    def _store_as(self, key: Key, replaces: Version | None) -> Stat:
        try:
            try:
                base = self._write(key, replaces)
            except (StaleHandle, PathExists):
                if (landed := self._landed(key)) is None:
                    raise
                base = self._write(key, landed.version)
        except NczfsError as error:
            self._refused = error
            raise
        self.key = key
        self._become(base)
        return base

    def _landed(self, key: Key) -> Stat | None:
        """What an earlier attempt stored whose answer never came, if that is there."""
        doubt = self._in_doubt
        return doubt.landed(self._store) if doubt and doubt.key == key else None

    def _write(self, key: Key, replaces: Version | None) -> Stat:
        if self._staged is None and self.base is None:
            return self._write_parts(key, [b""], replaces)
        copies = self._store.zmap.features.server_copies
        with self._stage().parts(copies=copies) as parts:
            return self._write_parts(key, parts, replaces)

    def _write_parts(self, key: Key, parts: Sequence[Part], replaces: Version | None) -> Stat:
        try:
            if replaces == ABSENT and key != self.key:
                return self._store.make(key, parts, self.mtime_ns)
            return self._store.write(key, parts, replaces, self.mtime_ns)
        except NczfsError as error:
            if error.transient:
                self._in_doubt = attempt_of(key, parts)
            raise

    def _become(self, base: Stat) -> None:
        self.base = base
        if self._staged is not None:
            self._staged.rebase(self._store.base_of(base))
            self._staged.note_saved()
        self._replaces = base.version
        self._in_doubt = self._refused = None
        self.dirty = self._only_truncated = False

    def _stage(self) -> StagedFile:
        if self._staged is None:
            if self._lost:
                raise self._loss()
            self._staged = self._store.stage(self.key, self.base)
        return self._staged

    def _loss(self) -> StaleHandle:
        return StaleHandle(f"{self.key}: could not be stored")

    def _touch(self) -> None:
        self.mtime_ns = max(time.time_ns(), self.mtime_ns + 1)
        self.dirty = self.linked
        self._only_truncated = False

    def _note_unsaved(self) -> None:
        if self._staged is not None and self.dirty and not self._only_truncated:
            self._staged.note_unsaved(self.key, self._replaces)


class LiveFiles:
    """The live files by key. `_lock` guards the map and the counts of handles."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._files: dict[Key, LiveFile] = {}

    @property
    def unsaved_count(self) -> int:
        """How many files have something that the store has not."""
        with self._lock:
            return sum(live.dirty for live in self._files.values())

    def get(self, key: Key) -> LiveFile | None:
        """The live file of a key; no lock."""
        return self._files.get(key)

    @contextmanager
    def held(self, key: Key) -> Iterator[LiveFile | None]:
        """The live file of a key, which is not let go of before the end, whoever closes it."""
        with self._lock:
            live = self._files.get(key)
            if live is not None:
                live.handles += 1
        try:
            yield live
        finally:
            if live is not None:
                self.close(live, writing=False)

    def unsaved(self, key: Key) -> LiveFile | None:
        """The live file of a key, if it is not what the store has; no lock."""
        live = self._files.get(key)
        return live if live is not None and live.dirty else None

    def open(self, key: Key, base: Stat | None, *, writing: bool) -> LiveFile:
        """Count a handle; `base` is what the store has now."""
        with self._lock:
            live = self._files.get(key)
            if live is None or not (live.dirty or _is_same(live.base, base)):
                live = self._files[key] = LiveFile(self._store, key, base)
            live.handles += 1
            live.writers += writing
            return live

    def leave(self, live: LiveFile) -> None:
        """A writer goes; what the last one leaves is stored. Never raises an `NczfsError`.

        The kernel tells of it some time after the close: what others have written or truncated by
        then is theirs to store, when it is whole.
        """
        with live.lock:
            with self._lock:
                live.writers -= 1
            if live.writers:
                return
            try:
                live.store()
            except NczfsError as error:
                log.warning("%s: was not stored when it was closed: %s", live.key, error)

    def close(self, live: LiveFile, *, writing: bool) -> None:
        """The opposite of `open`; what is not stored by the last writer goes to the spool."""
        with self._lock:
            live.handles -= 1
            live.writers -= writing
            if not live.handles and self._files.get(live.key) is live:
                del self._files[live.key]
        live.end_writing()

    def below(self, prefix: Prefix) -> list[LiveFile]:
        """Those that are not what the store has, below a prefix."""
        start = f"{prefix}/" if prefix else ""
        with self._lock:
            return [f for k, f in self._files.items() if f.dirty and k.startswith(start)]

    def keys_below(self, prefix: Prefix) -> list[Key]:
        """The keys of all below a prefix."""
        with self._lock:
            return [key for key in self._files if key.startswith(f"{prefix}/")]

    def unlink(self, key: Key) -> None:
        """The name of a live file is gone."""
        with self._lock:
            live = self._files.pop(key, None)
        if live is not None:
            live.unlink()

    def rename(self, live: LiveFile, key: Key) -> None:
        """A live file is at another key, where none is."""
        with self._lock:
            self._files = {k: f for k, f in self._files.items() if f is not live}
            self._files[key] = live


def _is_same(base: Stat | None, now: Stat | None) -> bool:
    return base is not None and now is not None and base.version == now.version
