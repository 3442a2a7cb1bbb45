"""The layout ``flat``: each dataset of a store is one netCDF file, and nothing else is shown."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from nczfs.errors import (
    DirectoryNotEmpty,
    IsADirectory,
    MetadataError,
    NczfsError,
    NoSuchPath,
    NotADirectory,
    NotPermitted,
    PathError,
    PathExists,
    StaleHandle,
)
from nczfs.formats.registry import FORMATS
from nczfs.library.resolved import Broken, Plain
from nczfs.plaindata import frozen
from nczfs.vfs.datasets.arrivals import goal_of
from nczfs.vfs.datasets.editing import refusal
from nczfs.vfs.datasets.nodefiles import DATASET_SUFFIXES, stem
from nczfs.vfs.datasets.prefixdirectory import PrefixDirectory
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.nodes import Directory, File, NodeStat, OpenFile, TreeNode
from nczfs.views.netcdf.kinds import NETCDF4
from nczfs.zmap import keys
from nczfs.zmap.keys import Prefix
from nczfs.zmap.url import ARCHIVE_SUFFIXES

log = logging.getLogger(__name__)

SHOWN_SUFFIX: Final = NETCDF4.suffix
"""The end of the names of all files, whatever their format is."""

_SUFFIXES: Final = (
    DATASET_SUFFIXES[0],
    "",
    *DATASET_SUFFIXES[1:],
    *(first + last for last in ARCHIVE_SUFFIXES for first in (*DATASET_SUFFIXES, "")),
    SHOWN_SUFFIX,
)
"""What a dataset's name in the store has instead of `SHOWN_SUFFIX`; the first ones are shown."""

_LONGEST_FIRST: Final = sorted(_SUFFIXES, key=len, reverse=True)

_SAYING: Final = tuple(suffix for suffix in _SUFFIXES if suffix.startswith(DATASET_SUFFIXES))
"""Those that only datasets have."""

TOLD_MAX: Final = 10_000

# ncks writes NAME.nc.pid123.ncks.tmp, and then renames it.
_TEMPORARY: Final = re.compile(rf"(.+?{re.escape(SHOWN_SUFFIX)})\..+")


def shown_name(name: str) -> str:
    """Return the name of the file that shows a dataset of a name."""
    longest = next(each for each in _LONGEST_FIRST if name.endswith(each))
    return (name.removesuffix(longest) or name) + SHOWN_SUFFIX


def stored_names(name: str) -> list[str]:
    """Return the names that a dataset can have in the store, those that are shown first before."""
    base = name.removesuffix(SHOWN_SUFFIX)
    found = (base + suffix for suffix in _SUFFIXES) if base and base != name else ()
    return [each for each in found if shown_name(each) == name]


@frozen
class FlatLayout:
    """What all directories of a mount share.

    Attributes
    ----------
    suffix : of the virtual files that are shown: their names in ``datasets/`` end with it.
    """

    tree: DatasetsTree
    suffix: str = SHOWN_SUFFIX
    _hidden: set[Prefix] = field(default_factory=set)

    def not_shown(self, prefix: Prefix, why: str) -> None:
        """Log once why something is not shown."""
        if prefix not in self._hidden and len(self._hidden) < TOLD_MAX:
            self._hidden.add(prefix)
            log.warning("%s: is not shown: %s", prefix, why)


class FlatDirectory(Directory):
    """A directory of the store, with its datasets as files.

    Parameters
    ----------
    here : the same directory in ``datasets/``, from which everything comes.
    unlisted : what is found by name, but not listed.
    """

    def __init__(
        self,
        layout: FlatLayout,
        here: Directory,
        prefix: Prefix,
        unlisted: Mapping[str, TreeNode] | None = None,
    ) -> None:
        self._layout = layout
        self._tree = layout.tree
        self._here = here
        self._prefix = prefix
        self._unlisted = unlisted or {}

    def stat(self) -> NodeStat:
        return self._here.stat()

    def listing_stat(self) -> NodeStat:
        return self._here.listing_stat()

    def lookup_if_cached(self, name: str) -> TreeNode | None:
        return self._unlisted.get(name)

    def lookup(self, name: str) -> TreeNode:
        if name in self._unlisted:
            return self._unlisted[name]
        if self._is_plain:
            found = self._stored(name)
            if found is not None:
                return self._file(*found)
            if (held := self._held(name)) is not None:
                return held
            node = self._here.lookup(name)
            if isinstance(node, PrefixDirectory) and isinstance(node.resolve(), Plain):
                return self._below(name, node)
        raise NoSuchPath(f"{name}: no such file")

    def listing(self) -> Iterator[tuple[str, TreeNode]]:
        if not self._is_plain:
            return
        by_shown: dict[str, list[tuple[str, PrefixDirectory]]] = {}
        for name, node in self._here.listing():
            if isinstance(node, PrefixDirectory) and name not in self._unlisted:
                by_shown.setdefault(shown_name(name), []).append((name, node))
        for shown, found in by_shown.items():
            yield from self._listed(shown, found)

    def mkdir(self, name: str, mode: int) -> Directory:
        """Show a new directory, which the store has as soon as a file is in it."""
        removing = self._tree.removing
        if removing is None or not isinstance(self._here, PrefixDirectory):
            raise self.refusal(name)
        if self._has(name):
            raise PathExists(f"{name}: exists already")
        prefix = Prefix(keys.parse_key(keys.join(self._prefix, name)))
        removing.hidden.keep(prefix)
        return self._below(name, PrefixDirectory(self._tree, prefix, name))

    def rmdir(self, name: str) -> None:
        """Remove a directory without keys, which only this mount shows."""
        node = self.lookup(name)
        if not isinstance(node, FlatDirectory):
            raise NotADirectory(f"{name}: is a file")
        removing = self._tree.removing
        if removing is None:
            raise self.refusal(name)
        if self._tree.metadata.has_keys(node._prefix) or next(node.listing(), None) is not None:
            raise DirectoryNotEmpty(f"{name}: is not empty in the store")
        removing.hidden.forget(node._prefix)

    def create(self, name: str, mode: int, *, exclusive: bool) -> tuple[File, OpenFile]:
        """Make a file that becomes a dataset when it is closed, or under its final name."""
        goal = _goal(name)
        if self._tree.held is None or goal is None or not self._is_plain:
            raise self.refusal(name)
        found = self._stored(goal)
        if found is not None:
            stored, dataset = found
            return dataset.create(_taken_as(name, goal, stored), mode, exclusive=exclusive)
        stored = self._free_name(goal)
        made = self._here.mkdir(stored, mode)
        assert isinstance(made, PrefixDirectory)
        try:
            return made.create(_taken_as(name, goal, stored), mode, exclusive=exclusive)
        except BaseException:
            made.remove_hollow()
            raise

    def unlink(self, name: str) -> None:
        """Drop a file that is being written, or with `allow_delete` remove a dataset."""
        goal = _goal(name)
        found = None if goal is None else self._stored(goal)
        if found is None or goal is None:
            if isinstance(self.lookup(name), Directory):
                raise IsADirectory(f"{name}: is a directory")
            raise self.refusal(name)
        stored, dataset = found
        inner, held = _taken_as(name, goal, stored), dataset.tree.held
        if held is not None and held.let_go(dataset.prefix, inner):
            dataset.remove_hollow()
            return
        if name != goal:
            raise NoSuchPath(f"{name}: no such file")
        self._file(stored, dataset)
        if self._tree.removing is not None and self._tree.removing.is_allowed:
            dataset.remove(self._tree.removing, Plain())
        else:
            dataset.unlink(self._inner(stored))

    def rename(self, name: str, target: Directory, new_name: str, *, replace: bool) -> None:
        """Give a file that is being written its final name."""
        goal, new_goal = _goal(name), _goal(new_name)
        found = None if goal is None else self._stored(goal)
        is_here = isinstance(target, FlatDirectory) and target._prefix == self._prefix
        if found is None or goal is None or goal != new_goal or not is_here:
            self.lookup(name)
            raise NotPermitted(
                f"{name}: cannot be renamed in a mount with --layout flat; the usual layout"
                " renames what is in objects/"
            )
        stored, dataset = found
        names = [_taken_as(each, goal, stored) for each in (name, new_name)]
        dataset.rename(names[0], dataset, names[1], replace=replace)

    def refusal(self, name: str) -> PathError:
        if self._tree.editing is None or not self._tree.metadata.zmap.features.writable:
            return refusal(None, name)
        return NotPermitted(
            f"{name}: a mount with --layout flat takes netCDF files called NAME{SHOWN_SUFFIX};"
            " other changes are made in the usual layout"
        )

    @property
    def _is_plain(self) -> bool:
        """Whether no dataset begins here meanwhile."""
        here = self._here
        return not isinstance(here, PrefixDirectory) or isinstance(here.resolve(), Plain)

    def _below(self, name: str, node: PrefixDirectory) -> FlatDirectory:
        return FlatDirectory(self._layout, node, node.prefix)

    def _place_of(self, stored: str) -> Prefix:
        """Return where the log says that something is in the store."""
        return Prefix(keys.join(self._prefix, stored))

    def _free_name(self, goal: str) -> str:
        """Return the name in the store of a new dataset: the first one that no directory has."""
        for stored in stored_names(goal):
            if not stored.endswith(ARCHIVE_SUFFIXES) and not self._has(stored):
                return stored
        raise PathExists(f"{goal}: directories have all names that it could have in the store")

    def _has(self, name: str) -> bool:
        try:
            self.lookup(name)
        except NoSuchPath:
            return False
        return True

    def _stored(self, name: str) -> tuple[str, PrefixDirectory] | None:
        """Return the dataset, and its name in the store, that has a name in this directory."""
        candidates = stored_names(name)
        if candidates:
            self._tree.metadata.fetch_names([self._prefix])
        for stored in candidates:
            try:
                node = self._here.lookup(stored)
            except NoSuchPath:
                continue
            if isinstance(node, PrefixDirectory) and not isinstance(node.resolve(), Plain):
                return stored, node
        return None

    def _inner(self, stored: str) -> str:
        """Return the name of the file of a dataset in its directory."""
        return stem(stored) + self._layout.suffix

    def _file(self, stored: str, dataset: PrefixDirectory) -> TreeNode:
        """Return the file that shows a dataset. Raises NoSuchPath: the dataset holds nothing."""
        resolved = dataset.resolve()
        if isinstance(resolved, Broken):
            return UnreadFile(self._tree.mtime_ns, resolved.problem)
        if (files := dataset.tree.held) is not None:
            held = files.get(dataset.prefix, stem(stored) + SHOWN_SUFFIX)
            if held is not None:
                return held
        return dataset.lookup(self._inner(stored))

    def _held(self, name: str) -> TreeNode | None:
        """Return a file that was given a temporary name."""
        goal = _goal(name)
        if goal in (None, name) or self._tree.held is None or not self._tree.held.count:
            return None
        found = self._stored(goal)
        if found is None or (files := found[1].tree.held) is None:
            return None
        return files.get(found[1].prefix, name)

    def _listed(
        self, shown: str, found: list[tuple[str, PrefixDirectory]]
    ) -> Iterator[tuple[str, TreeNode]]:
        """Yield what is shown of the directories that would have one name as datasets."""
        is_alone = len(found) == 1
        if not is_alone:
            order = stored_names(shown)
            found.sort(key=lambda each: order.index(each[0]))
        first: Prefix | None = None
        for name, node in found:
            place = self._place_of(name)
            if first is not None and (name == shown or self._is_dataset(name, node, is_alone)):
                self._layout.not_shown(place, f"{first} is called {shown} here, too")
            elif self._is_dataset(name, node, is_alone):
                first = place
                yield from self._files(shown, name, node)
            else:
                yield name, self._below(name, node)
        _, entry = self._tree.metadata.known_entry(self._prefix, shown)
        if first is not None and entry is not None and entry.stat is not None:
            self._layout.not_shown(
                self._place_of(shown), f"{first} is called {shown} here, and objects are not shown"
            )

    def _files(self, shown: str, name: str, node: PrefixDirectory) -> Iterator[tuple[str, File]]:
        if (held := node.tree.held) is not None:
            mine = held.held_in(node.prefix)
            yield from ((each, file) for each, file in mine.items() if _goal(each) != each)
        if not _is_trusted(name, node):
            try:
                file = self._file(name, node)
            except NoSuchPath:
                return  # it holds nothing
            except NczfsError as error:
                file = UnreadFile(self._tree.mtime_ns, str(error))
            assert isinstance(file, File)
            yield shown, file
        else:
            yield shown, UnreadFile(self._tree.mtime_ns)

    def _is_dataset(self, name: str, node: PrefixDirectory, is_alone: bool) -> bool:
        """Return whether a prefix is a dataset, as far as can be told.

        Parameters
        ----------
        is_alone : whether no other one would have the same name as a dataset.
        """
        if is_alone and _is_trusted(name, node):
            return True
        try:
            return not isinstance(node.resolve(), Plain)
        except NczfsError as error:
            log.warning("%s: cannot be looked at: %s", self._place_of(name), error)
            return name.endswith(_SAYING)


class UnreadFile(File):
    """The file of a dataset that cannot be read, or was not looked at yet.

    Parameters
    ----------
    problem : why it cannot be read; None: nothing is known of it.
    """

    def __init__(self, mtime_ns: int, problem: str | None = None) -> None:
        self._mtime_ns = mtime_ns
        self._problem = problem

    @property
    def token(self) -> object:
        return self._problem

    def stat(self) -> NodeStat:
        return self.listing_stat()

    def listing_stat(self) -> NodeStat:
        return NodeStat(0, self._mtime_ns, exact=self._problem is not None)

    def open(self, *, writing: bool = False, truncate: bool = False) -> OpenFile:
        if self._problem is None:
            raise StaleHandle("the dataset was not looked at yet")  # the kernel does now
        raise MetadataError(self._problem)


def _is_trusted(name: str, node: PrefixDirectory) -> bool:
    """Return whether a listing needs to know no more of a prefix than its name.

    That spares requests to a far store, and reading the documents of a hundred thousand datasets in
    a near one. What is known stays what it is, with its inode.
    """
    tree, metadata = node.tree, node.tree.metadata
    if not name.endswith(DATASET_SUFFIXES) or tree.known.has_seen(node.prefix):
        return False
    return metadata.far or any(metadata.shows(keys.join(node.prefix, d)) for d in FORMATS.at_root)


def _goal(name: str) -> str | None:
    """Return the final name of a file that a program writes; None: it is not taken."""
    if name.endswith(SHOWN_SUFFIX) and len(name) > len(SHOWN_SUFFIX):
        return name
    goal = goal_of(name)
    if goal is not None and goal.endswith(SHOWN_SUFFIX):
        return goal
    found = _TEMPORARY.fullmatch(name)
    return None if found is None else found[1]


def _taken_as(name: str, goal: str, stored: str) -> str:
    """Return the name under which a dataset takes a file."""
    return stem(stored) + SHOWN_SUFFIX if name == goal else name
