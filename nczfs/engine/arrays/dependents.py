"""What may be written where several arrays have their chunks at one place."""

from __future__ import annotations

from collections.abc import Callable

from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.chunks.storedarray import StoredArrays
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.engine.options import EngineOptions
from nczfs.formats.base import Node
from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import UNKNOWN, family
from nczfs.model.overlaps import Overlap, collisions


def prepared(
    hierarchy: Hierarchy,
    variable: Variable,
    chunks: ArrayChunks,
    options: EngineOptions,
    arrays: StoredArrays,
) -> ArrayChunks:
    """Return the chunks of a variable, for reading alone if they must not be written.

    Parameters
    ----------
    arrays : finds the others, which forget the chunks of this one that they have.
    """
    if variable.dependents:
        names = ", ".join(each.name for each in variable.dependents)
        chunks.stored.remark = f"its dependent arrays may no longer match it: {names}"
        if overlap_of(hierarchy.node, variable) is not None:
            chunks.are_read_by(lambda: arrays.beside(chunks.stored))
    if not variable.is_dependent:
        return chunks
    if not options.writes_dependents:
        return chunks.unwritable("a dependent array (-o write_dependents)")
    overlap = overlap_of(hierarchy.node, variable)
    if overlap is None:
        return chunks
    other = overlap.other if variable.path == overlap.one else overlap.one
    found = "maybe" if overlap.key == UNKNOWN else overlap.key
    return chunks.unwritable(f"/{other} has chunks of the same keys ({found})")


def overlap_of(node: Callable[[str], Node], variable: Variable) -> Overlap | None:
    """Return which array of a family has chunks at the keys of a member; None: none has.

    Parameters
    ----------
    node : returns the node at a path.

    Raises
    ------
    NoSuchNode, MetadataError, StoreError.
    """
    primary = node(variable.key)
    arrays = list(family(primary)) if isinstance(primary, Variable) else []
    ours = (each for each in collisions(arrays) if variable.path in (each.one, each.other))
    return next(ours, None)
