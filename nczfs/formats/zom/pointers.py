"""JSON pointers (RFC 6901)."""

from __future__ import annotations


def below(pointer: str, member: str | int) -> str:
    """Return the pointer of a member of what a pointer leads to."""
    name = str(member)
    if "~" in name or "/" in name:
        name = name.replace("~", "~0").replace("/", "~1")
    return f"{pointer}/{name}"


def parts_of(pointer: str) -> list[str]:
    """Return the names that lead from the root to a place; [] is the root itself."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def of_path(path: str) -> str:
    """Return the pointer of the node at a path, "" or ``/a/b``."""
    return "".join(below("/members", name) for name in path.split("/")[1:])
