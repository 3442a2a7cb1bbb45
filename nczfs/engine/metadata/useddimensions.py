"""The dimensions that only the variables of a group have, where no document of the group has them.

They are found by reading all members of the group. Who makes many variables needs them for each
one: so what was found is kept, and only members that have changed since are read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from nczfs.engine.metadata.documents import MetadataCache
from nczfs.engine.metadata.ledger import Shelf
from nczfs.formats.base import Node
from nczfs.formats.names import parent_of
from nczfs.model.hierarchy import Dimension, Variable
from nczfs.plaindata import frozen

MEMBER_BYTES: Final = 400  # about what a member takes here, with its dimensions

_OfMember: TypeAlias = "tuple[Dimension, ...]"


@dataclass(slots=True)
class InUse:
    """The dimensions of a group that its variables have, by name.

    Attributes
    ----------
    first : of several with one name and different lengths the first one.
    longest : the longest one.
    """

    first: dict[str, Dimension] = field(default_factory=dict)
    longest: dict[str, Dimension] = field(default_factory=dict)

    def add(self, dimensions: Iterable[Dimension]) -> None:
        """Add the dimensions of one more variable."""
        for each in dimensions:
            self.first.setdefault(each.name, each)
            if self.longest.setdefault(each.name, each).size < each.size:
                self.longest[each.name] = each


@frozen
class _Found:
    """What was found in a group.

    Attributes
    ----------
    at : when.
    changes : those of the documents by others that were known then.
    by_path : the dimensions of each member.
    """

    at: float
    changes: int
    in_use: InUse = field(default_factory=InUse)
    by_path: dict[str, _OfMember] = field(default_factory=dict)

    def add(self, path: str, dimensions: _OfMember) -> None:
        self.by_path[path] = dimensions
        self.in_use.add(dimensions)


class UsedDimensions:
    """What the variables of each group have.

    It is believed as long as documents are. `_lock` guards the paths that have changed; `_finding`
    is held while members are read, so that one thread at a time does it.

    Parameters
    ----------
    members : returns the nodes right below a group.
    load : returns the node at a path; None: there is none.
    metadata : has the documents.
    """

    def __init__(
        self,
        members: Callable[[str], Iterable[Node]],
        load: Callable[[str], Node | None],
        metadata: MetadataCache,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._members = members
        self._load = load
        self._metadata = metadata
        self._clock = clock
        self._lock = threading.Lock()
        self._finding = threading.RLock()
        self._found: Shelf[str, _Found] = Shelf(metadata.ledger)
        self._changed: dict[str, set[str]] = {}  # of the groups that were looked at

    def of(self, group: str) -> InUse:
        """Return the dimensions of a group that its variables have, with pending changes.

        Raises
        ------
        MetadataError, StoreError.
        """
        with self._finding:
            found = self._found.get(group)
            with self._lock:
                changed, self._changed[group] = self._changed.get(group, set()), set()
            if found is None or not self._is_believed(found):
                return self._find(group)
            self._found.pop(group)  # until it is right again
            for path in changed:
                node = self._load(path)
                has, had = _own(node, group), found.by_path.get(path)
                if had is not None and had != has:
                    return self._find(group)
                found.add(path, has)
            self._keep(group, found)
            return found.in_use

    def changed(self, path: str) -> None:
        """Note that the node at a path may read differently than before."""
        with self._lock:
            changed = self._changed.get(parent_of(path))
            if changed is not None and path:
                changed.add(path)

    def _find(self, group: str) -> InUse:
        found = _Found(self._clock(), self._metadata.changes)
        for node in self._members(group):
            found.add(node.path, _own(node, group))
        self._keep(group, found)
        return found.in_use

    def _is_believed(self, found: _Found) -> bool:
        age_s = self._clock() - found.at
        return age_s < self._metadata.ttl_s and found.changes == self._metadata.changes

    def _keep(self, group: str, found: _Found) -> None:
        self._found.put(group, found, len(found.by_path) * MEMBER_BYTES)


def _own(node: Node | None, group: str) -> _OfMember:
    """Return the dimensions of a group that a member of it has."""
    dimensions = node.dimensions if isinstance(node, Variable) else ()
    return tuple(each for each in dimensions if each.group == group)
