"""The shared state of all nodes of the tree."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from nczfs.engine.dataset import Engine
from nczfs.vfs.nodes import Directory, File, Node, OpenFile
from nczfs.vfs.objects.directory import ObjectsDirectory
from nczfs.vfs.objects.file import ObjectFile
from nczfs.vfs.objects.handles import OpenObject
from nczfs.vfs.objects.livefiles import LiveFiles
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap import keys
from nczfs.zmap.base import Entry
from nczfs.zmap.keys import Key, Prefix

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectsOptions:
    """The appearance of the tree: permissions are kept only if they differ from these."""

    read_only: bool = True
    file_mode: int = 0o444
    dir_mode: int = 0o555


class ObjectsTree:
    """The store, the open files, and their appearance."""

    def __init__(
        self, store: ObjectStore, engine: Engine, options: ObjectsOptions, mtime_ns: int
    ) -> None:
        self.store = store
        self.engine = engine
        self.files = LiveFiles(store)
        self.read_only = options.read_only
        self.file_mode = options.file_mode
        self.dir_mode = options.dir_mode
        self.mtime_ns = mtime_ns
        self._reported: set[Key] = set()

    def root(self) -> Directory:
        return ObjectsDirectory(self, keys.ROOT, 0)

    def node(self, prefix: Prefix, entry: Entry, renames: int) -> Node:
        """Return the node of an entry. A prefix hides an object of the same name.

        Parameters
        ----------
        renames : `LiveFiles.renames` from before the entry was asked for.
        """
        key = keys.join(prefix, entry.name)
        if entry.is_prefix:
            if entry.stat is not None and key not in self._reported:
                self._reported.add(key)
                log.warning(
                    "%s/%s: the keys below it hide the object of this name",
                    self.store.zmap.name,
                    key,
                )
            return ObjectsDirectory(self, Prefix(key), renames)
        return ObjectFile(self, key, entry.stat, renames)

    def new_file(self, key: Key) -> tuple[File, OpenFile]:
        """Make a file that is not in the store yet, open for writing."""
        live = self.files.open(key, None, writing=True)
        assert live is not None
        handle = OpenObject(self.store, self.files, self.engine, live, writing=True)
        return ObjectFile(self, key, None, self.files.renames), handle
