"""Replacing a group in a store that cannot exchange all objects below a prefix in one step.

The new content is made in a hidden place below the group. A record beside it, the key `REPLACING`,
says what is to be done with that place, and it alone decides: as long as it does not say that the
new content is complete, the old one stands, and what is aside is to be removed. From then on the
new content is put in place, and another process goes on with that if this one is killed.

Readers see no mixture. First the documents of the old content go, those of the group itself first;
then everything else of it; then the new content comes, the documents of the group last. So at any
time the group is the old one, or the new one, or not there. A reader that finds its documents the
same before and after has read nothing else.

A lease below the place aside lets one process at a time do this, also where the store has
conditional writes.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from nczfs.engine.lease.lease import Lease, Leases
from nczfs.engine.structure.ownership import (
    REPLACING,
    THREADS,
    is_document,
    makes_a_node,
    owned,
    replacing_text,
)
from nczfs.errors import (
    BadKey,
    Conflict,
    CorruptStore,
    NczfsError,
    NoSuchObject,
    ObjectExists,
    StoreError,
    Unavailable,
)
from nczfs.formats.registry import FORMATS
from nczfs.plaindata import frozen
from nczfs.zmap.aside import Aside
from nczfs.zmap.base import ABSENT, Stat, Version, ZMap
from nczfs.zmap.keys import OWN_FILES, Key, Prefix, join, parse_prefix

log = logging.getLogger(__name__)

BATCH: Final = 1000  # objects between two looks at the lease and the record
_PLACE: Final = f"{OWN_FILES}replacing"
_BYTES_MAX: Final = 1 << 16
_ABOUT: Final = "A group is being replaced here, or the program that replaced it was ended."


@frozen
class ReplacingRecord:
    """The contents of the key `REPLACING`.

    Attributes
    ----------
    complete : the path below the place aside at which the new content is complete, and is to be put
        in place. None: what is aside is to be removed.
    """

    complete: str | None

    def spelled(self) -> bytes:
        """Return it as the bytes of an object."""
        return json.dumps({"about": _ABOUT, "complete": self.complete}, indent=1).encode()


def parsed_record(data: bytes, name: str) -> ReplacingRecord:
    """Parse a record. Raises CorruptStore; `name` is that of its object, for the message."""
    try:
        complete = json.loads(data)["complete"]
        if complete is None or (isinstance(complete, str) and parse_prefix(complete) == complete):
            return ReplacingRecord(complete)
    except (ValueError, TypeError, LookupError, RecursionError, BadKey):
        pass
    raise CorruptStore(f"{name}: is not understood; nothing is done about it")


def place_aside(prefix: Prefix) -> Prefix:
    """Return the hidden place below a group in which its new content is made."""
    return Prefix(join(prefix, f"{_PLACE}/new"))


@dataclass(slots=True)
class Stepwise:
    """A group that is being replaced by steps.

    Parameters
    ----------
    zmap, prefix : of the group.
    leases : has that of the place aside.
    going : called before the first document of the old content goes, whenever that is begun.

    Attributes
    ----------
    is_decided : whether the store may say that the new content is complete, and the old one goes.
    """

    zmap: ZMap
    prefix: Prefix
    leases: Leases
    going: Callable[[], object] = lambda: None
    is_decided: bool = False
    _version: Version = field(default=ABSENT, init=False)

    @contextlib.contextmanager
    def aside(self, path: str) -> Iterator[Aside]:
        """Return a place for new content, as `ZMap.aside` does.

        An exchange that fails after `is_decided` is completed by `complete`, or by a mount.

        Raises
        ------
        ObjectExists : another thread is at work there. LeaseNotHeld : another process is.
            CorruptStore, StoreError.
        """
        with self._turn() as lease:
            self._complete_left(lease)
            self._put(lease, ReplacingRecord(None))
            try:
                yield Aside(place_aside(self.prefix), partial(self._exchange, lease, path))
            finally:
                if not self.is_decided:
                    self._give_up(lease)

    def complete(self) -> bool:
        """Complete, or remove, what another process has left. Returns whether there was anything.

        Raises as `aside`.
        """
        with self._turn() as lease:
            return self._complete_left(lease)

    @property
    def _key(self) -> Key:
        return join(self.prefix, REPLACING)

    @property
    def _name(self) -> str:
        return "/".join(part for part in (self.zmap.name, self.prefix) if part)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[Lease]:
        """Hold the lease of the place aside; one thread at a time."""
        lease = self.leases.exclusive(self.zmap, Prefix(join(self.prefix, _PLACE)))
        if not lease.turn.acquire(blocking=False):
            raise ObjectExists(f"{self._name}: is being replaced")
        try:
            lease.require()
            lease.opened()
            try:
                yield lease
            finally:
                lease.closed()
                with contextlib.suppress(StoreError):  # it expires
                    lease.hand_over()
        finally:
            lease.turn.release()

    def _complete_left(self, lease: Lease) -> bool:
        record = self._look()
        if record is None:
            return False
        if record.complete is not None:
            self.is_decided = True
            self._put_in_place(lease, record.complete)
            self.is_decided = False
        self._clear(lease)
        return True

    def _exchange(self, lease: Lease, path: str) -> None:
        self.zmap.flush()
        try:
            self._put(lease, ReplacingRecord(path))
        except BaseException:
            self.is_decided = True  # until the store says something else
            record = self._look()
            if record is None or record.complete is None:
                self.is_decided = False
                raise
        self.is_decided = True
        try:
            self._put_in_place(lease, path)
            self._clear(lease)
        except NczfsError as error:
            raise Unavailable(f"{replacing_text(self._name)}: {error}") from error

    def _give_up(self, lease: Lease) -> None:
        try:
            self._clear(lease)
        except NczfsError as error:
            log.warning("%s: what is left beside it could not be removed: %s", self._name, error)

    def _put_in_place(self, lease: Lease, path: str) -> None:
        """Put the new content in the place of the old one. Can be repeated after any step."""
        place = place_aside(self.prefix)
        start = f"{place}/{path}/" if path else f"{place}/"
        new = list(self.zmap.list(Prefix(start.rstrip("/"))))
        if not any(makes_a_node(stat.key[len(start) :]) for stat in new):
            raise CorruptStore(f"{self._name}: what was to replace it is gone")
        self.going()
        old = [stat.key for stat in self.zmap.list(self.prefix)]
        found = owned(self.prefix, old)
        ours = [key for key in (*found.nodes, *found.rest) if key != self._key]
        for keys in in_order(ours, len(self.prefix))[::-1]:
            for part in _parts(keys):
                self._each_checked(lease, partial(self.zmap.delete_many, part))
        goals = {join(self.prefix, stat.key[len(start) :]): stat for stat in new}
        for keys in in_order(list(goals), len(self.prefix)):
            for part in _parts(keys):
                self._each_checked(lease, partial(self._copy, [(goals[k], k) for k in part]))
        self.zmap.flush()
        self._put(lease, ReplacingRecord(None))

    def _copy(self, pairs: Sequence[tuple[Stat, Key]]) -> None:
        """Copy objects, several at a time if requests take long."""
        if self.zmap.features.near or len(pairs) == 1:
            for stat, goal in pairs:
                self.zmap.copy(stat, goal)
            return
        with ThreadPoolExecutor(min(THREADS, len(pairs)), "nczfs-replacing") as pool:
            futures = [pool.submit(self.zmap.copy, stat, goal) for stat, goal in pairs]
            for future in futures:
                future.result()

    def _clear(self, lease: Lease) -> None:
        """Remove what is aside, and then the record, which must not call it complete."""
        left = [stat.key for stat in self.zmap.list(place_aside(self.prefix))]
        for part in _parts(left):
            self._each_checked(lease, partial(self.zmap.delete_many, part))
        self._each_checked(lease, partial(self.zmap.delete_many, [self._key]))
        self._version = ABSENT
        self.zmap.flush()

    def _each_checked(self, lease: Lease, change: Callable[[], object]) -> None:
        """Change the store while the lease is held and the record is ours."""
        with lease.writing():
            try:
                version = self.zmap.stat(self._key).version
            except NoSuchObject:
                version = ABSENT
            if version != self._version:
                raise Conflict(f"{self._name}: another process has taken over its replacement")
            change()

    def _look(self) -> ReplacingRecord | None:
        try:
            blob = self.zmap.read(self._key, 0, _BYTES_MAX)
        except NoSuchObject:
            self._version = ABSENT
            return None
        self._version = blob.version
        return parsed_record(bytes(blob.data), f"{self.zmap.name}/{self._key}")

    def _put(self, lease: Lease, record: ReplacingRecord) -> None:
        with lease.writing():
            self._version = self.zmap.write(self._key, record.spelled(), replaces=self._version)


def in_order(keys: Sequence[Key], start: int) -> list[list[Key]]:
    """Sort the keys of a group into the order in which it appears.

    What lies deeper comes first, and values before documents; of a node, the documents that make it
    one come last, and behind everything else the consolidated copy.

    Parameters
    ----------
    start : the length of the prefix of the group.
    """
    steps: dict[tuple[int, int], list[Key]] = {}
    for key in keys:
        name = key.rpartition("/")[2]
        depth = key.count("/", start)
        if not is_document(name) and not makes_a_node(name):
            step = (0, 0)
        elif name in FORMATS.copies:
            step = (2, -depth)
        elif makes_a_node(name):
            step = (1, -2 * depth + 1)
        else:
            step = (1, -2 * depth)
        steps.setdefault(step, []).append(key)
    return [steps[step] for step in sorted(steps)]


def _parts(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    for at in range(0, len(keys), BATCH):
        yield keys[at : at + BATCH]
