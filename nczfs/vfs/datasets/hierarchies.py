"""The present Zarr Object Model of each group, as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from nczfs.engine.arrays.array import now
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.ledger import Shelf
from nczfs.engine.opennode import OpenNode
from nczfs.errors import MetadataError, NoSuchNode
from nczfs.plaindata import frozen
from nczfs.views.catalog import ZOM
from nczfs.zmap.keys import Prefix, is_within

if TYPE_CHECKING:
    from nczfs.zom.shown import ShownHierarchy

PROBLEMS_MAX = 10  # that are named


@frozen
class MadeHierarchy:
    """A text, and when and of what it was made."""

    shown: ShownHierarchy
    made_at: float
    revision: int


class Hierarchies:
    """The texts, made when they are first needed, and kept while the budget has room.

    Parameters
    ----------
    ttl_s : for how long a hierarchy is believed to be the same.
    declared : called with the prefix of a dataset after all of it was declared.
    is_shown : whether the mount shows them.
    """

    def __init__(
        self, engine: Engine, ttl_s: float, declared: Callable[[Prefix], None], *, is_shown: bool
    ) -> None:
        self.declared = declared
        self._ttl_s = ttl_s
        self._is_shown = is_shown
        self._made: Shelf[Prefix, MadeHierarchy] = Shelf(engine.ledger)

    def present(self, dataset: Dataset, node: OpenNode, *, anew: bool = False) -> MadeHierarchy:
        """Return the present text of a group. May block.

        Parameters
        ----------
        anew : whether the store is looked at, however lately that was done.

        Raises
        ------
        StructureChanged : the group was removed. NoSuchNode, MetadataError, StoreError.
        """
        from nczfs.zom.shown import shown_hierarchy  # a mount starts without

        made = self._made.get(node.prefix)
        revision = dataset.edits.revision
        is_usual = made is not None and not anew and made.revision == revision
        if made is not None and is_usual and now() - made.made_at < self._ttl_s:
            return made
        made_at = now()
        shown = node.follow(lambda path: shown_hierarchy(dataset, path))
        found = MadeHierarchy(shown, made_at, revision)
        self._made.put(node.prefix, found, len(shown.text))
        return found

    def problems(self, dataset: Dataset, node: OpenNode) -> tuple[str, ...]:
        """Return a line for each node that the text of a group lacks, or lacks in part.

        Raises what `present` raises, except errors of the group's own documents, which are a line.
        """
        if not self._is_shown:
            return ()
        try:
            found = self.present(dataset, node).shown.problems
        except (NoSuchNode, MetadataError) as error:
            return (f"{ZOM}: cannot be made: {error}",)
        more = len(found) - PROBLEMS_MAX
        ended = (f"{ZOM} lacks {more} more",) if more > 0 else ()
        lines = (f"{ZOM}: {each.path or '/'}: {each.text}" for each in found[:PROBLEMS_MAX])
        return (*lines, *ended)

    def forget(self, prefix: Prefix) -> None:
        """Look again at the groups at, below and above a prefix when they are needed."""
        for known in self._made:
            if is_within(known, prefix) or is_within(prefix, known):
                self._made.pop(known)
