"""What must be known of a staged file to make an entry of it when its process was killed.

Beside the file stands a log, of these records:

* ``unsaved``: what the file is to become, and which ranges of it were never fetched. The first one,
  and again when that has changed.
* ``wrote``: ranges that have bytes of the file by now.
* ``cut``: the file was made shorter, to so many bytes.
* ``sending``: what was sent to the store of it, as `Sent`; ``unsaved`` ends its time.
* ``sealed``: the size that the file had when an entry was begun to be made of it.

A log without records: nothing is unsaved.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from nczfs.engine.spool.basis import Sent
from nczfs.engine.spool.records import Log, packed
from nczfs.engine.spool.space import Spool, Survives, disk
from nczfs.errors import NczfsError

log = logging.getLogger(__name__)

BEFORE: Final = "log-of-"  # begins the name of the log, which goes on as that of the file


class StagedLog:
    """The log of a staged file. Its user sees to it that calls are single.

    Parameters
    ----------
    path, fd : of the staged file.
    """

    def __init__(self, spool: Spool, path: Path, fd: int) -> None:
        self._spool = spool
        self._staged = path
        self._fd = fd
        self._log = Log(spool, path.with_name(BEFORE + path.name))
        self._owed: list[list[bytes | memoryview]] = []

    def begin(self, key: str, replaces: str, missing: Sequence[tuple[int, int]]) -> None:
        """What is in the file is not in the store; does nothing where that is known.

        Parameters
        ----------
        key : of the object that it is to become.
        replaces : the token of the version that it replaces.
        missing : ranges of the file that are those of that version.

        Raises
        ------
        NoSpace, Unavailable : it would be lost.
        """
        if self._log.size:
            return
        self._sync()
        self._log.append([self._unsaved(key, replaces, missing)], always=True)

    def renew(self, key: str, replaces: str, missing: Sequence[tuple[int, int]]) -> None:
        """As `begin`, of a file that is to become something else from now on. Never raises."""
        if not self._log.size:
            return
        try:
            self._log.append([self._unsaved(key, replaces, missing)], always=True)
        except NczfsError as error:
            log.warning("%s: its log says what it was to replace before: %s", self._staged, error)

    def _unsaved(
        self, key: str, replaces: str, missing: Sequence[tuple[int, int]]
    ) -> list[bytes | memoryview]:
        document = {"is": "unsaved", "url": self._spool.url, "key": key, "replaces": replaces}
        return packed({**document, "missing": missing})

    def wrote(self, missed: Iterable[tuple[int, int]]) -> None:
        """The file was written to; `missed` are the ranges that it had no bytes of before."""
        if not self._log.size:
            return
        self._sync()
        if ranges := list(missed):
            self._owed.append(packed({"is": "wrote", "ranges": ranges}))
        self._append()

    def cut(self, size: int) -> None:
        """The size of the file was set."""
        if not self._log.size:
            return
        self._sync()
        self._owed.append(packed({"is": "cut", "size": size}))
        self._append()

    def sending(self, attempt: Sent) -> None:
        """The file is sent to the store as it was at a time. Never raises."""
        if self._log.size:
            self._owed.append(packed({"is": "sending", "sent": attempt.document()}))
            try:
                self._append()
            except NczfsError as error:
                log.warning("%s: its log lacks what is sent: %s", self._staged, error)

    def sealing(self, size: int) -> None:
        """An entry is about to be made of the file, whose end will then come behind its bytes.

        Raises NoSpace, Unavailable.
        """
        if self._log.size:
            self._log.append([*self._owed, packed({"is": "sealed", "size": size})], always=True)
            self._owed.clear()

    def clear(self) -> None:
        """What is in the file is in the store, or will never be. Never raises."""
        self._owed.clear()
        try:
            if self._log.size:
                self._log.clear()
        except NczfsError as error:
            log.warning(
                "%s: could not be removed, although its data are stored: %s", self._staged, error
            )

    def leave(self) -> bool:
        """Close the log, and leave it to who recovers the file, if it says what is unsaved."""
        if self._log.size:
            self._log.close()
            return True
        return False

    def remove(self) -> None:
        """Remove the log. Never raises."""
        try:
            self._log.remove()
        except NczfsError as error:
            log.warning("%s: %s", self._staged, error)

    def _append(self) -> None:
        """Append what is owed; what fails is owed to the next call."""
        if self._owed:
            # What was written had room: a record that is refused would come too late.
            self._log.append(self._owed, always=True)
            self._owed.clear()

    def _sync(self) -> None:
        if self._spool.survives is Survives.POWER:
            with disk(self._staged):
                os.fdatasync(self._fd)
