"""What 403 ("forbidden") for a key means: that there is no such object, or that we may not ask."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, Literal

from nczfs.zmap.keys import Key

AGAIN_S: Final = 1.0  # so long a store may have closed without being noticed

_log = logging.getLogger(__name__)


class Forbidden:
    """Judges the 403s of one store.

    S3 says 404 only to those who may list; to others a key that is missing is forbidden. But so is
    everything in a store that has closed: a token expired, a policy was withdrawn. So 403 means
    absent only while objects that were read before are still given out. That is asked once for all
    threads, and again after a second. `_lock` guards the question.

    Parameters
    ----------
    option : "yes" and "no" ask nothing.
    name : of the store.
    gives : asks whether the store gives out the object of a key.
    hides : asks whether it forbids what cannot exist beside a key, and would not list it either.
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
        # Two, as objects are deleted; the first is a document of the root as a rule.
        self._first_read: Key | None = None
        self._last_read: Key | None = None
        self.is_absent = option == "yes"
        """What the last answer was taken for."""

    @property
    def hint(self) -> str:
        """What else helps where 403 is an error."""
        if self._is_decided or self._first_read is not None:
            return ""
        return " (--forbidden-is-absent yes, if this store answers 403 to keys that do not exist)"

    def note_read(self, key: Key) -> None:
        """An object was given out."""
        if self._first_read is None:
            self._first_read = key
        self._last_read = key

    def means_absent(self, key: Key) -> bool:
        """Whether the 403 that came for a key says that there is no such object.

        Raises
        ------
        StoreError : the store could not be asked.
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
                '%s: 403 is treated as "no such object", as it is what the store answers to keys '
                "that do not exist: --forbidden-is-absent no makes it an error",
                self._name,
            )
        self.is_absent = is_absent
        asked.set_result(is_absent)
