"""What mounts have left in their directories of the spool."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from tempfile import gettempprefix
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from nczfs.engine.process import ProcessIdentity
from nczfs.engine.spool.chunks import KeptChunk
from nczfs.engine.spool.contents import LogContents, chunks_of, logs_in, read_entry
from nczfs.engine.spool.disk import disk, sync_directory
from nczfs.engine.spool.entries import SpoolEntry, copied, heading
from nczfs.engine.spool.log import BEFORE, FORMAT
from nczfs.engine.spool.objects import KeptObject
from nczfs.engine.spool.records import FileData, RecordFile, free, packed
from nczfs.engine.spool.renames import UnfinishedRename
from nczfs.engine.spool.space import KEPT, LOCK, SUFFIX
from nczfs.errors import NoSpace, SpoolError
from nczfs.plaindata import frozen

log = logging.getLogger(__name__)

_SAID_BYTES_MAX: Final = 64 << 10
_UNCLOSED: Final = "the mount was killed before the file was closed"


@frozen(kw_only=True)
class Leftover(SpoolEntry):
    """A file that was being written when a mount without a journal was killed.

    It is never put back. Where fsync had answered, the store has what was written until then, and
    nobody was promised the rest. Which bytes these are is not known without a journal.
    """

    kind: ClassVar[str] = "incomplete file"

    size: int

    def describe(self) -> str:
        """As of an entry."""
        return f": {self.size} bytes; {self.reason}"

    def export(self, path: Path) -> Path:
        """As of an entry: as it is."""
        return copied(FileData(self.files[0], 0, self.size, None), path)


@frozen
class Found:
    """Something that a mount has left.

    Attributes
    ----------
    name : what tells it from the others of a spool.
    path : of its file, where it has one of its own.
    entry : what it is; None: it is torn, or no entry.
    problem : why there is no entry.
    """

    home: Home = field(repr=False)
    name: str
    path: Path
    entry: SpoolEntry | None
    problem: str = ""

    @property
    def url(self) -> str:
        """The URL of what was mounted, if known."""
        return self.entry.url if self.entry is not None else self.home.url

    @property
    def kind(self) -> str:
        """What it is, in words."""
        return "damaged entry" if self.entry is None else self.entry.kind

    @property
    def in_use(self) -> bool:
        """Return whether its mount lives."""
        return self.home.in_use

    @property
    def is_foreign(self) -> bool:
        """Return whether another user owns it, or its directory."""
        return self.home.is_foreign or is_foreign(self.path)

    @property
    def is_owned(self) -> bool:
        """Return whether a living mount has it in memory too."""
        return self.in_use and isinstance(self.entry, KeptChunk | UnfinishedRename)

    @property
    def is_leftover(self) -> bool:
        """Return whether it was never to be put back."""
        return isinstance(self.entry, Leftover)

    @property
    def whole(self) -> SpoolEntry:
        """The entry. Raises SpoolError: there is none."""
        if self.entry is None:
            raise SpoolError(self.problem)
        return self.entry

    def describe(self) -> str:
        """Describe the elements of a variable, or bytes of an object. Raises SpoolError."""
        return f"{self.whole.url} {self.whole.key}{self.whole.describe()}"

    def export(self, directory: Path) -> Path:
        """Write what it has to a new file, whatever the store has by now. Raises SpoolError.

        Parameters
        ----------
        directory : is made where it is missing.
        """
        whole = self.whole
        directory.mkdir(0o700, parents=True, exist_ok=True)
        return whole.export(directory / self.name.replace("/", "-"))

    def remove(self) -> None:
        """Delete it, and the directory with the last one of a mount that is gone.

        Raises
        ------
        SpoolError : a living mount has it; Unavailable : it cannot be deleted.
        """
        if self.is_owned:
            raise SpoolError(f"{self.path}: its mount is running and keeps trying to store it")
        if self.path.name.startswith(BEFORE) and self.home.needs_logs:
            raise SpoolError(
                f"{self.path}: says what other entries of the mount are; they go first"
            )
        if any(self._places(each.entry) for each in self.home.found):
            raise SpoolError(
                f"{self.path}: says where other entries of the mount belong; they go first"
            )
        files = (self.path,) if self.entry is None else self.entry.files
        with disk(self.path):
            for path in files:
                path.unlink(missing_ok=True)
            if files and self.home.directory.exists():
                sync_directory(self.home.directory)
        self.home.forget(self)

    def _places(self, other: SpoolEntry | None) -> bool:
        """Return whether it tells where another entry of the same mount belongs."""
        begun = self.entry if isinstance(self.entry, UnfinishedRename) else None
        return isinstance(other, KeptObject) and begun is not None and begun.is_cut_above(other.key)


class Home:
    """The directory of a mount, as it is found.

    Attributes
    ----------
    url : of what was mounted, where that is known.
    process : of the mount, where that is known.
    in_use : its mount lives.
    """

    def __init__(self, directory: Path, *, tidies: bool) -> None:
        self.directory = directory
        self.url = ""
        self.process: ProcessIdentity | None = None
        self.in_use = False
        self.is_foreign = any(map(is_foreign, [directory, *logs_in(directory)]))
        self._found: dict[str, Found] = {}
        self._logs: list[Path] = []
        self._log: RecordFile | None = None
        self._unneeded: list[Path] = []
        self._unsaid: list[Mapping[str, Any]] = []
        with _locked(directory, fcntl.LOCK_SH) as is_dead:
            self.in_use = not is_dead
            said = _said_of(directory)
            self.url = str(said.get("url", ""))
            # A mount makes only files there; a link or a pipe is somebody else's.
            files = {
                path.name: path
                for path in sorted(directory.iterdir())
                if path.name != LOCK and stat.S_ISREG(path.lstat().st_mode)
            }
            if said.get("format", FORMAT) == FORMAT:
                self._look(files, has_journal=said.get("journal") is True)
            elif not self.in_use:
                problem = "another version of nczfs has written it: recover it with that version"
                for name, path in files.items():
                    self._add(name, path, None, f"{path}: {problem}")
        if tidies:
            self._tidy()

    @property
    def found(self) -> list[Found]:
        """What is in it; of a living mount: what it leaves to `nczfs recover`."""
        return list(self._found.values())

    @property
    def needs_logs(self) -> bool:
        """Return whether there is something that its logs describe."""
        return any(not each.is_leftover and each.entry is not None for each in self.found)

    def say(self, *documents: Mapping[str, Any]) -> None:
        """Add records to the log of a mount that is gone, durably. Raises NoSpace, Unavailable."""
        if self._log is None:
            logs = logs_in(self.directory)
            number = int(logs[-1].suffix[1:]) + 1 if logs else 1
            path = self.directory / f"{BEFORE}{number}"
            self._log = RecordFile(path, free, waits=True)
            self._logs.append(path)
            with disk(self.directory):
                sync_directory(self.directory)
        heading = [] if self._log.size else [{"is": "log", "format": FORMAT}]
        self._log.append([packed(document) for document in [*heading, *documents]])

    def appended(self, key: str) -> tuple[int, int] | None:
        """Return the records [first, stop) of an array whose place is not certain, if any."""
        entries = (each.entry for each in self._found.values())
        chunks = [each for each in entries if isinstance(each, KeptChunk) and each.key == key]
        bases = (each.basis.appended_from for each in chunks)
        firsts = [first for first in bases if first is not None]
        if not firsts:
            return None
        return min(firsts), max(each.details.shape[0] for each in chunks)

    def forget(self, found: Found) -> None:
        """Note that something is gone; with the last one the directory is removed.

        A full disk has room for the note when others have gone, or needs none in the end.
        """
        del self._found[found.name]
        self._tidy()
        if found.entry is not None and found.entry.voiding is not None:
            self._unsaid.append(found.entry.voiding)
        if self._found and self._unsaid:
            try:
                self.say(*self._unsaid)
            except NoSpace as error:
                log.warning("%s; `nczfs recover` may list data that are stored already", error)
            else:
                self._unsaid.clear()

    def _look(self, files: dict[str, Path], *, has_journal: bool) -> None:
        self._logs = logs_in(self.directory)
        contents = LogContents(self._logs)
        self.url = contents.url or self.url  # the lock is synced for journal=fsync alone
        self.process = contents.process
        for path in self._logs:
            files.pop(path.name, None)
        self._look_at_objects(files, contents)
        chunks: list[KeptChunk] = []
        for name in [name for name in files if name.endswith(SUFFIX)]:
            path = files.pop(name)
            try:
                entry = read_entry(path)
            except SpoolError as error:
                if path.exists():  # else its mount lives
                    self._add(name, path, None, str(error))
            else:
                if isinstance(entry, KeptChunk):
                    chunks.append(contents.completed(contents.followed(entry)))
                else:
                    self._add(name, path, entry)
        chunks.sort(key=lambda each: each.saved_at)
        saved = {each.files[0]: each for each in chunks}
        if not self.in_use:
            for name, entry in chunks_of(contents, saved, self.url):
                self._add(name, self.directory / name, contents.completed(entry))
            self._look_at_rest(files, contents, has_journal)
        for path, entry in saved.items():
            self._add(path.name, path, entry)
        if not self.in_use:
            for path, problem in contents.problems.items():
                self._add(path.name, path, None, problem)

    def _look_at_objects(self, files: dict[str, Path], contents: LogContents) -> None:
        for name, staged in contents.staged.items():
            path = files.pop(name, None) or files.pop(name + KEPT, None)
            if path is None or (self.in_use and staged.kept is None):
                continue
            if staged.kept is None and contents.problem:
                self._add(name, path, None, f"{_UNCLOSED}, and {contents.problem}")
            else:
                with contextlib.suppress(FileNotFoundError):  # its mount lives
                    entry = KeptObject.of(path, self.url, staged, contents.written_at)
                    self._add(path.name, path, entry)

    def _look_at_rest(
        self, files: dict[str, Path], contents: LogContents, has_journal: bool
    ) -> None:
        """Yield the files that no record mentions."""
        for name, path in files.items():
            if name.startswith(gettempprefix()) or (
                has_journal and contents.is_whole and not contents.problem and name[0].isdecimal()
            ):
                self._unneeded.append(path)
            elif contents.problem or has_journal or name.endswith(KEPT):
                problem = contents.problem or "it is incomplete"
                self._add(name, path, None, f"{path}: the log does not say what it is: {problem}")
            else:
                reason = f"{_UNCLOSED}; the store has what fsync had acknowledged"
                key = unquote(name.partition("-")[2], errors="surrogateescape")
                named, size = heading(self.url, key, reason), path.stat().st_size
                self._add(name, path, Leftover(**named, files=(path,), size=size))

    def _add(self, name: str, path: Path, entry: SpoolEntry | None, problem: str = "") -> None:
        short = name.removesuffix(SUFFIX).removesuffix(KEPT)
        whole = f"{self.directory.name}/{short}"
        self._found[whole] = Found(self, whole, path, entry, problem)

    def _tidy(self) -> None:
        """Remove what is stored, and the directory where nothing else is left.

        Nothing else goes: a mount may have begun to use the directory since it was looked at.
        """
        if self.in_use or (self._found and not self._unneeded):
            return
        with contextlib.suppress(OSError), _locked(self.directory, fcntl.LOCK_EX) as is_ours:
            if not is_ours:
                return
            while self._unneeded:
                self._unneeded.pop().unlink(missing_ok=True)
            if self._found:
                return
            if self._log is not None:
                self._log.close()
            for path in [*self._logs, self.directory / LOCK]:
                path.unlink(missing_ok=True)
            self.directory.rmdir()
            sync_directory(self.directory.parent)


def is_foreign(path: Path) -> bool:
    """Return whether another user owns a file."""
    try:
        return os.lstat(path).st_uid != os.geteuid()
    except OSError:
        return False  # it is gone


def _said_of(directory: Path) -> dict[str, Any]:
    """Return the contents of the lock's file; if it is not JSON, it has another format."""
    text = ""
    try:
        with os.fdopen(_lock_of(directory, os.O_RDONLY), "rb") as file:
            text = file.read(_SAID_BYTES_MAX).decode("utf-8", "replace")
        said = json.loads(text) if text else {}
    except OSError:
        return {}
    except (ValueError, RecursionError):
        return {"format": 1, "url": text}
    return said if isinstance(said, dict) else {"format": None}


def _lock_of(directory: Path, flags: int) -> int:
    """Open the lock's file of a mount. Raises OSError: also if it is a link, or no regular file."""
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(directory / LOCK, flags, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "is not a regular file", str(directory / LOCK))
    return fd


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[bool]:
    """Lock the directory of a mount that is gone. Returns whether that succeeded.

    To remove it takes the lock that a mount takes which has just made it (`Spool`), so the file is
    made where it is missing.

    Raises
    ------
    OSError : that cannot be seen.
    """
    is_removing = how == fcntl.LOCK_EX
    try:
        fd = _lock_of(directory, os.O_RDWR | (os.O_CREAT if is_removing else 0))
    except FileNotFoundError:
        yield not is_removing
        return
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
        is_there = not is_removing or os.path.samestat(os.fstat(fd), os.stat(directory / LOCK))
    except (BlockingIOError, FileNotFoundError):
        yield False
    else:
        yield is_there
    finally:
        os.close(fd)
