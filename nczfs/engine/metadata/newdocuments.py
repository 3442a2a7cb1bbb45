"""Documents of new nodes, which are removed again if the rest of their node cannot be stored."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace

from nczfs.engine.metadata.changes import Create, NodeChange
from nczfs.engine.metadata.documents import MetadataCache, StoreDocuments
from nczfs.errors import Conflict, NczfsError, NoSuchObject
from nczfs.formats.names import below
from nczfs.zmap.base import ABSENT, Version
from nczfs.zmap.keys import Key, Prefix, is_within, join

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A document that was sent to the store.

    Attributes
    ----------
    is_stored : whether the store has had it, so that what replaces it is the same node's.
    version : that it had last; None: it is unknown.
    unanswered : bytes that were sent since, of which it is unknown whether they were stored.
    """

    is_stored: bool = False
    version: Version | None = None
    unanswered: frozenset[bytes] = frozenset()


class NewDocuments:
    """The documents of nodes that this process is making, by the path of the node.

    A node is here from the first of its documents that was sent until its creation is not pending
    any more: later, what is at its path may be another client's. `_lock` guards the dict.

    Parameters
    ----------
    root : the prefix of the dataset.
    guard : makes a context manager to enclose each change of the store.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        root: Prefix,
        guard: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._metadata = metadata
        self._root = root
        self._guard = guard
        self._lock = threading.Lock()
        self._sent: dict[str, dict[str, _Sent]] = {}

    def has(self, path: str) -> bool:
        """Return whether some documents of a node may be in the store, and are this process's."""
        return path in self._sent

    def made(self, path: str, names: Iterable[str], documents: StoreDocuments) -> bool:
        """Return whether the store has what this process has sent of a node, if it has the node.

        Another client may have made the node where only a part was stored. Raises as `get`.

        Parameters
        ----------
        names : of the documents that make their prefix a node.
        """
        sent = self._sent.get(path)
        if sent is None:
            return False
        for key in (below(path, name) for name in names):
            if (data := documents.get(key)) is None:
                continue
            ours = sent.get(key)
            if ours is None or not (ours.is_stored or data in ours.unanswered):
                return False
            if not ours.is_stored:  # its answer was lost
                version = documents.used[join(self._root, key)]
                sent[key] = _Sent(is_stored=True, version=version)
        return True

    def note(
        self,
        path: str,
        key: str,
        data: bytes,
        replaces: Version,
        version: Version | None = None,
        *,
        is_made: bool,
    ) -> None:
        """Note that a document of a node was sent to the store.

        Parameters
        ----------
        is_made : whether the node is being made; nothing is noted of others.
        replaces : the version there was.
        version : that it has now; None: it is unknown whether it was stored.
        """
        if not is_made:
            return
        with self._lock:
            before = self._sent.get(path, {}).get(key)
            if before is None and replaces != ABSENT:
                return
            if version is not None:
                sent = _Sent(is_stored=True, version=version)
            else:
                kept = _Sent() if before is None else before
                if replaces == ABSENT:  # what was stored is gone
                    kept = replace(kept, is_stored=False, version=None)
                sent = replace(kept, unanswered=kept.unanswered | {data})
            self._sent.setdefault(path, {})[key] = sent

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
                self._sent[goal + known[len(path) :]] = {
                    goal + key[len(path) :]: replace(sent, version=None)
                    for key, sent in self._sent.pop(known).items()
                }

    def undo(self, path: str, withdrawn: Iterable[NodeChange]) -> None:
        """Remove what there is of a node whose creation is withdrawn. Never raises.

        What another client has put there since stays.
        """
        if not any(isinstance(change, Create) for change in withdrawn):
            return
        with self._lock:
            documents = self._sent.pop(path, {})
        for key, sent in reversed(documents.items()):
            full = join(self._root, key)
            try:
                with self._guard(), suppress(Conflict, NoSuchObject):
                    version = self._version_of(full, sent)
                    if version is not None:
                        self._metadata.zmap.delete(full, version=version)
            except NczfsError as error:
                log.warning("%s: is left of a node that could not be made: %s", full, error)
            self._metadata.changed(full)

    def _version_of(self, key: Key, sent: _Sent) -> Version | None:
        """Return the version of a document that was sent; None: the store may have another one."""
        if not sent.unanswered:
            return sent.version
        found = self._metadata.zmap.read(key)
        return found.version if bytes(found.data) in sent.unanswered else sent.version
