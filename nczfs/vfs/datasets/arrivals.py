"""Files that come into a mount with ``--views copy`` in an unpredictable order."""

from __future__ import annotations

import re
from typing import Final

from nczfs.engine.chunks.place import Gate
from nczfs.engine.spool.space import Spool
from nczfs.vfs.datasets.heldfiles import HeldFiles
from nczfs.vfs.datasets.hiding import Hidden
from nczfs.views.catalog import ATTRIBUTES
from nczfs.zmap.keys import Prefix, is_within, join

_TEMPORARY: Final = re.compile(r"\.(.+)\.[A-Za-z0-9]{6}")


class Arrivals(HeldFiles):
    """New directories, and the files that wait in them.

    A new directory shows what was put into it, as programs expect that copy directories. Files that
    cannot be stored yet are held on this machine: values before the info.json of their variable,
    and files with a temporary name. `_lock` guards the dict and the set.

    Parameters
    ----------
    hidden : what each directory does not show.
    spool : where files are held.

    Attributes
    ----------
    making : a gate that is closed for a group while that becomes a variable and empty groups below
        it become arrays that this one declares; those who make directories are inside.
    """

    def __init__(self, hidden: Hidden, spool: Spool) -> None:
        super().__init__(spool)
        self.hidden = hidden
        self.making = Gate()
        self._without_format: set[Prefix] = set()

    def begin(self, prefix: Prefix, *, is_dataset: bool) -> None:
        """Note a new directory; the format of a new dataset is still open."""
        self.hidden.begin(prefix)
        self.hidden.begin(attributes_of(prefix))
        if is_dataset:
            with self._lock:
                self._without_format.add(prefix)

    def is_format_open(self, root: Prefix) -> bool:
        """Return whether the first document that is put into a dataset decides its format."""
        return root in self._without_format

    def settle_format(self, root: Prefix) -> None:
        """Note that the format of a dataset is final."""
        with self._lock:
            self._without_format.discard(root)

    def forget(self, prefix: Prefix) -> None:
        with self._lock:
            self._without_format = {p for p in self._without_format if not is_within(p, prefix)}
        super().forget(prefix)


def attributes_of(prefix: Prefix) -> Prefix:
    """Return the prefix that stands for the directory ``attributes/`` of a node."""
    return Prefix(join(prefix, ATTRIBUTES))


def goal_of(name: str) -> str | None:
    """Return the final name of a file with a temporary name of rsync's form; otherwise None."""
    found = _TEMPORARY.fullmatch(name)
    return found[1] if found is not None else None
