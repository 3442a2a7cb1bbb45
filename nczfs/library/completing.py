"""Replacements of groups that a killed process has left, completed beside everything else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from nczfs.errors import LeaseNotHeld, NczfsError, ObjectExists
from nczfs.zmap.keys import Prefix

log = logging.getLogger(__name__)


class LeftReplacements:
    """Completes them, each in a thread of its own. `_lock` guards the set.

    Parameters
    ----------
    completed : called with the prefix of a group that is as it should be again.
    """

    def __init__(self, completed: Callable[[Prefix], None]) -> None:
        self._completed = completed
        self._lock = threading.Lock()
        self._under_way: set[Prefix] = set()

    def found(self, prefix: Prefix, complete: Callable[[], bool]) -> None:
        """Complete the replacement of a group, unless that is under way.

        Parameters
        ----------
        complete : does it (`Stepwise.complete`).
        """
        with self._lock:
            if prefix in self._under_way:
                return
            self._under_way.add(prefix)
        thread = threading.Thread(
            target=self._run, args=(prefix, complete), name="nczfs-completing", daemon=True
        )
        thread.start()

    def _run(self, prefix: Prefix, complete: Callable[[], bool]) -> None:
        try:
            if complete():
                log.info("/%s: an interrupted replacement was completed, or removed", prefix)
                self._completed(prefix)
        except (ObjectExists, LeaseNotHeld) as error:  # it is under way
            log.info("/%s: %s", prefix, error)
        except NczfsError as error:
            log.warning("/%s: an interrupted replacement is not completed: %s", prefix, error)
        finally:
            with self._lock:
                self._under_way.discard(prefix)
