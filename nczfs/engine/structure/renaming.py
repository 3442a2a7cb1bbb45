"""Renaming a group or variable in its group.

Stores have no directories: everything below the node is copied, and then removed from its old
place. First chunks and other keys that make no node are copied, while others may go on reading and
writing. Then storing pauses for the whole dataset: what was changed since is copied again, then the
documents that make nodes, that of the node itself last, and its group lists it under the new name
instead of the old one. Only then the old keys are removed, in the order of a removal.

Both places have the key `RENAMING` from before the first copy is made: the new one until everything
is there, the old one until it is gone. Where groups list their members, the list decides when the
node has its new name; elsewhere the removal of the new place's mark does. So an interrupted rename
leaves the old node or the new one, and remains that `nczfs verify` reports.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import RenameMember
from nczfs.engine.spool.basis import ObjectCopy
from nczfs.engine.structure.ownership import RENAMING, check_no_dependent, makes_a_node
from nczfs.engine.structure.removal import delete_keys
from nczfs.engine.structure.replacing import (
    check_dimensions_inside,
    has_dimension_within,
    variables_of,
)
from nczfs.engine.writing.copies import UnitCopies
from nczfs.errors import (
    Conflict,
    NameTaken,
    NczfsError,
    NoSuchNode,
    NoSuchObject,
    NotWritable,
    Unavailable,
    UsageError,
)
from nczfs.formats.names import below, is_name, parent_of
from nczfs.formats.naming import checked_name
from nczfs.formats.rewriting import check_described_once
from nczfs.messages import shown
from nczfs.model.hierarchy import GroupHeader
from nczfs.plaindata import frozen
from nczfs.zmap import keys
from nczfs.zmap.base import Stat, ZMap
from nczfs.zmap.keys import Key, Prefix, join

log = logging.getLogger(__name__)

ROUNDS_MAX = 20  # rounds of copying what others changed meanwhile
_MARK_BYTES_MAX = 1 << 16
_FROM, _TO = "from", "to"
_ABOUT = "A group or variable is being renamed, or the program that renamed it was killed."


def rename(
    dataset: Dataset,
    path: str,
    name: str,
    renamed: Callable[[str, str], object] = lambda path, goal: None,
) -> str:
    """Give a node another name in its group. Open files follow.

    Dimensions keep their names, also those of a coordinate variable that is renamed. Renames of a
    node and of what is around it come one after the other, and the later one finds its node.

    Parameters
    ----------
    renamed : called with the old path and the new one, before anything there is renamed again.

    Returns
    -------
    the new path.

    Raises
    ------
    NoSuchNode : there is no such node. NameTaken : something has the name. UsageError : the name is
        invalid.
    NotWritable : the store cannot remove objects, variables elsewhere use dimensions of the
        group, or the group above it is described twice.
    MetadataError, StoreError : nothing is changed, or `nczfs verify` reports what is left.
    """
    features = dataset.zmap.features
    if features.write_once or not features.writable:
        raise NotWritable(f"{dataset.zmap.name}: nothing can be renamed in this store")
    if checked_name(name) != name:
        raise UsageError(f"{shown(name)}: is not in normal form C")
    node = dataset.open_node(path)
    while True:
        path = node.path
        goal = below(parent_of(path), name)
        with dataset.edits.names.renaming(path, goal):
            if path == node.path:
                _rename(dataset, path, goal)
                renamed(path, goal)
                return goal


def _rename(dataset: Dataset, path: str, goal: str) -> None:
    renaming = _Renaming(dataset, path, goal)
    names = dataset.edits.names
    with names.held(path, goal):
        renaming.check()
    with _noted(dataset, path, goal), ExitStack() as closed:
        try:
            renaming.put_marks()
            renaming.store()
            renaming.copy_rest()
            # Until the end: who stores something may hold a path, and waits for the gate then.
            closed.enter_context(names.held(""))
            renaming.check_still_there()
            renaming.store()
            narrow = closed.enter_context(dataset.moving(path))
            renaming.copy_changed()
            renaming.note_copies()
            closed.enter_context(dataset.copy.leaving(path))
            renaming.commit()
            dataset.moved(path, goal)
            names.moves += 1
        except BaseException:
            closed.close()
            renaming.undo()
            raise
        narrow(renaming.prefix)  # an object that is stored there now would be removed, too
        renaming.finish()


def _noted(dataset: Dataset, path: str, goal: str) -> AbstractContextManager[None]:
    """Have the spool, if there is one, say during the block that a node is being renamed."""
    moves = dataset.engine.moves
    if moves is None:
        return nullcontext()
    return moves.renaming(dataset.prefix(path), dataset.prefix(goal))


@frozen
class RenamingMark:
    """The contents of the key `RENAMING`: names in the group; None: not given.

    Attributes
    ----------
    comes_from : this place is an incomplete copy of that one.
    goes_to : this place is being copied to that one.
    """

    comes_from: str | None = None
    goes_to: str | None = None


def read_mark(zmap: ZMap, key: Key) -> RenamingMark:
    """Parse a mark with any contents. Raises StoreError."""
    try:
        document = json.loads(bytes(zmap.read(key, 0, _MARK_BYTES_MAX).data))
        names = [document.get(what) for what in (_FROM, _TO)]
    except (ValueError, AttributeError, RecursionError):
        return RenamingMark()
    return RenamingMark(*(name if is_name(name) else None for name in names))


def is_renamed(zmap: ZMap, place: str, goal: str, is_found: Callable[[str], bool]) -> bool:
    """Return whether a node whose rename was interrupted has its new name. Raises StoreError.

    Parameters
    ----------
    place, goal : prefixes; the old one has a mark.
    is_found : whether readers find a node at a prefix.
    """
    return is_found(goal) and (not is_found(place) or not has_mark(zmap, goal))


def is_listed(dataset: Dataset, path: str) -> bool | None:
    """Return whether its group lists a node; None: groups have no lists. Raises NoSuchNode."""
    group = dataset.node(parent_of(path))
    if not isinstance(group, GroupHeader) or (group.arrays is None and group.groups is None):
        return None
    return _name(path) in (*(group.arrays or ()), *(group.groups or ()))


def has_mark(zmap: ZMap, place: str) -> bool:
    """Return whether a prefix has the key `RENAMING`. Raises StoreError."""
    try:
        zmap.stat(join(place, RENAMING))
    except NoSuchObject:
        return False
    return True


@dataclass(slots=True)
class _Renaming:
    """One rename.

    Attributes
    ----------
    copied : the copies of objects, by the keys of these below the old prefix.
    tried : keys of which there may be copies.
    is_listed : whether the group may list the new name.
    is_unmarked : whether the mark of the new place may be gone.
    """

    dataset: Dataset
    path: str
    goal: str
    copied: dict[Key, ObjectCopy] = field(default_factory=dict)
    tried: set[Key] = field(default_factory=set)
    is_listed: bool = False
    is_unmarked: bool = False

    @property
    def prefix(self) -> Prefix:
        return self.dataset.prefix(self.path)

    @property
    def new_prefix(self) -> Prefix:
        return self.dataset.prefix(self.goal)

    @property
    def above(self) -> str:
        return parent_of(self.path)

    def check(self) -> None:
        """Raise an error if renaming is impossible. Changes nothing."""
        if not self.path:
            raise NotWritable(f"{self.dataset.url('')}: is a whole dataset; rename its objects")
        self.check_still_there()
        check_no_dependent(self.dataset, self.path)
        documents = self.dataset.edits.documents()
        check_described_once(self.dataset.format, self.above, documents, "nothing in it is renamed")
        if self.dataset.load(self.goal) is not None:
            raise self._is_taken()
        if next(iter(self.dataset.zmap.list(self.new_prefix)), None) is not None:
            raise NameTaken(
                f"/{self.goal}: objects are there already, although no group or variable is; "
                "`nczfs verify` says what they are"
            )
        check_dimensions_inside(self.dataset, self.path)

    def check_still_there(self) -> None:
        """Raise unless the node is there, and its group lists nothing under its new name."""
        self.dataset.node(self.path)
        if is_listed(self.dataset, self.goal):
            raise self._is_taken()

    def _is_taken(self) -> NameTaken:
        return NameTaken(f"/{self.goal}: a group or variable of that name exists already")

    def put_marks(self) -> None:
        """Mark both places with what is going on."""
        self._mark(self.new_prefix, _FROM, self.path)
        self._mark(self.prefix, _TO, self.goal)

    def _mark(self, prefix: Prefix, what: str, other: str) -> None:
        text = json.dumps({"about": _ABOUT, what: _name(other)}).encode()
        self.dataset.zmap.write(join(prefix, RENAMING), text)

    def store(self) -> None:
        """Store everything that was written to the node and below it."""
        dataset = self.dataset
        try:
            dataset.store()
        except NczfsError:
            if self.above in dataset.edits.pending() or dataset.has_unsaved(self.path):
                raise

    def copy_rest(self) -> None:
        """Copy the keys that make no node; keys that are being changed are left for later."""
        self._copy(stat for stat in self._stats() if not makes_a_node(_name(stat.key)))

    def copy_changed(self) -> None:
        """Copy what has changed since; the document that makes the node visible comes last.

        Raises
        ------
        Unavailable : other clients changed something each time.
        """
        is_referred = False
        for _ in range(ROUNDS_MAX):
            stats = self._stats()
            self._drop_gone({stat.key for stat in stats})
            left = [stat for stat in stats if not self._is_copied(stat)]
            last = [stat for stat in left if self._shows_the_node(stat.key)]
            if before := [stat for stat in left if stat not in last]:
                is_referred = False
                self._copy(stat for stat in before if not makes_a_node(_name(stat.key)))
                self._copy(stat for stat in before if makes_a_node(_name(stat.key)))
                continue
            if not is_referred:
                self._refer_to_dimensions()
                is_referred = True
            if not last:
                return
            self._copy(last)
        raise Unavailable(f"/{self.path}: other clients kept changing it")

    def note_copies(self) -> None:
        """Have what was written meanwhile rest upon the copies of chunks, too. Never raises."""
        prefix, goal = self.prefix, self.new_prefix
        made = UnitCopies(
            frozenset(self.dataset.stored_arrays(prefix)),
            self.copied,
            lambda key: Key(keys.after_rename(key, goal, prefix)),
        )
        self.dataset.engine.writeback.note_copies(made)

    def commit(self) -> None:
        """Switch to the new name for all readers."""
        dataset = self.dataset
        self.is_listed = True
        self.is_listed = self._list(self.path, self.goal)
        dataset.copy.distrust()
        dataset.copy.update()
        self.is_unmarked = True
        try:
            dataset.zmap.delete_many([join(self.new_prefix, RENAMING)])
        except NczfsError as error:
            if not self.is_listed:
                raise
            log.info("%s: %s is left: %s", dataset.url(self.goal), RENAMING, error)

    def undo(self) -> None:
        """Remove the copies. `nczfs verify` reports what cannot be removed."""
        dataset, mark = self.dataset, join(self.new_prefix, RENAMING)
        try:
            if self.is_listed:
                dataset.ask_again(dataset.format.single.keys(self.above))
                self.is_listed = self._list(self.goal, self.path)
            if self.is_unmarked and not self.is_listed:
                self._mark(self.new_prefix, _FROM, self.path)
            dataset.copy.distrust()
            copies = [self._new_key(key) for key in self.tried]
            visible = [key for key in copies if makes_a_node(_name(key))]
            dataset.zmap.delete_many(sorted(visible, key=lambda key: key.count("/")))
            dataset.zmap.delete_many([key for key in copies if not makes_a_node(_name(key))])
            dataset.zmap.delete_many([mark, join(self.prefix, RENAMING)])
        except NczfsError as error:
            log.warning(
                "%s: a rename to it was not completed, and what was copied is left: %s",
                dataset.url(self.goal),
                error,
            )
        for path in (self.path, self.goal):
            dataset.forget_documents(path)

    def finish(self) -> None:
        """Remove the old keys. The node already has its new name, even if this fails."""
        dataset = self.dataset
        try:
            for marked in list(dataset.zmap.markers(self.prefix)):
                dataset.zmap.mark(Prefix(keys.moved(marked, self.prefix, self.new_prefix)))
                dataset.zmap.unmark(marked)
            is_group = isinstance(dataset.node(self.goal), GroupHeader)
            delete_keys(dataset, self.path, self.copied, is_group=is_group)
            dataset.zmap.delete_many([join(self.prefix, RENAMING)])
        except NczfsError as error:
            log.warning(
                "%s: was renamed to /%s, and not all of it could be removed: %s",
                dataset.url(self.path),
                self.goal,
                error,
            )
        dataset.forget_documents(self.path)
        dataset.zmap.flush()

    def _stats(self) -> list[Stat]:
        mark = join(self.prefix, RENAMING)
        return [stat for stat in self.dataset.zmap.list(self.prefix) if stat.key != mark]

    def _shows_the_node(self, key: Key) -> bool:
        above, _, name = key.rpartition("/")
        return above == self.prefix and makes_a_node(name)

    def _is_copied(self, stat: Stat) -> bool:
        copy = self.copied.get(stat.key)
        return copy is not None and copy.source.version == stat.version

    def _drop_gone(self, there: set[Key]) -> None:
        gone = [key for key in self.copied if key not in there]
        if gone:
            self.dataset.zmap.delete_many([self._new_key(key) for key in gone])
            for key in gone:
                del self.copied[key]

    def _copy(self, stats: Iterable[Stat]) -> None:
        """Copy objects, several at a time if requests take long."""

        resolution_ns = self.dataset.zmap.features.time_resolution_ns

        def copy(stat: Stat) -> None:
            self.tried.add(stat.key)
            try:
                version = self.dataset.zmap.copy(stat, self._new_key(stat.key))
            except (Conflict, NoSuchObject):
                return  # it was changed, and is checked again
            self.copied[stat.key] = ObjectCopy(stat, version, resolution_ns)

        self._each(copy, stats)

    def _each(self, function: Callable[[Stat], None], stats: Iterable[Stat]) -> None:
        dataset = self.dataset
        if not dataset.is_far:
            for stat in stats:
                function(stat)
            return
        futures: list[Future[None]] = [
            dataset.engine.pools.copy.submit(function, stat) for stat in stats
        ]
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise errors[0]

    def _new_key(self, key: Key) -> Key:
        return keys.checked_length(keys.moved(key, self.prefix, self.new_prefix))

    def _refer_to_dimensions(self) -> None:
        """Make variables refer to dimensions within the node by their new full names."""
        dataset = self.dataset
        if not dataset.format.declares or not self._is_group():
            return
        single = dataset.format.single
        dataset.forget_documents(self.goal)  # they may be cached as missing
        for variable in variables_of(dataset.group(self.path)):
            if not has_dimension_within(variable, self.path):
                continue
            new = variable.moved(self.path, self.goal)
            documents = dataset.documents()
            for key, data in single.write_node(new, documents):
                dataset.edits.store(key, data, documents.used[join(dataset.root, key)])

    def _is_group(self) -> bool:
        return isinstance(self.dataset.node(self.path), GroupHeader)

    def _list(self, path: str, goal: str) -> bool:
        """Rename a member in the stored list of the group. Returns whether the group has a list."""
        dataset, above = self.dataset, self.above
        group = dataset.node(above)
        if not isinstance(group, GroupHeader):
            raise NoSuchNode(f"/{above}: is not a group")
        if group.arrays is None and group.groups is None:
            return False
        change = RenameMember(_name(path), _name(goal))
        dataset.edits.add(above, change)
        failures = dataset.edits.flush(dataset.node, lambda known: known == above, lengths={})
        if above in failures:
            dataset.edits.drop(above, [change])
            raise failures[above]
        return True


def _name(key: str) -> str:
    return key.rpartition("/")[2]
