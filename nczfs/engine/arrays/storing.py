"""Storing what was written and changed in a dataset: chunks, documents, the consolidated copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from nczfs.engine.arrays.appending import Appends
from nczfs.engine.chunks.storedarray import StoredArray, StoredArrays
from nczfs.engine.metadata.consolidate import ConsolidatedCopy
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.engine.retrying import Trouble
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import NczfsError
from nczfs.model.hierarchy import Variable
from nczfs.zmap.base import ZMap


class Storing:
    """The way of a dataset's changes into its store.

    Parameters
    ----------
    zmap : of the hierarchy, by which its arrays are known.
    commit : makes the store commit what it gathers.

    Attributes
    ----------
    failure : why documents are not stored, and the time of that error on the monotonic clock; None:
        the last attempt left nothing.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        appends: Appends,
        copy: ConsolidatedCopy,
        writeback: WriteBack,
        arrays: StoredArrays,
        zmap: ZMap,
        commit: Callable[[], None],
    ) -> None:
        self._hierarchy = hierarchy
        self._edits = hierarchy.edits
        self._appends = appends
        self._copy = copy
        self._writeback = writeback
        self._gate = arrays.gate
        self._zmap = zmap
        self._commit = commit
        self.failure: tuple[NczfsError, float] | None = None

    def trouble(self, pause_s: float | None) -> Trouble | None:
        """Return why documents are not stored, and when they are tried again."""
        failure = self.failure
        return None if failure is None else Trouble(str(failure[0]), failure[1], pause_s)

    def concern(self, variables: Iterable[Variable]) -> bool:
        """Return whether others need a change that is not stored to find some variables."""
        keys = self._hierarchy.format.single.keys
        return any(
            self._edits.concern(each) or self._copy.owes(frozenset(keys(each.path)))
            for each in variables
        )

    def store(self, asked: Iterable[str] | None) -> None:
        """Store all. Parameters and errors are those of `Dataset.store`."""
        paths = None if asked is None else frozenset(asked)
        failures: list[NczfsError] = []
        reason = self._reason_not_flushed()
        with self._edits.naming:  # nothing is appended meanwhile
            unplaced: dict[str, NczfsError] = {}
            if self._appends.is_any:
                unplaced = self._appends.claim()
                reason = self._reason_not_flushed()
            unsaved = self._writeback.has_unsaved
            if reason is not None and (paths is None or unsaved(self._has_any_at(paths))):
                failures.append(reason)
            reason = reason or next(iter(unplaced.values()), None)
            # Other clients must see an array no longer than its stored values.
            kept = {} if reason is None else self._growing(reason)
            with self._gate.inside(lambda: self._hierarchy.root):
                stored = self._edits.flush(
                    self._hierarchy.known_node, lambda path: path not in kept
                )
            found = kept | stored | unplaced
            pending = frozenset(self._edits.pending())
        failures += [error for path, error in found.items() if paths is None or path in paths]
        left = [error for path, error in found.items() if path in pending]
        with self._gate.inside(lambda: self._hierarchy.root):
            if self._copy.is_owed or self._copy.is_wanted:
                try:
                    self._copy.update()
                except NczfsError as error:
                    left.append(error)
                    single = self._hierarchy.format.single
                    keys = (key for path in paths or () for key in single.keys(path))
                    if paths is None or self._copy.owes(frozenset(keys)):
                        failures.append(error)
        self.failure = (left[0], time.monotonic()) if left else None
        try:
            self._commit()
        except NczfsError as error:
            failures.append(error)
        self._writeback.settled()
        if failures:
            raise failures[0]

    def _reason_not_flushed(self) -> NczfsError | None:
        """Store the chunks; why some of them are not."""
        try:
            self._writeback.flush(self._has)
        except NczfsError as error:
            return error
        return None

    def _growing(self, reason: NczfsError) -> dict[str, NczfsError]:
        """Return the reason for all nodes that get another length."""
        return {path: reason for path in self._edits.pending() if self._edits.grows(path)}

    def _has(self, array: StoredArray) -> bool:
        return array.is_within(self._zmap, self._hierarchy.root)

    def _has_any_at(self, paths: Iterable[str]) -> Callable[[StoredArray], bool]:
        prefixes = [self._hierarchy.prefix(path) for path in paths]
        return lambda array: any(array.is_at(self._zmap, prefix) for prefix in prefixes)
