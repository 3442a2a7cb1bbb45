"""New nodes that no reader finds, because their group, or its list of members, was refused."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from nczfs.engine.metadata.changes import AddMember, GroupBecomesArray, NodeChange, Refused
from nczfs.errors import NczfsError, NoSuchNode
from nczfs.formats.base import Documents, MetadataFormat
from nczfs.formats.names import below
from nczfs.model.hierarchy import GroupHeader

log = logging.getLogger(__name__)


def unfound_members(
    path: str,
    lost: Iterable[NodeChange],
    new: Collection[str],
    written_as: MetadataFormat,
    documents: Documents,
) -> list[str]:
    """Return the paths of new members of a group that no reader finds. Never raises.

    Where the store does not tell what it has of the group, there are none.

    Parameters
    ----------
    lost : the changes of the group that were withdrawn.
    new : the names of the members that are not acknowledged yet.
    documents : of the group, as the store has them now.
    """
    lost = [c for c in lost if c.makes or isinstance(c, AddMember | GroupBecomesArray)]
    if not lost or not new:
        return []
    adding = [c for c in lost if isinstance(c, AddMember | GroupBecomesArray) and c.name in new]
    try:
        documents.fetch(written_as.keys(path))
        group = written_as.read_node(path, documents)
    except NczfsError as error:
        log.warning("/%s: something may be left that it does not list: %s", path, error)
        return []
    if not isinstance(group, GroupHeader):
        names = [*new] if any(c.makes for c in lost) else [c.name for c in adding]
    else:
        names = [c.name for c in adding if not _is_listed(group, c)]
    return [below(path, name) for name in names]


def without_node(changes: Iterable[NodeChange], reason: NczfsError) -> Refused:
    """Return the changes of a new node that is withdrawn, with the reasons that none can stay."""
    gone = NoSuchNode(f"it could not be made: {reason}")
    return [(change, reason if change.makes else gone) for change in changes]


def _is_listed(group: GroupHeader, change: AddMember | GroupBecomesArray) -> bool:
    """Return whether a group has a change of its list already, or has no list."""
    is_group = isinstance(change, AddMember) and change.is_group
    listed = group.groups if is_group else group.arrays
    return listed is None or change.name in listed
