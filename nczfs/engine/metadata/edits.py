"""Pending changes of metadata, and their way into the documents of the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import groupby
from operator import itemgetter

from nczfs.engine.metadata.changes import (
    MemberChange,
    NodeChange,
    Refused,
    apply_all,
    apply_what_fits,
    concern,
    in_order_of_storing,
    listing,
)
from nczfs.engine.metadata.claims import covered_document, without_covered
from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.engine.metadata.lengths import (
    Lengths,
    are_growth,
    as_long_as_declared,
    as_long_as_stored,
    groups_to_lengthen,
    growing,
    is_length,
    keys_with_dimensions,
    lengths_of,
    moved_dimensions,
    with_dimensions,
    with_lengths,
)
from nczfs.engine.metadata.names import PathLocks
from nczfs.engine.metadata.newdocuments import Begun, NewDocuments, documents_of, left_of_group
from nczfs.engine.metadata.newnodes import Create, DropGroup
from nczfs.engine.metadata.refusedchanges import RefusedChanges
from nczfs.engine.metadata.storingturns import StoringTurns
from nczfs.engine.metadata.unfound import unfound_members, without_node
from nczfs.engine.metadata.withdrawn import Place, Withdrawn
from nczfs.engine.pools import Pools
from nczfs.engine.retrying import until_stored
from nczfs.errors import Conflict, NczfsError, ObjectExists
from nczfs.formats.base import FormatOptions, MetadataFormat, Node
from nczfs.formats.names import members_among
from nczfs.model.hierarchy import Dimension, Variable
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Prefix, is_within, join, moved

log = logging.getLogger(__name__)


class Edits:
    """The pending changes of one dataset, by the path of their node.

    Reading sees them at once; the store gets them at `flush`. `_lock` guards the dicts and
    `_turns`, the nodes that are being stored. It is not held during requests to the store.

    Parameters
    ----------
    guard : makes a context manager to enclose each change of the store.
    changed : called when the node at a path may read differently than before.
    storing : makes a context manager to enclose a change of documents with the given keys.
    withdrawn : gets what the store refuses.

    Attributes
    ----------
    format : of the single documents, which are the ones that change.
    names : who may make and lengthen what at present.
    refusals : why changes were withdrawn.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        root: Prefix,
        metadata_format: MetadataFormat,
        options: FormatOptions,
        pools: Pools,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
        changed: Callable[[str], None] = lambda _: None,
        storing: Callable[[Collection[str]], AbstractContextManager[object]] = nullcontext,
        withdrawn: Withdrawn | None = None,
    ) -> None:
        self._guard = guard
        self._storing = storing
        self._changed_at = changed
        self._withdrawn = withdrawn or Withdrawn()
        self._pools = pools
        self._metadata = metadata
        self._root = root
        self.format = metadata_format.single
        self._options = options
        self._lock = threading.Lock()
        self._turns = StoringTurns(self._lock)
        self.names = PathLocks()
        self._changes: dict[str, dict[tuple[str, ...], NodeChange]] = {}
        self._applied: dict[str, tuple[Node | None, Node | None]] = {}
        self._dimensions: dict[str, dict[str, Dimension]] = {}
        self.own_claims: set[str] = set()
        self.refusals = RefusedChanges()
        self._begun = NewDocuments(metadata, root, guard, storing)
        self._doubtful: set[str] = set()  # documents whose last write got no answer
        self.revision = 0

    def add(self, path: str, change: NodeChange) -> None:
        """Note a change of the node at a path."""
        self.add_together([(path, change)])

    def add_together(self, changes: Iterable[tuple[str, NodeChange]]) -> None:
        """Note changes of nodes, by their paths, that are only stored together."""
        paths = []
        with self._lock:
            for path, those in groupby(changes, key=itemgetter(0)):
                self._add(path, [change for _, change in those])
                paths.append(path)
            self.revision += 1
        for path in paths:
            self._changed_at(path)

    def _add(self, path: str, new: Sequence[NodeChange]) -> None:
        changes = self._changes.setdefault(path, {})
        self._withdrawn.settle(self._at(path), new)
        are_first = True
        for change in new:
            earlier = changes.get(change.subject)
            changes[change.subject] = change if earlier is None else change.after(earlier)
            are_first = are_first and earlier is None
        known = self._applied.pop(path, None)
        if known is not None and are_first:
            # A group that gets a thousand members is not evaluated anew for each of them.
            self._applied[path] = (known[0], self._changed(path, known[1], new)[0])

    def check(self, path: str, *changes: NodeChange) -> None:
        """Check that the format can hold a node with more changes.

        Raises
        ------
        Unsupported : it cannot, and `flush` would fail for ever. MetadataError, StoreError.
        """
        documents = self.documents()
        node = documents.node(self.format, path)
        wanted = apply_all(self.applied(path, node), changes)
        documents_of(wanted, self.format, documents, node)

    def declare(self, dimension: Dimension) -> None:
        """Remember a dimension that no document of this format holds, until the process ends."""
        with self._lock:
            self._dimensions.setdefault(dimension.group, {})[dimension.name] = dimension
            self.revision += 1
        self._changed_at(dimension.group)

    def applied(self, path: str, node: Node | None) -> Node | None:
        """Return a node with its pending changes; None if there is none."""
        with self._lock:
            changes = self._changes.get(path)
            if changes is not None:
                known = self._applied.get(path)
                if known is None or known[0] is not node:
                    known = (node, self._changed(path, node, changes.values())[0])
                    self._applied[path] = known
                node = known[1]
        return node if node is None else with_dimensions(node, self._dimensions)

    def created(self) -> list[str]:
        """Return the paths of new nodes that are not in the store yet."""
        return [path for path, changes in list(self._changes.items()) if ("node",) in changes]

    def flush(
        self,
        load: Callable[[str], Node],
        is_wanted: Callable[[str], bool] = lambda _: True,
        *,
        lengths: Lengths | None = None,
    ) -> dict[str, NczfsError]:
        """Store the pending changes: arrays first, then groups, the deepest first.

        So the document that makes a new node visible to others is written after the node itself,
        and a dimension grows after the arrays that have it. A change that can never be stored is
        withdrawn and blocks no other; one that may be stored later blocks those that come after it.

        Parameters
        ----------
        load : returns a node, which may have changed since: it is read again to be stored.
        is_wanted : returns whether the changes of the node at a path are to be stored. It may be
            called at any time, and must not ask for changes itself.
        lengths : the new lengths that are stored; None: all.

        Returns
        -------
        the errors of nodes that could not be stored, by their paths.
        """
        with ExitStack() as turns:
            turn = self._turns.first(lambda: self._paths_to_store(is_wanted, lengths))
            paths, later = turns.enter_context(turn)
            failures: dict[str, NczfsError] = {}
            nodes, wanted = self._taken(load, paths | later, failures, lengths)
            compares = self._metadata.zmap.features.conditional_writes
            cached = {p for p in nodes if compares and are_growth(wanted.get(p, []))}
            self._ask_again([nodes[p] for p in nodes if p not in cached])
            stored: dict[str, list[NodeChange]] = {}
            for together in in_order_of_storing(nodes):
                if (reason := self._reason_to_wait(failures, stored)) is not None:
                    failures |= dict.fromkeys(together, reason)
                    continue
                if waiting := later.intersection(together):
                    turns.enter_context(self._turns.then(waiting))
                    wanted |= {p: self._left(p, wanted.get(p, [])) for p in waiting}
                # Changes that were withdrawn meanwhile are not pending any more.
                wanted |= {p: self._still_wanted(p, wanted.get(p, [])) for p in together}
                now = {p: nodes[p] for p in together if wanted[p] and self.changes_of(p)}
                for path, refused in self._store_all(now, wanted).items():
                    left = {id(change) for change, _ in refused}
                    stored[path] = [change for change in wanted[path] if id(change) not in left]
                    self._refuse(path, refused, failures)
            # All together: an array reads only as long as its dimension, which is stored later.
            if self._reason_to_wait(failures, stored) is None:
                for path, changes in stored.items():
                    self.drop(path, changes)
            return failures

    def forget(self, path: str) -> None:
        """Drop what is known of a removed node and all below it; changes on their way arrive."""
        with self._turns.none_within(path):
            for by_path in (self._changes, self._applied, self._dimensions):
                for known in [p for p in by_path if is_within(p, path)]:
                    del by_path[known]
            self._begun.forget(path)
            self.revision += 1
        self._withdrawn.forget(self._at(path))
        self._changed_at(path)

    def note_change(self) -> None:
        """Note that nodes read differently, though nothing is pending."""
        with self._lock:
            self.revision += 1

    def move(self, path: str, goal: str) -> None:
        """Move the pending changes of a node, and of all below it, to another path.

        Nothing new below it is pending, since who moves it holds it in `names`.
        """
        with self._lock:
            for known in [p for p in self._changes if is_within(p, path)]:
                self._changes[moved(known, path, goal)] = self._changes.pop(known)
                self._applied.pop(known, None)
            self._begun.move(path, goal)
            self._dimensions = moved_dimensions(self._dimensions, path, goal)
            self.revision += 1
        self.refusals.move(path, goal)
        self._withdrawn.move(self._at(path), self._at(goal))
        for changed in (path, goal):
            self._changed_at(changed)

    def pending(self) -> list[str]:
        """Return the paths of the nodes that have changes."""
        return list(self._changes)

    def growing(self) -> dict[str, set[int]]:
        """Return the paths of the variables with new lengths, and the axes."""
        with self._lock:
            return growing(self._changes)

    def lengths(self, variables: Collection[str], others: Collection[tuple[str, str]]) -> Lengths:
        """Return the present new lengths; see `lengths_of`."""
        with self._lock:
            return lengths_of(self._changes, variables, others)

    def _wanted(self, path: str, lengths: Lengths | None) -> list[NodeChange]:
        """Return changes of a node, with given lengths; None: all. The caller has `_lock`."""
        return with_lengths(self._changes.get(path, {}), lengths, path)

    def grows(self, path: str) -> bool:
        """Return whether a change of the node at a path changes a length."""
        return any(map(is_length, self.changes_of(path)))

    def creates(self, path: str) -> bool:
        """Return whether the node at a path is a new one."""
        return ("node",) in self._changes.get(path, {})

    def concern(self, variable: Variable) -> bool:
        """Return whether others need a pending change to find a variable as it is here."""
        with self._lock:
            return concern(self._changes, variable)

    def store(self, key: str, data: bytes, replaces: Version) -> Version:
        """Replace a version of a document. Raises Conflict, ObjectExists, StoreError."""
        with self._guard():
            return self._metadata.write(join(self._root, key), data, replaces)

    def note(self, path: str, key: str, data: bytes, replaces: Version) -> None:
        """Store a document of a node as `store` does, with other notes of nczfs and no change."""
        version = self.store(key, data, replaces)
        self._metadata.recent.still(self._root, path, join(self._root, key), replaces, version)

    def changes_of(self, path: str) -> list[NodeChange]:
        """Return the changes of a node."""
        with self._lock:
            return list(self._changes.get(path, {}).values())

    def _paths_to_store(
        self, is_wanted: Callable[[str], bool], lengths: Lengths | None
    ) -> tuple[set[str], set[str]]:
        """Return the paths with wanted changes, without those whose turn comes later, and those.

        The latter are groups in which only dimensions grow, beside growing variables: a document of
        one variable that hangs keeps no other one from growing. The caller has `_lock`.
        """
        found = {path: self._wanted(path, lengths) for path in self._changes if is_wanted(path)}
        wanted = {path: changes for path, changes in found.items() if changes}
        later = groups_to_lengthen(wanted)
        return wanted.keys() - later, later

    def _left(self, path: str, lengths: list[NodeChange]) -> list[NodeChange]:
        """Return those of some lengths that nobody else has stored, as they were."""
        with self._lock:
            return [c for c in self._wanted(path, {path: lengths}) if c in lengths]

    def _still_wanted(self, path: str, changes: list[NodeChange]) -> list[NodeChange]:
        """Return changes of a node without members whose creation was withdrawn meanwhile."""
        known = self.changes_of(path)
        return [c for c in changes if not isinstance(c, MemberChange) or c in known]

    def _taken(
        self,
        load: Callable[[str], Node],
        paths: set[str],
        failures: dict[str, NczfsError],
        lengths: Lengths | None,
    ) -> tuple[dict[str, Node], dict[str, list[NodeChange]]]:
        """Return the nodes to store with their changes, all as of one time."""
        nodes: dict[str, Node] = {}
        while True:
            with self._lock:
                found = {path: self._wanted(path, lengths) for path in paths}
            changes = {path: each for path, each in found.items() if each}
            missing = [path for path in changes if path not in nodes and path not in failures]
            if not missing:
                return nodes, changes
            nodes |= self._loaded(missing, load, failures)

    def _loaded(
        self, paths: list[str], load: Callable[[str], Node], failures: dict[str, NczfsError]
    ) -> dict[str, Node]:
        """Load the nodes to store; changes of nodes that are gone are withdrawn."""
        found: dict[str, Node] = {}
        for path in paths:
            try:
                found[path] = load(path)
            except NczfsError as error:
                self._refuse(path, [(each, error) for each in self.changes_of(path)], failures)
        return found

    def _refuse(self, path: str, refused: Refused, failures: dict[str, NczfsError]) -> None:
        """Note why changes were not stored, and withdraw those that never can be.

        The creation of a node goes with what would make it visible.
        """
        for _, error in refused:
            failures.setdefault(path, error)
        if lost := [change for change, error in refused if not change.may_be_stored_after(error)]:
            reason = failures[path]
            log.info("/%s: %d changes are discarded: %s", path, len(lost), reason)
            self._metadata.changed(join(self._root, path))  # other clients have made or removed it
            self._begun.undo(path, lost, self.format)
            if any(change.makes for change in lost):
                above, _, name = path.rpartition("/")
                self.drop(above, listing(self.changes_of(above), name))
            self._withdrawn.note(self._at(path), lost, reason)
            self.drop(path, lost, reason)
            self._metadata.ask_again(join(self._root, key) for key in self.format.keys(path))
            new = members_among(self.created(), path)
            for member in unfound_members(path, lost, new, self.format, self.documents()):
                failures[member] = reason
                self._refuse(member, without_node(self.changes_of(member), reason), failures)

    def _reason_to_wait(
        self, failures: Mapping[str, NczfsError], stored: Mapping[str, Sequence[NodeChange]]
    ) -> NczfsError | None:
        """Return why a document that makes others visible waits: a change that is still to come."""
        there = {id(change) for changes in stored.values() for change in changes}
        waiting = (e for p, e in failures.items() if {*map(id, self.changes_of(p))} - there)
        return next(waiting, None)

    def _store_all(
        self, nodes: Mapping[str, Node], taken: Mapping[str, list[NodeChange]]
    ) -> dict[str, Refused]:
        """Store nodes that do not make each other visible, in parallel where requests take long.

        `taken` are all changes that are being stored, by path. Returns those that could not be.
        """
        if not self._metadata.far or len(nodes) == 1:
            return {path: self._store_node(node, taken) for path, node in nodes.items()}
        futures = {
            path: self._pools.edit.submit(self._store_node, node, taken)
            for path, node in nodes.items()
        }
        wait(futures.values())
        return {path: future.result() for path, future in futures.items()}

    def _store_node(self, node: Node, taken: Mapping[str, list[NodeChange]]) -> Refused:
        def store(attempt: int) -> Refused:
            if attempt:
                self._ask_again([node])
            return self._store_once(node.path, taken)

        try:
            return until_stored(store, f"/{node.path}")
        except NczfsError as error:
            return [(change, error) for change in taken[node.path]]

    def _ask_again(self, nodes: Iterable[Node]) -> None:
        keys = {key for node in nodes for key in keys_with_dimensions(node, self.format)}
        self._metadata.ask_again(join(self._root, key) for key in keys)

    def _store_once(self, path: str, taken: Mapping[str, list[NodeChange]]) -> Refused:
        """Store the changes that can be stored. Returns the others with their errors."""
        changes, documents = taken[path], self.documents()
        documents.fetch(self.format.keys_to_change(path))
        found = documents.node(self.format, path)
        begun = self._begun.state(path, self.format.names.nodes, documents)
        if begun is Begun.PART:
            found = None
        node, refused = apply_what_fits(found, changes, is_begun=begun is Begun.NODE)
        if node is None or len(refused) == len(changes):
            return refused
        if isinstance(node, Variable) and self.format.declares:
            node = as_long_as_declared(node, lambda p: self._group_with(documents, taken, p))
            node = as_long_as_stored(self.format, node, changes, documents)
        seen = dict(documents.used)
        written = documents_of(node, self.format, documents, found)
        kinds = {type(c) for c in changes} - {type(c) for c, _ in refused}
        for key, data in covered_document(self.format, node, documents, self.own_claims).items():
            written.setdefault(key, data)
        left = left_of_group(self.format, path, documents) if DropGroup in kinds else {}
        before = {key: documents.get(key) for key in written}
        if any(documents.used[key] != version for key, version in seen.items()):
            raise Conflict(f"/{path}: another client changed it while it was read")
        # What arrived after its deadline is not written again, but has changed all the same.
        doubtful = self._doubtful.intersection(self.format.keys(path))
        if is_made := Create in kinds:
            self._begun.plan_removal(path, left)
        again = self.format.keys(path) if begun is Begun.NODE else ()  # a new copy lacks them
        write = self._begun.storing(path, before, self.store) if is_made else self.store
        with self._storing({*written, *doubtful, *left, *again}):
            for key, data in written.items():
                document, covered = without_covered(self.format, data, key, self.own_claims)
                try:
                    write(key, document, documents.used[join(self._root, key)])
                except (Conflict, ObjectExists):
                    raise
                except NczfsError:
                    self._doubtful.add(key)
                    raise
                self.own_claims -= covered
            error = self._begun.remove(path, left, documents.used)
        self._doubtful -= doubtful
        return refused + [(c, error) for c in changes if error and isinstance(c, DropGroup)]

    def _group_with(
        self, documents: StoreDocuments, taken: Mapping[str, list[NodeChange]], path: str
    ) -> Node | None:
        """Return a group with those of some changes that are about its dimensions."""
        declaring = (change for change in taken.get(path, ()) if change.declares)
        return self._changed(path, documents.node(self.format, path), declaring)[0]

    def _changed(
        self, path: str, node: Node | None, changes: Iterable[NodeChange]
    ) -> tuple[Node | None, Refused]:
        """Return a node with the changes that fit it, and the errors of the others."""
        return apply_what_fits(node, changes, is_begun=self._begun.has(path))

    def _at(self, path: str) -> Place:
        return self._metadata.zmap, Prefix("/".join(filter(None, (self._root, path))))

    def documents(self) -> StoreDocuments:
        """Return the single documents of the dataset."""
        return StoreDocuments(self._metadata, self._root, self._options)

    def drop(self, path: str, settled: Iterable[NodeChange], why: NczfsError | None = None) -> None:
        """Forget changes of a node that are stored, or are withdrawn, and note why."""
        with self._lock:
            if why is not None:  # before they go: at any time they are pending, or known as refused
                self.refusals.note(path, why)
            changes = self._changes.get(path, {})
            for change in settled:
                if changes.get(change.subject) is change:
                    del changes[change.subject]
            if ("node",) not in changes:
                self._begun.settle(path)
            self._applied.pop(path, None)
            if not changes:
                self._changes.pop(path, None)
            self.revision += 1
        self._changed_at(path)
