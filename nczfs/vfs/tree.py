"""Building a file system from a URL: two trees and the control directory over one store."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from nczfs import metrics
from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.retrying import newest
from nczfs.engine.spool.place import spool_url
from nczfs.engine.spool.space import Spool, Survives, check_spool_dir, default_spool_dir
from nczfs.errors import BadKey
from nczfs.tools.recovery import left_of
from nczfs.vfs.appearance import Appearance
from nczfs.vfs.base import Notifier
from nczfs.vfs.control import ControlDirectory
from nczfs.vfs.datasets.access import AccessLog
from nczfs.vfs.datasets.choice import Choice
from nczfs.vfs.datasets.nodeprefix import node_prefix
from nczfs.vfs.datasets.prefixdirectory import PrefixDirectory
from nczfs.vfs.datasets.resolved import Plain
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.filesystem import TreeFileSystem
from nczfs.vfs.nodes import Directory, FixedDirectory, Node
from nczfs.vfs.objects import (
    ObjectsDirectory,
    ObjectsOptions,
    ObjectStore,
    ObjectsTree,
    StoredOptions,
)
from nczfs.zmap import keys
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix
from nczfs.zmap.prompt import Prompt
from nczfs.zmap.registry import StoreOptions, archive_in, open_store
from nczfs.zmap.url import StoreUrl, parse_url

log = logging.getLogger(__name__)

OBJECTS, DATASETS, CONTROL = "objects", "datasets", ".nczfs"


@dataclass(frozen=True, slots=True)
class VfsOptions:
    """The options of a mount below FUSE.

    Attributes
    ----------
    engine : caches, limits and threads.
    views : names of the views to show; None shows all.
    show : "both" trees, only the "views" (``datasets/``) or only the "objects".
    read_only : whether writing is refused, even if the store can do it.
    allow_delete : whether nodes of datasets and attributes can be removed.
    spool_dir : for files that are being written; None: below ``~/.local/state``.
    spool_bytes_max : bytes that may be staged at a time; None: as many as the disk takes.
    survives : what acknowledged writes survive.
    file_mode, dir_mode : permissions; None: the owner's, and reading for all.
    umask : bits removed from the default permissions.
    stored : what `objects/` stores besides bytes.
    log : the log file, shown as ``.nczfs/log``.
    config : the effective options for ``.nczfs/config.json``, with secrets masked.
    """

    engine: EngineOptions = field(default_factory=EngineOptions)
    views: frozenset[str] | None = None
    show: str = "both"
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
    log: Path | None = None
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
    parsed = parse_url(url)
    zmap = _opened(parsed, store_options or StoreOptions(), options.survives)
    read_only = options.read_only or not zmap.features.writable
    spool_dir = options.spool_dir or default_spool_dir()
    if not read_only:
        check_spool_dir(spool_dir)
    _tell_of_unsaved(spool_dir, spool_url(parsed))
    _tell_of_no_effect(options.stored, zmap)
    spool = Spool(spool_dir, spool_url(parsed), options.spool_bytes_max, options.survives)
    engine = Engine(options.engine, spool)
    metadata = MetadataCache(zmap, engine.options, engine.pools, ledger=engine.ledger)
    mtime_ns = time.time_ns()
    access_log = AccessLog()
    datasets = DatasetsTree(
        metadata,
        engine,
        format_options(parsed.modes, engine.options),
        access_log,
        mtime_ns,
        Choice(options.views),
        lambda source, key, kept: archive_in(source, key, kept=kept),
        writable=not options.read_only,
        written=lambda prefix, array: written(prefix, array),
        edited=lambda prefix: filesystem.kernel.forget_files(shown_at(prefix)),
        removed=lambda prefix: removed(prefix),
        renamed=lambda *prefixes: renamed(*prefixes),
        may_remove=options.allow_delete,
        spool=spool,
    )
    file_mode, dir_mode = _modes(options, read_only=read_only)

    def shown_at(prefix: str) -> str:
        words = [DATASETS, *([parsed.last_word] if is_dataset else []), prefix]
        return "/".join(word for word in words if word)

    def written(prefix: Prefix, array: StoredArray) -> None:
        filesystem.kernel.forget_content(shown_at(prefix))
        filesystem.kernel.forget_showing(array)

    def changed(key: str) -> None:
        node = node_prefix(key)
        datasets.changed(Prefix(node))
        filesystem.kernel.forget_below(shown_at(node))

    def removed(prefix: Prefix) -> None:
        filesystem.kernel.forget_below(shown_at(prefix))
        filesystem.kernel.forget_below(f"{OBJECTS}/{prefix}")
        filesystem.kernel.forget_files(shown_at(prefix))

    def renamed(*prefixes: Prefix) -> None:
        for prefix in prefixes:
            filesystem.kernel.forget_below(f"{OBJECTS}/{prefix}")
        filesystem.kernel.forget_files(shown_at(prefixes[0].rpartition("/")[0]))

    def lost(key: str) -> None:
        filesystem.kernel.forget_below(f"{OBJECTS}/{key}")

    objects = ObjectsTree(
        ObjectStore(
            metadata,
            engine.pools,
            spool,
            changed,
            lost,
            datasets.store_below,
            engine.arrays.gate,
            options.stored,
        ),
        engine,
        ObjectsOptions(read_only, file_mode, dir_mode),
        mtime_ns,
    )

    def store_path(path: str) -> str:
        return _store_path(path, parsed.last_word, is_dataset)

    def forget(path: str) -> Callable[[str], bool]:
        prefix = keys.parse_prefix(store_path(path))
        datasets.forget(prefix)
        return lambda other: keys.is_within(store_path(other), prefix)

    entries: dict[str, Node] = {}
    resolved = datasets.resolve_root(keys.ROOT)
    is_dataset = not isinstance(resolved, Plain)
    if options.show != "views":
        entries[OBJECTS] = ObjectsDirectory(objects, keys.ROOT, renames=0)
    if options.show != "objects":
        top: Directory = PrefixDirectory(datasets, keys.ROOT, parsed.last_word)
        if is_dataset:
            top = FixedDirectory({parsed.last_word: top}, mtime_ns)
        entries[DATASETS] = top
    started_at = time.time()

    def status() -> Mapping[str, object]:
        trouble = newest((engine.trouble, objects.files.trouble))
        pause_s = None if trouble is None else trouble.pause_s
        return {
            "pid": os.getpid(),
            "url": parsed.text,
            "store": zmap.name,
            "started": started_at,
            "uptime_s": round(time.time() - started_at, 3),
            "read_only": read_only,
            "dirty_bytes": engine.writeback.dirty_bytes,
            "unsaved_chunks": engine.writeback.unsaved,
            "unsaved_metadata": len(engine.changed()),
            "unsaved_files": objects.files.unsaved_count,
            "last_error": None if trouble is None else trouble.error,
            "next_attempt_s": None if pause_s is None else round(pause_s, 3),
            "spool": str(spool.directory),
            "spooled": spool.kept_count,
            "spool_used_bytes": spool.bytes_used,
            "features": {
                name: getattr(zmap.features, name) for name in zmap.features.__dataclass_fields__
            },
            "leases": [asdict(lease) for lease in engine.leases.held()],
            "memory_limit_bytes": engine.cache.limit_bytes,
            "memory_used_bytes": engine.cache.used_bytes,
            "disk_used_bytes": engine.cache.disk_bytes,
            "open_files": filesystem.open_files,
            "inodes": len(filesystem.inodes),
            "hidden_keys": metrics.value("nczfs_hidden_keys_total"),
        }

    entries[CONTROL] = ControlDirectory(
        mtime_ns=mtime_ns,
        status=status,
        config=options.config,
        log=options.log,
        access=access_log.content,
        refresh=lambda path: filesystem.refresh(path),
        flush=lambda: filesystem.sync(),
    )
    filesystem = TreeFileSystem(
        FixedDirectory(entries, mtime_ns),
        Appearance(
            uid=options.uid,
            gid=options.gid,
            file_mode=file_mode,
            dir_mode=dir_mode,
            attr_ttl_s=metadata.ttl_s,
            own_modes=options.stored.keep_times,
        ),
        read_only=read_only,
        pages_ttl_s=0.0 if metadata.is_prompt else metadata.ttl_s,
        forget=forget,
        sync=_steps(engine.writeback.flush, datasets.sync, zmap.flush),
        capacity=zmap.capacity,
        save=engine.writeback.save,
        end=_steps(datasets.close, engine.writeback.close),
        close=_steps(engine.close, spool.close, zmap.close),
        notifier=notifier,
    )
    return filesystem


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
            "%s: %d files were being written when an earlier mount was killed, and no write "
            "to them was acknowledged: `nczfs recover --list` shows them, --discard removes them",
            url,
            incomplete,
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


def _store_path(path: str, last_word: str, is_dataset: bool) -> str:
    """Return the prefix of the store that a path of the mount shows; "" is the whole store.

    Paths may begin with the name of the tree.
    """
    words = [word for word in path.strip().split("/") if word and word != "."]
    if ".." in words:
        raise BadKey(f"{path!r}: give the path as in the mount, without '..'")
    if words and words[0] == OBJECTS:
        words = words[1:]
    elif words and words[0] == DATASETS:
        words = words[2:] if is_dataset and words[1:2] == [last_word] else words[1:]
    return "/".join(words)


def _steps(*steps: Callable[[], None]) -> Callable[[], None]:
    def take() -> None:
        for step in steps:
            step()

    return take
