"""Building a file system from a URL: two trees and the control directory over one store."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path

from nczfs import metrics
from nczfs.engine.chunks.loaded import Footprint
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.retrying import newest
from nczfs.engine.spool.space import Spool, Survives, check_spool_dir, default_spool_dir, spool_url
from nczfs.engine.stores import open_store
from nczfs.errors import NamesUnknown, NoSuchPath, StoreError
from nczfs.library.resolved import Plain
from nczfs.messages import counted
from nczfs.plaindata import frozen
from nczfs.tools.recovery import left_of
from nczfs.vfs.appearance import Appearance
from nczfs.vfs.base import Notifier
from nczfs.vfs.control import ControlDirectory, LogFile
from nczfs.vfs.datasets.access import AccessLog
from nczfs.vfs.datasets.choice import Choice
from nczfs.vfs.datasets.flat import FlatDirectory, FlatLayout
from nczfs.vfs.datasets.importing import ImportOptions
from nczfs.vfs.datasets.nodeprefix import node_prefix
from nczfs.vfs.datasets.prefixdirectory import PrefixDirectory
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.ending import Ending, EndNote
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.mountpaths import DATASETS, OBJECTS, FlatPaths, MountPaths, TreePaths
from nczfs.vfs.nodes import Directory, FixedDirectory, TreeNode
from nczfs.vfs.objects import (
    ObjectsDirectory,
    ObjectsOptions,
    ObjectStore,
    ObjectsTree,
    StoredOptions,
)
from nczfs.vfs.unsaved import ending_text
from nczfs.vfs.warming import Warmings
from nczfs.views.netcdf.formats import NetcdfFiles
from nczfs.zmap import keys
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix
from nczfs.zmap.prompt import Prompt
from nczfs.zmap.registry import StoreOptions, archive_in
from nczfs.zmap.url import StoreUrl, parse_url

log = logging.getLogger(__name__)

CONTROL = ".nczfs"


@frozen
class VfsOptions:
    """The options of a mount below FUSE.

    Attributes
    ----------
    engine : caches, limits and threads.
    views : names of the views to show; None shows all.
    lists_previews : whether listings have pictures, too.
    record_dimensions : names of dimensions that are unlimited in netCDF files.
    imports : the form of what is imported from netCDF files and CDL.
    show : "both" trees, only the "views" (``datasets/``) or only the "objects".
    flat : the end of the names of the only views that are shown, as files beside each other; None:
        the usual trees are shown.
    read_only : whether writing is refused, even if the store can do it.
    allow_delete : whether nodes of datasets and attributes can be removed.
    spool_dir : for files that are being written; None: below ``~/.local/state``.
    spool_bytes_max : bytes that may be staged at a time; None: as many as the disk takes.
    survives : what acknowledged writes survive.
    file_mode, dir_mode : permissions; None: the owner's, and reading for all.
    umask : bits removed from the default permissions.
    stored : what `objects/` stores besides bytes.
    log : shown as ``.nczfs/log``.
    end_note : where a program that waits for the end opens what it will have been like.
    config : the effective options for ``.nczfs/config.json``, with secrets masked.
    """

    engine: EngineOptions = field(default_factory=EngineOptions)
    views: frozenset[str] | None = None
    lists_previews: bool = False
    record_dimensions: frozenset[str] = frozenset()
    imports: ImportOptions = field(default_factory=ImportOptions)
    show: str = "both"
    flat: str | None = None
    read_only: bool = True
    allow_delete: bool = False
    spool_dir: Path | None = None
    spool_bytes_max: int | None = None
    survives: Survives = Survives.NOTHING
    uid: int = field(default_factory=os.getuid)
    gid: int = field(default_factory=os.getgid)
    file_mode: int | None = None
    dir_mode: int | None = None
    umask: int = 0
    stored: StoredOptions = field(default_factory=StoredOptions)
    log: LogFile | None = None
    end_note: EndNote | None = None
    config: Mapping[str, object] = field(default_factory=dict)


def mount_tree(
    url: str,
    store_options: StoreOptions | None = None,
    options: VfsOptions | None = None,
    notifier: Notifier | None = None,
) -> TreeFileSystem:
    """Return the file system that shows the store at a URL.

    This asks the store whether a dataset begins at its root, so that an unreachable store is
    noticed before anything is mounted.

    Raises
    ------
    BadUrl, UsageError : the URL names no store. StoreError : it cannot be reached.
    """
    options = options or VfsOptions()
    place = parse_url(url)
    zmap = _opened(place, store_options or StoreOptions(), options.survives)
    spool_dir = options.spool_dir or default_spool_dir()
    if not options.read_only and zmap.features.writable:
        check_spool_dir(spool_dir)
    _tell_of_unsaved(spool_dir, spool_url(place))
    _tell_of_no_effect(options.stored, zmap)
    spool = Spool(spool_dir, spool_url(place), options.spool_bytes_max, options.survives)
    return _Mounted(place, zmap, spool, options, notifier).filesystem


class _Mounted:
    """A store as a file system, and what its parts tell each other.

    Parameters
    ----------
    notifier : of the kernel, which is to forget what has changed.
    """

    def __init__(
        self,
        place: StoreUrl,
        zmap: ZMap,
        spool: Spool,
        options: VfsOptions,
        notifier: Notifier | None,
    ) -> None:
        self._url = place.text
        self._zmap = zmap
        self._spool = spool
        self._end_note = options.end_note
        self._read_only = options.read_only or not zmap.features.writable
        self._began_ns = time.time_ns()
        self._engine = Engine(options.engine, spool)
        self._engine.cache.claim(zmap.memory_bytes)
        self._metadata = MetadataCache(
            zmap, self._engine.options, self._engine.pools, ledger=self._engine.ledger
        )
        self._access_log = AccessLog()
        self._netcdf = NetcdfFiles(
            options.record_dimensions, options.engine.cache_dir, options.engine.memory_limit_bytes
        )
        self._datasets = self._datasets_tree(place, options)
        self._root = PrefixDirectory(self._datasets, keys.ROOT, place.last_word)
        self._warmings = Warmings(self._engine, self._shown_at)
        is_dataset = not isinstance(self._datasets.resolve_root(keys.ROOT), Plain)
        paths = TreePaths if options.flat is None else FlatPaths
        self._paths: MountPaths = paths(place.last_word, is_dataset)
        if not is_dataset:
            _tell_of_unknown_names(zmap)
            _tell_of_nothing(place, self._metadata, read_only=self._read_only)
            if not self._metadata.far:
                self._datasets.known.look_for_unfinished()
        file_mode, dir_mode = _modes(options, read_only=self._read_only)
        self._objects = self._objects_tree(options.stored, file_mode, dir_mode)
        self.filesystem = TreeFileSystem(
            self._top(place.last_word, options, is_dataset=is_dataset),
            Appearance(
                uid=options.uid,
                gid=options.gid,
                file_mode=file_mode,
                dir_mode=dir_mode,
                attr_ttl_s=self._metadata.ttl_s,
                own_modes=options.stored.keep_times,
            ),
            read_only=self._read_only,
            pages_ttl_s=0.0 if self._metadata.is_prompt else self._metadata.ttl_s,
            forget=self._forget,
            sync=_steps(self._engine.writeback.flush, self._datasets.sync, zmap.flush),
            commit=zmap.flush,
            capacity=zmap.capacity,
            ending_text=lambda: ending_text(self._status()),
            expect_end=_steps(self._warmings.end, self._datasets.running.end),
            save=self._engine.writeback.save,
            end=_steps(self._datasets.close, self._engine.writeback.close),
            ending=self._ending,
            close=_steps(
                self._warmings.close,
                self._netcdf.close,
                self._engine.close,
                spool.close,
                zmap.close,
            ),
            notifier=notifier,
            directories_last=self._datasets.choice.is_for_copies,
        )

    def _datasets_tree(self, place: StoreUrl, options: VfsOptions) -> DatasetsTree:
        return DatasetsTree(
            self._metadata,
            self._engine,
            format_options(place.modes, self._engine.options),
            self._access_log,
            self._began_ns,
            Choice(options.views, options.lists_previews),
            self._netcdf,
            lambda source, key, kept: archive_in(source, key, kept=kept),
            writable=not options.read_only,
            written=self._written,
            edited=self._edited,
            removed=self._removed,
            renamed=self._renamed,
            may_remove=options.allow_delete,
            imports=options.imports,
            spool=self._spool,
        )

    def _objects_tree(self, stored: StoredOptions, file_mode: int, dir_mode: int) -> ObjectsTree:
        store = ObjectStore(
            self._metadata,
            self._engine.pools,
            self._spool,
            self._changed,
            self._lost,
            self._datasets.store_below,
            self._engine.arrays.gate,
            stored,
        )
        options = ObjectsOptions(self._read_only, file_mode, dir_mode)
        return ObjectsTree(store, self._engine, options, self._began_ns)

    def _top(self, name: str, options: VfsOptions, *, is_dataset: bool) -> Directory:
        datasets: Directory = self._root
        if is_dataset:
            datasets = FixedDirectory({name: datasets}, self._began_ns)
        control = ControlDirectory(
            mtime_ns=self._began_ns,
            status=self._status,
            config=options.config,
            log=options.log,
            access=self._access_log.content,
            refresh=self._refresh,
            warm=self._warmings.begin,
            flush=lambda: self.filesystem.sync(),
        )
        if options.flat is not None:
            layout = FlatLayout(self._datasets, options.flat)
            return FlatDirectory(layout, datasets, keys.ROOT, {CONTROL: control})
        entries: dict[str, TreeNode] = {}
        if options.show != "views":
            entries[OBJECTS] = ObjectsDirectory(self._objects, keys.ROOT, renames=0)
        if options.show != "objects":
            entries[DATASETS] = datasets
        entries[CONTROL] = control
        return FixedDirectory(entries, self._began_ns)

    def _edited(self, prefix: Prefix) -> None:
        self._forget_files(prefix)

    def _written(self, prefix: Prefix, array: StoredArray) -> None:
        for path in self._paths.of_node(prefix):
            self.filesystem.kernel.forget_content(path)
        self.filesystem.kernel.forget_showing(array)

    def _removed(self, prefix: Prefix) -> None:
        for path in (*self._paths.of_node(prefix), *self._paths.of_object(prefix)):
            self.filesystem.kernel.forget_below(path)
        self._forget_files(prefix)

    def _renamed(self, *prefixes: Prefix) -> None:
        for prefix in prefixes:
            for path in self._paths.of_object(prefix):
                self.filesystem.kernel.forget_below(path)
        self._forget_files(Prefix(prefixes[0].rpartition("/")[0]))

    def _changed(self, key: str) -> None:
        """Look again at the node that an object belongs to, because the object changed."""
        node = node_prefix(key)
        self._datasets.changed(Prefix(node))
        for path in self._paths.of_node(node):
            self.filesystem.kernel.forget_below(path)

    def _lost(self, key: str) -> None:
        for path in self._paths.of_object(key):
            self.filesystem.kernel.forget_below(path)

    def _forget_files(self, prefix: Prefix) -> None:
        """Make the kernel ask again for the files that show a node."""
        for path in self._paths.of_node(prefix):
            if self._paths.is_flat:
                self.filesystem.kernel.forget_below(path)
            else:
                self.filesystem.kernel.forget_files(path)

    def _refresh(self, path: str) -> Footprint:
        """Forget what is cached of a path. Returns what the chunk cache had of it."""
        prefixes = [keys.parse_prefix(found) for found in self._paths.in_store(path)]
        freed = sum((self._datasets.evict(prefix) for prefix in prefixes), Footprint())
        self.filesystem.refresh(path)
        for prefix in prefixes:
            for shown in (*self._paths.of_node(prefix), *self._paths.of_object(prefix)):
                self.filesystem.kernel.forget_absence(shown)
        self._engine.cache.give_back()
        return freed

    def _shown_at(self, path: str) -> PrefixDirectory:
        """Return the directory that shows a path as data, or would with the other layout.

        Raises
        ------
        NoSuchPath : there is none. MetadataError, StoreError.
        """
        plain = None
        for prefix in self._paths.in_store(path):
            node: TreeNode = self._root
            try:
                for word in keys.parse_prefix(prefix).split("/") if prefix else ():
                    node = node.lookup(word) if isinstance(node, PrefixDirectory) else node
            except NoSuchPath:
                continue
            if isinstance(node, PrefixDirectory):
                if not isinstance(node.resolve(), Plain):
                    return node
                plain = plain or node
        if plain is None:
            raise NoSuchPath(f"{path}: no group or variable is there")
        return plain

    def _forget(self, path: str) -> Callable[[str], bool]:
        prefixes = [keys.parse_prefix(found) for found in self._paths.in_store(path)]
        for prefix in prefixes:
            self._datasets.forget(prefix)
        return lambda other: any(self._paths.shows(other, prefix) for prefix in prefixes)

    def _ending(self) -> Ending:
        spool = self._spool.directory
        lost = [*self._engine.lost(), *self._spool.lost]
        return Ending(str(spool) if spool.is_dir() else "", tuple(lost))

    def _status(self) -> Mapping[str, object]:
        engine, features = self._engine, self._zmap.features
        trouble = newest((engine.trouble, self._objects.files.trouble))
        pause_s = None if trouble is None else trouble.pause_s
        return {
            "pid": os.getpid(),
            "url": self._url,
            "store": self._zmap.name,
            "started": self._began_ns / 1e9,
            "uptime_s": round(time.time() - self._began_ns / 1e9, 3),
            "read_only": self._read_only,
            "dirty_bytes": engine.writeback.dirty_bytes,
            "unsaved_chunks": engine.writeback.unsaved,
            "unsaved_metadata": len(engine.changed()),
            "unsaved_files": self._objects.files.unsaved_count,
            "last_error": None if trouble is None else trouble.error,
            "silent_s": round(self._zmap.silent_s, 3),
            "next_attempt_s": None if pause_s is None else round(pause_s, 3),
            "imports": self._datasets.running.status(),
            "warming": self._warmings.status(),
            "waiting_imports": self._datasets.held_count,
            "end_note": None if self._end_note is None else self._end_note.path,
            "spool": str(self._spool.directory),
            "spooled": self._spool.kept_count,
            "spool_used_bytes": self._spool.bytes_used,
            "features": {name: getattr(features, name) for name in features.__dataclass_fields__},
            "leases": [asdict(lease) for lease in engine.leases.held()],
            "memory_limit_bytes": engine.cache.limit_bytes,
            "memory_used_bytes": engine.cache.used_bytes,
            "disk_used_bytes": engine.cache.disk_bytes,
            "open_files": self.filesystem.open_files,
            "inodes": len(self.filesystem.inodes),
            "hidden_keys": metrics.value("nczfs_hidden_keys_total"),
        }


def _opened(place: StoreUrl, options: StoreOptions, survives: Survives) -> ZMap:
    """Open the store so that what leaves a journal is durable in it."""
    if survives is Survives.POWER:
        options = replace(options, durable=True)
    zmap = open_store(place, options)
    return zmap if survives is Survives.NOTHING else Prompt(zmap)


def _tell_of_unsaved(spool_dir: Path, url: str) -> None:
    left = left_of(spool_dir, url)
    if unsaved := sum(not found.is_leftover for found in left):
        log.warning(
            "%s: %d pieces of what was written in an earlier mount are not stored: `nczfs recover` "
            "puts them back, `nczfs recover --list` shows them",
            url,
            unsaved,
        )
    if incomplete := len(left) - unsaved:
        log.info(
            "%s: an earlier mount was killed while programs had %s open for writing; the store has "
            "what fsync had acknowledged: `nczfs recover --list` shows what was written, --discard "
            "removes it",
            url,
            counted(incomplete, "file"),
        )


def _tell_of_unknown_names(zmap: ZMap) -> None:
    """Log that a web server names nothing at the URL, which may be misspelled."""
    if zmap.features.lists_all:
        return
    try:
        next(iter(zmap.search(keys.ROOT)), None)
    except NamesUnknown as error:
        log.warning(
            "%s; the mount lists nothing, and only files whose names are known can be opened", error
        )
    except StoreError as error:  # about the first name, not about the server
        log.warning("%s", error)


def _tell_of_nothing(place: StoreUrl, metadata: MetadataCache, *, read_only: bool) -> None:
    """Log that a prefix of a bucket has no keys: it is new, or misspelled."""
    if not (metadata.far and place.prefix) or metadata.has_keys(keys.ROOT):
        return
    remedy = "`nczfs ls` shows what is in the bucket"
    if not read_only:
        remedy += ", `nczfs create` makes a new dataset (nczfs create --help)"
    log.warning(
        "%s: no key begins with %s/, so the mount is empty; is the name right? %s",
        place.text,
        place.prefix,
        remedy,
    )


def _tell_of_no_effect(stored: StoredOptions, zmap: ZMap) -> None:
    if stored.keep_times and not zmap.features.keeps_times:
        log.warning("%s: --keep-times has no effect here: this store keeps no times", zmap.name)
    if stored.directory_markers and not zmap.features.markers:
        log.warning(
            "%s: --directory-markers has no effect here: this store has no markers", zmap.name
        )


def _modes(options: VfsOptions, *, read_only: bool) -> tuple[int, int]:
    """Return the permissions of files and of directories."""
    owner = 0 if read_only else 0o200
    file_mode, dir_mode = options.file_mode, options.dir_mode
    if file_mode is None:
        file_mode = (0o444 | owner) & ~options.umask
    if dir_mode is None:
        dir_mode = (0o555 | owner) & ~options.umask
    return file_mode, dir_mode


def _steps(*steps: Callable[[], None]) -> Callable[[], None]:
    def take() -> None:
        for step in steps:
            step()

    return take
