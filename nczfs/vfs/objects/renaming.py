"""Renaming in a flat store: copies, then deletions."""

from __future__ import annotations

from contextlib import ExitStack, nullcontext
from functools import partial

from nczfs.errors import Conflict, NotPermitted, StaleHandle
from nczfs.vfs.objects.live import LiveFile, LiveFiles
from nczfs.vfs.objects.names import parent_of
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap import keys
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import Key, Prefix


def rename_file(
    store: ObjectStore, files: LiveFiles, key: Key, goal: Key, *, replace: bool
) -> None:
    """Rename an object, or a file that is being written: what it holds is stored by that.

    The new object is there before the old one goes: whoever ends in between leaves both.
    """
    with files.held(goal) as replaced, files.held(key) as live:
        if replaced is not None:
            replaced.hold()
        if live is None:
            _move_stored(store, key, goal, replace=replace)
            files.unlink(goal)
            return
        with live.lock:
            if live.dirty:
                _move_written(store, live, goal, replace=replace)
            else:
                live.moved(_move_stored(store, key, goal, replace=replace))
            files.unlink(goal)
            files.rename(live, goal)


def rename_prefix(store: ObjectStore, files: LiveFiles, prefix: Prefix, goal: Prefix) -> None:
    """Rename a directory: every object is copied, then the old ones are deleted.

    An error or the end of the process in between leaves both, or some of the old ones, and an entry
    of the spool, by which it can be ended.

    Raises
    ------
    NotPermitted : there is more below than keys and markers, and would stay; nothing was changed.
    """
    try:
        markers = list(store.zmap.markers(prefix))
    except Conflict as error:
        raise NotPermitted(f"{error}; rename it with another client") from error
    new_key = partial(keys.moved, prefix=prefix, goal=goal)
    for unsaved in files.below(prefix):
        rename_file(store, files, unsaved.key, new_key(unsaved.key), replace=True)
    stats = [stat for stat in store.zmap.list(prefix) if stat.key.startswith(f"{prefix}/")]
    with ExitStack() as held:
        with store.noted(prefix, goal) if stats or markers else nullcontext():
            found = store.each(lambda stat: _copy_newest(store, stat, new_key(stat.key)), stats)
            copies = {s.key: copy for s, copy in zip(stats, found, strict=True) if copy is not None}
            open_files = [held.enter_context(files.held(key)) for key in files.keys_below(prefix)]
            store.zmap.delete_many(copies)
            store.move_markers(prefix, markers, goal)
        for live in open_files:
            if live is not None and live.key in copies:
                live.moved(copies[live.key])
                files.rename(live, live.key)
    for directory in [prefix, *store.made.below(prefix)]:
        store.made.add(Prefix(new_key(directory)))
        store.kept.move(directory, new_key(directory))
    for key, copy in copies.items():
        store.kept.move(key, copy.key, copy)
    store.made.discard(prefix)
    store.made.add(parent_of(prefix))
    for changed in (prefix, goal):
        store.metadata.forget(changed)
        store.announce(changed)


def _move_written(store: ObjectStore, live: LiveFile, goal: Key, *, replace: bool) -> None:
    """What is dirty becomes the new object; the old one is deleted, if it is still ours."""
    key, was_stored = live.key, live.base is not None
    if was_stored:
        live.check_base()
    copy = live.store_elsewhere(goal, replace=replace)
    store.kept.move(key, goal, copy)
    if was_stored:
        store.delete(key)
    else:
        store.deleted(key)


def _move_stored(store: ObjectStore, key: Key, goal: Key, *, replace: bool) -> Stat:
    copy = store.copy(store.stat(key), goal, replace=replace)
    store.kept.move(key, goal, copy)
    store.delete(key)
    return copy


def _copy_newest(store: ObjectStore, stat: Stat, goal: Key) -> Stat | None:
    """Copy an object that was listed; None when another client has removed it since."""
    try:
        return store.copy(stat, goal, replace=True)
    except StaleHandle:
        newer = store.find(stat.key)
        return store.copy(newer, goal, replace=True) if newer is not None else None
