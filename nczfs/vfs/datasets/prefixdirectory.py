"""A prefix of a store as a directory of ``datasets/``: groups and variables decoded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from nczfs import metrics
from nczfs.engine.dataset import Dataset
from nczfs.engine.structure.ownership import UNFINISHED
from nczfs.errors import (
    BadArgument,
    CrossesTrees,
    DirectoryNotEmpty,
    IsADirectory,
    NczfsError,
    NoSuchPath,
    NotADirectory,
    NotPermitted,
    PathError,
    PathExists,
)
from nczfs.formats.names import below, parent_of
from nczfs.library.resolved import At, Broken, Plain, Resolved
from nczfs.model.hierarchy import GroupHeader
from nczfs.vfs.base import AttributeChanges
from nczfs.vfs.datasets.arraydirectories import ArrayDirectories
from nczfs.vfs.datasets.attributes import AttributesDirectory
from nczfs.vfs.datasets.editing import TreeEditing, refusal
from nczfs.vfs.datasets.incoming import COPYING, Incoming, is_part_of_a_copy
from nczfs.vfs.datasets.leaves import ChunksDirectory
from nczfs.vfs.datasets.leftprefix import LeftPrefixes
from nczfs.vfs.datasets.nodefiles import listed_names, shown_files, stem
from nczfs.vfs.datasets.removing import Removing
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.datasets.undeclared import WaitingDirectory
from nczfs.vfs.nodes import Directory, File, NodeStat, OpenFile, TreeNode
from nczfs.vfs.objects import is_file_name
from nczfs.views import catalog
from nczfs.views.catalog import ATTRIBUTES, LINES, RAW
from nczfs.zmap import keys
from nczfs.zmap.keys import Key, Prefix
from nczfs.zmap.url import ARCHIVE_SUFFIXES

log = logging.getLogger(__name__)


class PrefixDirectory(Directory):
    """A prefix of the store: a plain directory, a group, a variable, or a broken node.

    Parameters
    ----------
    tree, prefix : the tree of the whole store or of an archive, and the place in it.
    name : of the group, which its files' names contain.
    dataset, path : the dataset of the parent directory, and the path of this one in it; None where
        a dataset may begin.
    """

    def __init__(
        self,
        tree: DatasetsTree,
        prefix: Prefix,
        name: str,
        dataset: Dataset | None = None,
        path: str = "",
    ) -> None:
        self.tree = tree
        self.prefix = prefix
        self._name = name
        self._dataset = dataset
        self._path = path

    def resolve(self, wanted: str = "") -> Resolved:
        """Return what this prefix is now. May block.

        Parameters
        ----------
        wanted : a name in this directory that will be needed next.
        """
        if self._dataset is None:
            return self.tree.resolve_root(self.prefix, wanted)
        return self.tree.known.resolve(self._dataset, self._path)

    def _resolve_shown(self) -> Resolved:
        """Return what this prefix is now. Raises NoSuchPath: a rename has moved it."""
        return self.resolve()

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def change(self, changes: AttributeChanges) -> None:
        self.tree.context.check_changes(changes)

    def listing_stat(self) -> NodeStat:
        # The same whether its metadata are known yet or not: tar reports a directory whose time
        # changes while it is read.
        return NodeStat(0, self.tree.times.get(self.prefix, self.tree.mtime_ns))

    def lookup(self, name: str) -> TreeNode:
        resolved = self.resolve(wanted=name)
        if isinstance(resolved, Plain):
            return self._child(name, resolved)
        files = self._files(resolved)
        if name in files and not (catalog.shows_content(name) and self._is_empty(resolved)):
            return files[name]()
        if (held := self.tree.held) is not None:
            file = held.get(self.prefix, name)
            if file is not None:
                return file
        if isinstance(resolved, Broken):
            raise NoSuchPath(f"{name}: no such file")
        if resolved.is_variable:
            array = self._arrays(resolved).found().get(name)
            if array is None:
                raise NoSuchPath(f"{name}: no such file")
            return array
        reserved = self._reserved()
        if name in reserved:
            raise NoSuchPath(f"{name}: no such file")
        return self._shadowed(name, resolved, reserved)

    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        resolved = self.resolve()
        if not isinstance(resolved, Plain):
            is_empty = self._is_empty(resolved)
            files = self._files(resolved)
            visible = listed_names(self.tree.choice, files, is_empty=is_empty)
            yield from ((name, make()) for name, make in files.items() if name in visible)
            if self.tree.held is not None:
                held = self.tree.held.held_in(self.prefix)
                yield from ((name, file) for name, file in held.items() if name not in visible)
        if isinstance(resolved, Broken):
            return
        if isinstance(resolved, At) and resolved.is_variable:
            yield from self._arrays(resolved).found().items()
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
        """Make a group in a group; anywhere else a new dataset."""
        arrivals, known = self.tree.arrivals, self.resolve()
        if arrivals is None:
            return self._make(name, self._resolve_shown())
        with arrivals.making.inside(lambda: keys.join(self.prefix, name)):
            resolved = self._resolve_shown()
            if isinstance(known, At) and not isinstance(resolved, At):
                raise NoSuchPath(f"{name}: its group was removed")
            return self._make(name, resolved)

    def _make(self, name: str, resolved: Resolved) -> Directory:
        editing = self._editing
        if editing is None or isinstance(resolved, Broken):
            raise self.refusal(name)
        if isinstance(resolved, At) and name == ATTRIBUTES and self._shows_attributes(resolved):
            return AttributesDirectory(self.tree.context, resolved)
        if isinstance(resolved, At) and resolved.is_variable:
            return self._arrays(resolved).make(name)
        if isinstance(resolved, At) and name in self._reserved():
            raise self.refusal(name)
        if not is_file_name(name):
            raise BadArgument(f"{name}: cannot be the name of a group")
        if isinstance(resolved, At) and is_part_of_a_copy(self.tree, self.prefix, name):
            raise self._noted(name, NotPermitted(f"{name}: {COPYING}"))
        with suppress(NoSuchPath):
            self._child(name, resolved)
            raise PathExists(f"{name}: exists already")
        arrivals = self.tree.arrivals
        if isinstance(resolved, At) and arrivals is not None:
            if not {RAW, LINES}.isdisjoint(arrivals.held_in(self.prefix)):
                raise NotPermitted(f"{name}: values wait here for the info.json of a variable")
            name = self._shown_as(name)
        prefix = Prefix(keys.parse_key(keys.join(self.prefix, name)))
        if isinstance(resolved, At):
            editing.create_group(resolved.dataset, resolved.path, name)
        else:
            editing.create_root(prefix)
            self.tree.known.made(prefix)
        self.tree.times[prefix] = time.time_ns()
        if arrivals is not None:
            arrivals.begin(prefix, is_dataset=not isinstance(resolved, At))
        return self._member(resolved, name) if isinstance(resolved, At) else self._below(name)

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Make a file that a copy of a dataset needs, or in an empty group one to be imported."""
        incoming = self._incoming(self._resolve_shown())
        if incoming is None:
            raise self.refusal(name)
        try:
            return incoming.create(name, exclusive=exclusive)
        except NotPermitted as error:
            raise self._noted(name, error) from None

    def rename(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        """Rename a group or variable in its group, or give a held file its name."""
        resolved = self.resolve()
        arrivals, held = self.tree.arrivals, self.tree.held
        if held is not None and held.get(self.prefix, name) is not None:
            self._rename_held(name, target, new_name, replace=replace)
            return
        node = self.lookup(name)
        if not isinstance(node, PrefixDirectory):
            raise self.refusal(name)
        removing = self._removing(name)
        if not isinstance(target, PrefixDirectory) or target.prefix != self.prefix:
            raise CrossesTrees(f"{name}: can be renamed in its group alone; copy it")
        found = node.resolve()
        if isinstance(found, At) and not found.path:
            raise NotPermitted(f"{name}: is a whole dataset; rename it in objects/")
        if not isinstance(resolved, At) or not isinstance(found, At):
            raise NotPermitted(f"{name}: is not a group or variable in a dataset; see objects/")
        if self._has(new_name):
            raise PathExists(f"{new_name}: exists already")
        if new_name in self._reserved():
            raise NotPermitted(f"{new_name}: files of the group have that name")
        if arrivals is not None and arrivals.is_waiting(node.prefix):
            raise NotPermitted(f"{name}: values wait in it for the info.json of their variable")
        removing.rename(found.dataset, found.path, new_name, self.tree.renamed)

    def _rename_held(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        """Give a held file its name."""
        incoming = self._incoming(self.resolve())
        if incoming is None:
            raise self.refusal(name)
        if not isinstance(target, PrefixDirectory) or target.prefix != self.prefix:
            raise CrossesTrees(f"{name}: belongs to another directory; copy it")
        incoming.rename(name, new_name, is_free=replace or not self._has(new_name))

    def unlink(self, name: str) -> None:
        """Hide a view, which is stored nowhere, or release a held file."""
        if self.tree.held is not None and self.tree.held.let_go(self.prefix, name):
            return
        if isinstance(self.lookup(name), Directory):
            raise IsADirectory(f"{name}: is a directory")
        removing = self._removable if self._is_replaceable(name) else self._removing(name)
        assert removing is not None
        removing.hidden.hide(self.prefix, name)

    def _is_replaceable(self, name: str) -> bool:
        """Return whether the content of this group can be replaced by a file of a name."""
        incoming = self._incoming(self.resolve())
        return incoming is not None and incoming.replaces(name)

    def rmdir(self, name: str) -> None:
        """Remove a member with its keys, if nothing of it is shown any more.

        An empty group is always removed: its files only describe it.
        """
        node = self.lookup(name)
        if not isinstance(node, Directory):
            raise NotADirectory(f"{name}: is a file")
        if isinstance(node, PrefixDirectory) and node.remove_hollow():
            return
        if isinstance(node, WaitingDirectory):
            node.drop()
            return
        if isinstance(node, PrefixDirectory) and self._removable and node.has_members():
            raise DirectoryNotEmpty(f"{name}: holds groups or variables")
        removing = self._removing(name)
        if not isinstance(node, ChunksDirectory) and next(node.listing(), None) is not None:
            raise DirectoryNotEmpty(f"{name}: is not empty")
        found = node.resolve() if isinstance(node, PrefixDirectory) else None
        if isinstance(node, PrefixDirectory) and not (isinstance(found, At) and found.is_dependent):
            node.remove(removing, self.resolve())
        else:
            removing.hidden.hide(self.prefix, name)

    def remove_hollow(self) -> bool:
        """Remove this group if it holds nothing at all. Returns whether it did."""
        resolved = self.resolve()
        removing = self._removable
        if removing is None or not isinstance(resolved, At):
            return False
        node = resolved.dataset.node(resolved.path)
        if not (isinstance(node, GroupHeader) and node.is_bare):
            return False
        if self.tree.held is not None and self.tree.held.held_in(self.prefix):
            return False
        return removing.hollow(resolved.dataset, resolved.path)

    def has_members(self) -> bool:
        """Return whether groups, variables or other prefixes are in this directory."""
        resolved = self.resolve()
        if isinstance(resolved, Broken) or (isinstance(resolved, At) and resolved.is_variable):
            return False
        return next(self._members(resolved), None) is not None

    def remove(self, removing: Removing, above: Resolved) -> None:
        """Remove this node, or directory without keys, of which nothing is shown any more.

        Parameters
        ----------
        above : what its parent directory is.
        """
        resolved = self.resolve()
        if isinstance(resolved, At):
            if self._removable is not removing:
                raise self.refusal(self._name)
            removing.node(resolved.dataset, resolved.path)
        elif isinstance(resolved, Broken) and self._dataset is not None:
            removing.node(self._dataset, self._path)
        elif isinstance(resolved, Broken):
            raise NotPermitted(f"{self._name}: is not a readable dataset; see objects/")
        else:
            removing.left(self.prefix, above)

    def sync(self) -> None:
        resolved = self.resolve()
        if isinstance(resolved, At) and self._editing is not None:
            resolved.dataset.store()

    def refusal(self, name: str) -> PathError:
        return refusal(self._editing, name)

    @property
    def _editing(self) -> TreeEditing | None:
        is_writable = self.tree.metadata.zmap.features.writable
        return self.tree.editing if is_writable else None

    @property
    def _removable(self) -> Removing | None:
        return self._editing.removing if self._editing is not None else None

    def _removing(self, name: str) -> Removing:
        removing = self._removable
        if removing is None or not removing.is_allowed:
            raise self.refusal(name)
        return removing

    def _noted(self, name: str, error: NotPermitted) -> NotPermitted:
        """Return a refusal, which the node's `problems` name if it is the first one."""
        self.tree.context.refusals.note_once(self.prefix, name, str(error))
        return error

    def _incoming(self, at: Resolved) -> Incoming | None:
        """Return what takes new files; None: this is no node, or the dataset is read-only."""
        editing = self._editing
        if editing is None or not isinstance(at, At):
            return None
        return Incoming(self.tree, editing, at, self._name, self._is_empty(at))

    def _is_empty(self, resolved: Broken | At) -> bool:
        """Return whether this is a group that holds nothing at all."""
        node = resolved.loaded.node if isinstance(resolved, At) else None
        if not (isinstance(node, GroupHeader) and node.is_bare):
            return False
        removing = self.tree.removing
        if removing is not None and removing.hidden.has_lost(self.prefix):
            return False  # its files stay until a program that removes it has come to them
        return not self.has_members()

    def _shows_attributes(self, at: At) -> bool:
        """Show the directory of attributes, if it is hidden because this one began empty."""
        arrivals = self.tree.arrivals
        if arrivals is None or not arrivals.hidden.is_hidden(self.prefix, ATTRIBUTES):
            return False
        arrivals.hidden.put(self.prefix, ATTRIBUTES)
        return True

    def _shown_as(self, name: str) -> str:
        """Return the name of a copied group's member that is shown as ``NAME~``."""
        base = name.rstrip("~")
        return base if base in self._reserved() else name

    def _arrays(self, at: At) -> ArrayDirectories:
        """Return the directories of the arrays that a variable declares."""
        member = partial(self._member, at)
        return ArrayDirectories(self.tree, self._editing, at, stem(self._name), member)

    def _has(self, name: str) -> bool:
        try:
            self.lookup(name)
        except NoSuchPath:
            return False
        return True

    def _reserved(self) -> frozenset[str]:
        return catalog.reserved_group_names(stem(self._name))

    def _shadowed(self, name: str, resolved: Resolved, reserved: frozenset[str]) -> TreeNode:
        """Return a member by its shown name: ``NAME~`` if a virtual file has its name."""
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

    def _child(self, name: str, resolved: Resolved) -> TreeNode:
        """Return the member or prefix of exactly that name."""
        if not is_file_name(name):
            raise NoSuchPath(f"{name}: no such file")
        key = keys.parse_key(keys.join(self.prefix, name))
        metadata = self.tree.metadata
        listed, entry = metadata.known_entry(self.prefix, name)
        if isinstance(resolved, At) and resolved.dataset.has_member(resolved.path, name):
            member = self._member(resolved, name)
            if not isinstance(member.resolve(), Plain) or resolved.lists_members:
                return member
        plain = self._below(name)
        if listed or entry is not None:
            is_prefix = entry is not None and entry.is_prefix
        else:
            begins = isinstance(resolved, Plain) and not isinstance(plain.resolve(), Plain)
            is_prefix = begins or metadata.has_keys(Prefix(key))
        if is_prefix and not LeftPrefixes(self.tree, resolved, self.prefix).has(name):
            return plain
        may_be = (entry is not None or not listed) and name.endswith(ARCHIVE_SUFFIXES)
        if may_be and (archive := self._archive(key)):
            return archive
        if self.tree.removing is not None and self.tree.removing.hidden.is_kept(Prefix(key)):
            return plain
        raise NoSuchPath(f"{name}: no such file")

    def _members(self, resolved: Plain | At) -> Iterator[tuple[str, TreeNode]]:
        listed: set[str] = set()
        if isinstance(resolved, At) and resolved.lists_members:
            for name in resolved.dataset.names(resolved.path):
                listed.add(name)
                yield name, self._member(resolved, name)
        group = resolved if isinstance(resolved, At) and not resolved.lists_members else None
        left = LeftPrefixes(self.tree, resolved, self.prefix)
        removing = self.tree.removing
        kept = set() if removing is None else {*removing.hidden.kept_in(self.prefix)}
        is_unfinished = self.tree.metadata.shows(keys.join(self.prefix, UNFINISHED))
        here = resolved if isinstance(resolved, At) and is_unfinished else None
        for entry in self.tree.metadata.entries(self.prefix):
            name = entry.name
            kept.discard(name)
            if not is_file_name(name):
                metrics.HIDDEN_KEYS.inc()
            elif name in listed:
                continue
            elif here and isinstance(self._member(here, name).resolve(), Plain):
                continue  # there are only values so far
            elif entry.is_prefix and not left.has(name):
                yield name, self._below(name) if group is None else self._member(group, name)
            elif name.endswith(ARCHIVE_SUFFIXES) and (archive := self._readable_archive(name)):
                yield name, archive
        for name in kept:
            yield name, self._below(name)

    def _below(self, name: str) -> PrefixDirectory:
        """Return a prefix where a dataset may begin."""
        return PrefixDirectory(self.tree, Prefix(keys.join(self.prefix, name)), name)

    def _archive(self, key: Key) -> PrefixDirectory | None:
        """Return a zip object that contains a dataset; None: it does not."""
        tree = self.tree.archive(key)
        return PrefixDirectory(tree, keys.ROOT, key.rpartition("/")[2]) if tree else None

    def _readable_archive(self, name: str) -> PrefixDirectory | None:
        key = keys.join(self.prefix, name)
        try:
            return self._archive(key)
        except NczfsError as error:
            log.warning("%s: not shown as a directory: %s", key, error)
            return None

    def _member(self, group: At, name: str) -> MemberDirectory:
        prefix, path = Prefix(keys.join(self.prefix, name)), below(group.path, name)
        return MemberDirectory(self.tree, prefix, name, group.dataset, path)

    def _files(self, resolved: Broken | At) -> Mapping[str, Callable[[], TreeNode]]:
        """Return the virtual files that this mount shows and that were not removed."""
        return shown_files(self.tree, resolved, self.prefix, self._name)


class MemberDirectory(PrefixDirectory):
    """A prefix inside a group: a member, or a plain directory where a dataset may begin."""

    def resolve(self, wanted: str = "") -> Resolved:
        resolved = super().resolve(wanted)
        if not isinstance(resolved, Plain):
            return resolved
        return self.tree.resolve_root(self.prefix, wanted)

    def _resolve_shown(self) -> Resolved:
        resolved = self.resolve()
        if isinstance(resolved, Plain) and self._dataset is not None:
            above, _, name = self.prefix.rpartition("/")
            path = parent_of(self._path)
            group = MemberDirectory(self.tree, Prefix(above), "", self._dataset, path)
            group._child(name, group.resolve())
        return resolved
