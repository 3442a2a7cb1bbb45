"""The shared state of all nodes of the tree."""

from __future__ import annotations

import logging

from nczfs.engine.dataset import Engine
from nczfs.plaindata import frozen
from nczfs.vfs.objects.livefiles import LiveFiles
from nczfs.vfs.objects.store import ObjectStore
from nczfs.zmap.keys import Key

log = logging.getLogger(__name__)


@frozen
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

    def report_hidden(self, key: Key) -> None:
        """Warn, once, of an object that the prefix of the same name hides."""
        if key not in self._reported:
            self._reported.add(key)
            log.warning(
                "%s/%s: the keys below it hide the object of this name", self.store.zmap.name, key
            )
