"""Storing what was written and changed in a dataset: chunks, documents, the consolidated copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from nczfs.engine.arrays.appending import Appends
from nczfs.engine.chunks.storedarray import StoredArray, StoredArrays
from nczfs.engine.metadata.changes import NodeChange, Resize
from nczfs.engine.metadata.consolidate import ConsolidatedCopy
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.engine.metadata.lengths import Lengths
from nczfs.engine.metadata.refusedchanges import Listener
from nczfs.engine.retrying import ENDED, Trouble, error_to_raise, may_pass
from nczfs.engine.writing.writeback import WriteBack
from nczfs.errors import NczfsError
from nczfs.model.hierarchy import Variable
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import is_within

LOST_MAX: Final = 8  # changes of a node that are named

_Place: TypeAlias = "tuple[str, str]"
"""The group and the name of a dimension."""


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
        self._arrays = arrays
        self._gate = arrays.gate
        self._zmap = zmap
        self._commit = commit
        self.failure: tuple[NczfsError, float] | None = None

    def trouble(self, pause_s: float | None) -> Trouble | None:
        """Return why documents are not stored, and when they are tried again."""
        failure = self.failure
        return None if failure is None else Trouble(str(failure[0]), failure[1], pause_s)

    def lost(self) -> list[str]:
        """Return the changes that neither the store nor the spool has, in words."""
        error = ENDED if self.failure is None else self.failure[0]
        pending = {path: self._edits.changes_of(path) for path in self._edits.pending()}
        kept = {place for path, changes in pending.items() for place in self._kept(path, changes)}
        found = []
        for path, changes in pending.items():
            lost = [change.words for change in changes if (path, change.subject) not in kept]
            if lost:
                more = f" and {len(lost) - LOST_MAX} more" if len(lost) > LOST_MAX else ""
                words = ", ".join(lost[:LOST_MAX])
                found.append(f"{self._hierarchy.url(path)}: {words}{more}: {error}")
        form = self._hierarchy.format.copy
        if form is not None and self._copy.is_owed and not kept:
            copy = self._hierarchy.url(form.key)
            found.append(f"{copy}: the consolidated metadata may lack changes: {error}")
        return found

    def concern(self, variables: Iterable[Variable]) -> bool:
        """Return whether others need a change that is not stored to find some variables."""
        keys = self._hierarchy.format.single.keys
        return any(
            self._edits.concern(each) or self._copy.owes(frozenset(keys(each.path)))
            for each in variables
        )

    def store(self, asked: Iterable[str] | None, listener: Listener | None = None) -> None:
        """Store all, or what some nodes need. Parameters and errors are those of `Dataset.store`.

        Records can be appended meanwhile, except to variables whose values are stored before their
        new lengths: a reader must not see an array longer than its stored values.
        """
        paths = None if asked is None else frozenset(asked)
        failures: list[NczfsError] = []
        refusals = self._edits.refusals
        listener = listener or refusals.listener()
        later = self._later()
        flushed = None if paths is None else paths | self._lengthened(paths)
        reason = self._reason_not_flushed(flushed)
        with self._gate.inside(lambda: self._hierarchy.root):
            is_first = self._is_first(paths, later)
            found = self._edits.flush(self._hierarchy.known_node, is_first, lengths={})
        now = later | self._later()
        if now if paths is None else now & paths:
            found |= self._store_lengths(paths, later, flushed, reason, found, failures)
        elif reason is not None and self._is_unsaved(paths):
            failures.append(reason)
        pending = frozenset(self._edits.pending())
        failures += [error for path, error in found.items() if paths is None or path in paths]
        failures += refusals.report(paths, listener)
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
        if left:
            self.failure = (left[0], time.monotonic())
        elif paths is None or not pending:
            self.failure = None
        try:
            self._commit()
        except NczfsError as error:
            failures.append(error)
        self._writeback.settled()
        if failures:
            raise error_to_raise(failures)

    def _later(self) -> frozenset[str]:
        """Return the paths of the nodes that get new lengths, and of what makes new ones visible.

        The latter wait for the former.
        """
        edits = self._edits
        pending = edits.pending()
        growing = {path for path in pending if edits.grows(path)}
        new = [path for path in growing if edits.creates(path)]
        leading = {path for path in pending if any(is_within(each, path) for each in new)}
        return frozenset(growing | leading).union(self._appends.paths)

    def _is_first(
        self, paths: Collection[str] | None, later: Collection[str]
    ) -> Callable[[str], bool]:
        """Return a function: is the node at a path to be stored before any new lengths are?

        That are those at some paths (None: all), what leads to them, and new nodes.
        """
        creates, grows = self._edits.creates, self._edits.grows
        new = [path for path in later if creates(path)]
        waiting = {p for p in later if not grows(p) or any(is_within(each, p) for each in new)}

        def is_wanted(path: str) -> bool:
            if path in waiting:
                return False
            if paths is None or creates(path):
                return True
            return any(is_within(each, path) for each in paths)

        return is_wanted

    def _store_lengths(
        self,
        paths: Collection[str] | None,
        later: frozenset[str],
        flushed: frozenset[str] | None,
        reason: NczfsError | None,
        found: Mapping[str, NczfsError],
        failures: list[NczfsError],
    ) -> dict[str, NczfsError]:
        """Store the new lengths of all nodes after their values, and then what waited for them.

        Parameters
        ----------
        later : the paths of nodes that were left for this.
        flushed : the paths of the variables whose chunks were stored, None: of all.
        reason : why some of these are not.
        found : the errors of other changes by path.
        failures : gets the error of chunks at `paths`.

        Returns
        -------
        the errors of nodes by path.
        """
        edits, appends = self._edits, self._appends
        lengths: Lengths | None = None
        while lengths is None:
            variables = self._lengthened(paths)
            with edits.names.held(*variables):  # nothing is appended to these meanwhile
                is_any = appends.is_any
                unplaced = appends.claim(variables)
                lengths = self._lengths(variables)
                later |= self._later()
                if is_any or reason is None:  # what had no place before may have one now
                    reason = self._reason_not_flushed(
                        None if flushed is None else flushed | variables
                    )
        if reason is not None and self._is_unsaved(paths):
            failures.append(reason)
        reason = reason or next(iter(unplaced.values()), None)
        waiting = (found[path] for path in later if path in found)
        reason = reason or next(filter(may_pass, waiting), None)
        # Other clients must see an array no longer than its stored values.
        if reason is not None:
            return {path: reason for path in edits.pending() if path in later} | unplaced

        def is_wanted(path: str) -> bool:
            return path in later or edits.creates(path)

        with self._gate.inside(lambda: self._hierarchy.root):
            return edits.flush(self._hierarchy.known_node, is_wanted, lengths=lengths)

    def _lengthened(self, paths: Collection[str] | None) -> frozenset[str]:
        """Return the paths of the variables that get new lengths together with those at some paths.

        Variables beside them, which share none of these dimensions, are left for others to store.
        """
        found = {path: self._dimensions(path, axes) for path, axes in self._edits.growing().items()}
        found |= {path: set() for path in self._appends.paths if path not in found}
        if paths is None:
            return frozenset(found)
        new = [path for path in paths if self._edits.creates(path)]  # they are made visible last
        asked = found.keys() & paths | {p for p in found if any(is_within(p, each) for each in new)}
        shared = set().union(*(found[path] for path in asked))
        return frozenset(path for path in found if path in asked or found[path] & shared)

    def _lengths(self, variables: Collection[str]) -> Lengths | None:
        """Return the new lengths of variables, to which nothing is appended, and their dimensions.

        None: another variable, to which something may be appended, has one of these dimensions.
        """
        own: set[_Place] = set()
        others: set[_Place] = set()
        with self._edits.names.changing(lambda: ""):
            for path, axes in self._edits.growing().items():
                (own if path in variables else others).update(self._dimensions(path, axes))
            return None if own & others else self._edits.lengths(variables, others)

    def _kept(
        self, path: str, changes: Iterable[NodeChange]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield what `nczfs recover` will change again, because of values beyond the end.

        That are the new lengths of a variable, and those of its dimensions, by path and subject.
        """
        prefix = self._hierarchy.prefix(path)
        arrays = [a for a in self._arrays.within(self._zmap, prefix) if a.is_at(self._zmap, prefix)]
        for change in changes:
            if isinstance(change, Resize) and any(
                self._writeback.keeps_length(array, change.axis, change.size) for array in arrays
            ):
                yield path, change.subject
                for group, name in self._dimensions(path, [change.axis]):
                    yield group, ("length", name)

    def _dimensions(self, path: str, axes: Iterable[int]) -> set[_Place]:
        """Return some dimensions of a variable, as far as it is known."""
        try:
            node = self._hierarchy.known_node(path)
        except NczfsError:  # of which storing it finds out
            return set()
        dimensions = node.dimensions if isinstance(node, Variable) else ()
        return {(d.group, d.name) for axis, d in enumerate(dimensions) if axis in axes}

    def _reason_not_flushed(self, paths: Collection[str] | None) -> NczfsError | None:
        """Store the chunks of some variables; None: of all. Returns why some of them are not."""
        try:
            self._writeback.flush(self._has if paths is None else self._has_any_at(paths))
        except NczfsError as error:
            return error
        return None

    def _is_unsaved(self, paths: Collection[str] | None) -> bool:
        return paths is None or self._writeback.has_unsaved(self._has_any_at(paths))

    def _has(self, array: StoredArray) -> bool:
        return array.is_within(self._zmap, self._hierarchy.root)

    def _has_any_at(self, paths: Iterable[str]) -> Callable[[StoredArray], bool]:
        prefixes = [self._hierarchy.prefix(path) for path in paths]
        return lambda array: any(array.is_at(self._zmap, prefix) for prefix in prefixes)
