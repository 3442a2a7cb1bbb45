"""Renames of prefixes, which are many steps: noted when they begin, to be ended later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from nczfs.engine.spool.disk import disk
from nczfs.engine.spool.entries import SpoolEntry, heading, heading_of, write_records
from nczfs.engine.spool.objects import are_equal, condition, stat_of
from nczfs.engine.spool.records import packed
from nczfs.engine.spool.space import Spool
from nczfs.errors import Conflict, NoSuchObject, ObjectExists, SpoolError
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, Stat, ZMap
from nczfs.zmap.keys import Key, Prefix, moved, parse_prefix

RENAME = "rename"  # is the record of one


@contextmanager
def noted(spool: Spool, prefix: Prefix, goal: Prefix) -> Iterator[None]:
    """Keep an entry in the spool during a rename; it stays if the rename fails."""
    document = {"is": RENAME, **heading(spool.url, prefix, "it was not completed"), "goal": goal}
    path = write_records(spool.new_path(prefix), [packed(document)])
    yield
    with disk(path):
        path.unlink()
    spool.sync()


@frozen(kw_only=True)
class UnfinishedRename(SpoolEntry):
    """A rename of the prefix `key` that did not end."""

    kind: ClassVar[str] = "rename"

    goal: Prefix

    @classmethod
    def parsed(cls, path: Path, document: Mapping[str, Any]) -> UnfinishedRename:
        """Parse the form in a record. Raises KeyError, TypeError, ValueError, BadKey."""
        named = heading_of(document)
        prefix, goal = parse_prefix(named["key"]), parse_prefix(str(document["goal"]))
        if not (prefix and goal):
            raise ValueError("it does not name a prefix and a target")
        return cls(**named, goal=goal, files=(path,))

    def describe(self) -> str:
        return f" was to be {self.goal}"

    def export(self, path: Path) -> Path:
        raise SpoolError(f"{self.key}: a rename has no bytes to export")

    def end(self, zmap: ZMap, *, force: bool = False) -> None:
        """Move what is left below the old prefix, as far as that overwrites nothing.

        An object that was stored below the old prefix after the rename had begun stays there, and
        so does one whose new name another object has; an error names them at the end.

        Parameters
        ----------
        force : move these as well, over what is there.

        Raises
        ------
        SpoolError : something stays. Conflict : another client is writing below the old prefix;
        StoreError.
        """
        prefix, goal = parse_prefix(self.key), self.goal
        done, staying = [], []
        for stat in [stat for stat in zmap.list(prefix) if stat.key.startswith(f"{prefix}/")]:
            if stat.stored_ns is not None and stat.stored_ns > self.written_ns and not force:
                staying.append(f"{stat.key} is newer than the rename")
            elif _copy(zmap, stat, moved(stat.key, prefix, goal), force=force):
                done.append(stat)
            else:
                staying.append(f"{moved(stat.key, prefix, goal)} exists, and is another object")
        for stat in done:
            try:
                zmap.delete(stat.key, version=stat.version)
            except NoSuchObject:
                continue
            except Conflict:
                staying.append(f"{stat.key} is newer than the rename")
        if staying:
            raise SpoolError(
                f"{prefix}: {len(staying)} objects stay there: {staying[0]}; --force moves them to "
                f"{goal}, over what is there"
            )
        for marked in list(zmap.markers(prefix)):
            zmap.mark(Prefix(moved(marked, prefix, goal)))
            zmap.unmark(marked)


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
