"""The files of a tree that are kept on this machine for now, by their places."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nczfs.engine.spool.space import Spool
from nczfs.errors import PathExists, StaleHandle
from nczfs.vfs.datasets.held import HeldFile
from nczfs.vfs.staging import stage
from nczfs.zmap.keys import Prefix, is_within, join

log = logging.getLogger(__name__)


class HeldFiles:
    """Files that cannot be stored yet. `_lock` guards the dict.

    Parameters
    ----------
    spool : where files are held.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._lock = threading.Lock()
        self._held: dict[tuple[Prefix, str], HeldFile] = {}

    @property
    def count(self) -> int:
        """The number of files."""
        return len(self._held)

    def hold(
        self,
        prefix: Prefix,
        name: str,
        place: Callable[[HeldFile], bool],
        *,
        exclusive: bool,
        kind: type[HeldFile] = HeldFile,
    ) -> HeldFile:
        """Return a held file of a directory, which is made if it is missing. Raises PathExists."""
        with self._lock:
            known = self._held.get((prefix, name))
            if known is None:
                staged = stage(self._spool, join(prefix, name))
                known = self._held[prefix, name] = kind(f"/{join(prefix, name)}", staged, place)
                return known
        if exclusive:
            raise PathExists(f"{name}: is there already")
        return known

    def apart(
        self,
        prefix: Prefix,
        name: str,
        place: Callable[[HeldFile], bool],
        kind: type[HeldFile] = HeldFile,
    ) -> HeldFile:
        """Return a held file that cannot be found by its name."""
        return kind(f"/{join(prefix, name)}", stage(self._spool, join(prefix, name)), place)

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
        """Give a held file another name and place; a held file of that name is released.

        Raises
        ------
        StaleHandle : another thread has released it. The kernel then looks the path up again.
        """
        with self._lock:
            if (file := self._held.pop((prefix, name), None)) is None:
                raise StaleHandle(f"{name}: is not held any more")
            replaced = self._held.get((prefix, new_name))
            self._held[prefix, new_name] = file
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

    def release(self, file: HeldFile) -> None:
        """Release a held file, whatever its name is now."""
        with self._lock:
            for place in [place for place, held in self._held.items() if held is file]:
                del self._held[place]
        file.let_go()

    def forget(self, prefix: Prefix) -> None:
        """Note that a directory was removed with all below it."""
        with self._lock:
            gone = [place for place in self._held if is_within(place[0], prefix)]
        for place in gone:
            self.let_go(*place)

    def close(self) -> None:
        """Release all files that never got to their place."""
        with self._lock:
            left = list(self._held.items())
        for (prefix, name), file in left:
            if file.size:
                lost = f"{join(prefix, name)}: {file.size} bytes are dropped: {file.waits_for}"
                log.warning("%s", lost)
                self._spool.lost.append(lost)
            self.let_go(prefix, name)
