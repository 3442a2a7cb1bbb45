"""The space that groups and variables take in their store.

Only listings show that: S3 lists up to 1000 objects a request, and a web server needs a request for
each. So several prefixes are listed at a time.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from nczfs.engine.structure.ownership import UNFINISHED
from nczfs.library.api import Group as OpenGroup
from nczfs.library.variable import LibraryNode
from nczfs.library.variable import Variable as OpenVariable
from nczfs.model.hierarchy import Group, Variable
from nczfs.plaindata import frozen
from nczfs.tools.progress import Progress
from nczfs.zmap.base import Stat, ZMap
from nczfs.zmap.keys import Prefix, join

THREADS = 16
UNFINISHED_MAX = 100
_TOLD_EVERY_S = 0.2
_COUNTED_AT_ONCE = 1000
_MARK = f"/{UNFINISHED}"


@frozen
class Usage:
    """A number of objects in a store, and their bytes.

    Attributes
    ----------
    unfinished : the first prefixes among them that are marked as unfinished.
    """

    objects: int = 0
    bytes: int = 0
    unfinished: tuple[Prefix, ...] = ()

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.objects + other.objects,
            self.bytes + other.bytes,
            (self.unfinished + other.unfinished)[:UNFINISHED_MAX],
        )


@frozen
class NodeUsage:
    """The space that a group or variable takes.

    Attributes
    ----------
    path : below the root of the dataset; "" is the root.
    variable : None for a group.
    usage : with all below it.
    decoded_bytes : of all values, including chunks that were never written; None if a variable
        among them has values of variable length.
    """

    path: str
    variable: Variable | None
    usage: Usage
    decoded_bytes: int | None


def lists_sizes(node: LibraryNode) -> bool:
    """Return whether listings of the store show sizes, so that no request per object is needed."""
    return node._dataset.zmap.features.lists_sizes


def chunk_usages(
    node: LibraryNode, variables: Sequence[Variable], progress: Progress = lambda _: None
) -> Iterator[Usage]:
    """Return the usage of variables by their stored chunks, in order.

    Parameters
    ----------
    node : of the dataset that the variables are in.
    progress : called with the number of objects that were listed.

    Raises
    ------
    StoreError : the store cannot be reached, or cannot list.
    """
    dataset = node._dataset

    def listing(variable: Variable) -> Callable[[], Iterable[Stat]]:
        prefix = dataset.prefix(variable.key)
        start = len(prefix) + 1 if prefix else 0

        def chunks() -> Iterator[Stat]:
            for stat in dataset.zmap.list(prefix):
                if variable.array.unit_index(stat.key[start:]) is not None:
                    yield stat

        return chunks

    return _summed(map(listing, variables), progress)


def node_usages(node: LibraryNode, progress: Progress = lambda _: None) -> list[NodeUsage]:
    """Return the usage of a node and all below it, from every object below its prefix.

    The deepest come first, and the node itself last. Raises as `chunk_usages`.
    """
    dataset = node._dataset
    if isinstance(node, OpenVariable):
        variable = node.description
        if variable.is_dependent:  # beside chunks of others
            (usage,) = chunk_usages(node, [variable], progress)
            return [_of_variable(variable, usage)]
        (usage,) = prefix_usages(dataset.zmap, [dataset.prefix(variable.key)], progress)
        return [_of_variable(variable, usage)]
    assert isinstance(node, OpenGroup)
    top = node.tree()
    groups = list(_groups(top))
    variables = [variable for group in groups for variable in group.variables]

    def beside(group: Group) -> Callable[[], Iterable[Stat]]:
        """Return a lister of the objects in a group that belong to no member."""
        prefix = dataset.prefix(group.header.path)
        members = {variable.name for variable in group.variables}
        members.update(child.header.name for child in group.groups)

        def objects() -> Iterator[Stat]:
            for entry in dataset.zmap.search(prefix):
                if entry.stat is not None:
                    yield entry.stat
                if entry.is_prefix and entry.name not in members:
                    yield from dataset.zmap.list(Prefix(join(prefix, entry.name)))

        return objects

    listings = [
        *(_below(dataset.zmap, dataset.prefix(variable.key)) for variable in variables),
        *map(beside, groups),
    ]
    sums = list(_summed(listings, progress))
    of_variable = dict(zip((v.path for v in variables), sums, strict=False))
    of_group = dict(zip((g.header.path for g in groups), sums[len(variables) :], strict=True))
    found: list[NodeUsage] = []

    def visit(group: Group) -> NodeUsage:
        parts = [visit(child) for child in sorted(group.groups, key=lambda g: g.header.name)]
        for variable in sorted(group.variables, key=lambda variable: variable.name):
            parts.append(_of_variable(variable, of_variable[variable.path]))
            found.append(parts[-1])
        usage = sum((part.usage for part in parts), of_group[group.header.path])
        decoded = [part.decoded_bytes for part in parts]
        known = [size for size in decoded if size is not None]
        total = sum(known) if len(known) == len(decoded) else None
        found.append(NodeUsage(group.header.path, None, usage, total))
        return found[-1]

    visit(top)
    return found


def prefix_usages(
    zmap: ZMap, prefixes: Sequence[Prefix], progress: Progress = lambda _: None
) -> Iterator[Usage]:
    """Return the usage of all objects below prefixes, in order. Raises as `chunk_usages`."""
    return _summed((_below(zmap, prefix) for prefix in prefixes), progress)


def _below(zmap: ZMap, prefix: Prefix) -> Callable[[], Iterable[Stat]]:
    return lambda: zmap.list(prefix)


def _of_variable(variable: Variable, usage: Usage) -> NodeUsage:
    return NodeUsage(variable.path, variable, usage, variable.array.decoded_bytes)


def _groups(group: Group) -> Iterator[Group]:
    yield group
    for child in group.groups:
        yield from _groups(child)


def _summed(
    listings: Iterable[Callable[[], Iterable[Stat]]], progress: Progress
) -> Iterator[Usage]:
    """Yield the sums of listings in order. Several run at a time, and end with this generator."""
    work = _Work()
    with contextlib.closing(work):
        futures = deque(work.begin(listing) for listing in listings)
        while futures:
            while not wait([futures[0]], _TOLD_EVERY_S).done:
                progress(work.counted())
            progress(work.counted())
            yield futures.popleft().result()


class _Work:
    """Threads that list. `_lock` guards the count."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "nczfs-usage")
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._count = 0

    def begin(self, listing: Callable[[], Iterable[Stat]]) -> Future[Usage]:
        """Start to sum up a listing."""
        return self._pool.submit(self._sum, listing)

    def counted(self) -> int:
        """Return how many objects were listed since the last call."""
        with self._lock:
            count, self._count = self._count, 0
        return count

    def close(self) -> None:
        """End running listings at their next page."""
        self._ended.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _sum(self, listing: Callable[[], Iterable[Stat]]) -> Usage:
        objects = size = new = 0
        unfinished: list[Prefix] = []
        for stat in listing():
            objects += 1
            new += 1
            size += stat.size
            if stat.key.endswith(_MARK) and len(unfinished) < UNFINISHED_MAX:
                unfinished.append(Prefix(stat.key.removesuffix(_MARK)))
            if new == _COUNTED_AT_ONCE:
                self._add(new)
                new = 0
        self._add(new)
        return Usage(objects, size, tuple(unfinished))

    def _add(self, count: int) -> None:
        if self._ended.is_set():
            raise _Ended
        with self._lock:
            self._count += count


class _Ended(Exception):
    """The sum is not needed any more."""
