"""The last writes to files of ``datasets/`` that were refused."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from nczfs.errors import BadArgument, BadValue, NotPermitted, NotWritable
from nczfs.zmap.keys import Prefix, is_within

NOTES_MAX = 1000
MESSAGE_CHARACTERS_MAX = 1000


class Refusals:
    """Reasons why the last write of a file was refused, by the prefix of its node and its name.

    Users of a program that ignores errors of write(2) and close(2) find them in the `problems` of
    the ``info.json``. If there are too many, the oldest are dropped. `_lock` guards the dict.

    Parameters
    ----------
    changed : called when the notes of a node have changed.

    Attributes
    ----------
    revision : changes with each change.
    """

    def __init__(self, changed: Callable[[Prefix], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._notes: OrderedDict[tuple[Prefix, str], str] = OrderedDict()
        self._revisions = count(1)
        self.revision = 0

    def of(self, prefix: Prefix) -> tuple[str, ...]:
        """Return the notes on the files of a node."""
        if not self._notes:
            return ()
        with self._lock:
            found = [(name, why) for (node, name), why in self._notes.items() if node == prefix]
        return tuple(_message(name, why) for name, why in found)

    def names(self, prefix: Prefix) -> tuple[str, ...]:
        """Return the files of a node that have notes."""
        if not self._notes:
            return ()
        with self._lock:
            return tuple(name for node, name in self._notes if node == prefix)

    def file(self, prefix: Callable[[], Prefix], name: str) -> RefusalsOfFile:
        """Return the refusals of one file; a rename may change the prefix of its node."""
        return RefusalsOfFile(self, prefix, name)

    def why(self, prefix: Prefix, name: str) -> str | None:
        """Return why the last write of a file was refused; None: it was not."""
        return self._notes.get((prefix, name))

    def note(self, prefix: Prefix, name: str, why: str) -> None:
        """Note that the last write of a file was refused."""
        why = why[:MESSAGE_CHARACTERS_MAX]
        with self._lock:
            is_known = self._notes.get((prefix, name)) == why
            self._notes[prefix, name] = why  # it is there all the time: some look without the lock
            self._notes.move_to_end((prefix, name))
            if is_known:
                return
            while len(self._notes) > NOTES_MAX:
                self._notes.popitem(last=False)
            self.revision = next(self._revisions)
        self._changed(prefix)

    def note_once(self, prefix: Prefix, name: str, why: str) -> None:
        """Note a refusal if the node has no note yet."""
        if not self.of(prefix):
            self.note(prefix, name, why)

    def settle(self, prefix: Prefix, name: str) -> None:
        """Remove the note after an accepted write, or if the file is gone."""
        with self._lock:
            if self._notes.pop((prefix, name), None) is None:
                return
            self.revision = next(self._revisions)
        self._changed(prefix)

    def forget(self, prefix: Prefix) -> None:
        """Remove the notes at or below a prefix."""
        with self._lock:
            gone = [place for place in self._notes if is_within(place[0], prefix)]
            for place in gone:
                del self._notes[place]
            if gone:
                self.revision = next(self._revisions)


class RefusalsOfFile:
    """The refusals of one file."""

    def __init__(self, refusals: Refusals, prefix: Callable[[], Prefix], name: str) -> None:
        self._refusals = refusals
        self._prefix = prefix
        self._name = name

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note errors in the block as refusals."""
        try:
            yield
        except (BadArgument, BadValue, NotPermitted, NotWritable) as error:
            self._refusals.note(self._prefix(), self._name, str(error))
            raise

    def settle(self) -> None:
        """Remove the note after an accepted write, or if the file is gone."""
        self._refusals.settle(self._prefix(), self._name)

    def check(self) -> None:
        """Raise BadArgument if the last write was refused."""
        why = self._refusals.why(self._prefix(), self._name)
        if why is not None:
            raise BadArgument(_message(self._name, why))


def _message(name: str, why: str) -> str:
    return f"{why} (what was written last to {name} was refused)"
