"""A prefix of keys as a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress

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
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.nodes import Directory, File, NodeStat, OpenFile, TreeNode
from nczfs.vfs.objects.file import ObjectFile, new_file
from nczfs.vfs.objects.live import LiveFile
from nczfs.vfs.objects.livefiles import Place
from nczfs.vfs.objects.names import is_file_name, new_key
from nczfs.vfs.objects.renaming import rename_file, rename_prefix
from nczfs.vfs.objects.tree import ObjectsTree
from nczfs.zmap import keys
from nczfs.zmap.base import Entry
from nczfs.zmap.keys import Prefix


class ObjectsDirectory(Directory):
    """A prefix of keys, or a directory that only exists in this mount."""

    def __init__(self, tree: ObjectsTree, prefix: Prefix, renames: int) -> None:
        self._tree = tree
        self._store = tree.store
        self._files = tree.files
        self._place = prefix, renames

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        prefix, _ = self._follow(wait=False)
        kept = self._store.kept.get(prefix)
        mtime_ns = self._tree.mtime_ns if kept.mtime_ns is None else kept.mtime_ns
        return NodeStat(
            0, mtime_ns, mode=kept.mode, uid=kept.uid, gid=kept.gid, atime_ns=kept.atime_ns
        )

    def change(self, changes: AttributeChanges) -> None:
        with self._files.staying(*self._place) as prefix:
            self._store.kept.change(prefix, changes)

    def lookup_if_cached(self, name: str) -> TreeNode | None:
        prefix, renames = self._follow(wait=False)
        if (node := self._local(prefix, name, renames)) is not None:
            return node
        _, entry = self._store.metadata.known_entry(prefix, name)
        return self._node(prefix, entry, renames) if entry is not None else None

    def lookup(self, name: str) -> TreeNode:
        while True:
            prefix, renames = self._follow(wait=False)
            try:
                return self._found(prefix, name, renames)
            except NoSuchPath:
                self._follow()
                if not self._files.has_moved(prefix, renames):
                    raise

    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        given: set[str] = set()
        while True:
            prefix, renames = self._follow()
            for name, node in self._entries(prefix, renames):
                if name not in given:
                    given.add(name)
                    yield name, node
            self._follow()
            if not self._files.has_moved(prefix, renames):
                return

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        prefix, renames = self._follow()
        key = self._store.new_key(prefix, name)
        if Prefix(key) in self._store.made:
            raise IsADirectory(f"{key}: is a directory")
        is_new = self._files.unsaved(key) is None and self._store.is_absent(key, now=exclusive)
        if exclusive and not is_new:
            raise PathExists(f"{key}: exists")
        if not is_new:
            node = ObjectFile(self._tree, key, None, renames)
            return node, node.open(writing=True)
        with self._files.changing(key, since=[renames]):
            made = new_file(self._tree, key)
            if mode != self._tree.file_mode:
                self._store.kept.change(key, AttributeChanges(mode=mode))
            self._touch(prefix)
        return made

    def mkdir(self, name: str, mode: int) -> Directory:
        prefix, renames = self._follow()
        key = self._store.new_key(prefix, name)
        try:
            self.lookup(name)
        except NoSuchPath:
            with self._files.changing(key, since=[renames]):
                self._store.mark_directory(Prefix(key))
                self._store.made.add(Prefix(key))
                self._store.kept.touch(Prefix(key))
                self._touch(prefix)
                if mode != self._tree.dir_mode:
                    self._store.kept.change(key, AttributeChanges(mode=mode))
            return ObjectsDirectory(self._tree, Prefix(key), renames)
        raise PathExists(f"{key}: exists")

    def unlink(self, name: str) -> None:
        prefix, renames = self._follow()
        key = new_key(prefix, name)
        if Prefix(key) in self._store.made:
            raise IsADirectory(f"{key}: is a directory")
        with self._files.changing(key, since=[renames]), self._files.held(key) as live:
            if live is None:
                self._store.delete(key)
            else:
                self._unlink_open(live)
            self._touch(prefix)

    def _unlink_open(self, live: LiveFile) -> None:
        with live.turn:
            live.hold()
            if live.stored_object() is not None:
                # Entries that only exist here, because another client deleted them, are removed,
                # too.
                with suppress(NoSuchPath) if live.dirty else nullcontext():
                    self._store.delete(live.key)
            else:
                self._store.deleted(live.key)
            self._files.unlink(live.key)

    def rmdir(self, name: str) -> None:
        prefix, renames = self._follow()
        node = self.lookup(name)
        if not isinstance(node, ObjectsDirectory):
            raise NotADirectory(f"{name}: is not a directory")
        key = keys.join(prefix, name)
        with self._files.changing(key, since=[renames]):
            if not node.is_empty():
                raise DirectoryNotEmpty(f"{name}: is not empty")
            try:
                self._store.unmark(Prefix(key))
            except Conflict as error:
                raise DirectoryNotEmpty(str(error)) from error
            self._store.made.discard(Prefix(key))
            self._store.made.add(prefix)
            self._store.kept.discard(key)
            self._store.announce(key)
            self._touch(prefix)

    def rename(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        if not isinstance(target, ObjectsDirectory):
            raise CrossesTrees(f"{name}: objects cannot be renamed out of their tree; copy it")
        prefix, renames = self._follow()
        target_prefix, target_renames = target._follow()
        key, goal = keys.join(prefix, name), self._store.new_key(target_prefix, new_name)
        node = self.lookup(name)
        if key == goal:
            return
        there = target.find(new_name)
        if there is not None and not replace:
            raise PathExists(f"{goal}: exists")
        if isinstance(node, ObjectsDirectory):
            if there is not None and not isinstance(there, ObjectsDirectory):
                raise NotADirectory(f"{goal}: is not a directory")
            if not there.is_empty() if there is not None else self._store.has_keys(Prefix(goal)):
                raise DirectoryNotEmpty(f"{goal}: is not empty")
            if goal.startswith(f"{key}/"):
                raise BadArgument(f"{goal}: a directory cannot be moved into itself")
        elif isinstance(there, ObjectsDirectory):
            raise IsADirectory(f"{goal}: is a directory")
        files = self._files
        with files.changing(key, goal, since=[renames, target_renames]):
            if isinstance(node, ObjectsDirectory):
                rename_prefix(self._store, files, Prefix(key), Prefix(goal))
            else:
                rename_file(self._store, files, key, goal, replace=replace)
            self._touch(prefix)
            target._touch(target_prefix)

    def link(self, node: File, name: str) -> File:
        if not isinstance(node, ObjectFile):
            raise CrossesTrees(f"{name}: only files can be linked; copy it")
        prefix, renames = self._follow()
        key = self._store.new_key(prefix, name)
        if self.find(name) is not None:
            raise PathExists(f"{key}: exists")
        with self._files.changing(key, since=[renames]):
            made = node.copy_to(key)
            self._touch(prefix)
        return made

    def find(self, name: str) -> TreeNode | None:
        """Return the entry called `name`; None if there is none."""
        try:
            return self.lookup(name)
        except NoSuchPath:
            return None

    def is_empty(self) -> bool:
        """Return whether nothing is below, in the store or in this mount."""
        prefix, renames = self._follow(wait=False)
        return not self._unlisted(prefix, renames) and not self._store.has_keys(prefix)

    def sync(self) -> None:
        errors = []
        prefix, _ = self._follow()
        unsaved = self._files.below(prefix)
        for live in unsaved:
            try:
                live.store()
            except NczfsError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _touch(self, prefix: Prefix) -> None:
        self._store.made.add(prefix)
        self._store.kept.touch(prefix)

    def _follow(self, *, wait: bool = True) -> Place:
        """Return the present place of the directory, as `LiveFiles.place` does."""
        self._place = found = self._files.place(*self._place, wait=wait)
        return found

    def _found(self, prefix: Prefix, name: str, renames: int) -> TreeNode:
        """Return the entry called `name`. Raises NoSuchPath."""
        if (node := self._local(prefix, name, renames)) is not None:
            return node
        listed, entry = self._store.metadata.known_entry(prefix, name)
        if not listed:
            self._store.metadata.list_again(prefix)
            listed, entry = self._store.metadata.known_entry(prefix, name)
        if entry is not None:
            return self._node(prefix, entry, renames)
        if listed or not is_file_name(name):
            raise NoSuchPath(f"{name}: no such object")
        key = self._store.new_key(prefix, name)
        if (found := self._store.entry(key)) is None:
            raise NoSuchPath(f"{name}: no such object")
        return self._node(prefix, found, renames)

    def _entries(self, prefix: Prefix, renames: int) -> Iterator[tuple[str, TreeNode]]:
        unlisted = self._unlisted(prefix, renames)
        for entry in self._store.entries(prefix):
            if not is_file_name(entry.name):
                metrics.HIDDEN_KEYS.inc()
                continue
            node = unlisted.pop(entry.name, None)
            yield entry.name, node or self._node(prefix, entry, renames)
        yield from unlisted.items()

    def _node(self, prefix: Prefix, entry: Entry, renames: int) -> TreeNode:
        """Return the node of an entry. A prefix hides an object of the same name.

        Parameters
        ----------
        renames : `LiveFiles.renames` from before the entry was asked for.
        """
        key = keys.join(prefix, entry.name)
        if not entry.is_prefix:
            return ObjectFile(self._tree, key, entry.stat, renames)
        if entry.stat is not None:
            self._tree.report_hidden(key)
        return ObjectsDirectory(self._tree, Prefix(key), renames)

    def _local(self, prefix: Prefix, name: str, renames: int) -> TreeNode | None:
        """Return the entry called `name`, if this mount knows it better than the store."""
        key = keys.join(prefix, name)
        if self._files.unsaved(key) is not None:
            return ObjectFile(self._tree, key, None, renames)
        if Prefix(key) in self._store.made or self._files.below(Prefix(key)):
            return ObjectsDirectory(self._tree, Prefix(key), renames)
        return None

    def _unlisted(self, prefix: Prefix, renames: int) -> dict[str, TreeNode]:
        """Yield the entries that this mount knows better than the store."""
        start = len(prefix) + 1 if prefix else 0
        names = {live.key[start:].partition("/")[0] for live in self._files.below(prefix)}
        names.update(self._store.made.names(prefix))
        found = {name: self._local(prefix, name, renames) for name in names}
        return {name: node for name, node in found.items() if node is not None}
