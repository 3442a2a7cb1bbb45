"""A file that is open: what all handles of one key share.

The facts, each in one place:

* what the file holds: `base`, a version of the object, and `_staged` before it once it was written
  or truncated. Each change makes a new `_generation`.
* what the store has of it: `_stored`, the generation that became `base` last. The file is dirty
  while the two differ and it has a name.
* `_emptied`: the generation that an open with O_TRUNC made of a file that was not dirty otherwise.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from nczfs.buffers import Buffer
from nczfs.engine.retrying import Trouble
from nczfs.engine.spool.basis import Sent
from nczfs.errors import NczfsError, PathExists, StaleHandle
from nczfs.vfs.objects.attempts import Attempt, Failure, UnansweredAttempts
from nczfs.vfs.objects.store import ObjectStore
from nczfs.vfs.staging import Fetched, StagedFile, StagedSnapshot, parts_of
from nczfs.zmap.base import ABSENT, ByteRange, Part, Stat, Version
from nczfs.zmap.keys import Key

log = logging.getLogger(__name__)


class LiveFile:
    """An object, as seen by those who have it open in this mount.

    `turn` is held by who has the store change or copy the object: one upload, rename, removal or
    setting of its time at a time. `lock` guards the content and what is known of it. It is taken
    within `turn`, and never held while the store is asked: reading and writing wait for no upload.
    The counts of handles belong to `LiveFiles`. Without a lock, the attributes may be looked at.

    Attributes
    ----------
    base : the version in the store, None before the first one is stored.
    leaving : those of the writers that have closed it; they count until the last has stored it.
    linked : it has a name; what is removed while it is open goes nowhere.
    """

    def __init__(self, store: ObjectStore, key: Key, base: Stat | None) -> None:
        self.key = key
        self.base = base
        self.turn = threading.RLock()
        self.lock = threading.RLock()
        self.linked = True
        self.mtime_ns = time.time_ns()
        self.handles = self.writers = self.leaving = 0
        self._store = store
        self._staged: StagedFile | None = None
        self._generation = int(base is None)
        self._stored = 0
        self._emptied = -1
        self._attempts = 0
        self._failure: Failure | None = None
        self.unanswered = UnansweredAttempts(store)
        self._lost = False
        self.delivered = store.delivered.of(key, self.replaces)

    @property
    def dirty(self) -> bool:
        """Return whether something is not in the store yet."""
        return self._generation != self._stored and self.linked

    @property
    def replaces(self) -> Version:
        return self.base.version if self.base is not None else ABSENT

    @property
    def trouble(self) -> Trouble | None:
        """Why something is not in the store; None: no upload of it failed."""
        failure = self._failure
        if failure is None or not self.dirty:
            return None
        return Trouble(str(failure.error), failure.at, None)

    @property
    def size(self) -> int:
        if (staged := self._staged) is not None:
            return staged.size
        return self.base.size if self.base is not None else 0

    @property
    def is_staged(self) -> bool:
        """Return whether reads must come here instead of `base`."""
        return self._staged is not None or self.base is None

    def read(self, offset: int, size: int) -> Buffer | None:
        """Return bytes as they were written; None if nothing is staged.

        Raises
        ------
        StaleHandle : they could not be stored, and nobody holds them any more.
        """
        fetched: Fetched | None = None
        while True:
            with self.lock:
                if (staged := self._staged) is None:
                    if self._lost:
                        raise StaleHandle(f"{self.key}: could not be stored")
                    return b"" if self.base is None else None
                found = staged.read(offset, size, fetched)
                if fetched is not None:
                    self._take(staged, fetched)
                if found is not None:
                    return found
                base, fetch = self.base, staged.missing(offset, size)
            assert fetch is not None  # or nothing would be missing
            fetched = self._fetched(fetch, base)

    def _fetched(self, fetch: Callable[[], Fetched], base: Stat | None) -> Fetched | None:
        """Return bytes of a version; None if it is not the current one."""
        try:
            return fetch()
        except StaleHandle:
            if base is None or not self.is_past(base):
                raise
            return None

    def is_past(self, base: Stat) -> bool:
        """Return whether a version is outdated, after a wait for running changes.

        Its bytes may be gone: the object was renamed, or stored again, perhaps without an answer.
        """
        with self.turn:
            return self.base is not base or self._landed(self.key) is not None

    def go_on(self, base: Stat) -> bool:
        """Adopt the version of another client, if it only adds to the file.

        False: bytes that were read of it are others there, or somebody has it open for writing, or
        another file has its name.
        """
        with self.turn:
            newer = None if self._is_own else self._store.find(self.key)
            is_unread = bool(base.size) and self.delivered.is_empty  # it may be any other file
            if newer is None or newer.size <= base.size or is_unread:
                return False
            read, adopt = partial(self._store.read, newer), partial(self._adopt, newer)
            try:
                return self.delivered.replace(read, adopt)
            except StaleHandle:  # another one by now, or own: the next read compares again
                return False

    def _adopt(self, newer: Stat) -> None:
        with self.lock:
            if self._is_own:  # since the store was asked
                raise StaleHandle(f"{self.key}: was written here since the store was asked")
            self._become(newer, self._stored)

    @property
    def _is_own(self) -> bool:
        return not self.linked or bool(self.writers) or self.is_staged

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes."""
        with self.lock, self._changing() as staged:
            staged.write(offset, data)

    def append(self, data: Buffer) -> int:
        """Write bytes at the end of the file. Returns their offset."""
        with self.lock, self._changing() as staged:
            end = staged.size
            staged.write(end, data)
            return end

    def truncate(self, size: int, *, opening: bool = False) -> None:
        """Set the size; `opening`: by O_TRUNC, which a shell does before anything is written."""
        with self.lock:
            if self.base is None and self.size == size:
                return
            only = opening and (not self.dirty or self._is_only_emptied)
            with self._changing(emptied=only) as staged:
                staged.truncate(size)

    def store(self, *, truncated_too: bool = True) -> None:
        """Store what was written. With `truncated_too` false, not if it was only truncated.

        A shell opens, duplicates and closes before a program writes a byte.

        Raises
        ------
        StaleHandle : another client changed the object; StoreError. It stays dirty, and the bytes
            can be read.
        """
        with self.lock:
            wanted, seen = self._generation, self._attempts
        with self.turn:
            if not self.dirty or self._stored >= wanted:
                return
            if not truncated_too and (self._is_only_emptied or self._may_not_begin_empty()):
                return
            failure = self._failure
            if failure is not None and failure.attempt > seen and failure.generation >= wanted:
                raise failure.error  # of an upload that began after this one was asked for
            with self._store.gate.inside(lambda: self.key):
                self._become(*self._upload(self.key, self.replaces))

    def truncate_at_once(self, size: int) -> None:
        """Set the size, and store it; the caller counts as a writer. Raises as `store`.

        The file is as before then, unless others have written something, or may.
        """
        with self.lock:
            was_stored = not self.dirty
            self.truncate(size)
            generation = self._generation
        try:
            self.store()
        except BaseException:
            with self.turn, self.lock:
                if was_stored and self.writers == 1 and self._generation == generation:
                    self._stored = generation
                    if self._staged is not None:
                        self._staged.note_saved()
            raise

    def store_elsewhere(self, key: Key, *, replace: bool) -> Stat:
        """Store what was written under another key, which becomes that of the file.

        The caller has the turn.

        Raises
        ------
        PathExists : there is an object, and it is not to be replaced.
        """
        self._become(*(stored := self._upload(key, None if replace else ABSENT)))
        return stored[0]

    def stored_at(self, key: Key) -> tuple[Stat, int]:
        """Store what was written under another key, for `moved`. The caller has the turn."""
        return self._upload(key, None)

    def copied(self, key: Key) -> Stat | None:
        """Store the current contents under another, free key as well.

        None when that is what the store has of it. Raises PathExists.
        """
        with self.turn:  # or the last writer may release what the snapshot is read from
            with self.lock:
                if not self.dirty:
                    return None
                snapshot, mtime_ns = self._snapshot(), self.mtime_ns
            with parts_of(snapshot) as parts:
                return self._store.make(key, parts, mtime_ns)

    def check_base(self) -> None:
        """Raise StaleHandle if another client replaced or deleted the object."""
        found = self._store.find(self.key)
        if (found is None or found.version != self.replaces) and self._landed(self.key) is None:
            raise StaleHandle(f"{self.key}: replaced or deleted since it was opened")

    def stored_object(self) -> Stat | None:
        """Return the object in the store, including one that arrived without an answer."""
        return self.base or self._landed(self.key)

    def way_back(self) -> Callable[[], None]:
        """Return a function that undoes a later `moved`: the object is where it is now."""
        with self.lock:
            key, base, stored, found = self.key, self.base, self._stored, {*self.unanswered.found}
            written_again = self._staged.way_back() if self._staged is not None else lambda: None

        def restore() -> None:
            with self.lock:
                written_again()
                self.moved(key, base, stored)
                self.unanswered.found |= found

        return restore

    def moved(self, key: Key, base: Stat | None, generation: int | None = None) -> bool:
        """Note that the object, and so the file, is at another key. Returns if the log says so.

        Parameters
        ----------
        base : the version there; None: as before, there is none that was opened.
        generation : the one that was stored there; None: that of the base that was copied.
        """
        with self.lock:
            self.key = key
            if base is not None:
                self._become(base, self._stored if generation is None else generation)
            return base is None or self._staged is None or not self._staged.is_noted_elsewhere(key)

    def set_mtime(self, mtime_ns: int) -> Stat | None:
        """Set the time. Returns the stored object; None if the next upload stores the time.

        Raises
        ------
        StaleHandle : the store has another version.
        """
        with self.turn:
            with self.lock:
                self.mtime_ns, base = mtime_ns, self.base
                if self.dirty or not self.linked or base is None:
                    return None
            changed = self._store.set_mtime(base, mtime_ns)
            self._become(changed, self._stored)
            return changed

    def hold(self) -> None:
        """Save on the disk what others can still read, before the object goes.

        The caller has the turn, and has it `LiveFiles.held`.
        """
        try:
            if self.handles > 1 and self.size:
                self._fill()
        except NczfsError as error:
            log.warning(
                "%s: cannot be kept for the programs that have it open: %s", self.key, error
            )

    def doubt(self, attempts: list[Attempt]) -> None:
        """Note that the object may have been replaced: who writes to the file stores it again.

        The caller has the turn, and called `hold`.
        """
        with suppress(NczfsError):
            with self.lock:
                staged = self._stage()
                if not (self.writers and attempts and staged.own()):
                    return
                self.unanswered.add(self.key, attempts)
                self._changed(staged)
            self._landed(self.key)  # while the key is known

    def unlink(self) -> None:
        """Note that the name is gone."""
        with self.lock:
            self.linked = False
            if self._staged is not None:
                self._staged.note_saved()

    def end_writing(self) -> None:
        """End the last writer; what could not be stored stays in the spool."""
        if self.writers or (self._staged is None and not self.dirty):
            return
        with self.turn:
            if not self.writers and self.dirty and self.base is not None:
                with suppress(NczfsError):  # an entry that stands for itself is worth more
                    self._fill()
            is_lost = self._end()
        if is_lost:
            self._store.lost(self.key)

    def _end(self) -> bool:
        """Release what is staged. Returns whether it is not in the store."""
        with self.lock:
            if self.writers or (self.handles and not self.linked):
                return False
            staged, self._staged = self._staged, None
            if not self.dirty:
                if staged is not None:
                    staged.discard()
                return False
            self._stored = self._generation
            self._lost = self.base is None
            self.linked = not self._lost
            why = str(self._failure.error) if self._failure else "the mount ended with it open"
            try:
                kept = self._store.keep(staged, self.key, self.replaces, why)
            except NczfsError as error:
                log.critical("%s: lost: not stored (%s) and not kept: %s", self.key, why, error)
            else:
                log.error(
                    "%s: not stored (%s); `nczfs recover` puts it back: %s", self.key, why, kept
                )
            return True

    @property
    def _is_only_emptied(self) -> bool:
        return self._emptied == self._generation

    def _may_not_begin_empty(self) -> bool:
        """Return whether a new, empty object could not be replaced by what comes next."""
        return self._store.zmap.features.write_once and self.base is None and not self.size

    @contextmanager
    def _changing(self, *, emptied: bool = False) -> Iterator[StagedFile]:
        """Count a change of the contents, even if an error follows a part of it."""
        staged = self._stage()
        before = staged.changes
        try:
            yield staged
        finally:
            if staged.changes != before:
                self._changed(staged, emptied=emptied)

    def _changed(self, staged: StagedFile, *, emptied: bool = False) -> None:
        self._generation += 1
        if emptied:
            self._emptied = self._generation
        self.mtime_ns = max(time.time_ns(), self.mtime_ns + 1)
        if self.linked and not emptied:
            staged.note_unsaved(self.key, self.replaces)

    def _upload(self, key: Key, replaces: Version | None) -> tuple[Stat, int]:
        """Store the current contents. Returns their version and their generation."""
        with self.lock:
            self._attempts += 1
            attempt, generation, mtime_ns = self._attempts, self._generation, self.mtime_ns
            snapshot = self._snapshot()
        try:
            with parts_of(snapshot) as parts:
                return self._write(key, parts, replaces, mtime_ns), generation
        except NczfsError as error:
            is_refused = isinstance(error, StaleHandle | PathExists)
            if is_refused and (landed := self._landed(key)) is not None:
                return self._upload(key, landed.version)
            self._failure = Failure(attempt, generation, error, time.monotonic())
            raise

    def _write(self, key: Key, parts: list[Part], replaces: Version | None, mtime_ns: int) -> Stat:
        is_logged = self._staged is not None and self._staged.is_logged
        is_stored = all(isinstance(part, ByteRange) for part in parts)  # in what will be gone
        attempt = self._store.sent(parts) if is_logged or is_stored else None
        if attempt is not None:
            self._note_sent(attempt)
        try:
            if replaces == ABSENT and key != self.key:
                return self._store.make(key, parts, mtime_ns)
            return self._store.write(key, parts, replaces, mtime_ns)
        except NczfsError as error:
            if error.transient:
                attempt = attempt or self._store.sent(parts)
                self.unanswered.add(key, [attempt])
                self._note_sent(attempt)
            raise

    def _note_sent(self, attempt: Sent) -> None:
        """Note what was sent, for those who put the file back later."""
        with self.lock:
            if self._staged is not None:
                self._staged.note_sent(attempt)

    def _landed(self, key: Key) -> Stat | None:
        """Return what an earlier, unanswered upload or copy stored, if anything.

        The file itself goes on from there, in bytes never fetched, too. The caller has the turn.
        """
        found = self.unanswered.arrived(key)
        if found is not None and key == self.key:
            self._become(found, self._stored)
        return found

    def _become(self, base: Stat, generation: int) -> None:
        """Note that a generation is in the store as a version."""
        with self.lock:
            self.key, self.base = base.key, base
            self._store.delivered.keep(self.key, base.version, self.delivered)
            self._stored = generation
            self.unanswered.clear()
            self._failure = None
            if self._staged is None:
                return
            self._staged.rebase(self._store.base_of(base), is_all=not self.dirty)
            if self.dirty and not self._is_only_emptied:
                self._staged.note_stored(self.key, self.replaces)
            else:
                self._staged.note_saved()

    def _snapshot(self) -> StagedSnapshot | None:
        """Return the current contents; None for nothing. The caller has the lock."""
        return None if self._staged is None and self.base is None else self._stage().snapshot()

    def _stage(self) -> StagedFile:
        if self._staged is None:
            if self._lost:
                raise StaleHandle(f"{self.key}: could not be stored")
            self._staged = self._store.stage(self.key, self.base)
        return self._staged

    def _fill(self) -> None:
        """Fetch all that is missing."""
        offset, step = 0, self._store.step
        while offset < self.size:
            with self.lock:
                staged, base = self._stage(), self.base
                fetch = staged.missing(offset, step)
            if fetch is not None:
                if (fetched := self._fetched(fetch, base)) is None:
                    continue
                with self.lock:
                    staged.take(fetched)
            offset += step

    def _take(self, staged: StagedFile, fetched: Fetched) -> None:
        try:
            staged.take(fetched)
        except NczfsError as error:
            log.debug("%s: what was read is not kept: %s", self.key, error)
