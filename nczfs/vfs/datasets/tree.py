"""The tree ``datasets/``: the known datasets of a store, and their changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nczfs.engine.chunks.loaded import Footprint
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.coordinates import fetch_coordinates
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.ledger import Shelf
from nczfs.engine.spool.space import Spool
from nczfs.errors import CorruptStore, NczfsError, NoSuchObject, NoSuchPath, NotPermitted
from nczfs.formats.base import FormatOptions
from nczfs.library.known import KnownDatasets
from nczfs.library.resolved import Plain, Resolved
from nczfs.model.hierarchy import Variable
from nczfs.pictures.picture import is_available
from nczfs.vfs.datasets.access import AccessLog
from nczfs.vfs.datasets.arrivals import Arrivals
from nczfs.vfs.datasets.choice import Choice
from nczfs.vfs.datasets.editing import TreeEditing
from nczfs.vfs.datasets.heldfiles import HeldFiles
from nczfs.vfs.datasets.hierarchies import Hierarchies
from nczfs.vfs.datasets.importing import GroupImport, ImportOptions
from nczfs.vfs.datasets.netcdfversions import NetcdfVersions
from nczfs.vfs.datasets.refusals import Refusals
from nczfs.vfs.datasets.running import RunningImports
from nczfs.vfs.datasets.viewfile import ViewContext
from nczfs.vfs.nodes import OpenFile
from nczfs.views.catalog import CDL_SUFFIX, ZOM
from nczfs.views.netcdf.formats import NetcdfFiles
from nczfs.views.netcdf.kinds import NETCDF_SUFFIXES
from nczfs.zmap import keys
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix, relative
from nczfs.zmap.zip.store import KeptArchives, OpenArchive

log = logging.getLogger(__name__)

ARCHIVES_KEPT = 64


class DatasetsTree:
    """The shared state of the tree over one store; a zip archive has its own tree.

    `_lock` guards the dict of archives, and is not held during requests to the store.

    Parameters
    ----------
    choice : the views to show.
    netcdf : the netCDF files to show.
    open_archive : makes a store of a zip object.
    writable : whether datasets may be changed, if their store can be.
    written : called when values of the node at a prefix were stored, or dropped.
    edited : called when the description or attributes of the node at a prefix were changed.
    removed : called when something at a path of the store disappears, or reappears.
    renamed : called when something moved from the first prefix to the second.
    may_remove : whether non-empty nodes may be removed.
    imports : the form of what is imported.
    spool : for files that are being copied into datasets; None: that is off.

    Attributes
    ----------
    held : files that are kept on this machine for now; None: there can be none.
    times : when directories were made here.
    running : the imports under way.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        engine: Engine,
        options: FormatOptions,
        access_log: AccessLog,
        mtime_ns: int,
        choice: Choice,
        netcdf: NetcdfFiles,
        open_archive: Callable[[ZMap, Key, KeptArchives], ZMap],
        *,
        writable: bool = False,
        written: Callable[[Prefix, StoredArray], None] = lambda *_: None,
        edited: Callable[[Prefix], None] = lambda _: None,
        removed: Callable[[Prefix], None] = lambda _: None,
        renamed: Callable[[Prefix, Prefix], None] = lambda *_: None,
        may_remove: bool = False,
        imports: ImportOptions | None = None,
        spool: Spool | None = None,
    ) -> None:
        self.metadata = metadata
        self.engine = engine
        self.imports = imports or ImportOptions()
        self.running = RunningImports()
        self.editing = None
        if writable:
            self.editing = TreeEditing(
                engine, metadata, options, written, self._went, may_remove=may_remove
            )
        self.removing = self.editing.removing if self.editing is not None else None
        self._removed = removed
        self._renamed = renamed
        self.arrivals = None
        self.held: HeldFiles | None = None
        if self.removing is not None and spool is not None and choice.is_for_copies:
            self.held = self.arrivals = Arrivals(self.removing.hidden, spool)
        elif self.editing is not None and spool is not None:
            self.held = HeldFiles(spool)
        self.known = KnownDatasets(engine, metadata, options, edited)
        self.context = ViewContext(
            engine,
            metadata.ttl_s,
            metadata.is_prompt,
            mtime_ns,
            access_log,
            self._opened,
            Refusals(edited),
            NetcdfVersions(
                engine,
                metadata.ttl_s,
                [form for form in netcdf.formats if choice.has(form.kind.suffix)],
                netcdf.record_dimensions,
            ),
            Hierarchies(engine, metadata.ttl_s, self._replaced, is_shown=choice.has(ZOM)),
            self.editing,
            self.arrivals,
            self._replacement if self.imports.replaces and self.held is not None else None,
            is_available(),
        )
        self.mtime_ns = mtime_ns
        self.times: dict[Prefix, int] = {}
        self.choice = choice
        self._netcdf = netcdf
        self._options = options
        self._open_archive = open_archive
        self._indexes: Shelf[object, OpenArchive] = Shelf(engine.ledger)
        self._lock = threading.Lock()
        self._archives: dict[Key, tuple[object, DatasetsTree | None]] = {}
        self._burst: set[tuple[int, str]] = set()

    def archive(self, key: Key) -> DatasetsTree | None:
        """Return the tree of a zip object that contains a dataset; None: it does not."""
        version = self._archive_version(key)
        with self._lock:
            known = self._archives.get(key)
        if known is not None and known[0] == version:
            return known[1]
        tree = self._new_archive(key)
        with self._lock:
            self._archives[key] = (version, tree)
            while len(self._archives) > ARCHIVES_KEPT:
                self._archives.pop(next(iter(self._archives)))
        return tree

    def importing(self, dataset: Dataset, path: str, stem: str) -> GroupImport | None:
        """Return what takes files into a group; None: nothing can be changed.

        Parameters
        ----------
        stem : of the names of the group's files.
        """
        if self.held is None or self.context.editing_of(dataset) is None:
            return None
        assert self.editing is not None
        return GroupImport(
            self.context,
            self.editing,
            self.held,
            dataset,
            path,
            stem,
            self.imports,
            self.running,
            self._replaced,
        )

    def _replacement(self, dataset: Dataset, path: str, name: str) -> OpenFile:
        """Open a file that takes new content of a group. Raises NotPermitted.

        Parameters
        ----------
        name : of the group's file.
        """
        stem = name.removesuffix(CDL_SUFFIX)
        for suffix in sorted(NETCDF_SUFFIXES, key=len, reverse=True):
            stem = stem.removesuffix(suffix)
        importing = self.importing(dataset, path, stem)
        if importing is not None and importing.can_replace:
            return importing.replacement(name)
        place = f"/{path}/{name}" if path else f"/{name}"
        raise NotPermitted(
            f"{place}: nothing can be replaced in this store; copy the file into an empty group"
        )

    def _replaced(self, prefix: Prefix) -> None:
        """Note that all content of a group was replaced."""
        self.known.forget(prefix)
        self.context.refusals.forget(prefix)
        self.context.netcdf.forget(prefix)
        self.context.hierarchies.forget(prefix)
        if self.removing is not None:
            self.removing.hidden.forget(prefix)
        self._removed(prefix)

    def _opened(self, dataset: Dataset, variable: Variable) -> None:
        """Fetch the coordinates of a variable ahead when its values are first opened."""
        token = (id(dataset), variable.path)
        if token in self._burst:
            return
        self._burst.add(token)
        self.engine.pools.assemble.submit(_burst, dataset, variable)

    @property
    def held_count(self) -> int:
        """The number of files that are kept on this machine for now."""
        return 0 if self.held is None else self.held.count

    def resolve_root(self, prefix: Prefix, wanted: str = "") -> Resolved:
        """Return what begins at a prefix outside all datasets. See `KnownDatasets`."""
        return self.known.resolve_root(prefix, wanted)

    def forget(self, prefix: Prefix) -> None:
        """Forget everything at or below a prefix."""
        self.metadata.forget(prefix)
        self.changed(prefix)

    def evict(self, prefix: Prefix) -> Footprint:
        """Forget the chunks at and below a prefix. Returns what the cache had of them."""
        arrays = self.engine.arrays.within(self.metadata.zmap, prefix)
        freed = sum(map(self.engine.cache.discard, arrays), Footprint())
        with self._lock:
            archives = [(key, tree) for key, (_, tree) in self._archives.items() if tree]
        for key, tree in archives:
            if keys.is_within(key, prefix):
                freed += tree.evict(keys.ROOT)
            elif keys.is_within(prefix, key):
                freed += tree.evict(Prefix(relative(prefix, key)))
        return freed

    def changed(self, prefix: Prefix) -> None:
        """Look again at what is at or below a prefix, whose objects in the store are known."""
        with self._lock:
            self._archives.clear()
        self.known.forget(prefix)
        self.context.refusals.forget(prefix)
        self.context.netcdf.forget(prefix)
        self.context.hierarchies.forget(prefix)
        if self.removing is not None:
            self.removing.forget(prefix)

    def renamed(self, prefix: Prefix, goal: Prefix) -> None:
        """Note that something moved from one prefix in a dataset to another."""
        for path in [path for path in [*self.times] if keys.is_within(path, prefix)]:
            if (made_ns := self.times.pop(path, None)) is not None:
                self.times[Prefix(keys.moved(path, prefix, goal))] = made_ns
        for changed in (prefix, goal):
            self.known.forget_inside(changed)
            self.context.refusals.forget(changed)
        self._renamed(prefix, goal)

    def close(self) -> None:
        """Store pending removals of attributes."""
        if self.held is not None:
            self.held.close()
        if self.editing is not None:
            self.editing.close()

    def sync(self) -> None:
        """Store the pending changes of all datasets."""
        if self.editing is not None:
            self.editing.sync()

    def store_below(self, prefix: Prefix) -> None:
        """Store everything written at or below a prefix, or to datasets around it.

        Raises
        ------
        CodecError, StoreError, MetadataError, DatasetError.
        """
        self.engine.writeback.flush(lambda array: array.is_within(self.metadata.zmap, prefix))
        for dataset in self.engine.changed():
            if keys.is_within(dataset.root, prefix) or keys.is_within(prefix, dataset.root):
                dataset.store()

    def _went(self, prefix: Prefix) -> None:
        """Note that something at a path of the store disappeared, or reappeared."""
        for path in [path for path in [*self.times] if keys.is_within(path, prefix)]:
            self.times.pop(path, None)
        if self.held is not None:
            self.held.forget(prefix)
        self.context.refusals.forget(prefix)
        self._removed(prefix)

    def _archive_version(self, key: Key) -> object:
        prefix, _, name = key.rpartition("/")
        _, entry = self.metadata.known_entry(Prefix(prefix), name)
        if entry is not None and entry.stat is not None:
            return entry.stat.version
        try:
            return self.metadata.zmap.stat(key).version
        except NoSuchObject as error:
            raise NoSuchPath(f"{key}: no such object") from error

    def _new_archive(self, key: Key) -> DatasetsTree | None:
        try:
            zmap = self._open_archive(self.metadata.zmap, key, self._indexes)
        except CorruptStore as error:
            log.info("%s", error)
            return None
        tree = DatasetsTree(
            MetadataCache(zmap, self.engine.options, self.engine.pools, ledger=self.engine.ledger),
            self.engine,
            self._options,
            self.context.access_log,
            self.mtime_ns,
            self.choice,
            self._netcdf,
            self._open_archive,
        )
        return tree if not isinstance(tree.resolve_root(keys.ROOT), Plain) else None


def _burst(dataset: Dataset, variable: Variable) -> None:
    try:
        fetch_coordinates(dataset, variable)
    except NczfsError as error:
        log.info("coordinates of %s are not read ahead: %s", dataset.url(variable.path), error)
