"""Renames of prefixes, which are many steps: noted when they begin, to be ended later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nczfs.engine.spool.entries import Entry, Kind, write_entry
from nczfs.engine.spool.space import Spool, disk
from nczfs.errors import Conflict, NoSuchObject, SpoolError
from nczfs.zmap.base import Stat, ZMap
from nczfs.zmap.keys import Key, Prefix, moved, parse_prefix

GOAL = "goal"


@contextmanager
def noted(spool: Spool, prefix: Prefix, goal: Prefix) -> Iterator[None]:
    """Have an entry of the spool as long as a rename is under way; it stays when it fails."""
    entry = Entry(Kind.RENAME, spool.url, prefix, "it was not completed", {GOAL: goal})
    path = write_entry(spool.new_path(prefix), entry, [])
    yield
    with disk(path):
        path.unlink()


def goal_of(entry: Entry) -> Prefix:
    """What a prefix was to be renamed to. Raises SpoolError."""
    goal = entry.details.get(GOAL)
    if not isinstance(goal, str) or not goal or not entry.key:
        raise SpoolError(f"{entry.key}: the entry cannot be understood: it names no target")
    return parse_prefix(goal)


def end(zmap: ZMap, entry: Entry) -> None:
    """Copy what is left below the old prefix, and delete it there.

    What is at the goal by now is replaced, unless it is the same version: it is a copy that was
    made before.

    Raises
    ------
    Conflict : another client is writing below the old prefix; StoreError.
    """
    prefix, goal = parse_prefix(entry.key), goal_of(entry)
    left = [stat for stat in zmap.list(prefix) if stat.key.startswith(f"{prefix}/")]
    for stat in left:
        _copy(zmap, stat, moved(stat.key, prefix, goal))
    zmap.delete_many([stat.key for stat in left])
    for marked in list(zmap.markers(prefix)):
        zmap.mark(Prefix(moved(marked, prefix, goal)))
        zmap.unmark(marked)


def _copy(zmap: ZMap, stat: Stat, goal: Key) -> None:
    try:
        if zmap.stat(goal).version == stat.version:
            return
    except NoSuchObject:
        pass
    try:
        zmap.copy(stat, goal)
    except NoSuchObject as error:
        raise Conflict(f"{zmap.name}/{stat.key}: another client has deleted it") from error
