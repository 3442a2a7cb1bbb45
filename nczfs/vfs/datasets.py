"""The tree ``datasets/``: prefixes as directories, groups and variables decoded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping

from nczfs import metrics
from nczfs.engine.array import now
from nczfs.engine.coordinates import fetch_coordinates
from nczfs.engine.dataset import Dataset, Engine, open_dataset
from nczfs.engine.metadata import MetadataCache
from nczfs.errors import CorruptStore, MetadataError, NczfsError, NoSuchObject, NoSuchPath
from nczfs.formats.base import FormatOptions
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.vfs.access import AccessLog
from nczfs.vfs.leaves import (
    At,
    AttributesDirectory,
    Broken,
    ChunksDirectory,
    Plain,
    Resolved,
    broken_info,
    view_file,
)
from nczfs.vfs.nodes import Directory, Node, NodeStat
from nczfs.vfs.objects import is_file_name
from nczfs.vfs.viewfile import ViewContext
from nczfs.views import catalog
from nczfs.views.catalog import View
from nczfs.zmap import keys
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix

log = logging.getLogger(__name__)

ARCHIVE_SUFFIX = ".zip"
ARCHIVES_KEPT = 64
DATASETS_KEPT = 10_000
REPORTED_MAX = 10_000


class DatasetsTree:
    """What all nodes of the tree over one store share; a zip archive has a tree of its own.

    `_lock` guards the dicts of datasets and archives, and is not held while the store is asked.

    Parameters
    ----------
    views : the names of the views to show; None shows all.
    open_archive : makes a store of a zip object.
    """

    def __init__(
        self,
        metadata: MetadataCache,
        engine: Engine,
        options: FormatOptions,
        access_log: AccessLog,
        mtime_ns: int,
        views: frozenset[str] | None,
        open_archive: Callable[[ZMap, Key], ZMap],
    ) -> None:
        self.metadata = metadata
        self.engine = engine
        self.context = ViewContext(engine, metadata.ttl_s, mtime_ns, access_log, self._opened)
        self.mtime_ns = mtime_ns
        self.views = views
        self._options = options
        self._open_archive = open_archive
        self._lock = threading.Lock()
        self._datasets: dict[Prefix, tuple[Dataset | Broken | None, float]] = {}
        self._archives: dict[Key, tuple[object, DatasetsTree | None]] = {}
        self._burst: set[tuple[int, str]] = set()
        self._reported: set[str] = set()

    def directory(self, prefix: Prefix, name: str) -> PrefixDirectory:
        """A prefix where a dataset may begin; a group's files are called after `name`."""
        return PrefixDirectory(self, prefix, name, None, "")

    def resolve_root(self, prefix: Prefix) -> Resolved:
        """What begins at a prefix that is not inside a dataset."""
        dataset = self._dataset_at(prefix)
        if isinstance(dataset, Broken):
            return dataset
        return self.resolve(dataset, "") if dataset is not None else Plain()

    def resolve(self, dataset: Dataset, path: str) -> Resolved:
        """What is at a path of a dataset."""
        try:
            loaded = dataset.load(path)
        except MetadataError as error:
            return self._broken(path, error)
        return At(dataset, path, loaded) if loaded is not None else Plain()

    def archive(self, key: Key) -> PrefixDirectory | None:
        """The directory of a zip object whose content is a dataset; None when it is not."""
        version = self._archive_version(key)
        with self._lock:
            known = self._archives.get(key)
        if known is not None and known[0] == version:
            tree = known[1]
        else:
            tree = self._new_archive(key)
            with self._lock:
                self._archives[key] = (version, tree)
                while len(self._archives) > ARCHIVES_KEPT:
                    self._archives.pop(next(iter(self._archives)))
        return tree.directory(keys.ROOT, key.rpartition("/")[2]) if tree is not None else None

    def _opened(self, dataset: Dataset, variable: Variable) -> None:
        """Fetch the coordinates of a variable ahead when its values are first opened."""
        token = (id(dataset), variable.path)
        if token in self._burst:
            return
        self._burst.add(token)
        self.engine.pools.assemble.submit(_burst, dataset, variable)

    def forget(self, prefix: Prefix) -> None:
        """Ask anew for everything at or below a prefix."""
        self.metadata.forget(prefix)
        below = f"{prefix}/" if prefix else ""
        with self._lock:
            datasets = list(self._datasets.items())
            self._archives.clear()
        for root, (dataset, _) in datasets:
            inside = root == prefix or root.startswith(below)
            holds = not root or prefix.startswith(f"{root}/")
            if inside or not isinstance(dataset, Dataset):
                with self._lock:
                    self._datasets.pop(root, None)
            if isinstance(dataset, Dataset) and (inside or holds):
                dataset.forget("" if inside else prefix[len(root) :].lstrip("/"))

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
            elif now() - checked_at < self.metadata.ttl_s:
                return dataset
        found: Dataset | Broken | None
        try:
            found = open_dataset(self.engine, self.metadata, prefix, self._options)
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
            zmap = self._open_archive(self.metadata.zmap, key)
        except CorruptStore as error:
            log.info("%s", error)
            return None
        tree = DatasetsTree(
            MetadataCache(zmap, self.engine.options, self.engine.pools),
            self.engine,
            self._options,
            self.context.access_log,
            self.mtime_ns,
            self.views,
            self._open_archive,
        )
        return tree if not isinstance(tree.resolve_root(keys.ROOT), Plain) else None


class PrefixDirectory(Directory):
    """A prefix of the store: a plain directory, a group, a variable, or a broken node.

    Parameters
    ----------
    name : what the files of a group here are called after.
    dataset, path : the dataset that the parent directory is in, and the path of this one in it;
        None where a dataset may begin.
    """

    def __init__(
        self, tree: DatasetsTree, prefix: Prefix, name: str, dataset: Dataset | None, path: str
    ) -> None:
        self._tree = tree
        self._prefix = prefix
        self._name = name
        self._dataset = dataset
        self._path = path

    def resolve(self) -> Resolved:
        """What this prefix is now. May block."""
        if self._dataset is None:
            return self._tree.resolve_root(self._prefix)
        return self._tree.resolve(self._dataset, self._path)

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        # The same whether its metadata are known yet or not: tar reports a directory whose time
        # changes while it is read.
        return NodeStat(0, self._tree.mtime_ns)

    def lookup(self, name: str) -> Node:
        resolved = self.resolve()
        if isinstance(resolved, Plain):
            return self._child(name, resolved)
        files = self._files(resolved)
        if name in files:
            return files[name]()
        if isinstance(resolved, Broken) or isinstance(resolved.loaded.node, Variable):
            raise NoSuchPath(f"{name}: no such file")
        reserved = self._reserved()
        if name in reserved:
            raise NoSuchPath(f"{name}: no such file")
        return self._shadowed(name, resolved, reserved)

    def listing(self) -> Iterator[tuple[str, Node]]:
        resolved = self.resolve()
        if not isinstance(resolved, Plain):
            for name, make in self._files(resolved).items():
                yield name, make()
        if isinstance(resolved, Broken):
            return
        if isinstance(resolved, At) and isinstance(resolved.loaded.node, Variable):
            return
        members = dict(self._members(resolved))
        reserved = self._reserved() if isinstance(resolved, At) else frozenset()
        for name, node in members.items():
            shown = name
            if shown in reserved:
                shown += "~"
                while shown in members:
                    shown += "~"
            yield shown, node

    def _reserved(self) -> frozenset[str]:
        return catalog.reserved_group_names(stem(self._name))

    def _shadowed(self, name: str, resolved: Resolved, reserved: frozenset[str]) -> Node:
        """A member by the name it is shown under: ``NAME~`` where a virtual file has its name."""
        try:
            return self._child(name, resolved)
        except NoSuchPath:
            base = name.rstrip("~")
            if base == name or base not in reserved:
                raise
            taken = (base + "~" * i for i in range(1, len(name) - len(base)))
            for between in taken:
                self._child(between, resolved)
            return self._child(base, resolved)

    def _child(self, name: str, resolved: Resolved) -> Node:
        """The member or prefix of exactly that name."""
        if not is_file_name(name):
            raise NoSuchPath(f"{name}: no such file")
        key = keys.parse_key(keys.join(self._prefix, name))
        metadata = self._tree.metadata
        listed, entry = metadata.known_entry(self._prefix, name)
        if isinstance(resolved, At) and resolved.dataset.has_member(resolved.path, name):
            member = self._member(resolved, name)
            if not isinstance(member.resolve(), Plain) or resolved.lists_members:
                return member
        below = PrefixDirectory(self._tree, Prefix(key), name, None, "")
        if (
            entry.is_prefix
            if entry is not None
            else (
                not listed
                and (
                    (isinstance(resolved, Plain) and not isinstance(below.resolve(), Plain))
                    or metadata.has_keys(Prefix(key))
                )
            )
        ):
            return below
        if name.endswith(ARCHIVE_SUFFIX) and not (listed and entry is None):
            archive = self._tree.archive(key)
            if archive is not None:
                return archive
        raise NoSuchPath(f"{name}: no such file")

    def _members(self, resolved: Plain | At) -> Iterator[tuple[str, Node]]:
        listed: set[str] = set()
        if isinstance(resolved, At) and resolved.lists_members:
            for name in resolved.dataset.names(resolved.path):
                listed.add(name)
                yield name, self._member(resolved, name)
        inside = isinstance(resolved, At) and not resolved.lists_members
        for entry in self._tree.metadata.entries(self._prefix):
            name = entry.name
            if not is_file_name(name):
                metrics.HIDDEN_KEYS.inc()
            elif name in listed:
                continue
            elif entry.is_prefix:
                if inside:
                    assert isinstance(resolved, At)
                    yield name, self._member(resolved, name)
                else:
                    key = Prefix(keys.join(self._prefix, name))
                    yield name, PrefixDirectory(self._tree, key, name, None, "")
            elif name.endswith(ARCHIVE_SUFFIX):
                archive = self._try_archive(keys.join(self._prefix, name))
                if archive is not None:
                    yield name, archive

    def _try_archive(self, key: Key) -> PrefixDirectory | None:
        try:
            return self._tree.archive(key)
        except NczfsError as error:
            log.warning("%s: not shown as a directory: %s", key, error)
            return None

    def _member(self, group: At, name: str) -> MemberDirectory:
        path = f"{group.path}/{name}" if group.path else name
        return MemberDirectory(
            self._tree, Prefix(keys.join(self._prefix, name)), name, group.dataset, path
        )

    def _files(self, resolved: Broken | At) -> Mapping[str, Callable[[], Node]]:
        """The virtual files and directories of a node, by name."""
        if isinstance(resolved, Broken):
            problem = resolved
            return {"info.json": lambda: broken_info(self._tree.context, problem)}
        node = resolved.loaded.node
        at = resolved
        if isinstance(node, GroupHeader):
            views = catalog.group_views(resolved.dataset, node, stem(self._name))
            files: dict[str, Callable[[], Node]] = {}
        else:
            views = catalog.variable_views(resolved.dataset, node)
            variable = node
            files = {}
            if catalog.has_chunks(node):
                files[catalog.CHUNKS] = lambda: ChunksDirectory(self._tree.context, at, variable)
        files[catalog.ATTRIBUTES] = lambda: AttributesDirectory(self._tree.context, at)
        for name, view in views.items():
            files[name] = _maker(self._tree, at, name, view)
        wanted = self._tree.views
        if wanted is None:
            return files
        return {name: make for name, make in files.items() if _view_word(name) in wanted}


class MemberDirectory(PrefixDirectory):
    """A prefix inside a group: a member of it, or a plain directory where a dataset may begin."""

    def resolve(self) -> Resolved:
        resolved = super().resolve()
        return self._tree.resolve_root(self._prefix) if isinstance(resolved, Plain) else resolved


def stem(name: str) -> str:
    """What the files of a group are called after: its name without the suffixes of stores."""
    for suffix in (".zip", ".zarr", ".nczarr", ".file") * 4:
        if name.endswith(suffix) and len(name) > len(suffix):
            name = name.removesuffix(suffix)
    return name


def _view_word(name: str) -> str:
    """How `--views` calls a file: its own name, and for those called after the group the suffix."""
    return name.rpartition(".")[2] if name.endswith(".cdl") else name


def _maker(tree: DatasetsTree, at: At, name: str, view: View) -> Callable[[], Node]:
    return lambda: view_file(tree.context, at, name, view)


def _burst(dataset: Dataset, variable: Variable) -> None:
    try:
        fetch_coordinates(dataset, variable)
    except NczfsError as error:
        log.info("coordinates of %s are not read ahead: %s", dataset.url(variable.path), error)
