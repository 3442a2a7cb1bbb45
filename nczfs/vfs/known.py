"""The datasets of a store that were looked at."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from nczfs.engine.array import now
from nczfs.engine.dataset import Dataset, Engine, format_at
from nczfs.engine.metadata import MetadataCache
from nczfs.errors import MetadataError
from nczfs.formats.base import FormatOptions
from nczfs.model.hierarchy import Variable
from nczfs.vfs.resolved import At, Broken, Plain, Resolved
from nczfs.zmap.keys import Prefix, is_within

log = logging.getLogger(__name__)

DATASETS_KEPT = 10_000
REPORTED_MAX = 10_000


class KnownDatasets:
    """The datasets by their prefixes, opened when first asked for, and what stands in them.

    There is one `Dataset` of a prefix as long as anybody holds it, however often it is looked at
    anew: it has what is not stored yet. `_lock` guards the dicts, and is not held while the store
    is asked.

    Parameters
    ----------
    edited : called when what stands at a prefix was changed.
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
        """What begins at a prefix that is not inside a dataset.

        Parameters
        ----------
        wanted : a name below it that will be asked for next.
        """
        dataset = self._dataset_at(prefix, wanted)
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
        """Look anew at the datasets at or below a prefix, or around it.

        Who has something of them open goes on, and what is not stored yet stays.
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
        """Look anew at the datasets at or below a prefix, but for the one that it is in."""
        with self._lock:
            for root in [root for root in self._datasets if is_within(root, prefix)]:
                del self._datasets[root]

    def made(self, prefix: Prefix) -> None:
        """A dataset was made where none was."""
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
        """The dataset at a prefix, as the store describes it now: the known one, if it lives."""
        living = self._living.get(prefix)
        found = format_at(
            self._metadata,
            prefix,
            self._options,
            is_consolidated_believed=living is None or living.is_consolidated_believed,
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
        """A broken node; the log says so once."""
        problem = str(error)
        if problem not in self._reported and len(self._reported) < REPORTED_MAX:
            self._reported.add(problem)
            log.warning("%s", problem)
        return Broken(path, problem)
