"""The tree ``datasets/``: prefixes as directories, groups and variables decoded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping

from nczfs import metrics
from nczfs.engine.coordinates import fetch_coordinates
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata import MetadataCache
from nczfs.errors import (
    BadArgument,
    CorruptStore,
    DirectoryNotEmpty,
    IsADirectory,
    NczfsError,
    NoSuchNode,
    NoSuchObject,
    NoSuchPath,
    NotADirectory,
    NotPermitted,
    PathError,
    PathExists,
)
from nczfs.formats.base import FormatOptions
from nczfs.model.hierarchy import Variable
from nczfs.vfs.access import AccessLog
from nczfs.vfs.editing import Editing, refusal
from nczfs.vfs.known import KnownDatasets
from nczfs.vfs.leaves import At, Broken, ChunksDirectory, Plain, Resolved
from nczfs.vfs.nodefiles import node_files, stem, view_word
from nczfs.vfs.nodes import Directory, Node, NodeStat
from nczfs.vfs.objects import is_file_name
from nczfs.vfs.removing import Removing
from nczfs.vfs.viewfile import ViewContext
from nczfs.views import catalog
from nczfs.zmap import keys
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix

log = logging.getLogger(__name__)

ARCHIVE_SUFFIX = ".zip"
ARCHIVES_KEPT = 64


class DatasetsTree:
    """What all nodes of the tree over one store share; a zip archive has a tree of its own.

    `_lock` guards the dict of archives, and is not held while the store is asked.

    Parameters
    ----------
    views : the names of the views to show; None shows all.
    open_archive : makes a store of a zip object.
    writable : datasets may be changed, where their store can be.
    written : called when values of the node at a prefix were stored, or dropped.
    removed : called when something at a path of the store is gone from sight, or back; None:
        nothing may be removed.
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
        *,
        writable: bool = False,
        written: Callable[[Prefix], None] = lambda _: None,
        removed: Callable[[Prefix], None] | None = None,
    ) -> None:
        self.metadata = metadata
        self.engine = engine
        self.editing = Editing(engine, metadata, options, written, removed) if writable else None
        self.removing = self.editing.removing if self.editing is not None else None
        self.known = KnownDatasets(engine, metadata, options, self.editing)
        self.context = ViewContext(
            engine, metadata.ttl_s, mtime_ns, access_log, self._opened, self.editing
        )
        self.mtime_ns = mtime_ns
        self.views = views
        self._options = options
        self._open_archive = open_archive
        self._lock = threading.Lock()
        self._archives: dict[Key, tuple[object, DatasetsTree | None]] = {}
        self._burst: set[tuple[int, str]] = set()

    def directory(self, prefix: Prefix, name: str) -> PrefixDirectory:
        """A prefix where a dataset may begin; a group's files are called after `name`."""
        return PrefixDirectory(self, prefix, name, None, "")

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

    def resolve_root(self, prefix: Prefix) -> Resolved:
        """What begins at a prefix that is not inside a dataset."""
        return self.known.resolve_root(prefix)

    def forget(self, prefix: Prefix) -> None:
        """Ask anew for everything at or below a prefix."""
        self.metadata.forget(prefix)
        self.changed(prefix)

    def changed(self, prefix: Prefix) -> None:
        """Look anew at what is at or below a prefix; what the store holds there is known."""
        with self._lock:
            self._archives.clear()
        self.known.forget(prefix)
        if self.removing is not None:
            self.removing.forget(prefix)

    def close(self) -> None:
        """Store what waits for its time."""
        if self.editing is not None:
            self.editing.close()

    def sync(self) -> None:
        """Store what is pending of any dataset."""
        if self.editing is not None:
            self.editing.sync()

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
        return self._tree.known.resolve(self._dataset, self._path)

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

    def mkdir(self, name: str, mode: int) -> Directory:
        """A group in a group; anywhere else a new dataset."""
        editing = self._editing
        resolved = self.resolve()
        if editing is None or isinstance(resolved, Broken):
            raise self.refusal(name)
        if isinstance(resolved, At) and (
            isinstance(resolved.loaded.node, Variable) or name in self._reserved()
        ):
            raise self.refusal(name)
        if not is_file_name(name):
            raise BadArgument(f"{name}: cannot be the name of a group")
        try:
            self._child(name, resolved)
        except NoSuchPath:
            pass
        else:
            raise PathExists(f"{name}: is there already")
        if isinstance(resolved, At):
            path = f"{resolved.path}/{name}" if resolved.path else name
            editing.create_group(resolved.dataset, path)
            return self._member(resolved, name)
        prefix = Prefix(keys.parse_key(keys.join(self._prefix, name)))
        editing.create_root(prefix)
        self._tree.known.made(prefix)
        return PrefixDirectory(self._tree, prefix, name, None, "")

    def unlink(self, name: str) -> None:
        """A view is hidden: it is stored nowhere."""
        if isinstance(self.lookup(name), Directory):
            raise IsADirectory(f"{name}: is a directory")
        self._removing(name).hidden.hide(self._prefix, name)

    def rmdir(self, name: str) -> None:
        """A member is removed with its keys, when nothing of it is shown any more."""
        node = self.lookup(name)
        if not isinstance(node, Directory):
            raise NotADirectory(f"{name}: is a file")
        removing = self._removing(name)
        if not isinstance(node, ChunksDirectory) and next(node.listing(), None) is not None:
            raise DirectoryNotEmpty(f"{name}: still holds something")
        if isinstance(node, PrefixDirectory):
            node.remove(removing, self.resolve())
        else:
            removing.hidden.hide(self._prefix, name)

    def remove(self, removing: Removing, above: Resolved) -> None:
        """Remove this node, or directory without keys; nothing of it is shown any more.

        Parameters
        ----------
        above : what the directory is that it is in.
        """
        resolved = self.resolve()
        if isinstance(resolved, At):
            if self._removable is not removing:
                raise self.refusal(self._name)
            removing.node(resolved.dataset, resolved.path)
        elif isinstance(resolved, Broken) and self._dataset is not None:
            removing.node(self._dataset, self._path)
        elif isinstance(resolved, Broken):
            raise NotPermitted(f"{self._name}: is no dataset that can be read; see objects/")
        elif not self._tree.metadata.has_keys(self._prefix):
            removing.hidden.forget(self._prefix)
        elif isinstance(above, At):
            # What an ended removal left, and nothing else.
            try:
                removing.node(above.dataset, f"{above.path}/{self._name}".lstrip("/"))
            except NoSuchNode as error:
                raise DirectoryNotEmpty(str(error)) from error
        else:
            raise DirectoryNotEmpty(f"{self._name}: holds what is no dataset; see objects/")

    def sync(self) -> None:
        resolved = self.resolve()
        if isinstance(resolved, At) and (editing := self._editing) is not None:
            editing.store_all(resolved.dataset)

    def refusal(self, name: str) -> PathError:
        return refusal(self._editing, name)

    @property
    def _editing(self) -> Editing | None:
        is_writable = self._tree.metadata.zmap.features.writable
        return self._tree.editing if is_writable else None

    @property
    def _removable(self) -> Removing | None:
        return self._editing.removing if self._editing is not None else None

    def _removing(self, name: str) -> Removing:
        if (removing := self._removable) is None:
            raise self.refusal(name)
        return removing

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
        if self._tree.removing is not None and self._tree.removing.hidden.is_kept(Prefix(key)):
            return below
        raise NoSuchPath(f"{name}: no such file")

    def _members(self, resolved: Plain | At) -> Iterator[tuple[str, Node]]:
        listed: set[str] = set()
        if isinstance(resolved, At) and resolved.lists_members:
            for name in resolved.dataset.names(resolved.path):
                listed.add(name)
                yield name, self._member(resolved, name)
        inside = isinstance(resolved, At) and not resolved.lists_members
        kept: set[str] = set()
        if self._tree.removing is not None:
            kept.update(self._tree.removing.hidden.kept_in(self._prefix))
        for entry in self._tree.metadata.entries(self._prefix):
            name = entry.name
            kept.discard(name)
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
        for name in kept:
            key = Prefix(keys.join(self._prefix, name))
            yield name, PrefixDirectory(self._tree, key, name, None, "")

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
        """The virtual files that are wanted in this mount and were not removed."""
        wanted, removing = self._tree.views, self._tree.removing
        return {
            name: make
            for name, make in node_files(self._tree.context, resolved, self._name).items()
            if (wanted is None or isinstance(resolved, Broken) or view_word(name) in wanted)
            and not (removing is not None and removing.hidden.is_hidden(self._prefix, name))
        }


class MemberDirectory(PrefixDirectory):
    """A prefix inside a group: a member of it, or a plain directory where a dataset may begin."""

    def resolve(self) -> Resolved:
        resolved = super().resolve()
        return self._tree.resolve_root(self._prefix) if isinstance(resolved, Plain) else resolved


def _burst(dataset: Dataset, variable: Variable) -> None:
    try:
        fetch_coordinates(dataset, variable)
    except NczfsError as error:
        log.info("coordinates of %s are not read ahead: %s", dataset.url(variable.path), error)
