"""The served store: its directories, files and groups by the paths of URLs."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import TypeAlias

from nczfs.engine.arrays.array import Array, now
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.hierarchy import dimensions_of
from nczfs.engine.metadata.ledger import Ledger
from nczfs.engine.options import EngineOptions, format_options
from nczfs.engine.stores import open_store
from nczfs.errors import BadMetadata, IsADirectory, NoSuchPath, NotADataset, NotADirectory
from nczfs.library.resolved import At, Broken
from nczfs.messages import shown
from nczfs.model.hierarchy import Group, GroupHeader, Variable
from nczfs.plaindata import frozen
from nczfs.vfs.datasets.access import AccessLog
from nczfs.vfs.datasets.choice import Choice
from nczfs.vfs.datasets.prefixdirectory import PrefixDirectory
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.vfs.nodes import Directory, File, FixedDirectory
from nczfs.views.netcdf.formats import NetcdfFiles
from nczfs.zmap import keys
from nczfs.zmap.registry import StoreOptions, archive_in
from nczfs.zmap.url import parse_url

LISTED_MAX = 1000
"""Entries of a directory in one page."""

LOOKED_AT_MAX = 100_000
"""Entries of a directory in all its pages; stores list them in any order."""

_DEPTH_MAX = 100


@frozen
class ServedGroup:
    """A group of a dataset with everything below it, as it was at the time of a request.

    Attributes
    ----------
    path : of the URL, without a leading slash; names the group in messages.
    tree : the group as plain data.
    variables : by their paths below the group.
    """

    path: str
    name: str
    dataset: Dataset
    tree: Group
    variables: dict[str, Variable]

    def array(self, variable: Variable) -> Array:
        """Return the values of one of the variables."""
        stored = variable
        if variable.key == "":  # an array at the root of a store has a made-up path here
            stored = replace(variable, path="")
        return self.dataset.array(stored)


Place: TypeAlias = "tuple[bool, str]"
"""Where an entry stands in the pages of its directory: whether it is one itself, and its name."""


@frozen
class Entries:
    """Entries of a directory that are shown in one page.

    Attributes
    ----------
    last : the place of the last one, if more follow; None: none follow.
    is_cut : whether the directory has more entries than are looked at.
    """

    shown: tuple[tuple[str, Directory | File], ...]
    last: Place | None
    is_cut: bool


class ServedStore:
    """A store, opened for reading; the names below it are those of `datasets/` in a mount.

    Every method may be called from any thread.

    Parameters
    ----------
    record_dimensions : names of dimensions that are unlimited in netCDF files.

    Raises
    ------
    BadUrl, UsageError : the URL names no store. StoreError : it cannot be reached.
    """

    def __init__(
        self,
        url: str,
        store_options: StoreOptions,
        options: EngineOptions,
        record_dimensions: frozenset[str] = frozenset(),
    ) -> None:
        place = parse_url(url)
        self.name = place.last_word
        self._zmap = open_store(place, replace(store_options, read_only=True))
        self._engine = Engine(options)
        self._engine.cache.claim(self._zmap.memory_bytes)
        self._metadata = MetadataCache(
            self._zmap, options, self._engine.pools, ledger=self._engine.ledger
        )
        self._netcdf = NetcdfFiles(record_dimensions, options.cache_dir, options.memory_limit_bytes)
        began_ns = time.time_ns()
        tree = DatasetsTree(
            self._metadata,
            self._engine,
            format_options(place.modes, options),
            AccessLog(),
            began_ns,
            Choice(None),
            self._netcdf,
            lambda source, key, kept: archive_in(source, key, kept=kept),
        )
        top: Directory = PrefixDirectory(tree, keys.ROOT, self.name)
        try:
            if isinstance(tree.resolve_root(keys.ROOT), At | Broken):
                top = FixedDirectory({self.name: top}, began_ns)
        except BaseException:
            self.close()
            raise
        self._top = top

    def node(self, path: str) -> Directory | File:
        """Return the directory or file at the path of a URL.

        Raises
        ------
        NoSuchPath, NotADirectory, MetadataError, StoreError.
        """
        node: Directory | File = self._top
        names = [name for name in path.split("/") if name]
        if len(names) > _DEPTH_MAX:
            raise NoSuchPath(f"{shown(path)}: more than {_DEPTH_MAX} levels")
        for name in names:
            if not isinstance(node, Directory):
                raise NotADirectory(f"{shown(path)}: nothing is below a file")
            found = node.lookup(name)
            assert isinstance(found, Directory | File)
            node = found
        return node

    def entries(self, directory: Directory, after: Place | None = None) -> Entries:
        """Return the entries of a directory that come next: files, then directories, by name.

        Parameters
        ----------
        after : the place of the entry before; None: begin with the first one.
        """
        listed = _entries(directory)
        places = (
            (isinstance(node, Directory), name, node)
            for name, node in islice(listed, LOOKED_AT_MAX)
        )
        later = (each for each in places if after is None or each[:2] > after)
        found = heapq.nsmallest(LISTED_MAX + 1, later, key=itemgetter(0, 1))
        is_cut = next(listed, None) is not None
        shown = found[:LISTED_MAX]
        last = shown[-1][:2] if len(found) > LISTED_MAX else None
        return Entries(tuple((name, node) for _, name, node in shown), last, is_cut)

    def group(self, path: str) -> ServedGroup:
        """Return the group at the path of a URL.

        Raises
        ------
        NoSuchPath, NotADataset, BadMetadata, StoreError.
        """
        node = self.node(path)
        if isinstance(node, File):
            raise IsADirectory(f"{shown(path)}: is a file, not a dataset")
        group = self.group_of(node, path)
        if group is None:
            raise NotADataset(f"{shown(path.strip('/') or '/')}: is no dataset and no group")
        return group

    def group_of(self, directory: Directory, path: str) -> ServedGroup | None:
        """Return the group that a directory shows; None: it shows none."""
        resolved = directory.resolve() if isinstance(directory, PrefixDirectory) else None
        if isinstance(resolved, Broken):
            raise BadMetadata(resolved.problem)
        if not isinstance(resolved, At):
            return None
        name = path.strip("/").rpartition("/")[2]
        dataset, node = resolved.dataset, resolved.loaded.node
        if isinstance(node, Variable):
            if resolved.path:
                return None
            variable = replace(node, path=name)
            header = GroupHeader("", node.format)
            tree = Group(header, tuple(dimensions_of(header, [variable], ())), (variable,))
        else:
            tree = dataset.group(resolved.path)
        top = f"{tree.header.path}/" if tree.header.path else ""
        variables = {each.path.removeprefix(top): each for each in variables_in(tree)}
        return ServedGroup(path.strip("/"), name, dataset, tree, variables)

    def variable_of(self, directory: Directory) -> tuple[Dataset, Variable] | None:
        """Return the variable that a directory shows, and its dataset; None: it shows none.

        Raises
        ------
        BadMetadata, StoreError.
        """
        resolved = directory.resolve() if isinstance(directory, PrefixDirectory) else None
        if isinstance(resolved, Broken):
            raise BadMetadata(resolved.problem)
        if not isinstance(resolved, At) or not isinstance(resolved.loaded.node, Variable):
            return None
        return resolved.dataset, resolved.loaded.node

    @property
    def ledger(self) -> Ledger:
        """The budget of what is kept of metadata."""
        return self._engine.ledger

    @property
    def fresh_since(self) -> float:
        """The time since which chunks must have been confirmed for an answer that begins now."""
        return now() if self._metadata.is_prompt else now() - self._metadata.ttl_s

    def close(self) -> None:
        """Stop the threads and close the store; running answers get an error."""
        self._netcdf.close()
        self._engine.close()
        self._zmap.close()


def variables_in(group: Group) -> Iterator[Variable]:
    """Yield the variables of a group and of all groups below it."""
    yield from group.variables
    for child in group.groups:
        yield from variables_in(child)


def _entries(directory: Directory) -> Iterator[tuple[str, Directory | File]]:
    for name, node in directory.listing():
        if isinstance(node, Directory | File):
            yield name, node
