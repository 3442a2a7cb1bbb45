"""Renames of prefixes, which are many steps: noted when they begin, to be ended later."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from nczfs.engine.spool.disk import disk
from nczfs.engine.spool.entries import SpoolEntry, add_record, heading, heading_of, write_records
from nczfs.engine.spool.objects import KeptObject, are_equal, condition, stat_of
from nczfs.engine.spool.records import packed
from nczfs.engine.spool.space import Spool, Survives
from nczfs.errors import Conflict, NczfsError, NoSpace, NoSuchObject, ObjectExists, SpoolError
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, Stat, Version, ZMap
from nczfs.zmap.keys import Key, Prefix, is_within, moved, parse_key, parse_prefix

log = logging.getLogger(__name__)

RENAME = "rename"  # is the record of one

Copies: TypeAlias = dict[tuple[Key, Version], Version]
"""Versions of objects below the old prefix, and those of their copies below the new one.

What was written over the first is to be put over the second. `ABSENT` stands for an object that is
not stored.
"""


class Note:
    """The entry of a rename that is under way.

    Attributes
    ----------
    is_needed : after the rename, too: the log does not say of a file that it has moved.
    """

    def __init__(self, spool: Spool, path: Path) -> None:
        self._spool = spool
        self._path = path
        self.is_needed = False

    def copied(self, copies: Copies) -> None:
        """Note the copies of files that are being written, before anything is deleted.

        Raises
        ------
        NoSpace, OutOfDescriptors, Unavailable : what is written to them would not survive.
        """
        if copies and self._spool.survives is not Survives.NOTHING:
            add_record(self._path, packed(_copied(copies)), durable=True)

    def failed(self) -> None:
        """Note that the process has survived the rename, and what is written belongs where it is.

        Never raises.
        """
        try:
            add_record(self._path, packed({"is": "failed"}))
        except NczfsError as error:
            log.warning("%s: does not say that the rename has failed: %s", self._path, error)


@contextmanager
def noted(spool: Spool, prefix: Prefix, goal: Prefix) -> Iterator[Note]:
    """Keep an entry in the spool during a rename; it stays if that fails, or where it is needed."""
    document = {"is": RENAME, **heading(spool.url, prefix, "it was not completed"), "goal": goal}
    path = write_records(spool.new_path(prefix), [packed(document)])
    note = Note(spool, path)
    try:
        yield note
        if not note.is_needed:
            with disk(path):
                path.unlink()
    except BaseException:
        note.failed()
        raise
    spool.sync()


@frozen(kw_only=True)
class UnfinishedRename(SpoolEntry):
    """A rename of the prefix `key` that did not end.

    Attributes
    ----------
    has_failed : its process has survived it, and said so to who had asked for it.
    copies : of objects over which something was written meanwhile; none if it has failed.
    """

    kind: ClassVar[str] = "rename"

    goal: Prefix
    has_failed: bool = False
    copies: Copies = field(default_factory=dict, hash=False)

    @classmethod
    def parsed(cls, path: Path, documents: Sequence[Mapping[str, Any]]) -> UnfinishedRename:
        """Parse the form in records. Raises KeyError, TypeError, ValueError, BadKey."""
        first, *others = documents
        named = heading_of(first)
        prefix, goal = parse_prefix(named["key"]), parse_prefix(str(first["goal"]))
        if not (prefix and goal):
            raise ValueError("it does not name a prefix and a target")
        copies: Copies = {}
        has_failed = any(each["is"] == "failed" for each in others)
        for each in others if not has_failed else ():
            for key, version, copy in each["files"]:
                copies[parse_key(str(key)), Version(str(version))] = Version(str(copy))
        return cls(**named, goal=goal, files=(path,), has_failed=has_failed, copies=copies)

    def is_cut_above(self, key: str) -> bool:
        """Return whether what was written to an object may lie where this rename has left that."""
        return not self.has_failed and is_within(key, self.key)

    def describe(self) -> str:
        return f" was to be {self.goal}"

    def export(self, path: Path) -> Path:
        raise SpoolError(f"{self.key}: a rename has no bytes to export")

    def following(self, zmap: ZMap, kept: KeptObject) -> KeptObject:
        """Return what was written below the old prefix as what belongs below the new one.

        What it was written upon is there then, and known as a copy of that. It is returned as it is
        where another client has changed the object under either name.

        Raises
        ------
        Conflict : another client is changing it. SpoolError, StoreError.
        """
        key = kept.object
        goal = moved(key, self.key, self.goal)
        copy = self.copies.get((key, kept.replaces))
        if copy is None:
            source, there = stat_of(zmap, key), stat_of(zmap, goal)
            if not kept.rests_on(zmap, source):
                return kept
            is_ours = there is not None and any(each.is_in(zmap, there) for each in kept.sent)
            if source is not None and not is_ours:
                is_ours = _copy(zmap, source, goal, force=False)
                there = stat_of(zmap, goal)
            if there is not None and not is_ours:
                return kept
            copy = there.version if there is not None else ABSENT
            versions = {kept.replaces, source.version if source is not None else ABSENT}
            self._note({(key, version): copy for version in versions})
        return replace(kept, key=goal, replaces=copy)

    def _note(self, copies: Copies) -> None:
        """Note copies, for the case that this process is ended before all is done."""
        self.copies.update(copies)
        try:
            for path in self.files:
                add_record(path, packed(_copied(copies)), durable=True)
        except NoSpace as error:
            log.warning("%s: an end of nczfs now would have to be mended by hand", error)

    def end(self, zmap: ZMap, *, force: bool = False, without: Set[str] = frozenset()) -> None:
        """Move what is left below the old prefix, as far as that overwrites nothing.

        An object that was stored below the old prefix after the rename had begun stays there, and
        so does one whose new name another object has; an error names them at the end.

        Parameters
        ----------
        force : move these as well, over what is there.
        without : keys that stay, because something written over them is still in the spool.

        Raises
        ------
        SpoolError : something stays. Conflict : another client is writing below the old prefix;
        StoreError.
        """
        prefix, goal = parse_prefix(self.key), self.goal
        done, staying = [], []
        for stat in [stat for stat in zmap.list(prefix) if stat.key.startswith(f"{prefix}/")]:
            goal_key = moved(stat.key, prefix, goal)
            if stat.key in without:
                continue
            if (stat.key, stat.version) in self.copies and stat_of(zmap, goal_key) is not None:
                done.append(stat)  # the copy has been written over since
            elif stat.stored_ns is not None and stat.stored_ns > self.written_ns and not force:
                staying.append(f"{stat.key} is newer than the rename")
            elif _copy(zmap, stat, goal_key, force=force):
                done.append(stat)
            else:
                staying.append(f"{goal_key} exists, and is another object")
        for stat in done:
            try:
                zmap.delete(stat.key, version=stat.version)
            except NoSuchObject:
                continue
            except Conflict:
                staying.append(f"{stat.key} is newer than the rename")
        if pending := [key for key in without if is_within(key, prefix)]:
            raise SpoolError(
                f"{prefix}: the rename to {goal} ends when what was written to {min(pending)} is "
                "no longer in the spool"
            )
        if staying:
            raise SpoolError(
                f"{prefix}: {len(staying)} objects stay there: {staying[0]}; --force moves them to "
                f"{goal}, over what is there"
            )
        for marked in list(zmap.markers(prefix)):
            zmap.mark(Prefix(moved(marked, prefix, goal)))
            zmap.unmark(marked)


def _copied(copies: Copies) -> dict[str, Any]:
    return {"is": "copied", "files": [[*source, copy] for source, copy in copies.items()]}


def _copy(zmap: ZMap, stat: Stat, goal: Key, *, force: bool) -> bool:
    """Copy an object to a free place. Returns whether its bytes are there afterwards."""
    found = stat_of(zmap, goal)
    if found is not None and (found.version == stat.version or are_equal(zmap, stat, found)):
        return True
    if found is not None and not force:
        return False
    there = found.version if found is not None else ABSENT
    try:
        zmap.copy(stat, goal, replaces=condition(zmap, there))
    except ObjectExists as error:
        raise Conflict(f"{zmap.name}/{goal}: another client has just made it") from error
    except NoSuchObject as error:
        raise Conflict(f"{zmap.name}/{stat.key}: another client has deleted it") from error
    return True
