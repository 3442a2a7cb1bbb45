"""Removing from ``datasets/``: nodes and attributes from the store, views from sight."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.opennode import OpenNode
from nczfs.engine.structure.editor import Editor
from nczfs.errors import (
    DirectoryNotEmpty,
    ForeignObjects,
    NczfsError,
    NoSuchNode,
    NotPermitted,
    NotWritable,
    Unsupported,
)
from nczfs.formats.names import below, parent_of
from nczfs.library.resolved import At, Resolved
from nczfs.model.hierarchy import ArrayDescription
from nczfs.vfs.datasets.hiding import Hidden
from nczfs.zmap.keys import Prefix

log = logging.getLogger(__name__)

ATTRIBUTES_WAIT_S = 1.0


class Removing:
    """The removals of a tree of datasets, and what is hidden in it.

    Removed attributes disappear at once, and are stored together a second later: a program that
    removes them all usually goes on to remove their node, and then nothing need be stored. `_lock`
    guards the timer and the datasets that wait for it.

    Parameters
    ----------
    is_allowed : whether anything but an empty group may be removed; callers check it first.
    editor : returns the editor of a dataset.
    removed : called when what is at a prefix is gone, or a file of that path is shown again.
    """

    def __init__(
        self,
        *,
        is_allowed: bool,
        editor: Callable[[Dataset], Editor],
        metadata: MetadataCache,
        removed: Callable[[Prefix], None],
    ) -> None:
        self.is_allowed = is_allowed
        self.hidden = Hidden()
        self._editor = editor
        self._metadata = metadata
        self._removed = removed
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._waiting: dict[Prefix, Dataset] = {}

    def attribute(
        self, dataset: Dataset, node: OpenNode, name: str, array: ArrayDescription | None
    ) -> None:
        """Remove an attribute of a node. Parameters are those of `Editor.delete_attribute`."""
        editor = self._editor(dataset)
        node.follow(lambda path: editor.delete_attribute(path, name, array))
        self.hidden.lose(node.prefix)
        with self._lock:
            self._waiting[dataset.root] = dataset
            if self._timer is None:
                self._timer = threading.Timer(ATTRIBUTES_WAIT_S, self._store)
                self._timer.daemon = True
                self._timer.start()

    def node(self, dataset: Dataset, path: str) -> None:
        """Remove a group or variable with all below it; "" is the dataset itself.

        Raises
        ------
        ForeignObjects, NoSuchNode, MetadataError, StoreError.
        """
        try:
            self._editor(dataset).remove(path)
        except ForeignObjects as error:
            log.warning("%s (rmdir: ENOTEMPTY; objects/ shows them)", error)
            raise
        self._removed_node(dataset, path)
        if path:
            self.hidden.lose(dataset.prefix(parent_of(path)))

    def left(self, prefix: Prefix, above: Resolved) -> None:
        """Remove a directory that is no node: without keys, or what an interrupted removal left.

        Parameters
        ----------
        above : what its parent directory is.

        Raises
        ------
        DirectoryNotEmpty : it holds something else. StoreError.
        """
        name = prefix.rpartition("/")[2]
        if not self._metadata.has_keys(prefix):
            self.hidden.forget(prefix)
            return
        if not isinstance(above, At):
            raise DirectoryNotEmpty(f"{name}: holds something that is not a dataset; see objects/")
        try:
            self.node(above.dataset, below(above.path, name))
        except NoSuchNode as error:
            raise DirectoryNotEmpty(str(error)) from error

    def hollow(self, dataset: Dataset, path: str) -> bool:
        """Remove a group if it holds nothing at all. Returns whether it did."""
        is_hollow = self._editor(dataset).remove_hollow(path)
        if is_hollow:
            self._removed_node(dataset, path)
        return is_hollow

    def rename(
        self,
        dataset: Dataset,
        path: str,
        name: str,
        renamed: Callable[[Prefix, Prefix], object],
    ) -> None:
        """Rename a group or variable in its group.

        Parameters
        ----------
        renamed : called with the old prefix and the new one.

        Raises
        ------
        NotPermitted : it cannot have this name. NameTaken, NoSuchNode, UsageError, MetadataError,
            StoreError.
        """

        def move(path: str, goal: str) -> None:
            self.hidden.move(dataset.prefix(path), dataset.prefix(goal))
            renamed(dataset.prefix(path), dataset.prefix(goal))

        try:
            self._editor(dataset).rename(path, name, move)
        except (NotWritable, Unsupported) as error:
            raise NotPermitted(str(error)) from error

    def forget(self, prefix: Prefix) -> None:
        """Show everything at or below a prefix as it is."""
        for path in self.hidden.forget(prefix):
            self._removed(path)

    def close(self) -> None:
        """Store pending removals."""
        with self._lock:
            timer = self._timer
        if timer is not None:
            timer.cancel()
            self._store()

    def _removed_node(self, dataset: Dataset, path: str) -> None:
        prefix = dataset.prefix(path)
        self.hidden.forget(prefix)
        if not path:
            dataset.lease.hand_over()  # its object would keep the prefix in use
            self._keep_above(prefix)
        self._removed(prefix)

    def _store(self) -> None:
        with self._lock:
            self._timer = None
            waiting = list(self._waiting.values())
            self._waiting.clear()
        for dataset in waiting:
            try:
                dataset.store()
            except NczfsError as error:
                log.warning(
                    "%s: the removal of attributes is not stored yet (the next change or"
                    " sync tries again): %s",
                    dataset.url(""),
                    error,
                )

    def _keep_above(self, prefix: Prefix) -> None:
        """Keep the directory from which a dataset was removed."""
        above = prefix.rpartition("/")[0]
        while above and not self._metadata.has_keys(Prefix(above)):
            self.hidden.keep(Prefix(above))
            above = above.rpartition("/")[0]
