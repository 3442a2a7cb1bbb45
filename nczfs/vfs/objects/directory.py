"""A prefix of keys as a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

from nczfs import metrics
from nczfs.errors import (
    BadArgument,
    Conflict,
    CrossesTrees,
    DirectoryNotEmpty,
    IsADirectory,
    NczfsError,
    NoSuchPath,
    NotADirectory,
    PathExists,
)
from nczfs.vfs.base import Changes
from nczfs.vfs.nodes import Directory, File, Node, NodeStat, OpenFile
from nczfs.vfs.objects.file import ObjectFile
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.names import is_file_name, new_key
from nczfs.vfs.objects.renaming import rename_file, rename_prefix
from nczfs.zmap import keys
from nczfs.zmap.keys import Prefix

if TYPE_CHECKING:
    from nczfs.vfs.objects.tree import ObjectsTree


class ObjectsDirectory(Directory):
    """A prefix of keys, or a directory that only this mount knows of."""

    def __init__(self, tree: ObjectsTree, prefix: Prefix) -> None:
        self._tree = tree
        self._store = tree.store
        self._prefix = prefix
        self._renames = tree.files.renames  # from then on the prefix may be another one

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        kept = self._store.kept.get(self._prefix)
        mtime_ns = self._tree.mtime_ns if kept.mtime_ns is None else kept.mtime_ns
        return NodeStat(
            0, mtime_ns, mode=kept.mode, uid=kept.uid, gid=kept.gid, atime_ns=kept.atime_ns
        )

    def change(self, changes: Changes) -> None:
        self._store.kept.change(self._prefix, changes)

    def lookup_if_cached(self, name: str) -> Node | None:
        if (node := self._local(name)) is not None:
            return node
        _, entry = self._store.metadata.known_entry(self._prefix, name)
        return self._tree.node(self._prefix, entry) if entry is not None else None

    def lookup(self, name: str) -> Node:
        if (node := self._local(name)) is not None:
            return node
        listed, entry = self._store.metadata.known_entry(self._prefix, name)
        if not listed:
            self._store.metadata.list_again(self._prefix)
            listed, entry = self._store.metadata.known_entry(self._prefix, name)
        if entry is not None:
            return self._tree.node(self._prefix, entry)
        if listed or not is_file_name(name):
            raise NoSuchPath(f"{name}: no such object")
        key = self._store.new_key(self._prefix, name)
        if (found := self._store.entry(key)) is None:
            raise NoSuchPath(f"{name}: no such object")
        return self._tree.node(self._prefix, found)

    def listing(self) -> Iterator[tuple[str, Node]]:
        unlisted = self._unlisted()
        for entry in self._store.entries(self._prefix):
            if not is_file_name(entry.name):
                metrics.HIDDEN_KEYS.inc()
                continue
            node = unlisted.pop(entry.name, None)
            yield entry.name, node or self._tree.node(self._prefix, entry)
        yield from unlisted.items()

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        key = self._store.new_key(self._prefix, name)
        if Prefix(key) in self._store.made:
            raise IsADirectory(f"{key}: is a directory")
        is_new = self._tree.files.unsaved(key) is None and (
            self._store.find(key) is None if exclusive else self._store.is_absent(key)
        )
        if exclusive and not is_new:
            raise PathExists(f"{key}: exists")
        if not is_new:
            node = ObjectFile(self._tree, key, None)
            return node, node.open(writing=True)
        with self._tree.files.changing(key, since=[self._renames]):
            made = self._tree.new_file(key)
            if mode != self._tree.file_mode:
                self._store.kept.change(key, Changes(mode=mode))
            self._touch()
        return made

    def mkdir(self, name: str, mode: int) -> Directory:
        key = self._store.new_key(self._prefix, name)
        try:
            self.lookup(name)
        except NoSuchPath:
            with self._tree.files.changing(key, since=[self._renames]):
                self._store.mark_directory(Prefix(key))
                self._store.made.add(Prefix(key))
                self._store.kept.touch(Prefix(key))
                self._touch()
                if mode != self._tree.dir_mode:
                    self._store.kept.change(key, Changes(mode=mode))
            return ObjectsDirectory(self._tree, Prefix(key))
        raise PathExists(f"{key}: exists")

    def unlink(self, name: str) -> None:
        key = new_key(self._prefix, name)
        if Prefix(key) in self._store.made:
            raise IsADirectory(f"{key}: is a directory")
        with self._tree.files.changing(key), self._tree.files.held(key) as live:
            if live is None:
                self._store.delete(key)
            else:
                self._unlink_open(live)
            self._touch()

    def _unlink_open(self, live: LiveFile) -> None:
        with live.turn:
            live.hold()
            if live.has_object():
                # What is only here by now, since another client deleted it, goes as well.
                with suppress(NoSuchPath) if live.dirty else nullcontext():
                    self._store.delete(live.key)
            else:
                self._store.deleted(live.key)
            self._tree.files.unlink(live.key)

    def rmdir(self, name: str) -> None:
        node = self.lookup(name)
        if not isinstance(node, ObjectsDirectory):
            raise NotADirectory(f"{name}: is not a directory")
        key = keys.join(self._prefix, name)
        with self._tree.files.changing(key):
            if not node.is_empty():
                raise DirectoryNotEmpty(f"{name}: is not empty")
            try:
                self._store.unmark(Prefix(key))
            except Conflict as error:
                raise DirectoryNotEmpty(str(error)) from error
            self._store.made.discard(Prefix(key))
            self._store.made.add(self._prefix)
            self._store.kept.discard(key)
            self._store.announce(key)
            self._touch()

    def rename(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        if not isinstance(target, ObjectsDirectory):
            raise CrossesTrees(f"{name}: objects cannot be renamed out of their tree; copy it")
        key, goal = keys.join(self._prefix, name), self._store.new_key(target._prefix, new_name)
        node = self.lookup(name)
        if key == goal:
            return
        there = target.find(new_name)
        if there is not None and not replace:
            raise PathExists(f"{goal}: exists")
        if isinstance(node, ObjectsDirectory):
            if there is not None and not isinstance(there, ObjectsDirectory):
                raise NotADirectory(f"{goal}: is not a directory")
            if there is not None and not there.is_empty():
                raise DirectoryNotEmpty(f"{goal}: is not empty")
            if goal.startswith(f"{key}/"):
                raise BadArgument(f"{goal}: a directory cannot be moved into itself")
        elif isinstance(there, ObjectsDirectory):
            raise IsADirectory(f"{goal}: is a directory")
        files, since = self._tree.files, [self._renames, target._renames]
        with files.changing(key, goal, since=since):
            if isinstance(node, ObjectsDirectory):
                rename_prefix(self._store, files, Prefix(key), Prefix(goal))
            else:
                rename_file(self._store, files, key, goal, replace=replace)
            self._touch()
            target._touch()

    def link(self, node: File, name: str) -> File:
        if not isinstance(node, ObjectFile):
            raise CrossesTrees(f"{name}: only files can be linked; copy it")
        key = self._store.new_key(self._prefix, name)
        if self.find(name) is not None:
            raise PathExists(f"{key}: exists")
        with self._tree.files.changing(key, since=[self._renames]):
            made = node.copy_to(key)
            self._touch()
        return made

    def find(self, name: str) -> Node | None:
        """The entry called `name`, None when there is none."""
        try:
            return self.lookup(name)
        except NoSuchPath:
            return None

    def is_empty(self) -> bool:
        """Whether nothing is below, in the store or in this mount."""
        return not self._unlisted() and not self._store.has_keys(self._prefix)

    def sync(self) -> None:
        errors = []
        unsaved = self._tree.files.below(self._prefix)
        for store in (*(live.store for live in unsaved), self._store.flush):
            try:
                store()
            except NczfsError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _touch(self) -> None:
        self._store.made.add(self._prefix)
        self._store.kept.touch(self._prefix)

    def _local(self, name: str) -> Node | None:
        """The entry called `name`, if it is one that this mount knows better than the store."""
        key = keys.join(self._prefix, name)
        if self._tree.files.unsaved(key) is not None:
            return ObjectFile(self._tree, key, None)
        if Prefix(key) in self._store.made or self._tree.files.below(Prefix(key)):
            return ObjectsDirectory(self._tree, Prefix(key))
        return None

    def _unlisted(self) -> dict[str, Node]:
        """What this mount knows better than the store."""
        start = len(self._prefix) + 1 if self._prefix else 0
        names = {
            live.key[start:].partition("/")[0] for live in self._tree.files.below(self._prefix)
        }
        names.update(self._store.made.names(self._prefix))
        found = {name: self._local(name) for name in names}
        return {name: node for name, node in found.items() if node is not None}
