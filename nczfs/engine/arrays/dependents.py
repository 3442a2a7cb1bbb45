"""What may be written of an array, also where several have their chunks at one place."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nczfs.codecs.pipelines import why_only_decoded
from nczfs.engine.arrays.arraychunks import ArrayChunks
from nczfs.engine.chunks.storedarray import StoredArrays
from nczfs.engine.metadata.hierarchy import Hierarchy
from nczfs.engine.options import EngineOptions
from nczfs.formats.base import Node
from nczfs.model.hierarchy import Variable
from nczfs.model.keysets import UNKNOWN, family
from nczfs.model.overlaps import Overlap, collisions

log = logging.getLogger(__name__)


class Families:
    """What the arrays of a dataset have to do with those that they depend on.

    Parameters
    ----------
    arrays : finds those at one place, which forget what they have of each other's chunks.
    """

    def __init__(self, hierarchy: Hierarchy, options: EngineOptions, arrays: StoredArrays) -> None:
        self._hierarchy = hierarchy
        self._options = options
        self._arrays = arrays
        self._warned: dict[str, object] = {}

    def overlap(self, variable: Variable) -> Overlap | None:
        """Return which array has chunks at the keys of a variable, where that matters.

        May ask the store. Raises as `overlap_of`.
        """
        if variable.dependents or (variable.is_dependent and self._options.writes_dependents):
            return overlap_of(self._hierarchy.node, variable)
        return None

    def prepared(
        self, variable: Variable, chunks: ArrayChunks, overlap: Overlap | None
    ) -> ArrayChunks:
        """Return the chunks of a variable, for reading alone if they must not be written.

        Parameters
        ----------
        overlap : as `overlap` returned it.
        """
        if (why := why_only_decoded(variable.array)) is not None:
            return chunks.unwritable(why)
        stored = chunks.stored
        if variable.dependents:
            names = ", ".join(each.name for each in variable.dependents)
            place = self._hierarchy.url(variable.path)
            stored.on_writing = lambda: self._warn(place, names)
            if overlap is not None:
                chunks.are_read_by(lambda: self._arrays.beside(stored))
        if not variable.is_dependent:
            return chunks
        if not self._options.writes_dependents:
            return chunks.unwritable("a dependent array (-o write_dependents)")
        if overlap is None:
            return chunks
        other = overlap.other if variable.path == overlap.one else overlap.one
        found = "maybe" if overlap.key == UNKNOWN else overlap.key
        return chunks.unwritable(f"/{other} has chunks of the same keys ({found})")

    def _warn(self, place: str, dependents: str) -> None:
        """Warn, for the first time, that an array is written on which others depend."""
        mark = object()
        if self._warned.setdefault(place, mark) is mark:
            log.warning(
                "%s: is written to; its dependent arrays may no longer match it: %s (logged once)",
                place,
                dependents,
            )


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
