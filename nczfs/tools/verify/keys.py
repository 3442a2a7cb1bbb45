"""The meaning of each key of a dataset: a document, a unit of chunks, or a foreign object."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator

from nczfs.engine.chunks.base import UnitIndex
from nczfs.engine.structure.ownership import RENAMING
from nczfs.engine.structure.renaming import is_renamed, read_mark
from nczfs.errors import NoSuchObject
from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.names import parent_of
from nczfs.formats.registry import FORMATS
from nczfs.messages import shown
from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import family
from nczfs.plaindata import frozen
from nczfs.tools.verify.findings import Finding, FindingKind
from nczfs.tools.verify.nodes import Nodes
from nczfs.zmap.base import Stat, ZMap
from nczfs.zmap.keys import Key, join

_NUMBER = re.compile(r"\d{1,20}")
_PLACES_REMEMBERED = 1000


@frozen
class StoredUnit:
    """An object with values of a variable: a chunk, or a shard of several."""

    variable: Variable
    index: UnitIndex
    stat: Stat


class KeySorter:
    """A classifier of keys by the known nodes. It does not remember the keys it has seen.

    Keys below an unreadable node are skipped, because the node was already reported.

    Parameters
    ----------
    names : of the documents of the dataset's format.
    """

    def __init__(self, zmap: ZMap, nodes: Nodes, names: DocumentNames) -> None:
        self._zmap = zmap
        self._nodes = nodes
        self._nodes_of_others = FORMATS.nodes.difference(names.nodes)
        self._unlisted: set[str] = set()
        self._places: OrderedDict[str, bool] = OrderedDict()

    def sort(self, stat: Stat) -> StoredUnit | Finding | None:
        """Return a unit, or a finding about the key; None: a document, or nothing new."""
        if stat.key.rpartition("/")[2] == RENAMING:
            return self._renamed(stat.key)
        for place in _upwards(stat.key):
            if place in self._nodes.broken:
                return None
            node = self._nodes.found.get(place)
            if isinstance(node, Variable) and node.is_dependent:
                continue  # its chunks lie below another place, maybe as these do
            if isinstance(node, Variable):
                return self._in_array(node, stat)
            if node is not None:
                return self._in_group(place, stat.key)
        return None

    def _renamed(self, key: Key) -> Finding:
        """Report what an interrupted rename left, from the mark of the old or the new place."""
        place = Key(key.rpartition("/")[0])
        mark, path = read_mark(self._zmap, key), f"/{place}"
        if mark.goes_to is not None:
            goal = join(parent_of(place), mark.goes_to)
            if is_renamed(self._zmap, place, goal, self._is_found):
                why = f"was renamed to {mark.goes_to!r}, and not all of it was removed"
                return Finding(
                    FindingKind.RENAME, path, "", f"{why}; `nczfs rm -r` removes the rest"
                )
        else:
            source = mark.comes_from and join(parent_of(place), mark.comes_from)
            if source is None or self._is_found(source) or not self._is_found(place):
                old = repr(mark.comes_from) if mark.comes_from is not None else "another node"
                why = f"the rename of {old} to it was not completed; this copy is incomplete"
                return Finding(FindingKind.RENAME, path, "", f"{why}; `nczfs rm -r` removes it")
        return Finding(FindingKind.STRAY, path, key, "left by a rename that is over; ignored")

    def _is_found(self, place: str) -> bool:
        """Return whether readers find a node at a place."""
        return place in self._nodes.found or place in self._nodes.broken

    def _in_array(self, variable: Variable, stat: Stat) -> StoredUnit | Finding | None:
        name = stat.key[len(variable.key) + 1 if variable.key else 0 :]
        path = self._nodes.shown_path(variable.path)
        if name in FORMATS.documents:
            return self._document(path, stat.key)
        found = _unit_named(variable, name)
        if found is None:
            return Finding(FindingKind.STRAY, path, stat.key, "not a document or a chunk; ignored")
        variable, unit = found
        path = self._nodes.shown_path(variable.path)
        if unit not in variable.array.units:
            what = "shard" if variable.array.shards else "chunk"
            shape = shown(list(variable.array.shape))
            return Finding(
                FindingKind.BEYOND, path, stat.key, f"a {what} beyond the shape {shape}; never read"
            )
        return StoredUnit(variable, unit, stat)

    def _in_group(self, group: str, key: Key) -> Finding | None:
        parent, _, name = key.rpartition("/")
        if parent == group and name in FORMATS.documents:
            return self._document(self._nodes.shown_path(group), key)
        for place in _downwards(group, parent):
            if self._is_node(place):
                if place in self._unlisted:
                    return None
                self._unlisted.add(place)
                return Finding(
                    FindingKind.UNLISTED,
                    f"/{place}",
                    "",
                    "exists, but belongs to no group: not shown",
                )
        return Finding(
            FindingKind.STRAY,
            self._nodes.shown_path(group),
            key,
            "not part of the dataset; ignored",
        )

    def _document(self, path: str, key: Key) -> Finding | None:
        """Report a document that makes a node in another version of Zarr, too."""
        if key.rpartition("/")[2] not in self._nodes_of_others:
            return None
        return Finding(
            FindingKind.TWICE,
            path,
            key,
            "of another version of Zarr; not read, and the metadata cannot be changed beside it",
        )

    def _is_node(self, place: str) -> bool:
        """Return whether a group or array lies at a place that no group leads to."""
        known = self._places.get(place)
        if known is None:
            known = any(self._exists(join(place, name)) for name in FORMATS.nodes)
            self._places[place] = known
            if len(self._places) > _PLACES_REMEMBERED:
                self._places.popitem(last=False)
        return known

    def _exists(self, key: Key) -> bool:
        try:
            self._zmap.stat(key)
        except NoSuchObject:
            return False
        return True


def _unit_named(primary: Variable, name: str) -> tuple[Variable, UnitIndex] | None:
    """Return the array among a primary and what depends on it that has a unit of a name.

    Preferably one within whose shape it lies.
    """
    beyond = None
    for variable in family(primary):
        unit = variable.array.unit_index(name)
        if unit is not None and unit in variable.array.units:
            return variable, unit
        if unit is not None and beyond is None:
            beyond = variable, unit
    return beyond


def _upwards(key: str) -> Iterator[str]:
    """Yield the places that a key lies below, from the nearest to the root."""
    while key:
        key = key.rpartition("/")[0]
        yield key


def _downwards(group: str, parent: str) -> Iterator[str]:
    """Yield the places below a group, down to one below it."""
    place = group
    for name in parent[len(group) :].strip("/").split("/"):
        if name:
            place = join(place, name)
            yield place
