"""A second name in a flat store: another object with the same bytes."""

from __future__ import annotations

from nczfs.vfs.objects.livefiles import LiveFiles
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap.keys import Key


def link_file(store: ObjectStore, files: LiveFiles, key: Key, goal: Key) -> None:
    """Make a second object with the present bytes of a file, written or stored.

    Raises
    ------
    PathExists : there is an object already, at the latest when the store makes the new one.
    """
    with files.held(key) as live:
        copy = live.copied(goal) if live is not None else None
        if copy is None:
            copy = store.copy(store.stat(key), goal, replace=False)
    store.kept.copy(key, copy)
