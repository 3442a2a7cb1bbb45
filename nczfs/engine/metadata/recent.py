"""The nodes that were read last, which a change reads several times before and after it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, TypeAlias

from nczfs.formats.base import MetadataFormat, Node
from nczfs.plaindata import frozen
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key, Prefix

COUNT: Final = 8
DOCUMENT_BYTES_MAX: Final = 16 << 10  # of a node: the nodes take no more than a few MiB

_Place: TypeAlias = "tuple[Prefix, str]"


@frozen
class RecentNode:
    """A node without pending changes; None if there is none.

    Attributes
    ----------
    read_as : the format by whose rules it was read.
    used : the versions of the documents that it was read from.
    """

    node: Node | None
    read_as: MetadataFormat
    used: dict[Key, Version]


class RecentNodes:
    """The last few small nodes that were read, by the root of their dataset and their path.

    `_lock` guards the dict.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: OrderedDict[_Place, RecentNode] = OrderedDict()

    def get(self, root: Prefix, path: str, read_as: MetadataFormat) -> RecentNode | None:
        """Return a node if it was read lately; its documents may have other versions by now."""
        with self._lock:
            found = self._nodes.get((root, path))
            if found is None or found.read_as is not read_as:
                return None
            self._nodes.move_to_end((root, path))
            return found

    def note(self, root: Prefix, path: str, read: RecentNode, nbytes: int) -> None:
        """Remember a node whose documents have so many bytes."""
        with self._lock:
            self._nodes.pop((root, path), None)
            if nbytes <= DOCUMENT_BYTES_MAX:
                self._nodes[root, path] = read
            if len(self._nodes) > COUNT:
                self._nodes.popitem(last=False)

    def still(self, root: Prefix, path: str, key: Key, before: Version, now: Version) -> None:
        """Note that a new version of a document describes a node as the one before."""
        with self._lock:
            known = self._nodes.get((root, path))
            if known is not None and known.used.get(key) == before:
                used = {**known.used, key: now}
                self._nodes[root, path] = RecentNode(known.node, known.read_as, used)
