"""Names of members and paths of groups, as documents hold them: text that nobody has checked."""

from __future__ import annotations

from nczfs.formats.problems import Problems, shown
from nczfs.model.hierarchy import Json

NAME_BYTES_MAX = 1000  # below the 1024 bytes that a whole key may have


def is_name(value: Json) -> bool:
    """Whether a value can be the name of a member: one component of a key, and not a way out."""
    return (
        isinstance(value, str)
        and value not in ("", ".", "..")
        and "/" not in value
        and "\0" not in value
        and len(value.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX
    )


def names_of(value: Json, where: str, problems: Problems) -> tuple[str, ...]:
    """The names in a list of members, in its order; what can be none, or is doubled, left out.

    A name is one component, so a list of members cannot lead back up: there are no cycles.
    """
    if not isinstance(value, list):
        problems.add(f"{where}: {shown(value)} is not a list of names")
        return ()
    names: dict[str, None] = {}
    for item in value:
        if not isinstance(item, str) or not is_name(item):
            problems.add(f"{where}: {shown(item)} cannot be the name of a member; left out")
        elif item in names:
            problems.add(f"{where}: {shown(str(item))} is listed more than once")
        else:
            names[str(item)] = None
    return tuple(names)


def split_path(path: str) -> tuple[str, str] | None:
    """The group and the name of a full name like ``/g1/lon``: ("g1", "lon"). None: it is none."""
    parts = path.removeprefix("/").split("/")
    if not all(is_name(part) for part in parts):
        return None
    return "/".join(parts[:-1]), parts[-1]


def parent_of(path: str) -> str:
    """The path of the group that a node lies in; "" for the root and what is right below it."""
    return path.rpartition("/")[0]


def below(path: str, name: str) -> str:
    """The path, or key, of a name below a path."""
    return f"{path}/{name}" if path else name
