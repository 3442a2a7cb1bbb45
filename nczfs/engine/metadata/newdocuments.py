"""Documents of new nodes, which are taken back if the rest of their node cannot be stored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from enum import Enum, auto
from typing import TypeAlias

from nczfs.engine.metadata.changes import NodeChange
from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.engine.metadata.newnodes import Create
from nczfs.engine.retrying import may_pass
from nczfs.errors import Conflict, NameTaken, NczfsError, NoSuchObject, ObjectExists
from nczfs.formats.base import Documents, MetadataFormat, Node
from nczfs.formats.names import below
from nczfs.formats.overlay import Overlay
from nczfs.plaindata import frozen
from nczfs.zmap.base import ABSENT, Blob, Version
from nczfs.zmap.keys import Key, Prefix, is_within, join, moved

log = logging.getLogger(__name__)

Store: TypeAlias = Callable[[str, bytes, Version], Version]
"""Replaces a version of a document of a dataset. Returns the new version."""

Storing: TypeAlias = Callable[[Collection[str]], AbstractContextManager[object]]
"""Makes a context manager to enclose a change of documents with the given keys."""


class Begun(Enum):
    """What this process has stored of a node that it is making."""

    NOTHING = auto()  # or what is there is another client's
    PART = auto()  # no document that makes it a node
    NODE = auto()


@frozen
class _Sent:
    """A document that was sent to the store, or removed from it.

    Attributes
    ----------
    is_stored : whether the store has had it, so that what replaces it is the same node's.
    version : that it had last; None: it is unknown.
    data : the bytes that were stored last, as far as that is known.
    unanswered : bytes that were sent since, of which it is unknown whether they were stored.
    before : what was there; None: nothing.
    is_doubtful : the answer was lost, and what the store has may be the same bytes of another
        client.
    is_removed : it is removed once the others are stored; if `is_stored`, that was asked for.
    """

    is_stored: bool = False
    version: Version | None = None
    data: bytes | None = None
    unanswered: frozenset[bytes] = frozenset()
    before: bytes | None = None
    is_doubtful: bool = False
    is_removed: bool = False

    def is_at(self, version: Version, data: bytes) -> bool:
        """Return whether it is what the store has."""
        return version == self.version or data in self.unanswered


class NewDocuments:
    """The documents of nodes that this process is making, by the path of the node.

    A node is here from the first of its documents that was sent until its creation is not pending
    any more: later, what is at its path may be another client's. `_lock` guards the dict.

    Parameters
    ----------
    root : the prefix of the dataset.
    guard : makes a context manager to enclose each change of the store.
    storing : makes one to enclose a change of documents, given their keys.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        root: Prefix,
        guard: Callable[[], AbstractContextManager[None]],
        storing: Storing,
    ) -> None:
        self._metadata = metadata
        self._root = root
        self._guard = guard
        self._storing = storing
        self._lock = threading.Lock()
        self._sent: dict[str, dict[str, _Sent]] = {}

    def has(self, path: str) -> bool:
        """Return whether some documents of a node may be in the store, and are this process's."""
        return path in self._sent

    def state(self, path: str, names: Iterable[str], documents: StoreDocuments) -> Begun:
        """Return what the store has of a node, as far as this process has stored it.

        Another client may have made the node where only a part was stored. Raises as `get`.

        Parameters
        ----------
        names : of the documents that make their prefix a node.

        Raises
        ------
        NameTaken : another client has changed a document of the node, and perhaps made it: the
            answer to the one that makes it a node was lost.
        """
        sent = self._sent.get(path)
        if sent is None:
            return Begun.NOTHING
        found, is_group, is_doubtful = Begun.PART, False, False
        for key in (below(path, name) for name in names):
            if (data := documents.get(key)) is None:
                continue
            ours = sent.get(key)
            if ours is not None and ours.is_removed and data == ours.before:
                is_group = True
                continue
            if ours is None or ours.is_removed or not (ours.is_stored or data in ours.unanswered):
                return Begun.NOTHING
            found = Begun.NODE
            if not ours.is_stored:  # its answer was lost
                is_doubtful = True
                version = documents.used[join(self._root, key)]
                sent[key] = _Sent(True, version, data, before=ours.before, is_doubtful=True)
        if is_doubtful and self._is_changed(sent, documents):
            raise NameTaken(f"/{path}: another client has created or changed it meanwhile")
        return Begun.NOTHING if is_group and found is Begun.PART else found

    def _is_changed(self, sent: Mapping[str, _Sent], documents: StoreDocuments) -> bool:
        """Return whether another client has changed a document of a node that was stored."""
        return any(
            documents.get(key) not in (each.data, *each.unanswered)
            for key, each in sent.items()
            if each.is_stored and not each.is_removed
        )

    def storing(self, path: str, before: Mapping[str, bytes | None], store: Store) -> Store:
        """Return a function that stores a document of a node that is being made, and notes it.

        Parameters
        ----------
        before : the bytes of the documents that there are, by key; None: there is none.
        store : replaces a version of a document, and returns the new one.
        """

        def stored(key: str, data: bytes, replaces: Version) -> Version:
            try:
                version = store(key, data, replaces)
            except (Conflict, ObjectExists):
                raise
            except NczfsError:
                self._note(path, key, replaces, before[key], data)
                raise
            self._note(path, key, replaces, before[key], data, version)
            return version

        return stored

    def _note(
        self,
        path: str,
        key: str,
        replaces: Version,
        before: bytes | None,
        data: bytes,
        version: Version | None = None,
    ) -> None:
        """Note that bytes were stored as a document, or without a version that they may be."""
        with self._lock:
            known = self._sent.get(path, {}).get(key, _Sent())
            if before is not None and known.is_at(replaces, before):
                before = known.before
            if version is not None:
                sent = _Sent(is_stored=True, version=version, data=data, before=before)
            else:
                if replaces == ABSENT:  # what was stored is gone
                    known = replace(known, is_stored=False, version=None)
                tried = known.unanswered | {data}
                sent = replace(known, unanswered=tried, before=before)
            self._sent.setdefault(path, {})[key] = sent

    def plan_removal(self, path: str, documents: Mapping[str, bytes]) -> None:
        """Note documents that go once the others of a node that is being made are stored.

        Raises
        ------
        NameTaken : they were noted before, and another client has changed one since.
        """
        if not documents:
            return
        with self._lock:
            planned = self._sent.setdefault(path, {})
            for key, data in documents.items():
                sent = _Sent(before=data, is_removed=True)
                if planned.setdefault(key, sent).before != data:
                    raise NameTaken(f"/{path}: another client has changed the group meanwhile")

    def remove(
        self, path: str, keys: Iterable[str], versions: Mapping[Key, Version]
    ) -> NczfsError | None:
        """Remove documents, as it may be planned. Raises Conflict, StoreError.

        Parameters
        ----------
        versions : to remove, by the whole keys.

        Returns
        -------
        why the store does not remove them, ever: those that are left stay beside the others.
        """
        for key in keys:
            full = join(self._root, key)
            with self._lock:
                planned = self._sent.get(path, {}).get(key)
                if planned is not None:
                    self._sent[path][key] = replace(planned, is_stored=True)
            try:
                with self._guard():
                    self._metadata.remove(full, versions[full])
            except (Conflict, ObjectExists):
                raise
            except NczfsError as error:
                if may_pass(error):
                    raise
                return error
        return None

    def settle(self, path: str) -> None:
        """Note that the creation of a node is not pending any more."""
        with self._lock:
            self._sent.pop(path, None)

    def forget(self, path: str) -> None:
        """Forget the documents of a removed node, and of all below it."""
        with self._lock:
            for known in [p for p in self._sent if is_within(p, path)]:
                del self._sent[known]

    def move(self, path: str, goal: str) -> None:
        """Note that a node has moved, with all below it: what it has there are copies."""
        with self._lock:
            for known in [p for p in self._sent if is_within(p, path)]:
                self._sent[moved(known, path, goal)] = {
                    moved(key, path, goal): replace(sent, version=None)
                    for key, sent in self._sent.pop(known).items()
                }

    def undo(self, path: str, withdrawn: Iterable[NodeChange], written_as: MetadataFormat) -> None:
        """Put back what there was before a node whose creation is withdrawn. Never raises.

        A node that another client has made or changed since stays, with all that it may consist of.
        So does one that another client may have made of the same bytes, in a format in which it is
        found without a list.
        """
        if not any(isinstance(change, Create) for change in withdrawn):
            return
        with self._lock:
            documents = self._sent.pop(path, {})
        try:
            with self._storing(documents):
                for key, sent in self._to_take_back(path, documents, written_as):
                    with self._guard():
                        self._take_back(join(self._root, key), sent)
        except (Conflict, ObjectExists):
            pass  # by which another client has changed it just now
        except NczfsError as error:
            log.warning("/%s: something is left that could not be made: %s", path, error)
        for key in documents:
            self._metadata.changed(join(self._root, key))

    def _to_take_back(
        self, path: str, documents: Mapping[str, _Sent], written_as: MetadataFormat
    ) -> list[tuple[str, _Sent]]:
        """Return the documents that are as this process has sent them, in the order to undo that.

        None if the node is another client's now; but what was there before is put back even so.
        """
        if not documents:
            return []
        ours: list[tuple[str, _Sent]] = []
        is_other = False
        nodes = [below(path, name) for name in written_as.names.nodes]
        for key, sent in reversed([*documents.items()]):
            found = self._found(key)
            if sent.is_removed:
                ours[:0] = [(key, sent)] if found is None and sent.is_stored else []
            elif found is not None and sent.is_at(found.version, bytes(found.data)):
                is_doubtful = sent.is_doubtful or found.version != sent.version
                if is_doubtful and key in nodes and not written_as.declares:
                    return []
                ours.append((key, replace(sent, version=found.version)))
            elif found is not None and sent.is_stored:
                return []
            else:
                is_other |= found is not None
        is_other |= any(key not in documents and self._found(key) is not None for key in nodes)
        return [(k, sent) for k, sent in ours if not is_other or sent.before is not None]

    def _found(self, key: str) -> Blob | None:
        try:
            return self._metadata.zmap.read(join(self._root, key))
        except NoSuchObject:
            return None

    def _take_back(self, key: Key, sent: _Sent) -> None:
        """Put back what there was before a document. Raises Conflict, ObjectExists."""
        zmap = self._metadata.zmap
        if sent.before is None:
            with suppress(NoSuchObject):
                zmap.delete(key, version=sent.version)
        else:
            zmap.write(key, sent.before, replaces=ABSENT if sent.is_removed else sent.version)


def documents_of(
    node: Node, written_as: MetadataFormat, documents: Documents, found: Node | None
) -> dict[str, bytes]:
    """Return the documents to write of a node. Raises as `write_node`.

    Parameters
    ----------
    found : the node in the store that is changed. None, or one of another kind: whatever documents
        are there are replaced.
    """
    if isinstance(found, type(node)):
        return dict(written_as.write_node(node, documents, found))
    hidden = dict.fromkeys(written_as.keys(node.path))
    return dict(written_as.write_node(node, Overlay(documents, hidden)))


def left_of_group(written_as: MetadataFormat, path: str, documents: Documents) -> dict[str, bytes]:
    """Return the documents by which a variable is described as a group, too."""
    found = {key: documents.get(key) for key in keys_of_group_alone(written_as, path)}
    return {key: data for key, data in found.items() if data is not None}


def keys_of_group_alone(written_as: MetadataFormat, path: str) -> list[str]:
    """Return the keys of the documents that a group at a path has, and a variable has not."""
    return [key for key in written_as.group_keys(path) if key not in written_as.array_keys(path)]
