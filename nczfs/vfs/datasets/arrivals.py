"""Files that come into a mount with ``--views copy`` in an unpredictable order."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from typing import Final

from nczfs.engine.spool.space import Spool
from nczfs.errors import PathExists
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.datasets.hiding import Hidden
from nczfs.vfs.staging import stage
from nczfs.views.catalog import ATTRIBUTES
from nczfs.zmap.keys import Prefix, is_within, join

log = logging.getLogger(__name__)

_TEMPORARY: Final = re.compile(r"\.(.+)\.[A-Za-z0-9]{6}")


class Arrivals:
    """New directories, and the files that wait in them.

    A new directory shows what was put into it, as programs expect that copy directories. Files that
    cannot be stored yet are held on this machine: values before the info.json of their variable,
    and files with a temporary name. `_lock` guards the dict and the set.

    Parameters
    ----------
    hidden : what each directory does not show.
    spool : where files are held.
    """

    def __init__(self, hidden: Hidden, spool: Spool) -> None:
        self.hidden = hidden
        self._spool = spool
        self._lock = threading.Lock()
        self._held: dict[tuple[Prefix, str], HeldFile] = {}
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

    def hold(
        self, prefix: Prefix, name: str, place: Callable[[HeldFile], bool], *, exclusive: bool
    ) -> HeldFile:
        """Return a held file of a directory, which is made if it is missing. Raises PathExists."""
        with self._lock:
            known = self._held.get((prefix, name))
            if known is None:
                staged = stage(self._spool, join(prefix, name))
                known = self._held[prefix, name] = HeldFile(f"/{join(prefix, name)}", staged, place)
                return known
        if exclusive:
            raise PathExists(f"{name}: is there already")
        return known

    def apart(self, prefix: Prefix, name: str, place: Callable[[HeldFile], bool]) -> HeldFile:
        """Return a held file that cannot be found by its name."""
        return HeldFile(f"/{join(prefix, name)}", stage(self._spool, join(prefix, name)), place)

    def get(self, prefix: Prefix, name: str) -> HeldFile | None:
        """Return the file that is held under a name."""
        return self._held.get((prefix, name)) if self._held else None

    def held_in(self, prefix: Prefix) -> dict[str, HeldFile]:
        """Return the files that are held in a directory, by name."""
        if not self._held:
            return {}
        with self._lock:
            return {name: file for (node, name), file in self._held.items() if node == prefix}

    def is_waiting(self, prefix: Prefix) -> bool:
        """Return whether files are held at or below a prefix."""
        with self._lock:
            return any(is_within(node, prefix) for node, _ in self._held)

    def move(
        self, prefix: Prefix, name: str, new_name: str, place: Callable[[HeldFile], bool]
    ) -> None:
        """Give a held file another name and place; a held file of that name is released."""
        with self._lock:
            replaced = self._held.get((prefix, new_name))
            file = self._held[prefix, new_name] = self._held.pop((prefix, name))
            file.belongs(place)
        if replaced is not None:
            replaced.let_go()

    def let_go(self, prefix: Prefix, name: str) -> bool:
        """Release a held file. Returns whether it was held."""
        with self._lock:
            file = self._held.pop((prefix, name), None)
        if file is None:
            return False
        file.let_go()
        return True

    def forget(self, prefix: Prefix) -> None:
        """Note that a directory was removed with all below it."""
        with self._lock:
            gone = [place for place in self._held if is_within(place[0], prefix)]
            self._without_format = {p for p in self._without_format if not is_within(p, prefix)}
        for place in gone:
            self.let_go(*place)

    def close(self) -> None:
        """Release all files that never got to their place."""
        with self._lock:
            left = list(self._held.items())
        for (prefix, name), file in left:
            if file.size:
                log.warning(
                    "%s/%s: %d bytes are dropped: their directory got no info.json, or they have a "
                    "temporary name",
                    prefix,
                    name,
                    file.size,
                )
            self.let_go(prefix, name)


def attributes_of(prefix: Prefix) -> Prefix:
    """Return the prefix that stands for the directory ``attributes/`` of a node."""
    return Prefix(join(prefix, ATTRIBUTES))


def goal_of(name: str) -> str | None:
    """Return the final name of a file with a temporary name of rsync's form; otherwise None."""
    found = _TEMPORARY.fullmatch(name)
    return found[1] if found is not None else None
