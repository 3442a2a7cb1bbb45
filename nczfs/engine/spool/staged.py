"""The log's records of a staged file: what it is to become, and its valid bytes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nczfs.engine.spool.basis import Sent
from nczfs.engine.spool.disk import disk
from nczfs.engine.spool.entries import time_of
from nczfs.engine.spool.records import FileData, Packed, crc_of, packed
from nczfs.engine.spool.space import KEPT, Spool, Survives
from nczfs.errors import NczfsError
from nczfs.model.ranges import END, Ranges
from nczfs.plaindata import frozen

log = logging.getLogger(__name__)


@frozen
class KeptFacts:
    """Further facts about a file that is left to `nczfs recover`."""

    reason: str
    saved_at: float
    size: int
    crc32c: int

    @classmethod
    def parsed(cls, document: Mapping[str, Any]) -> KeptFacts:
        """Parse the form in a record. Raises KeyError, TypeError, ValueError."""
        saved_at = time_of(document["saved_at"])
        size, crc = int(document["size"]), int(document["crc32c"])
        return cls(str(document["reason"]), saved_at, size, crc)


@dataclass(slots=True)
class Staged:
    """What the records of a staged file say together, in a mount and when it is gone.

    Attributes
    ----------
    key : of the object that it is to become.
    replaces : the token of the version that it replaces.
    base_stop : where that version ends, as far as it is seen.
    there : of which ranges below the file has the bytes itself.
    changed : what was written. It goes on to `END` where the size was set: from the least one on,
        nothing is of that version.
    sent : what was sent to the store of it.
    """

    key: str
    replaces: str
    base_stop: int = 0
    there: Ranges = field(default_factory=Ranges)
    changed: Ranges = field(default_factory=Ranges)
    sent: list[Sent] = field(default_factory=list)
    kept: KeptFacts | None = None

    @classmethod
    def begun(
        cls,
        key: str,
        replaces: str,
        missing: Iterable[Sequence[int]],
        changed: Iterable[Sequence[int]] | None,
        attempts: Iterable[Sent] = (),
    ) -> Staged:
        """That of a file of which ranges are those of the version that it replaces.

        Parameters
        ----------
        changed : what was written; None: all that is not missing, and the size.

        Raises
        ------
        TypeError, ValueError : they are no ranges, or not in order.
        """
        made = cls(key, replaces, sent=list(attempts))
        for start, stop in _in_order(missing):
            made.there.add(made.base_stop, start)
            made.base_stop = stop
        if changed is None:
            made.changed = made.there.copy()
            made.changed.add(made.base_stop, END)
        else:
            for start, stop in _in_order(changed):
                made.changed.add(start, stop)
        return made

    @classmethod
    def parsed(cls, document: Mapping[str, Any]) -> Staged:
        """Parse a record ``file``. Raises KeyError, TypeError, ValueError."""
        key, replaces = str(document["key"]), str(document["replaces"])
        changed = document.get("changed")  # earlier versions of nczfs do not say it
        attempts = map(Sent.parsed, document["sent"])
        made = cls.begun(key, replaces, document["missing"], changed, attempts)
        if document["kept"] is not None:
            made.kept = KeptFacts.parsed(document["kept"])
            if made.base_stop > made.kept.size:
                raise ValueError(f"{made.missing(made.base_stop)} is more than the file has")
        return made

    def take(self, document: Mapping[str, Any]) -> None:
        """Apply one more record of the file. Raises KeyError, TypeError, ValueError."""
        match document["is"]:
            case "filled":
                for start, stop in document["ranges"]:
                    self.there.add(int(start), int(stop))
                for start, stop in document.get("changed", document["ranges"]):
                    self.changed.add(int(start), int(stop))
            case "cut":
                size = int(document["size"])
                self.base_stop = min(self.base_stop, size)
                self.there.cut(self.base_stop)
                self.changed.add(size, END)
            case "sending":
                self.sent.append(Sent.parsed(document["sent"]))

    def document(self, name: str) -> dict[str, Any]:
        """Return the record ``file``."""
        return {
            "is": "file",
            "file": name,
            "key": self.key,
            "replaces": self.replaces,
            "missing": self.missing(self.base_stop),
            "changed": list(self.changed.within(0, END)),
            "sent": [each.document() for each in self.sent],
            "kept": self.kept and asdict(self.kept),
        }

    def missing(self, size: int) -> list[tuple[int, int]]:
        """Ranges of the file, of a size, that are those of the version that it replaces."""
        return list(self.there.gaps(0, min(self.base_stop, size)))


class StagedLog:
    """The log's records of one staged file. Its user makes one call at a time.

    Parameters
    ----------
    path, fd : of the staged file.
    """

    def __init__(self, spool: Spool, path: Path, fd: int) -> None:
        self._spool = spool
        self._log = spool.log
        self._path = path
        self._fd = fd
        self._said: Staged | None = None
        self._unsaid: list[dict[str, Any]] = []  # what was done when the disk failed
        self.is_wanted = spool.survives is not Survives.NOTHING

    def begin(self, begun: Callable[[], Staged]) -> None:
        """Note that the file's contents are not in the store, unless that is known.

        Parameters
        ----------
        begun : returns what is to be said of it.

        Raises
        ------
        NoSpace, Unavailable : it would be lost.
        """
        if self.is_wanted and self._said is None:
            self._sync()
            if self._spool.survives is Survives.POWER:
                self._spool.sync()  # it has a name there
            self._say(begun())

    def renew(self, begun: Callable[[], Staged]) -> None:
        """Note what the file is to become from now on, as `begin` does. Never raises.

        A full disk leaves room for it where it can, as for `keep`.
        """
        if self._said is not None:
            try:
                if self._unsaid:
                    self._sync()
                self._spool.pressed(lambda: self._say(begun()))
            except NczfsError as error:
                log.warning("%s: the log has what it was to replace before: %s", self._path, error)

    def filled(self, missed: Sequence[tuple[int, int]], changed: Sequence[tuple[int, int]]) -> None:
        """Note that bytes came into the file.

        Parameters
        ----------
        missed : the ranges of the version that it replaces of which it had no bytes before.
        changed : what was written, and not before.
        """
        said = {"is": "filled", "ranges": missed, "changed": changed}
        self._done(said if missed or changed else None)

    def cut(self, size: int) -> None:
        """Note that the size of the file was set."""
        self._done({"is": "cut", "size": size})

    def sending(self, attempt: Sent) -> None:
        """Note that the file is sent to the store as of some time. Never raises."""
        try:
            self._add([{"is": "sending", "sent": attempt.document()}])
        except NczfsError as error:
            log.warning("%s: the log lacks what is sent: %s", self._path, error)

    def keep(self, said: Staged, reason: str, size: int) -> Path:
        """Leave the file to `nczfs recover`; when this returns it survives a power failure.

        Returns
        -------
        where the file is then.

        Raises
        ------
        NoSpace, Unavailable : it may not survive; what was said before stands.
        """
        with disk(self._path):
            os.fsync(self._fd)
            crc = crc_of(self._fd, FileData(self._path, 0, size, None))
        kept = KeptFacts(reason, time.time(), size, crc or 0)
        self._say(replace(said, kept=kept))
        self._log.sync()
        with disk(self._path), suppress(FileNotFoundError):  # a try before this one did it
            os.rename(self._path, kept_path(self._path))
        self._spool.sync()
        return self.path

    @property
    def is_said(self) -> bool:
        """Whether the log has a record of the file that is still valid."""
        return self._said is not None

    @property
    def key(self) -> str | None:
        """The key of the object that it is to become, as that record says; None: there is none."""
        return None if self._said is None else self._said.key

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._path if self._path.exists() else kept_path(self._path)

    def clear(self) -> None:
        """Note that the file's contents are stored, or never will be. Never raises."""
        with self._log.lock:
            if self._said is not None:
                self._said = None
                if not self._log.release(self._path.name):
                    self._log.note({"is": "done", "file": self._path.name})

    def _say(self, said: Staged) -> None:
        """Append all records of the file."""
        with self._log.lock:
            self._log.append([packed(said.document(self._path.name))], always=True)
            self._said, self._unsaid = said, []
            self._log.hold(self._path.name, self._records)

    def _done(self, document: dict[str, Any] | None) -> None:
        """Note what was done to the file, once it is on the disk; None: nothing to be said.

        Where that fails, it is noted when the disk has what is done next.
        """
        if self._said is not None:
            if document is not None:
                self._unsaid.append(document)
            self._sync()
            documents, self._unsaid = self._unsaid, []
            self._add(documents)

    def _add(self, documents: list[dict[str, Any]]) -> None:
        """Append more records; failed ones come with the next."""
        with self._log.lock:
            if self._said is not None:
                for each in documents:
                    self._said.take(each)
                self._log.owe(*({**each, "file": self._path.name} for each in documents))

    def _records(self) -> list[Packed]:
        if self._said is None or (self._said.kept is not None and not _is_there(self._path)):
            return []
        return [packed(self._said.document(self._path.name))]

    def _sync(self) -> None:
        if self._spool.survives is Survives.POWER:
            with disk(self._path):
                os.fdatasync(self._fd)


def _in_order(ranges: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    at = 0
    for start, stop in (map(int, each) for each in ranges):
        if not at <= start <= stop:
            raise ValueError(f"{start} to {stop} is no range behind {at}")
        yield start, stop
        at = stop


def kept_path(path: Path) -> Path:
    """Return the path of a staged file that is left to `nczfs recover`."""
    return path.with_name(path.name + KEPT)


def _is_there(path: Path) -> bool:
    """Return whether a file that was left to `nczfs recover` still exists."""
    return path.exists() or kept_path(path).exists()
