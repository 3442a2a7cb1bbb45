"""The consolidated copy of a dataset's metadata, kept up to date while the dataset is written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nczfs.engine.metadata.documents import StoreDocuments
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.engine.retrying import until_stored
from nczfs.errors import MetadataError
from nczfs.formats.base import ConsolidatedForm
from nczfs.model.hierarchy import GroupHeader
from nczfs.zmap.base import Version
from nczfs.zmap.keys import is_within, join

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Debt:
    """What the copy may lack of a document.

    Attributes
    ----------
    changes : how often it has begun to change.
    under_way : how many of these changes are not over.
    """

    changes: int = 0
    under_way: int = 0


class ConsolidatedCopy:
    """The documents that the copy does not repeat correctly yet, and its update.

    A document is owed from before it changes until the copy has it as it is after the change: an
    update that has begun to read before the change was over settles nothing. Without a copy, none
    is made except on request; formats without consolidated metadata never have one. The first
    update makes the copy anew from all documents, because it may have been stale; later ones amend
    it.
    Where several clients write, each puts what the store has now into the newest copy.

    `_lock` guards what is pending, and is not held during requests to the store; the one thread
    that updates the copy holds `_updating`.

    Parameters
    ----------
    store : replaces a version of a document of the dataset.

    Attributes
    ----------
    is_wanted : a copy is made if there is none.
    """

    def __init__(
        self, hierarchy: Hierarchy, store: Callable[[str, bytes, Version], object]
    ) -> None:
        self._hierarchy = hierarchy
        self._store = store
        self._lock = threading.Lock()
        self._updating = threading.Lock()
        self._owed: dict[str | None, _Debt] = {}  # by key; None: any document
        self._leaving: list[str] = []  # paths of nodes
        self._is_true = False
        self.is_wanted = False

    @property
    def is_owed(self) -> bool:
        """Whether the copy may lack something."""
        return bool(self._owed)

    def owes(self, keys: frozenset[str]) -> bool:
        """Return whether the copy may lack one of some documents."""
        with self._lock:
            return None in self._owed or not keys.isdisjoint(self._owed)

    @contextmanager
    def changing(self, keys: Collection[str | None]) -> Iterator[None]:
        """Enclose a change of documents, which the copy owes from now on.

        Parameters
        ----------
        keys : None among them: any document may change, and the copy is made anew.
        """
        if self._form is None:
            yield
            return
        with self._lock:
            debts = [self._owed.setdefault(key, _Debt()) for key in keys]
            for debt in debts:
                debt.changes += 1
                debt.under_way += 1
            self._is_true = self._is_true and None not in keys
        try:
            yield
        finally:
            with self._lock:
                for debt in debts:
                    debt.under_way -= 1

    def distrust(self) -> None:
        """Note that the copy must be made anew, because documents have changed in another way."""
        with self.changing((None,)):
            pass

    @contextmanager
    def leaving(self, path: str) -> Iterator[None]:
        """Let no update during the block put a node or anything below it into the copy.

        An update within the block takes out of it what is being removed, or moves.
        """
        with self._lock:
            self._leaving.append(path)
        try:
            yield
        finally:
            with self._lock:
                self._leaving.remove(path)

    def update(self) -> None:
        """Bring the copy up to date.

        Raises
        ------
        MetadataError, StoreError : the same documents are still pending.
        """
        form = self._form
        if form is None:
            return
        with self._updating:
            with self._lock:
                changed = {key: debt.changes for key, debt in self._owed.items()}
                leaving = tuple(self._leaving)
                over = [key for key, debt in self._owed.items() if not debt.under_way]
            keys = [key for key in changed if key is not None]

            def store(_: int) -> bool:
                # Other clients may have written both since.
                self._hierarchy.ask_again([form.key, *keys])
                is_due = bool(changed or leaving)
                return self._update_once(form, keys, leaving, is_due=is_due)

            is_true = until_stored(store, form.key)
            with self._lock:
                for key in over:
                    if self._owed[key].changes == changed[key]:
                        del self._owed[key]
                self._is_true = is_true and None not in self._owed

    @property
    def _form(self) -> ConsolidatedForm | None:
        return self._hierarchy.format.copy

    def _update_once(
        self, form: ConsolidatedForm, keys: list[str], leaving: tuple[str, ...], *, is_due: bool
    ) -> bool:
        """Update the copy once. Returns whether this process alone has made or amended it since."""
        documents = self._hierarchy.documents()
        data = documents.get(form.key)
        has_copy = data is not None and form.has_copy(data)
        if not (is_due if has_copy else self.is_wanted):
            return self._is_true and has_copy
        version = documents.used[join(self._hierarchy.root, form.key)]
        new = None
        if data is not None and has_copy and self._is_true:
            new = self._amended(form, data, keys, leaving, documents)
        if new is None:
            new = form.made_of(self._all(leaving))
        if new != data:
            self._store(form.key, new, version)
        return True

    def _amended(
        self,
        form: ConsolidatedForm,
        data: bytes,
        keys: list[str],
        leaving: tuple[str, ...],
        documents: StoreDocuments,
    ) -> bytes | None:
        """Return the copy with some documents as they are now; None if it cannot be read."""
        try:
            newest = {key: documents.get(key) for key in keys}
            if leaving:
                found = form.read(data)
                known = {*keys, *(() if found is None else found.keys)}
                newest |= dict.fromkeys(
                    key for key in known if any(is_within(key, path) for path in leaving)
                )
            return form.updated(data, newest)
        except MetadataError as error:
            log.warning("%s/%s: it will be written again", documents.place, error)
            return None

    def _all(self, leaving: tuple[str, ...]) -> dict[str, bytes]:
        """Return all documents by their keys, without those of a node that is to be removed."""
        hierarchy = self._hierarchy
        hierarchy.ask_again()
        documents = hierarchy.documents()
        found: dict[str, bytes] = {}
        pending = [""]
        while pending:
            path = pending.pop()
            for key in hierarchy.format.single.consolidated_keys(path):
                data = documents.get(key)
                if data is not None:
                    found[key] = data
            loaded = hierarchy.load(path)
            if loaded is not None and isinstance(loaded.node, GroupHeader):
                nodes, _ = hierarchy.members(path)
                pending += [node.path for node in reversed(nodes) if node.path not in leaving]
        return found
