"""The known datasets of a store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from nczfs.engine.arrays.array import now
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.rootformat import format_at
from nczfs.errors import MetadataError
from nczfs.formats.base import FormatOptions
from nczfs.library.resolved import At, Broken, Plain, Resolved
from nczfs.model.hierarchy import Variable
from nczfs.zmap.keys import Prefix, is_within

log = logging.getLogger(__name__)

DATASETS_KEPT = 10_000
REPORTED_MAX = 10_000


class KnownDatasets:
    """The datasets by their prefixes, opened on first use, and their nodes.

    There is one `Dataset` for a prefix as long as anything holds it, however often it is read anew,
    because it has the unsaved changes. `_lock` guards the dicts, and is not held during requests to
    the store.

    Parameters
    ----------
    edited : called when the node at a prefix was changed.
    """

    def __init__(
        self,
        engine: Engine,
        metadata: MetadataCache,
        options: FormatOptions,
        edited: Callable[[Prefix], None],
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._options = options
        self._edited = edited
        self._lock = threading.Lock()
        self._datasets: dict[Prefix, tuple[Dataset | Broken | None, float]] = {}
        self._living: WeakValueDictionary[Prefix, Dataset] = WeakValueDictionary()
        self._reported: set[str] = set()

    def resolve_root(self, prefix: Prefix, wanted: str = "") -> Resolved:
        """Return what begins at a prefix outside all datasets.

        Parameters
        ----------
        wanted : a name below it that will be needed next.
        """
        dataset = self._dataset_at(prefix, wanted)
        if isinstance(dataset, Broken):
            return dataset
        return self.resolve(dataset, "") if dataset is not None else Plain()

    def resolve(self, dataset: Dataset, path: str) -> Resolved:
        """Return what is at a path of a dataset."""
        try:
            loaded = dataset.load_listed(path)
        except MetadataError as error:
            return self._broken(path, error)
        if loaded is None:
            return Plain()
        if isinstance(loaded.node, Variable):
            dataset.array(loaded.node)  # open files follow it when it grows
        return At(dataset, path, loaded.to_hold)

    def forget(self, prefix: Prefix) -> None:
        """Read the datasets at, below or around a prefix anew.

        Open files stay usable, and unsaved changes are kept.
        """
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            datasets = list(self._datasets.items())
        for root, (dataset, _) in datasets:
            inside = root == prefix or root.startswith(below)
            holds = not root or prefix.startswith(f"{root}/")
            if isinstance(dataset, Dataset) and (inside or holds):
                dataset.forget("" if inside else prefix[len(root) :].lstrip("/"))
            if inside or not isinstance(dataset, Dataset):
                with self._lock:
                    self._datasets.pop(root, None)

    def forget_inside(self, prefix: Prefix) -> None:
        """Read the datasets at or below a prefix anew, except the one that contains it."""
        with self._lock:
            for root in [root for root in self._datasets if is_within(root, prefix)]:
                del self._datasets[root]

    def made(self, prefix: Prefix) -> None:
        """Note a new dataset."""
        with self._lock:
            self._datasets.pop(prefix, None)

    def _dataset_at(self, prefix: Prefix, wanted: str) -> Dataset | Broken | None:
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
            found = self._opened(prefix, wanted)
        except MetadataError as error:
            found = self._broken("", error)
        with self._lock:
            self._datasets[prefix] = (found, now())
            while len(self._datasets) > DATASETS_KEPT:
                self._datasets.pop(next(iter(self._datasets)))
        return found

    def _opened(self, prefix: Prefix, wanted: str) -> Dataset | None:
        """Return the dataset at a prefix as stored now; the known object, if it is alive."""
        living = self._living.get(prefix)
        found = format_at(
            self._metadata,
            prefix,
            self._options,
            reads_consolidated=living is None or living.reads_consolidated,
            is_listed=True,
            wanted=wanted,
        )
        if found is None:
            return None
        with self._lock:
            living = self._living.get(prefix)
            if living is None:
                living = self._living[prefix] = Dataset(
                    self._engine, self._metadata, prefix, found, self._options, self._edited
                )
                return living
        living.read_as(found)
        return living

    def _broken(self, path: str, error: MetadataError) -> Broken:
        """Return a broken node, which is logged once."""
        problem = str(error)
        if problem not in self._reported and len(self._reported) < REPORTED_MAX:
            self._reported.add(problem)
            log.warning("%s", problem)
        return Broken(path, problem)
