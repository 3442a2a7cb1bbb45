"""What is left of a group that was made, or became a variable, where that was interrupted."""

from __future__ import annotations

from nczfs.engine.dataset import Dataset
from nczfs.engine.metadata.changes import GroupBecomesArray, NodeChange
from nczfs.engine.metadata.newdocuments import documents_of, keys_of_group_alone, left_of_group
from nczfs.engine.metadata.newnodes import DropGroup
from nczfs.formats.names import parent_of
from nczfs.formats.rewriting import is_described_once
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


def is_free(dataset: Dataset, path: str, group: GroupHeader | None) -> bool:
    """Return whether a node can be made at a path: there is none, or an unfinished one.

    Raises as `completing`.

    Parameters
    ----------
    group : the node, if it is a group.
    """
    if dataset.load(path) is None:
        return True
    return group is not None and is_unfinished(dataset, group)


def is_unfinished(dataset: Dataset, group: GroupHeader) -> bool:
    """Return whether only its own group's list is missing of a group, and perhaps other documents.

    What documents there are must be those that its creation writes, to the byte. The store is asked
    for the list again, because another client may have finished the group. Raises as `completing`.

    Parameters
    ----------
    group : as it would be made.
    """
    written_as = dataset.format.single
    if not _is_unlisted(dataset, group):
        return False
    dataset.ask_again(written_as.keys(parent_of(group.path)))
    if not _is_unlisted(dataset, group):
        return False
    documents, keys = dataset.documents(), written_as.keys(group.path)
    documents.fetch(written_as.keys_to_change(group.path))
    if not is_described_once(written_as, group.path, documents):
        return False
    made = documents_of(group, written_as, documents, None)
    return all(documents.get(key) in (None, made.get(key)) for key in keys)


def _is_unlisted(dataset: Dataset, group: GroupHeader) -> bool:
    """Return whether the group above lists its members, and not this one."""
    above = dataset.found_node(parent_of(group.path))
    if not isinstance(above, GroupHeader) or above.groups is None:
        return False
    return group.name not in (*above.groups, *(above.arrays or ()))


def _is_listed(dataset: Dataset, path: str) -> bool:
    """Return whether the group above lists a variable as a group."""
    above = dataset.found_node(parent_of(path)) if dataset.format.declares else None
    names = above.groups if isinstance(above, GroupHeader) else None
    return path.rpartition("/")[2] in (names or ())
