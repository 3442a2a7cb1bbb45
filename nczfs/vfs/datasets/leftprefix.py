"""Prefixes with what an interrupted creation has left of a group; they are not shown."""

from __future__ import annotations

from typing import Final

from nczfs.engine.metadata.newnodes import new_group
from nczfs.engine.structure.leftgroups import is_unfinished
from nczfs.formats.names import below
from nczfs.library.resolved import At, Resolved
from nczfs.vfs.datasets.tree import DatasetsTree
from nczfs.zmap.keys import Prefix, join

LOOKED_AT_MAX: Final = 100  # each may be a round trip


class LeftPrefixes:
    """The prefixes in a directory that have documents of an empty group, and nothing else.

    There are some in a group that lists its members, and these not: another `mkdir` completes them.

    Parameters
    ----------
    above, prefix : what the directory is, and its place.
    """

    def __init__(self, tree: DatasetsTree, above: Resolved, prefix: Prefix) -> None:
        self._tree = tree
        self._above = above if isinstance(above, At) and above.lists_members else None
        self._prefix = prefix
        self._looked_at = 0

    def has(self, name: str) -> bool:
        """Return whether one has a name, which no member has.

        False after `LOOKED_AT_MAX` calls. Raises MetadataError, StoreError.
        """
        self._looked_at += 1
        if self._above is None or self._looked_at > LOOKED_AT_MAX:
            return False
        dataset, path = self._above.dataset, below(self._above.path, name)
        keys = {join(dataset.root, key) for key in dataset.format.single.group_keys(path)}
        place, is_any = Prefix(join(self._prefix, name)), False
        for entry in self._tree.metadata.entries(place):
            if entry.is_prefix or join(place, entry.name) not in keys:
                return False
            is_any = True
        return is_any and is_unfinished(dataset, new_group(dataset.format, path))
