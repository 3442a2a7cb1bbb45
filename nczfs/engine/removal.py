"""Removing a group or variable with all that lies below it.

The reverse of making one. First it is taken out of what makes it visible: the list of its group,
and the consolidated copy. Then go the documents by which the nodes below it are found, then chunks
and all the rest, in bulk. The document that makes a group goes last of all. So others never find a
node that is there in part, and what an end in between leaves is found again by the same path: a
group that is empty, or chunks that belong to nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nczfs.engine.changes import RemoveMember
from nczfs.engine.consolidate import ConsolidatedCopy
from nczfs.engine.dataset import Dataset
from nczfs.errors import MetadataError, NczfsError, NoSuchNode, NoSuchObject, NotWritable
from nczfs.formats import consolidated
from nczfs.formats.base import Node
from nczfs.formats.names import parent_of
from nczfs.formats.nodes import ZARRAY, ZATTRS, ZGROUP
from nczfs.model.hierarchy import GroupHeader
from nczfs.zmap.keys import Key, join

MAKES_A_NODE = frozenset({ZARRAY, ZGROUP, consolidated.KEY, "zarr.json"})
"""Documents by which others find a node."""

# Documents that make no node, and names of chunks, whatever stands between their numbers.
_LEFT = re.compile(rf"{re.escape(ZATTRS)}|\.ncz[a-z]+|(c[./])?\d+([./]\d+)*|c")


@dataclass(frozen=True, slots=True)
class Removal:
    """What goes with a node, in this order; keys of the store.

    Attributes
    ----------
    documents : by which the node and those below it are found, the deepest first.
    rest : chunks, and whatever else lies there.
    last : the document that makes the node a group.
    """

    documents: tuple[Key, ...]
    rest: tuple[Key, ...]
    last: tuple[Key, ...]

    @property
    def count(self) -> int:
        """How many objects that are."""
        return len(self.documents) + len(self.rest) + len(self.last)


def planned(dataset: Dataset, path: str) -> Removal:
    """What goes when the node at a path is removed, "" being the whole dataset. Changes nothing.

    Of what is no node, the chunks that the end of an earlier removal has left are taken as well.
    Any other prefix is refused.

    Raises
    ------
    NoSuchNode : nothing of a group or variable is there. StoreError.
    """
    is_group = _is_group(dataset, path)
    keys = [stat.key for stat in dataset.zmap.list(dataset.prefix(path))]
    if is_group is None:
        _check_left(dataset, path, keys)
    return _in_order(keys, join(dataset.prefix(path), ZGROUP) if is_group else None)


def remove(dataset: Dataset, copy: ConsolidatedCopy, path: str) -> int:
    """Remove the node at a path with all below it, and what was written to it.

    Who still reads or writes its values gets StructureChanged. Dimensions stay.

    Parameters
    ----------
    copy : the consolidated one of the dataset.

    Returns
    -------
    how many objects went.

    Raises
    ------
    NoSuchNode : as `planned`. NotWritable : the store keeps what it has. MetadataError : the group
        above it cannot be changed. StoreError : some of the objects may be gone; calling it again
        removes the others.
    """
    features = dataset.zmap.features
    if features.write_once or not features.writable:
        raise NotWritable(f"{dataset.zmap.name}: nothing that is in it can be removed")
    is_group = _is_group(dataset, path)
    if is_group is None:
        planned(dataset, path)
    count = 0
    if path:
        _take_out(dataset, copy, path)
    else:
        count = _take_all_out(dataset)
    dataset.removed(path)
    # Asked for now, when nothing is on its way to the store any more.
    keys = [stat.key for stat in dataset.zmap.list(dataset.prefix(path))]
    removal = _in_order(keys, join(dataset.prefix(path), ZGROUP) if is_group else None)
    try:
        for step in (removal.documents, removal.rest, removal.last):
            if step:
                dataset.zmap.delete_many(step)
    finally:
        dataset.removed(path)
    dataset.zmap.flush()
    return count + removal.count


def _take_out(dataset: Dataset, copy: ConsolidatedCopy, path: str) -> None:
    """Have a group list a member no more, nor the consolidated copy anything of it."""
    above, name = parent_of(path), path.rpartition("/")[2]
    try:
        written = _store_lists(dataset, above, [name], path) if _lists(dataset, above, name) else {}
        copy.update(written, path)
    except NczfsError:
        copy.distrust()
        raise


def _take_all_out(dataset: Dataset) -> int:
    """Have the root list no members, and no copy tell of any; how many objects went."""
    root = dataset.node("")
    if isinstance(root, GroupHeader) and (names := (*(root.arrays or ()), *(root.groups or ()))):
        _store_lists(dataset, "", names, None)
    key = join(dataset.root, consolidated.KEY)
    try:
        dataset.zmap.stat(key)
    except NoSuchObject:
        return 0
    dataset.zmap.delete_many([key])
    return 1


def _store_lists(
    dataset: Dataset, group: str, names: Iterable[str], leaving: str | None
) -> dict[str, bytes]:
    """Take names out of the list of a group, and store it with all that must be stored before.

    Returns
    -------
    the documents that were written.
    """
    edits = dataset.edits
    changes = [RemoveMember(name) for name in names]
    for change in changes:
        edits.add(group, change)
    try:
        pending = [p for p in edits.pending() if leaving is None or not _is_within(p, leaving)]
        nodes: dict[str, Node] = {path: dataset.node(path) for path in pending}
        return edits.flush(nodes)
    except NczfsError:
        for change in changes:
            edits.withdraw(group, change)
        raise


def _is_group(dataset: Dataset, path: str) -> bool | None:
    """Whether a node is a group; a broken one is none. None: there is no node."""
    try:
        loaded = dataset.load(path)
    except MetadataError:
        return False
    return None if loaded is None else isinstance(loaded.node, GroupHeader)


def _lists(dataset: Dataset, group: str, name: str) -> bool:
    loaded = dataset.load(group)
    if loaded is None or not isinstance(loaded.node, GroupHeader):
        return False
    return name in (*(loaded.node.arrays or ()), *(loaded.node.groups or ()))


def _check_left(dataset: Dataset, path: str, keys: list[Key]) -> None:
    """Raise NoSuchNode unless keys are what an ended removal left, or a list names what is gone."""
    place = dataset.url(path)
    above = parent_of(path)
    if not path or _is_group(dataset, above) is not True:
        raise NoSuchNode(f"{place}: no group or variable")
    start = f"{dataset.prefix(path)}/"
    strange = next((key for key in keys if not _LEFT.fullmatch(key.removeprefix(start))), None)
    if strange is not None:
        raise NoSuchNode(f"{place}: no group or variable, and holds {strange}: nothing is removed")
    if not keys and not _lists(dataset, above, path.rpartition("/")[2]):
        raise NoSuchNode(f"{place}: no group or variable")


def _in_order(keys: list[Key], group: Key | None) -> Removal:
    """What goes when; `group` is the document that makes the node a group."""
    documents = [k for k in keys if k != group and _name(k) in MAKES_A_NODE]
    rest = [k for k in keys if k != group and _name(k) not in MAKES_A_NODE]
    last = [k for k in keys if k == group]
    documents.sort(key=lambda key: -key.count("/"))
    return Removal(tuple(documents), tuple(rest), tuple(last))


def _name(key: Key) -> str:
    return key.rpartition("/")[2]


def _is_within(path: str, above: str) -> bool:
    return path == above or path.startswith(f"{above}/")
