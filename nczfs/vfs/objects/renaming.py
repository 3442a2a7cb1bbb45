"""Renaming in a flat store: copies, then deletions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial

from nczfs.errors import Conflict, NczfsError, NotPermitted, StaleHandle
from nczfs.vfs.objects.attempts import Attempt, Copied
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.livefiles import LiveFiles
from nczfs.vfs.objects.names import parent_of
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap import keys
from nczfs.zmap.base import Stat
from nczfs.zmap.keys import Key, Prefix

ROUNDS_MAX = 4  # of copying what other clients have stored meanwhile


def rename_file(
    store: ObjectStore, files: LiveFiles, key: Key, goal: Key, *, replace: bool
) -> None:
    """Rename an object, or a file that is being written, which stores it.

    The new object is there before the old one goes: an end in between leaves both. Where the old
    one could not be deleted, an open file is that one again. What another client has stored under
    the old name since the copy stays there. The caller has both names `LiveFiles.changing`, as that
    of `rename_prefix` has.
    """
    with (
        files.held(goal) as replaced,
        files.held(key) as live,
        files.turns(replaced, live),
        store.gate.closed(key, goal),
    ):
        if replaced is not None:
            replaced.hold()
        written = live if live is not None and live.dirty else None
        source = _source(store, written, key)
        restore = live.way_back() if live is not None else None
        with _doubting(replaced, written, source, goal):
            if written is not None:
                copy = written.store_elsewhere(goal, replace=replace)
            else:
                assert source is not None
                copy = _copied(store, live, source, goal, replace=replace)
        files.unlink(goal)
        store.kept.move(key, goal, copy)
        try:
            if source is None:
                store.deleted(key)
            else:
                with suppress(Conflict):
                    store.delete(key, source.version)
        except NczfsError:
            if live is not None and restore is not None:
                if _is_gone(store, key):
                    files.rename(live, goal)
                else:
                    restore()
                    store.kept.move(goal, key, live.base)
            raise
        if live is not None:
            files.rename(live, goal)


def rename_prefix(store: ObjectStore, files: LiveFiles, prefix: Prefix, goal: Prefix) -> None:
    """Rename a directory: every object is copied, then the old ones are deleted.

    What was written in ``datasets/`` below it is stored before. Nothing is stored there meanwhile,
    and nobody finds a dataset there afterwards to whom it belonged.

    What other clients store there meanwhile is renamed with it, or stays: what is deleted was
    compared just before with what was copied.

    An error or the end of the process in between leaves both, or some of the old ones, and an entry
    of the spool, by which it can be ended.

    Raises
    ------
    NotPermitted : there is more below than keys and markers, and would stay; nothing was changed.
    """
    new_key = partial(keys.moved, prefix=prefix, goal=goal)
    store.settle(prefix)
    with (
        files.renaming(prefix, goal) as opened,
        store.gate.closed(prefix, goal),
        _announced(store, prefix, goal),
    ):
        try:
            markers = list(store.zmap.markers(prefix))
        except Conflict as error:
            raise NotPermitted(f"{error}; rename it with another client") from error
        written = {live.key: live for live in opened if live.dirty}
        for live in written.values():
            if live.base is not None:
                live.check_base()
        stats = _below(store, prefix)
        with store.noted(prefix, goal) if stats or markers or written else nullcontext() as note:
            sources = {
                key: there.version
                for key, live in written.items()
                if (there := live.stored_object()) is not None
            }
            stored = {key: live.stored_at(new_key(key)) for key, live in written.items()}
            copies: dict[Key, Stat] = {}
            left = [stat for stat in stats.values() if stat.key not in written]
            for _ in range(ROUNDS_MAX):
                found = store.each(lambda stat: _copy_newest(store, stat, new_key(stat.key)), left)
                for source, copy in filter(None, found):
                    sources[source.key], copies[source.key] = source.version, copy
                stats = _below(store, prefix)
                left = [s for s in stats.values() if sources.get(s.key) != s.version]
                left = [stat for stat in left if stat.key not in written]
                if not left:
                    break

            def copy_of(live: LiveFile) -> tuple[Stat | None, int | None]:
                copy, generation = stored.get(live.key, (copies.get(live.key), None))
                if live.key in copies and live.base and sources[live.key] != live.base.version:
                    copy = None  # it is another client's, and of another version
                return copy, generation

            def follow(live: LiveFile) -> None:
                base, generation = copy_of(live)
                goal_key = new_key(live.key)
                is_said = live.moved(goal_key, base, generation)
                files.rename(live, goal_key)
                if note is not None and not is_said:
                    note.is_needed = True

            if note is not None:
                note.copied(
                    {
                        (live.key, live.replaces): made.version
                        for live in opened
                        if (live.writers or live.dirty) and (made := copy_of(live)[0]) is not None
                    }
                )
            left = [stat for stat in stats.values() if sources.get(stat.key) == stat.version]
            gone: set[Key] = set()
            try:
                # First, and one by one: if the store goes away, nobody can be asked what is gone.
                own = {live.key for live in opened}
                failures = store.each(
                    partial(_deleted, store, gone), [stat for stat in left if stat.key in own]
                )
                for failure in filter(None, failures):
                    raise failure
                store.delete_versions([stat for stat in left if stat.key not in own])
                store.move_markers(prefix, markers, goal)
            except NczfsError:
                for live in opened:
                    if live.key in gone or (live.base is not None and _is_gone(store, live.key)):
                        follow(live)  # it goes on where its object is
                raise
            for live in opened:  # before the entry goes: it alone says so of those that do not
                follow(live)
        copies |= {key: stat for key, (stat, _) in stored.items()}
        for directory in [prefix, *store.made.below(prefix)]:
            store.made.add(Prefix(new_key(directory)))
        for key in {prefix, *store.kept.below(prefix), *copies}:
            store.kept.move(key, new_key(key), copies.get(Key(key)))
        store.made.discard(prefix)
        store.made.add(parent_of(prefix))


@contextmanager
def _announced(store: ObjectStore, *prefixes: Prefix) -> Iterator[None]:
    """Have directories shown as they are after the block, even if it has failed halfway."""
    try:
        yield
    except NczfsError:
        for changed in prefixes:  # the kernel renames only what was renamed whole
            store.forget_pages(Key(changed))
        raise
    finally:
        for changed in prefixes:
            store.metadata.forget(changed)
            store.announce(changed)


def _source(store: ObjectStore, written: LiveFile | None, key: Key) -> Stat | None:
    """Return the object that is renamed; None: it is not stored yet.

    What arrived of a written file although the answer was lost is its object from now on.

    Raises
    ------
    StaleHandle : another client has replaced or deleted what was written to. NoSuchPath.
    """
    if written is None:
        return store.stat(key)
    if written.base is not None:
        written.check_base()
    return written.stored_object()


def _copied(
    store: ObjectStore, live: LiveFile | None, source: Stat, goal: Key, *, replace: bool
) -> Stat:
    """Make the new object, to which an open file moves."""
    copy = store.copy(source, goal, replace=replace)
    if live is not None:
        is_same = live.base is not None and live.base.version == source.version
        live.moved(goal, copy if is_same else None)
    return copy


@contextmanager
def _doubting(
    replaced: LiveFile | None, written: LiveFile | None, source: Stat | None, goal: Key
) -> Iterator[None]:
    """Tell an open file what may be in the place of its object if no answer comes."""
    try:
        yield
    except NczfsError as error:
        if replaced is not None and error.transient:
            copied: list[Attempt] = [] if source is None else [Copied(source)]
            replaced.doubt(copied if written is None else written.unanswered.at(goal))
        raise


def _below(store: ObjectStore, prefix: Prefix) -> dict[Key, Stat]:
    """Return the objects below a directory now, by key."""
    found = store.zmap.list(prefix)
    return {stat.key: stat for stat in found if stat.key.startswith(f"{prefix}/")}


def _deleted(store: ObjectStore, gone: set[Key], stat: Stat) -> NczfsError | None:
    """Delete an object and add its key to a set. Returns why that failed."""
    try:
        store.delete_versions([stat])
    except NczfsError as error:
        return error
    gone.add(stat.key)
    return None


def _is_gone(store: ObjectStore, key: Key) -> bool:
    try:
        return store.find(key) is None
    except NczfsError:
        return False


def _copy_newest(store: ObjectStore, stat: Stat, goal: Key) -> tuple[Stat, Stat] | None:
    """Copy a listed object in its newest version. Returns that version and the copy.

    None when another client has removed it since.
    """
    try:
        return stat, store.copy(stat, goal, replace=True)
    except StaleHandle:
        newer = store.find(stat.key)
        return (newer, store.copy(newer, goal, replace=True)) if newer is not None else None
