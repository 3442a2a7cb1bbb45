"""What may be written where several arrays have their chunks at one place."""

from __future__ import annotations

from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.engine.options import EngineOptions
from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import UNKNOWN, family
from nczfs.model.overlaps import collisions


def prepared(
    hierarchy: Hierarchy, variable: Variable, chunks: ArrayChunks, options: EngineOptions
) -> ArrayChunks:
    """Return the chunks of a variable, for reading alone if they must not be written."""
    if variable.dependents:
        names = ", ".join(each.name for each in variable.dependents)
        chunks.stored.remark = f"its dependent arrays may no longer match it: {names}"
    if not variable.is_dependent:
        return chunks
    if not options.writes_dependents:
        return chunks.unwritable("a dependent array (-o write_dependents)")
    primary = hierarchy.node(variable.key)
    arrays = list(family(primary)) if isinstance(primary, Variable) else []
    for each in collisions(arrays):
        if variable.path in (each.one, each.other):
            other = each.other if variable.path == each.one else each.one
            found = "maybe" if each.key == UNKNOWN else each.key
            return chunks.unwritable(f"/{other} has chunks of the same keys ({found})")
    return chunks
