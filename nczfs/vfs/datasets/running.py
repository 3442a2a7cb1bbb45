"""The imports that are under way: how far they are, and how the end of the mount ends them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from nczfs.errors import Unavailable
from nczfs.tools.progress import Progress


@dataclass(slots=True)
class _Running:
    """An import under way: bytes of values."""

    file: str
    total: int
    done: float = 0.0


class RunningImports:
    """The imports of a mount that are under way. `_lock` guards the list."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[_Running] = []
        self._has_ended = False

    @contextmanager
    def running(self, file: str, total: int) -> Iterator[Progress]:
        """Yield what takes the bytes that are done; it raises Unavailable when the mount ends.

        Parameters
        ----------
        file : its place in the mount's store.
        total : bytes of all values.
        """
        here = _Running(file, total)

        def progress(nbytes: float) -> None:
            if self._has_ended:
                raise Unavailable(f"{file}: the mount ended during the import")
            here.done += nbytes

        with self._lock:
            self._running.append(here)
        try:
            yield progress
        finally:
            with self._lock:
                self._running.remove(here)

    def end(self) -> None:
        """End all imports, and each one that begins."""
        self._has_ended = True

    def status(self) -> list[dict[str, object]]:
        """Return the file and the percentage of each, for ``status.json``."""
        with self._lock:
            return [
                {"file": each.file, "percent": round(min(100.0, 100 * each.done / each.total), 1)}
                for each in self._running
            ]
