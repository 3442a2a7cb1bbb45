"""Mounts that end as if they were killed: what their spool holds is all that is left."""

from __future__ import annotations

import shutil
from pathlib import Path

from nczfs.engine.spool.entries import SpoolEntry
from nczfs.engine.spool.found import Home
from nczfs.engine.spool.objects import KeptObject
from nczfs.errors import SpoolError
from nczfs.tools import recovery
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap
from nczfs.zmap.url import parse_url
from nczfs.zmap.wrappers import Prefixed


def left_by(spool_dir: Path, copy: Path) -> Path:
    """A copy of a spool that holds what a kill right now would leave there."""
    if spool_dir.exists():
        shutil.copytree(spool_dir, copy)
    else:
        copy.mkdir()
    return copy


def copied(store: MemoryZMap) -> MemoryZMap:
    """A store with the same versions of the same objects."""
    copy = MemoryZMap()
    copy._objects.update(store._objects)
    copy._writes = store._writes
    return copy


def entry_of(path: Path) -> SpoolEntry:
    """The entry that a file of a spool belongs to."""
    (found,) = (each for each in Home(path.parent, tidies=False).found if each.path == path)
    return found.whole


def object_of(path: Path) -> KeptObject:
    """The entry of an object that a file of a spool is the bytes of."""
    entry = entry_of(path)
    assert isinstance(entry, KeptObject)
    return entry


def recovered(spool_dir: Path, zmap: ZMap, *, refusing: bool = False) -> list[str]:
    """Put everything back that a spool holds: what it was. Closes no store.

    Parameters
    ----------
    refusing : discard what is refused, and give that alone.
    """
    store = recovery.Store(Kept(zmap), parse_url("memory://store"))
    said = []
    try:
        for group in recovery.together(recovery.entries(spool_dir)):
            for found in group:
                assert found.entry is not None, found.problem
            what = [found.describe().partition(" ")[2] for found in group]
            problems = store.put_back(group)
            for found, each, problem in zip(group, what, problems, strict=True):
                if not (problem is None or (refusing and isinstance(problem, SpoolError))):
                    raise problem
                if refusing is (problem is not None):
                    said.append(each)
                found.remove()
    finally:
        store.close()
    return said


class Kept(Prefixed):
    """A store that is not closed when those who use it are."""

    def __init__(self, zmap: ZMap) -> None:
        super().__init__(zmap, ROOT)

    def close(self) -> None:
        pass
