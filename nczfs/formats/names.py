"""Names of members and paths of groups in documents, which are unchecked text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from nczfs.formats.problems import Problems
from nczfs.messages import shown
from nczfs.model.hierarchy import Json

NAME_BYTES_MAX = 1000  # less than the 1024 bytes of a whole key
NETCDF_NAME_BYTES_MAX = 255
"""One less than NC_MAX_NAME: netCDF-C and its programs have no room for NUL after 256 bytes."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def is_name(value: Json) -> bool:
    """Return whether a value can be a member's name: one component of a key, but not ".."."""
    return (
        isinstance(value, str)
        and value not in ("", ".", "..")
        and "/" not in value
        and "\0" not in value
        and len(value.encode("utf-8", "surrogatepass")) <= NAME_BYTES_MAX
    )


def netcdf_fault(name: str, bytes_max: int) -> str | None:
    """Tell why netCDF can have no such name, in a clause about "it"; None: it can.

    Parameters
    ----------
    name : in normal form C.
    """
    if not name:
        return "it is empty"
    if not (name[0].isalnum() or name[0] == "_" or ord(name[0]) > 127):
        return "it does not begin with a letter, a digit or an underscore"
    if "/" in name:
        return "it contains a slash"
    if _CONTROL.search(name):
        return "it contains a control character"
    if name.endswith(" "):
        return "it ends with a blank"
    if _SURROGATE.search(name):
        return "it is not UTF-8"
    if len(name.encode()) > bytes_max:
        return f"it has more than {bytes_max} bytes"
    return None


def names_of(value: Json, where: str, problems: Problems) -> tuple[str, ...]:
    """Return the names in a list of members, in order, without impossible or repeated ones.

    A name is one component, so a list of members cannot lead upwards, and there are no cycles.
    """
    if not isinstance(value, list):
        problems.add(f"{where}: {shown(value)} is not a list of names")
        return ()
    names: dict[str, None] = {}
    for item in value:
        if not isinstance(item, str) or not is_name(item):
            problems.add(f"{where}: {shown(item)} cannot be the name of a member; ignored")
        elif item in names:
            problems.add(f"{where}: {shown(str(item))} is listed more than once")
        else:
            names[str(item)] = None
    return tuple(names)


def split_path(path: str) -> tuple[str, str] | None:
    """Split a full name like ``/g1/lon`` into ("g1", "lon"). None: it is not a full name."""
    parts = path.removeprefix("/").split("/")
    if not all(is_name(part) for part in parts):
        return None
    return "/".join(parts[:-1]), parts[-1]


def parent_of(path: str) -> str:
    """Return the path of a node's group; "" for the root and the nodes right below it."""
    return path.rpartition("/")[0]


def below(path: str, name: str) -> str:
    """Return the path, or key, of a name below a path."""
    return f"{path}/{name}" if path else name


def members_among(paths: Iterable[str], group: str) -> list[str]:
    """Return the names of those of some paths that are right below a group."""
    return [path.rpartition("/")[2] for path in paths if path and parent_of(path) == group]
