"""The key that marks a prefix as unfinished, and names the process at work there.

The key exists from before the first object is stored until after the last one. Meanwhile documents
are missing, so that no reader takes the objects for a dataset. A process that is killed leaves the
key behind.
"""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass, field, replace

from nczfs.engine.lease.contention import PID_MAX
from nczfs.engine.process import ProcessIdentity, current_process
from nczfs.engine.structure.ownership import UNFINISHED, Owned, check_no_foreign, owned
from nczfs.errors import NoSuchObject, ObjectExists, StoreError
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, join

_BYTES_MAX = 1 << 16
_ABOUT = "This place is unfinished: it is being written, or the program that wrote it was ended."


@frozen
class Mark:
    """The contents of the key.

    Attributes
    ----------
    command : "import" or "cp"; "" if that cannot be read.
    plan : a digest of everything to be made; "" if no other run can continue it.
    host, process : at work there; None after an orderly end, or if unknown.
    made_of : digests of the chunks that the source had; empty if unknown.
    """

    command: str
    plan: str = ""
    host: str = ""
    process: ProcessIdentity | None = None
    made_of: tuple[str, ...] = ()

    @property
    def is_under_way(self) -> bool:
        """Whether a process of this machine is at work there."""
        ours = current_process()
        theirs = self.process
        if ours is None or theirs is None or ours.machine != theirs.machine:
            return False
        return not theirs.has_ended()

    def started(self) -> Mark:
        """Return the mark with this process at work."""
        return replace(self, host=socket.gethostname(), process=current_process())

    def stopped(self) -> Mark:
        """Return the mark after an orderly end."""
        return replace(self, host="", process=None)


@dataclass(slots=True)
class MarkedPlace:
    """A prefix of a store, and its mark.

    Attributes
    ----------
    version : of the mark that was last read or written; `ABSENT`: there is none.
    """

    zmap: ZMap
    prefix: Prefix
    mark: Mark | None = None
    version: Version = field(default=ABSENT)

    @property
    def key(self) -> Key:
        return join(self.prefix, UNFINISHED)

    @property
    def name(self) -> str:
        """The name of the place, for messages."""
        return "/".join(part for part in (self.zmap.name, self.prefix) if part)

    def look(self) -> Mark | None:
        """Read the mark; None: there is none."""
        try:
            blob = self.zmap.read(self.key, 0, _BYTES_MAX)
        except NoSuchObject:
            self.mark, self.version = None, ABSENT
        else:
            self.mark, self.version = _parsed(bytes(blob.data)), blob.version
        return self.mark

    def check_left(self) -> None:
        """Raise ObjectExists if a process of this machine still writes there."""
        if self.mark is not None and self.mark.is_under_way:
            assert self.mark.process is not None
            pid = self.mark.process.pid
            raise ObjectExists(f"{self.name}: process {pid} is writing there")

    def put(self, mark: Mark) -> None:
        """Replace the mark that was seen.

        Raises
        ------
        Conflict : another process has changed it, or has put one there. StoreError.
        """
        self.version = self.zmap.write(self.key, _spelled(mark), replaces=self.version)
        self.mark = mark

    @property
    def made_of(self) -> tuple[str, ...]:
        """What the mark says of the chunks of the source."""
        return () if self.mark is None else self.mark.made_of

    def note(self, made_of: tuple[str, ...]) -> None:
        """Add to the mark what the source has. Raises as `put`."""
        assert self.mark is not None
        self.keep(replace(self.mark, made_of=made_of))

    def keep(self, mark: Mark) -> None:
        """Put a mark, but only remember it if the store gathers writes. Raises as `put`."""
        if self.zmap.features.gathers_writes:
            self.mark = mark
        else:
            self.put(mark)

    def is_ours(self) -> bool:
        """Return whether the store still has the mark that was seen or put last, or still none."""
        try:
            return self.zmap.stat(self.key).version == self.version
        except NoSuchObject:
            return self.version == ABSENT

    def remove(self) -> None:
        """Remove the mark of a complete node. Raises StoreError: the mark is still there."""
        try:
            self.zmap.delete(self.key)
        except NoSuchObject:
            pass
        except StoreError:  # perhaps only the answer was lost
            if self.look() is not None:
                raise
        self.mark, self.version = None, ABSENT

    def left(self) -> Owned:
        """Return the keys at the prefix, including that of the mark."""
        found = {stat.key for stat in self.zmap.list(self.prefix)}
        return owned(self.prefix, sorted(found | {self.key}))

    def clear(self, *, force: bool = False) -> None:
        """Delete what was made at the prefix, the mark last.

        Parameters
        ----------
        force : also if there are foreign objects; those stay.

        Raises
        ------
        ForeignObjects : objects there belong to no dataset; nothing was deleted. StoreError.
        """
        found = self.left()
        if not force:
            check_no_foreign(self.name, self.prefix, found.foreign)
        self.zmap.delete_many([key for key in found.nodes + found.rest if key != self.key])
        self.remove()


def _spelled(mark: Mark) -> bytes:
    document = {"about": _ABOUT, **asdict(mark)}
    return json.dumps(document, indent=1).encode()


def _process(members: dict[str, object]) -> ProcessIdentity:
    machine, pid, started = members["machine"], members["pid"], members["started"]
    if not (isinstance(machine, str) and isinstance(pid, int) and isinstance(started, int)):
        raise TypeError("no process")
    if not 0 < pid <= PID_MAX:
        raise ValueError("no process has such a number")
    return ProcessIdentity(machine, pid, started)


def _parsed(data: bytes) -> Mark:
    """Parse a mark with any contents: only its presence counts."""
    try:
        found = json.loads(data)
        process = found["process"]
        return Mark(
            str(found["command"]),
            str(found["plan"]),
            str(found["host"]),
            None if process is None else _process(process),
            tuple(map(str, found.get("made_of", ()))),
        )
    except (ValueError, TypeError, LookupError, RecursionError):
        return Mark("")
