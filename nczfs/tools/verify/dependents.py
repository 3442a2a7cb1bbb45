"""What is wrong with arrays at one place: a primary, and the arrays that depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import UNKNOWN, family
from nczfs.model.overlaps import collisions, path_conflicts
from nczfs.tools.verify.findings import Finding, FindingKind


def dependent_faults(
    primary: Variable, shown_path: Callable[[str], str], is_node: Callable[[str], bool]
) -> Iterator[Finding]:
    """Report arrays whose chunks are in each other's way, and arrays that other nodes hide.

    Nothing is listed: which keys two arrays share follows from the forms of their keys.

    Parameters
    ----------
    shown_path : returns the path of an array as users see it.
    is_node : whether a group or array with a document lies at a path.
    """
    arrays = list(family(primary))
    for each in collisions(arrays):
        other = shown_path(each.other)
        why = f"{other} has chunks of the same keys, such as {each.key}"
        if each.key == UNKNOWN:
            why = f"{other} may have chunks of the same keys; that could not be excluded"
        yield Finding(FindingKind.COLLISION, shown_path(each.one), "", why)
    for each in path_conflicts(arrays):
        other = shown_path(each.other)
        why = f"no directory can hold its chunk {each.key} and those of {other} below that"
        if each.key == UNKNOWN:
            why = f"that {other} has keys below those of its chunks could not be excluded"
        yield Finding(FindingKind.COLLISION, shown_path(each.one), "", why)
    for variable in arrays[1:]:
        if is_node(variable.path):
            why = f"{shown_path(variable.primary or '')} declares it; a node of this path hides it"
            yield Finding(FindingKind.HIDDEN, shown_path(variable.path), "", why)
