"""What is drawn of a group: its variables as small pictures."""

from __future__ import annotations

from dataclasses import replace

from nczfs.engine.dataset import Dataset
from nczfs.errors import NczfsError
from nczfs.messages import reason
from nczfs.model.hierarchy import GroupHeader, Variable
from nczfs.pictures.composing import variable_scene
from nczfs.pictures.conventions import Role, role
from nczfs.pictures.limits import PictureLimits
from nczfs.pictures.scene import Drawable, Scene, Sheet, Title, Words

NAMES_MAX = 12


def group_scene(
    dataset: Dataset, path: str, limits: PictureLimits, fresh_since: float = 0.0
) -> Drawable:
    """Return what is drawn of a group: the variables right below it, coordinates last.

    Of a large group, its first members are looked at. A variable that cannot be read is described
    by the error.

    Raises
    ------
    NoSuchNode, MetadataError, StoreError : the group itself cannot be read.
    """
    names = dataset.names(path)
    variables: list[Variable] = []
    groups: list[str] = []
    for name in names[: limits.members]:
        try:
            node = dataset.found_node(f"{path}/{name}" if path else name)
        except NczfsError:
            continue
        if isinstance(node, Variable):
            variables.append(node)
        elif isinstance(node, GroupHeader):
            groups.append(name)
    heading = Title(path.rpartition("/")[2] or "/", "")
    if not variables:
        more = "" if len(groups) <= NAMES_MAX else " ..."
        listed = f"Groups: {', '.join(groups[:NAMES_MAX])}{more}" if groups else "No variables."
        return Words(heading, (listed,))
    variables.sort(key=_is_auxiliary)  # stable: otherwise in the order of the group
    drawn = variables[: limits.tiles]
    share = replace(
        limits,
        chunks=limits.chunks // len(drawn),
        chunk_bytes=limits.chunk_bytes // min(4, len(drawn)),
        decoded_bytes=limits.decoded_bytes // len(drawn),
        width=limits.width // 3,
        height=limits.height // 3,
        steps=0,
    )
    tiles = tuple(_tile(dataset, each, share, fresh_since) for each in drawn)
    rest = len(names) - len(groups) - len(drawn)
    note = f"{len(drawn)} variables" + (f", and {rest:,} more members" if rest > 0 else "")
    if groups:
        note += f"; groups: {', '.join(groups[:NAMES_MAX])}"
    return Sheet(replace(heading, name=note), tiles)


def _tile(dataset: Dataset, variable: Variable, limits: PictureLimits, fresh_since: float) -> Scene:
    try:
        return variable_scene(dataset, variable, limits, None, fresh_since)
    except NczfsError as error:
        return Words(Title(variable.name, variable.name), (reason(error),))


def _is_auxiliary(variable: Variable) -> bool:
    """Return whether a variable is a coordinate or its bounds, or has no dimension."""
    names = [dimension.name for dimension in variable.dimensions]
    is_beside = variable.name in names or variable.name.endswith(("_bnds", "_bounds"))
    return not names or is_beside or role(variable) is not Role.OTHER
