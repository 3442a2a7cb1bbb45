"""The known datasets of a store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from weakref import WeakValueDictionary

from nczfs.engine.arrays.array import now
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.rootformat import format_at
from nczfs.engine.structure.ownership import REPLACING, UNFINISHED, unfinished_text
from nczfs.engine.structure.replacing import complete_left
from nczfs.engine.structure.stepwise import Stepwise
from nczfs.errors import MetadataError
from nczfs.formats.base import FormatOptions
from nczfs.library.completing import LeftReplacements
from nczfs.library.reports import Reports
from nczfs.library.resolved import At, Broken, Plain, Resolved
from nczfs.model.hierarchy import Variable
from nczfs.zmap.keys import ROOT, Key, Prefix, is_within, join, relative

DATASETS_KEPT = 10_000
LOOKED_AT_FIRST = 1000


@dataclass(slots=True, eq=False)
class _Look:
    """A look under way at what begins at a prefix.

    Attributes
    ----------
    is_overtaken : whether something has changed there since it began.
    """

    prefix: Prefix
    is_overtaken: bool = False


class KnownDatasets:
    """The datasets by their prefixes, opened on first use, and their nodes.

    There is one `Dataset` for a prefix as long as anything holds it, however often it is read anew,
    because it has the unsaved changes. `_lock` guards the dicts and the looks under way, and is
    not held during requests to the store. An answer that a change overtakes is not kept.

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
        self._looks: list[_Look] = []
        self._living: WeakValueDictionary[Prefix, Dataset] = WeakValueDictionary()
        self._reports = Reports()
        self._left = LeftReplacements(self._completed)

    def resolve_root(self, prefix: Prefix, wanted: str = "") -> Resolved:
        """Return what begins at a prefix outside all datasets.

        Parameters
        ----------
        wanted : a name below it that will be needed next.
        """
        nodes = self._engine.arrays.nodes
        if nodes.moving and nodes.is_leaving(self._metadata.zmap, prefix):
            return Plain()  # a group that is being renamed is no dataset of its own
        dataset = self._dataset_at(prefix, wanted)
        if isinstance(dataset, Broken):
            return dataset
        return self.resolve(dataset, "") if dataset is not None else Plain()

    def resolve(self, dataset: Dataset, path: str) -> Resolved:
        """Return what is at a path of a dataset."""
        place = join(dataset.root, path) if path else dataset.root
        try:
            loaded = dataset.load_listed(path)
        except MetadataError as error:
            return self._broken(place, path, error)
        self._reports.passed(place)
        if path and self._metadata.far and self._is_being_replaced(Prefix(place)):
            self._left.found(Prefix(place), partial(complete_left, dataset, path))
        if loaded is None:
            return Plain()
        if isinstance(loaded.node, Variable):
            dataset.array(loaded.node)  # open files follow it when it grows
        return At(dataset, path, loaded.to_hold)

    def forget(self, prefix: Prefix) -> None:
        """Read the datasets at, below or around a prefix again.

        Open files stay usable, and unsaved changes are kept.
        """
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            self._overtake(prefix)
            datasets = list(self._datasets.items())
        for root, (dataset, _) in datasets:
            inside = root == prefix or root.startswith(below)
            holds = not root or prefix.startswith(f"{root}/")
            if isinstance(dataset, Dataset) and (inside or holds):
                dataset.forget("" if inside else relative(prefix, root))
            if inside or not isinstance(dataset, Dataset):
                with self._lock:
                    self._datasets.pop(root, None)

    def forget_inside(self, prefix: Prefix) -> None:
        """Read the datasets at or below a prefix again, except the one that contains it."""
        with self._lock:
            self._overtake(prefix)
            for root in [root for root in self._datasets if is_within(root, prefix)]:
                del self._datasets[root]

    def has_seen(self, prefix: Prefix) -> bool:
        """Return whether it was looked at what begins at a prefix. Makes no request."""
        return prefix in self._datasets or prefix in self._living

    def made(self, prefix: Prefix) -> None:
        """Note a new dataset."""
        with self._lock:
            self._overtake(prefix)
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
                    return self._broken(prefix, "", error)
            elif now() - checked_at < self._metadata.ttl_s:
                return dataset
        found: Dataset | Broken | None
        with self._looking(prefix) as look:
            try:
                found = self._opened(prefix, wanted)
            except MetadataError as error:
                found = self._broken(prefix, "", error)
            with self._lock:
                if not look.is_overtaken:
                    self._datasets[prefix] = (found, now())
                    while len(self._datasets) > DATASETS_KEPT:
                        self._datasets.pop(next(iter(self._datasets)))
        return found

    @contextmanager
    def _looking(self, prefix: Prefix) -> Iterator[_Look]:
        look = _Look(prefix)
        with self._lock:
            self._looks.append(look)
        try:
            yield look
        finally:
            with self._lock:
                self._looks.remove(look)

    def _overtake(self, prefix: Prefix) -> None:
        """Note a change at or below a prefix. The caller has `_lock`."""
        for look in self._looks:
            if is_within(look.prefix, prefix) or is_within(prefix, look.prefix):
                look.is_overtaken = True

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
        if self._is_being_replaced(prefix):
            steps = Stepwise(self._metadata.zmap, prefix, self._engine.leases)
            self._left.found(prefix, steps.complete)
        if found is None:
            if not self._is_unfinished(prefix):
                self._reports.passed(prefix)
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

    def look_for_unfinished(self) -> None:
        """Log which of the first prefixes of the store are unfinished, if no round trip is needed.

        The others are logged when they are first looked at.
        """
        for entry in islice(self._metadata.zmap.search(ROOT), LOOKED_AT_FIRST):
            if entry.is_prefix:
                self._is_unfinished(Prefix(entry.name))

    def _is_unfinished(self, prefix: Prefix) -> bool:
        """Return whether a prefix is known as unfinished, which is then logged."""
        is_unfinished = self._metadata.shows(join(prefix, UNFINISHED))
        if is_unfinished:
            place = "/".join(part for part in (self._metadata.zmap.name, prefix) if part)
            self._reports.failed(prefix, unfinished_text(place))
        return is_unfinished

    def _is_being_replaced(self, prefix: Prefix) -> bool:
        """Return whether a prefix is known as being replaced, and can be written to."""
        is_writable = self._metadata.zmap.features.writable
        return is_writable and self._metadata.shows(join(prefix, REPLACING))

    def _completed(self, prefix: Prefix) -> None:
        self._metadata.forget(prefix)
        self._metadata.changed(Key(prefix))
        self.forget(prefix)
        self._edited(prefix)

    def _broken(self, place: str, path: str, error: MetadataError) -> Broken:
        problem = str(error)
        self._reports.failed(place, problem)
        return Broken(path, problem)
