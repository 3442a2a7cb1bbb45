"""A group or variable of which files are open: they follow it when it is renamed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar
from weakref import WeakSet, WeakValueDictionary

from nczfs.errors import NczfsError, StructureChanged
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Prefix, is_within, moved, relative

_T = TypeVar("_T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class NodePlace:
    """The place of a node in its store; all who have files of it open share this object.

    Attributes
    ----------
    prefix : changes with a rename.
    is_gone : whether the node was removed; another one may be there now.
    """

    zmap: ZMap
    prefix: Prefix
    is_gone: bool = False


class NodePlaces:
    """The places of the nodes of which files are open. `_lock` guards the collections.

    A node that a rename has moved may still be found at its old place for a moment; those who ask
    for that place get the new one.

    Attributes
    ----------
    moving : the prefixes from which something moves, from before others see that until nothing is
        left there, and where it is by now; None: it has not moved yet. Each change replaces it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shared: WeakValueDictionary[tuple[ZMap, Prefix], NodePlace] = WeakValueDictionary()
        self._all: WeakSet[NodePlace] = WeakSet()
        self.moving: Mapping[tuple[ZMap, Prefix], Prefix | None] = {}

    def of(self, zmap: ZMap, prefix: Prefix) -> NodePlace:
        """Return the place of what is now at a prefix of a store."""
        with self._lock:
            prefix = self._present(zmap, prefix)
            found = self._shared.get((zmap, prefix))
            if found is None:
                found = self._shared[zmap, prefix] = NodePlace(zmap, prefix)
                self._all.add(found)
            return found

    def present(self, zmap: ZMap, prefix: Prefix) -> Prefix:
        """Return the prefix of what is now, or still, at a prefix of a store."""
        with self._lock:
            return self._present(zmap, prefix)

    @contextmanager
    def leaving(self, zmap: ZMap, prefix: Prefix, settled: Callable[[], object]) -> Iterator[None]:
        """Note that what is at or below a prefix moves during the block, if nothing fails.

        Parameters
        ----------
        settled : called at the end if it has moved: then nothing is left at the prefix.
        """
        with self._lock:
            self.moving = {**self.moving, (zmap, prefix): None}
        try:
            yield
        finally:
            with self._lock:
                goal = self.moving[zmap, prefix]
                self.moving = {k: g for k, g in self.moving.items() if k != (zmap, prefix)}
            if goal is not None:
                settled()

    def is_leaving(self, zmap: ZMap, prefix: Prefix) -> bool:
        """Return whether what is at a prefix belongs to something that moves."""
        return any(store is zmap and is_within(prefix, old) for store, old in self.moving)

    def move(self, zmap: ZMap, prefix: Prefix, goal: Prefix) -> None:
        """Move everything at or below a prefix to another one, in a block of `leaving`."""
        with self._lock:
            self.moving = {**self.moving, (zmap, prefix): goal}
            for place in self._taken(zmap, prefix):
                place.prefix = Prefix(moved(place.prefix, prefix, goal))
                self._shared[zmap, place.prefix] = place

    def end(self, zmap: ZMap, prefix: Prefix) -> None:
        """Note that everything at or below a prefix is removed."""
        with self._lock:
            for place in self._taken(zmap, prefix):
                place.is_gone = True
                self._all.discard(place)

    def _present(self, zmap: ZMap, prefix: Prefix) -> Prefix:
        for (store, old), goal in self.moving.items():
            if goal is not None and store is zmap and is_within(prefix, old):
                prefix = Prefix(moved(prefix, old, goal))
        return prefix

    def _taken(self, zmap: ZMap, prefix: Prefix) -> list[NodePlace]:
        found = [p for p in self._all if p.zmap is zmap and is_within(p.prefix, prefix)]
        for place in found:
            self._shared.pop((zmap, place.prefix), None)
        return found


class OpenNode:
    """A node of a dataset, wherever it is.

    Parameters
    ----------
    root : of the dataset.
    """

    def __init__(self, place: NodePlace, root: Prefix) -> None:
        self._place = place
        self._root = root

    @property
    def prefix(self) -> Prefix:
        """The prefix in the store."""
        return self._place.prefix

    @property
    def path(self) -> str:
        """The path in the dataset."""
        return relative(self._place.prefix, self._root)

    def is_same(self, other: OpenNode) -> bool:
        """Return whether both are one node, wherever it is."""
        return self._place is other._place

    def follow(self, function: Callable[[str], _T]) -> _T:
        """Call a function with the path, and again if a rename changed that meanwhile.

        Raises
        ------
        StructureChanged : the node was removed.
        """
        while True:
            path = self.path
            self.check()
            try:
                found = function(path)
            except NczfsError:
                if path == self.path:
                    self.check()
                    raise
            else:
                if path == self.path:
                    return found

    def check(self) -> None:
        """Raise StructureChanged if the node was removed."""
        if self._place.is_gone:
            raise StructureChanged(f"/{self.path}: was removed")
