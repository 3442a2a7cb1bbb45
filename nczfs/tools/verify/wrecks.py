"""Empty groups, and groups that a failed copy left in place of a variable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nczfs.engine.values.fillvalues import FILL_VALUE
from nczfs.formats.names import below, parent_of
from nczfs.messages import shown
from nczfs.model.hierarchy import GroupHeader
from nczfs.tools.verify.findings import Finding, FindingKind
from nczfs.tools.verify.nodes import Nodes

CHUNKS = "chunks"
"""The directory of a variable's chunks in a mount, which becomes a group if a copy fails."""

_OF_VARIABLES = frozenset(
    {
        *(FILL_VALUE, "missing_value", "units", "calendar", "standard_name", "cell_methods"),
        *("scale_factor", "add_offset", "valid_min", "valid_max", "valid_range", "axis"),
    }
)
"""Attributes that describe values, and mean nothing on a group."""


def wrecks(nodes: Nodes) -> Iterator[Finding]:
    """Report groups without members."""
    members = _members(nodes)

    def is_hollow(path: str) -> bool:
        return members.get(path) == []

    def had_chunks(path: str) -> bool:
        """Return whether a group contains only a former directory of chunks."""
        return bool(path) and members.get(path) == [CHUNKS] and is_hollow(below(path, CHUNKS))

    for path in members:
        group = nodes.found[path]
        assert isinstance(group, GroupHeader)
        if had_chunks(path):
            yield _wreck(nodes, path, f"its only member is the empty group {CHUNKS!r}")
        elif is_hollow(path) and not group.dimensions:
            if not path or group.name != CHUNKS:
                yield from _hollow(nodes, group)
            elif not had_chunks(parent_of(path)):
                yield _wreck(nodes, path, "it is empty, and named like the directory of chunks")


def _hollow(nodes: Nodes, group: GroupHeader) -> Iterator[Finding]:
    """Report a group without members and dimensions."""
    telling = next((a.name for a in group.attributes if a.name in _OF_VARIABLES), None)
    if group.path and telling is not None:
        yield _wreck(nodes, group.path, f"it has the attribute {shown(telling)} and no members")
    elif not group.attributes:
        yield Finding(
            FindingKind.EMPTY,
            nodes.shown_path(group.path),
            "",
            f"a {'group' if group.path else 'dataset'} without members, dimensions and attributes; "
            "a copy that was refused leaves such groups, and rmdir in a mount removes them",
        )


def _members(nodes: Nodes) -> Mapping[str, list[str]]:
    """Return the members of each group that was found, including unreadable ones."""
    members: dict[str, list[str]] = {
        path: [] for path, node in nodes.found.items() if isinstance(node, GroupHeader)
    }
    for path in (*nodes.found, *nodes.broken):
        above = parent_of(path)
        if path and above in members:
            members[above].append(path.rpartition("/")[2])
    return members


def _wreck(nodes: Nodes, path: str, why: str) -> Finding:
    return Finding(
        FindingKind.WRECK,
        nodes.shown_path(path),
        "",
        f"a group where a failed copy should have made a variable: {why}; `nczfs rm -r` removes "
        "it, `nczfs cp` makes a copy",
    )
