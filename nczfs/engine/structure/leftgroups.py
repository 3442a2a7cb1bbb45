"""What is left of a group that became a variable, where that was interrupted."""

from __future__ import annotations

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import GroupBecomesArray, NodeChange
from nczfs.engine.metadata.newdocuments import keys_of_group_alone, left_of_group
from nczfs.engine.metadata.newnodes import DropGroup
from nczfs.formats.names import parent_of
from nczfs.model.hierarchy import GroupHeader


def completing(dataset: Dataset, path: str) -> list[tuple[str, NodeChange]]:
    """Return the changes that remove what is left, by the paths of their nodes.

    Raises
    ------
    MetadataError, StoreError.
    """
    changes: list[tuple[str, NodeChange]] = []
    if left_of_group(dataset.format.single, path, dataset.documents()):
        changes.append((path, DropGroup()))
    if _is_listed(dataset, path):
        changes.append((parent_of(path), GroupBecomesArray(path.rpartition("/")[2])))
    return changes


def is_left(dataset: Dataset, path: str) -> bool:
    """Return whether anything is left, as far as no round trip is needed to know.

    Raises as `completing`.
    """
    keys = keys_of_group_alone(dataset.format.single, path)
    return any(map(dataset.shows, keys)) or _is_listed(dataset, path)


def _is_listed(dataset: Dataset, path: str) -> bool:
    """Return whether the group above lists a variable as a group."""
    above = dataset.found_node(parent_of(path)) if dataset.format.declares else None
    names = above.groups if isinstance(above, GroupHeader) else None
    return path.rpartition("/")[2] in (names or ())
