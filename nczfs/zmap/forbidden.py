"""The meaning of 403 ("forbidden") for a key: no such object, or no permission."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Literal

from nczfs.zmap.keys import Key

AGAIN_S: Final = 1.0  # a store may be closed for so long without being noticed

_log = logging.getLogger(__name__)


class Forbidden:
    """A judge of the 403s of one store.

    S3 answers 404 only to clients that may list; to others a missing key is forbidden. But so is
    everything in a store that has closed, after a token expired or a policy was withdrawn. So 403
    means absent only while objects that were read before can still be read. One request checks that
    for all threads, and again after a second. `_lock` guards the check.

    Parameters
    ----------
    option : "yes" and "no" make no requests.
    name : of the store.
    gives : asks whether the store gives the object of a key.
    hides : asks whether it forbids, and does not list, a key that cannot exist.
    """

    def __init__(
        self,
        option: Literal["auto", "yes", "no"],
        name: str,
        gives: Callable[[Key], bool],
        hides: Callable[[Key], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_decided = option != "auto"
        self._name = name
        self._gives = gives
        self._hides = hides
        self._clock = clock
        self._lock = threading.Lock()
        self._asked: Future[bool] | None = None
        self._asked_at = 0.0
        self._is_told = False
        # Two, because objects are deleted; the first is usually a document of the root.
        self._first_read: Key | None = None
        self._last_read: Key | None = None
        self.is_absent = option == "yes"
        """How the last answer was judged."""

    @property
    def hint(self) -> str:
        """A remedy for messages if 403 is an error."""
        if self._is_decided or self._first_read is not None:
            return ""
        return (
            " (use --forbidden-is-absent yes if this store answers 403 for keys that do not exist)"
        )

    def note_read(self, key: Key) -> None:
        """Note that an object was read."""
        if self._first_read is None:
            self._first_read = key
        self._last_read = key

    def means_absent(self, key: Key) -> bool:
        """Return whether a 403 for a key means that there is no such object.

        Raises
        ------
        StoreError : the store could not be reached.
        """
        if self._is_decided:
            return self.is_absent
        if self._first_read is None or self._last_read is None:
            return False
        with self._lock:
            asked = self._asked
            is_ours = asked is None or self._clock() - self._asked_at >= AGAIN_S
            if asked is None or is_ours:
                asked = self._asked = Future()
                self._asked_at = self._clock()
        if is_ours:
            self._answer(asked, (self._last_read, self._first_read), key)
        return asked.result()

    def _answer(self, asked: Future[bool], read: tuple[Key, ...], key: Key) -> None:
        try:
            is_absent = any(map(self._gives, dict.fromkeys(read))) and self._hides(key)
        except BaseException as error:
            asked.set_exception(error)
            raise
        if is_absent and not self._is_told:
            self._is_told = True
            _log.warning(
                '%s: 403 counts as "no such object", because the store gives that answer for keys '
                "that do not exist; --forbidden-is-absent no makes it an error",
                self._name,
            )
        self.is_absent = is_absent
        asked.set_result(is_absent)
