"""The versions of documents that a store has shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from nczfs.engine.metadata.ledger import Ledger, Shelf
from nczfs.zmap.base import Version
from nczfs.zmap.keys import Key, Prefix, is_within


class KnownVersion(NamedTuple):
    """The version of an object, or its absence, without its bytes."""

    version: Version
    mtime_ns: int | None
    checked_at: float
    size: int = 0


class Inquiry:
    """A request for one document, or for its change."""

    __slots__ = ("is_outdated", "key")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.is_outdated = False


class KnownVersions:
    """The cached answers of a store, and the requests that are under way.

    A store may answer a request before a change of the document, and the answer come after that:
    such an answer is not cached. `_lock` guards the list of requests, and makes caching and
    forgetting one step each.

    Attributes
    ----------
    get : returns the last answer about a document, however old it is; None: there is none.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._lock = threading.Lock()
        self._known: Shelf[Key, KnownVersion] = Shelf(ledger)
        self.get = self._known.get  # called for each look at anything
        self._under_way: list[Inquiry] = []

    def begin(self, key: Key) -> Inquiry:
        """Note that a document is requested, or written, from now on."""
        inquiry = Inquiry(key)
        with self._lock:
            self._under_way.append(inquiry)
        return inquiry

    def end(self, inquiry: Inquiry) -> None:
        """Note that a request ended, whether it was answered or not."""
        with self._lock:
            self._under_way.remove(inquiry)

    def take(self, inquiry: Inquiry, answer: KnownVersion) -> None:
        """Cache an answer unless the document was changed since the request."""
        with self._lock:
            if not inquiry.is_outdated:
                self._known.put(inquiry.key, answer, 0)

    def written(self, inquiry: Inquiry, answer: KnownVersion) -> None:
        """Note that a request changed its document.

        If anything else changed it meanwhile, it is not known which change came last.
        """
        with self._lock:
            if inquiry.is_outdated:
                self._known.pop(inquiry.key)
            else:
                self._known.put(inquiry.key, answer, 0)
            self._outdate(lambda key: key == inquiry.key)

    def outdate(self, key: Key) -> None:
        """Forget what is known of a document, which may have changed."""
        with self._lock:
            self._outdate(lambda asked: asked == key)
            self._known.pop(key)

    def outdate_within(self, prefix: Prefix) -> None:
        """Forget what is known of all documents at or below a prefix."""
        with self._lock:
            self._outdate(lambda asked: is_within(asked, prefix))
            self._known.discard([key for key in self._known if is_within(key, prefix)])

    def _outdate(self, is_meant: Callable[[Key], bool]) -> None:
        for inquiry in self._under_way:
            inquiry.is_outdated |= is_meant(inquiry.key)
