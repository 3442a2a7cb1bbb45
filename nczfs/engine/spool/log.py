"""The log of a mount: what is not stored, to be put back when this process is gone.

It is a sequence of files, ``log.N``, of records:

* ``log``: the format, the URL of the mount, and its process. The first one of a file.
* ``chunk``: a number that stands for a chunk in this file from here on, and the `ChunkDetails`.
* ``basis``: what the chunks of a unit are based on, as in `Basis`; the last one counts.
* ``wrote``: the elements of a box of a chunk, and the revision of the chunk that has them; the
  first one has the time.
* ``retracted``: the elements of a box of a chunk are void; the shape of the array without them, and
  the revision of the chunk.
* ``stored``: what stands before it of a chunk is in the store, or will never be; with a revision,
  what belongs to that or an older one.
* ``grown``: an array became longer, and the store does not know yet; ``settled``: it does.
* ``renaming``: what is at or below a prefix is being renamed; as long as nothing else is said of
  it, the store tells where it is.
* ``moved``: arrays at or below a prefix are at another one; what stands before it is of these, and
  so are entries in files of their own with smaller numbers; ``follow``: the latter are, which a
  file that comes later repeats.
* ``stays``: they are where they were.
* ``placed``: the appended records of an array have their place, says who puts them back.
* ``file``: what a staged file is to become; it replaces all earlier records of the file.
* ``filled``, ``cut``, ``sending``: what has happened to a staged file since, as `Staged` has it.
* ``done``: a staged file is in the store, or will never be.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from nczfs.engine.process import this_process
from nczfs.engine.spool.records import Packed, RecordFile, packed
from nczfs.errors import NczfsError

log = logging.getLogger(__name__)

FORMAT: Final = 5
BEFORE: Final = "log."  # begins the name of a file of a log
FILE_BYTES: Final = 64 << 20
VALUES: Final = "values"  # what those hold whose values are in the log


class Log:
    """What a mount says of what is not stored.

    `lock` guards it, and what its users keep of what they have said. Each file begins with what
    holds of those before it, but for values: those before can go once the values in them are
    stored. All of it goes whenever nothing is held.

    Parameters
    ----------
    heading : what it says of the mount.
    make : makes the directory. Raises NoSpace, Unavailable.
    reserve : takes bytes of a budget, and gives them back.
    sync : has the names in the directory survive a power failure; None: what is said need not.
    """

    def __init__(
        self,
        directory: Path,
        heading: Mapping[str, Any],
        make: Callable[[], None],
        reserve: Callable[..., None],
        sync: Callable[[], None] | None,
    ) -> None:
        self.lock = threading.RLock()
        self._directory = directory
        self._said = {"is": "log", **heading}
        self._make = make
        self._reserve = reserve
        self._sync = sync
        self._files: list[tuple[int, RecordFile]] = []
        self._count = 0
        self._age = 0
        self._held: dict[str, Callable[[], list[Packed]]] = {}
        self._owed: list[Packed] = []

    @property
    def is_long(self) -> bool:
        """Whether there are files that have ended. No lock."""
        return len(self._files) > 1

    def open(self) -> int:
        """Ensure that there is a file to write to, so that records take no further descriptor.

        Returns
        -------
        a number; the numbers of chunks that were said at another one mean nothing now.

        Raises
        ------
        NoSpace, Unavailable.
        """
        with self.lock:
            if not self._files or self._last.size > FILE_BYTES:
                self._add_file()
            return self._age

    def append(self, records: list[Packed], *, always: bool = False, is_open: bool = False) -> None:
        """Append records, and pending ones: all or none.

        Parameters
        ----------
        always : whether there is room in the budget or not.
        is_open : the caller, which holds the lock, has called `open`: no other file is begun.

        Raises
        ------
        NoSpace, Unavailable : it is not said.
        """
        with self.lock:
            if not is_open:
                self.open()
            whole = [*self._beginning(), *self._owed, *records]
            if whole:
                self._last.append(whole, always=always)
            self._owed.clear()

    def owe(self, *documents: Mapping[str, Any]) -> None:
        """Append records in any case, even without room in the budget.

        Where that fails, they come with what is said next.

        Raises
        ------
        NoSpace, Unavailable : something is not said yet.
        """
        with self.lock:
            self._owed += map(packed, documents)
            if self._owed:
                self.append([], always=True)

    def note(self, *documents: Mapping[str, Any]) -> None:
        """Append records that void others, now or with the next ones. Never raises."""
        with self.lock:
            self._owed += map(packed, documents)
            self._try(lambda: self.append([], always=True))

    def sync(self) -> None:
        """Make the records survive a power failure; takes no descriptor."""
        with self.lock:
            self._last.sync()

    def hold(self, name: str, restate: Callable[[], list[Packed]]) -> None:
        """Hold the records of a name, which is not stored.

        Parameters
        ----------
        restate : the records that say it anew, but for values; none where it holds no more.
        """
        with self.lock:
            self._held[name] = restate

    def release(self, name: str) -> bool:
        """Release a stored name. Returns whether the log is empty now, for good. Never raises."""
        with self.lock:
            self._held.pop(name, None)
            if VALUES not in self._held:
                self._remove_before(self._count)
            if self._held:
                return False
            filled = [file for _, file in self._files if file.size]
            self._age += len(filled)
            cleared = [self._try(file.clear) for file in filled]
            if not all(cleared):
                return False
            self._owed.clear()
            return True

    def ended(self) -> int | None:
        """Return the last file that has ended; None if none has.

        Once everything that was written before is stored, `drop` may be called with it.
        """
        with self.lock:
            return self._files[-2][0] if self.is_long else None

    def drop(self, number: int) -> None:
        """Remove the files up to one: all values in them are stored."""
        with self.lock:
            self._remove_before(number + 1)

    def close(self) -> None:
        """Remove the log if it is empty; otherwise leave it to `nczfs recover`."""
        with self.lock:
            for name, restate in list(self._held.items()):
                if name != VALUES and not restate():
                    self.release(name)
            if self._owed and self._files:
                self._try(lambda: self.append([], always=True))
            for _, file in self._files:
                if file.size:
                    file.close()
                else:
                    self._try(file.remove)
            self._files.clear()

    @property
    def _last(self) -> RecordFile:
        return self._files[-1][1]

    def _beginning(self) -> list[Packed]:
        """Return the beginning of a file that has nothing yet."""
        if self._last.size:
            return []
        heading = packed({**self._said, "process": asdict(this_process())})
        return [heading, *(each for restate in self._held.values() for each in restate())]

    def _add_file(self) -> None:
        """Begin a file. Raises NoSpace, Unavailable only if it is the first one."""
        number = self._count + 1
        try:
            self._make()
            file = self._made(self._directory / f"{BEFORE}{number}")
        except NczfsError:
            if not self._files:
                raise
            return  # no descriptor is left: the one that is there goes on
        self._files.append((number, file))
        self._count, self._age = number, self._age + 1
        if VALUES not in self._held:
            self._remove_before(number)

    def _made(self, path: Path) -> RecordFile:
        file = RecordFile(path, self._reserve, waits=self._sync is not None)
        try:
            if self._sync is not None:
                self._sync()
        except NczfsError:
            self._try(file.remove)
            raise
        return file

    def _remove_before(self, number: int) -> None:
        """Remove files, once what they say stands in the one after them for good."""
        count = sum(each < number for each, _ in self._files[:-1])
        if count:
            try:
                self._last.append(self._beginning(), always=True)
                self._files[count][1].sync()
                for _ in range(count):
                    self._files[0][1].remove()
                    self._files.pop(0)
                if self._sync is not None:
                    self._sync()
            except NczfsError as error:
                log.warning("the spool still holds data that are stored: %s", error)

    def _try(self, do: Callable[[], None]) -> bool:
        try:
            do()
        except NczfsError as error:
            log.warning("the spool still holds data that are stored: %s", error)
            return False
        return True
