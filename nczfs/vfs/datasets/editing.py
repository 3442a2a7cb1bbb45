"""Changes of the datasets of a tree: what is removed from sight, and incomplete records."""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakValueDictionary

from nczfs.engine.chunks.storedarray import StoredArray
from nczfs.engine.dataset import Dataset, Engine
from nczfs.engine.metadata.documents import MetadataCache
from nczfs.errors import NotPermitted, PathError, ReadOnlyMount
from nczfs.formats.base import FormatOptions
from nczfs.library.editing import Editing
from nczfs.model.hierarchy import Variable
from nczfs.vfs.datasets.growing import Growing
from nczfs.vfs.datasets.removing import Removing
from nczfs.zmap.keys import Prefix


class TreeEditing(Editing):
    """The changes of a tree's datasets. `_lock` guards the dict.

    Parameters
    ----------
    written : called when values of the node at a prefix were stored, or dropped.
    removed : called when something at a path of the store disappears, or reappears.
    may_remove : whether non-empty nodes may be removed.
    """

    def __init__(
        self,
        engine: Engine,
        metadata: MetadataCache,
        options: FormatOptions,
        written: Callable[[Prefix, StoredArray], None],
        removed: Callable[[Prefix], None],
        *,
        may_remove: bool,
    ) -> None:
        super().__init__(engine, metadata, options, written)
        self.removing = Removing(
            is_allowed=may_remove, editor=self.editor, metadata=metadata, removed=removed
        )
        self._lock = threading.Lock()
        self._growing: WeakValueDictionary[StoredArray, Growing] = WeakValueDictionary()

    def growing(self, dataset: Dataset, variable: Variable) -> Growing | None:
        """Return the end of a variable to which records can be added; None: they cannot."""
        array = variable.array
        if not variable.dimensions or not variable.dimensions[0].unlimited:
            return None
        if _has_first_again(variable):  # each record that is there would become longer
            return None
        if array.dtype.vlen is not None or 0 in array.shape[1:]:
            return None
        stored = dataset.array(variable).stored
        with self._lock:
            found = self._growing.get(stored)
            if found is None:
                found = self._growing[stored] = Growing(self, dataset, variable, stored)
            return found

    def held_bytes(self, array: StoredArray) -> int:
        """Return the bytes of an incomplete record at the end of an array."""
        growing = self._growing.get(array)
        return growing.held_bytes if growing is not None else 0

    def close(self) -> None:
        """Store pending changes."""
        self.removing.close()


def refusal(editing: TreeEditing | None, name: str) -> PathError:
    """Return the error for making or removing what a dataset does not allow.

    Parameters
    ----------
    editing : None if nothing can be changed at all.
    """
    if editing is None:
        return ReadOnlyMount(f"{name}: the dataset can only be read")
    return NotPermitted(
        f"{name}: datasets/ does not allow this; values and attributes can be written there, and "
        "directories made; a mount with -o allow_delete also removes and renames; every file in "
        "objects/ can be changed"
    )


def _has_first_again(variable: Variable) -> bool:
    """Return whether the first dimension of a variable is another one of it, too."""
    first, *others = [(each.group, each.name) for each in variable.dimensions]
    return first in others
