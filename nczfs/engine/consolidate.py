"""The consolidated copy of a dataset's metadata, kept true while the dataset is written."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata import StoreDocuments
from nczfs.engine.retrying import until_stored
from nczfs.errors import MetadataError
from nczfs.formats import consolidated
from nczfs.formats.base import FormatOptions
from nczfs.formats.names import below
from nczfs.formats.nodes import ZARRAY, ZATTRS, ZGROUP
from nczfs.model.hierarchy import GroupHeader
from nczfs.zmap.keys import join

log = logging.getLogger(__name__)


class ConsolidatedCopy:
    """Writes ``.zmetadata`` after the documents that it repeats.

    Where there is one, it is kept; where there is none, it is made only on request. The first time
    it is made anew from all documents, because it may have been stale; then it is amended. Where
    several clients write, each puts what the store has now into the newest copy.
    """

    def __init__(self, dataset: Dataset, options: FormatOptions, *, wanted: bool) -> None:
        self._dataset = dataset
        self._options = options
        self._wanted = wanted
        self._is_true = False
        self._is_owed = False

    def distrust(self) -> None:
        """Make it anew at the next `update`, because it may lack what was written."""
        self._is_true, self._is_owed = False, True

    def update(self, written: Iterable[str], leaving: str | None = None) -> None:
        """Bring the copy up to date after some documents were written.

        Parameters
        ----------
        leaving : the path of a node that is about to be removed with all below it.
        """
        keys = list(written)

        def store(_: int) -> None:
            # Others may have written both since we did.
            self._dataset.ask_again([consolidated.KEY, *keys])
            self._update_once(keys, leaving)

        until_stored(store, consolidated.KEY)

    def _update_once(self, keys: list[str], leaving: str | None) -> None:
        documents = self._dataset.documents()
        data = documents.get(consolidated.KEY)
        changes = bool(keys) or leaving is not None
        is_due = changes or self._is_owed if data is not None else self._wanted
        if not is_due:
            return
        version = documents.used[join(self._dataset.root, consolidated.KEY)]
        new = None
        if data is not None and self._is_true:
            new = self._amended(data, keys, leaving, documents)
        if new is None:
            new = self._from_all(leaving)
        if new != data:
            self._dataset.store_document(consolidated.KEY, new, version)
        self._is_true, self._is_owed = True, False

    def _amended(
        self, data: bytes, keys: list[str], leaving: str | None, documents: StoreDocuments
    ) -> bytes | None:
        """The copy with some documents as they are now; None when it cannot be read."""
        try:
            newest = {key: documents.get(key) for key in keys}
            if leaving is not None:
                known = consolidated.read_consolidated(data, self._options).documents
                newest |= dict.fromkeys(key for key in known if key.startswith(f"{leaving}/"))
            return consolidated.updated_document(data, newest, self._options)
        except MetadataError as error:
            log.warning("%s/%s: it will be written again", documents.place, error)
            return None

    def _from_all(self, leaving: str | None) -> bytes:
        self._dataset.ask_again()
        documents = self._dataset.documents()
        found: dict[str, bytes] = {}
        pending = [""]
        while pending:
            path = pending.pop()
            for name in (ZGROUP, ZARRAY, ZATTRS):
                data = documents.get(below(path, name))
                if data is not None:
                    found[below(path, name)] = data
            loaded = self._dataset.load(path)
            if loaded is not None and isinstance(loaded.node, GroupHeader):
                nodes, _ = self._dataset.members(path)
                pending += [node.path for node in reversed(nodes) if node.path != leaving]
        return consolidated.consolidated_document(found)
