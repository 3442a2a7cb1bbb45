"""The datasets of a store that were looked at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nczfs.engine.array import now
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata import MetadataCache
from nczfs.errors import MetadataError, NczfsError
from nczfs.formats.base import FormatOptions
from nczfs.model.hierarchy import Variable
from nczfs.vfs.editing import Editing
from nczfs.vfs.leaves import At, Broken, Plain, Resolved
from nczfs.zmap.keys import Prefix

log = logging.getLogger(__name__)

DATASETS_KEPT = 10_000
REPORTED_MAX = 10_000


class KnownDatasets:
    """The datasets by their prefixes, opened when first asked for, and what stands in them.

    `_lock` guards the dict, and is not held while the store is asked.

    Parameters
    ----------
    editing : what changes them; None where nothing may be changed.
    edited : called when what stands at a prefix was changed.
    """

    def __init__(
        self,
        engine: Engine,
        metadata: MetadataCache,
        options: FormatOptions,
        editing: Editing | None,
        edited: Callable[[Prefix], None],
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._options = options
        self._editing = editing
        self._edited = edited
        self._lock = threading.Lock()
        self._datasets: dict[Prefix, tuple[Dataset | Broken | None, float]] = {}
        self._reported: set[str] = set()

    def resolve_root(self, prefix: Prefix) -> Resolved:
        """What begins at a prefix that is not inside a dataset."""
        dataset = self._dataset_at(prefix)
        if isinstance(dataset, Broken):
            return dataset
        return self.resolve(dataset, "") if dataset is not None else Plain()

    def resolve(self, dataset: Dataset, path: str) -> Resolved:
        """What is at a path of a dataset."""
        try:
            loaded = dataset.load_listed(path)
        except MetadataError as error:
            return self._broken(path, error)
        if loaded is None:
            return Plain()
        if isinstance(loaded.node, Variable):
            dataset.array(loaded.node)  # files that are open follow it when it grows
        return At(dataset, path, loaded)

    def forget(self, prefix: Prefix) -> None:
        """Ask anew for the datasets at or below a prefix, or around it; nothing unwritten goes."""
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            datasets = list(self._datasets.items())
        for root, (dataset, _) in datasets:
            inside = root == prefix or root.startswith(below)
            holds = not root or prefix.startswith(f"{root}/")
            if isinstance(dataset, Dataset) and (inside or holds):
                if not self._is_stored(dataset):
                    continue
                dataset.forget("" if inside else prefix[len(root) :].lstrip("/"))
            if inside or not isinstance(dataset, Dataset):
                with self._lock:
                    self._datasets.pop(root, None)

    def made(self, prefix: Prefix) -> None:
        """A dataset was made where none was."""
        with self._lock:
            self._datasets.pop(prefix, None)

    def _is_stored(self, dataset: Dataset) -> bool:
        """Whether nothing that was written is lost when a dataset is forgotten."""
        if self._editing is None:
            return True
        try:
            self._editing.store_all(dataset)
        except NczfsError as error:
            log.warning("%s: is kept as it is: %s", dataset.url(""), error)
            return False
        return True

    def _dataset_at(self, prefix: Prefix) -> Dataset | Broken | None:
        known = self._datasets.get(prefix)
        if known is not None:
            dataset, checked_at = known
            if isinstance(dataset, Dataset):
                try:
                    if dataset.load("") is not None:
                        return dataset
                except MetadataError as error:
                    return self._broken("", error)
            elif now() - checked_at < self._metadata.ttl_s:
                return dataset
        found: Dataset | Broken | None
        try:
            found = open_dataset(
                self._engine, self._metadata, prefix, self._options, edited=self._edited
            )
        except MetadataError as error:
            found = self._broken("", error)
        with self._lock:
            self._datasets[prefix] = (found, now())
            while len(self._datasets) > DATASETS_KEPT:
                self._datasets.pop(next(iter(self._datasets)))
        return found

    def _broken(self, path: str, error: MetadataError) -> Broken:
        """A broken node; the log says so once."""
        problem = str(error)
        if problem not in self._reported and len(self._reported) < REPORTED_MAX:
            self._reported.add(problem)
            log.warning("%s", problem)
        return Broken(path, problem)
