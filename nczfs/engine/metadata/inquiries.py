"""Requests for documents that are under way, and changes that make their answers old."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nczfs.zmap.keys import Key, Prefix, is_within


class Inquiry:
    """A request for one document."""

    __slots__ = ("is_outdated", "key")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.is_outdated = False


class Inquiries:
    """The requests of a cache that are under way.

    A store may answer a request before a change of the document, and the answer come after that:
    such an answer must not be cached. `_lock` guards the list, and makes caching and forgetting one
    step each.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: list[Inquiry] = []

    @contextmanager
    def asking(self, key: Key) -> Iterator[Inquiry]:
        """Note that a document is requested, or written, during the block."""
        inquiry = Inquiry(key)
        with self._lock:
            self._under_way.append(inquiry)
        try:
            yield inquiry
        finally:
            with self._lock:
                self._under_way.remove(inquiry)

    def answered(self, inquiry: Inquiry, keep: Callable[[], None]) -> None:
        """Call `keep` if the document was not changed since the request."""
        with self._lock:
            if not inquiry.is_outdated:
                keep()

    def written(
        self, inquiry: Inquiry, keep: Callable[[], None], forget: Callable[[], object]
    ) -> None:
        """Note that the request changed the document.

        Calls `keep` if nothing else changed it meanwhile; otherwise `forget`, since it is not known
        which change came last.
        """
        with self._lock:
            is_outdated = inquiry.is_outdated
            self._outdate(lambda key: key == inquiry.key)
            (forget if is_outdated else keep)()

    def outdate(self, key: Key, forget: Callable[[], object]) -> None:
        """Call `forget` for a document that may have changed."""
        with self._lock:
            self._outdate(lambda asked: asked == key)
            forget()

    def outdate_within(self, prefix: Prefix, forget: Callable[[], object]) -> None:
        """Call `forget` for all documents at or below a prefix, which may have changed."""
        with self._lock:
            self._outdate(lambda asked: is_within(asked, prefix))
            forget()

    def _outdate(self, is_meant: Callable[[Key], bool]) -> None:
        for inquiry in self._under_way:
            inquiry.is_outdated |= is_meant(inquiry.key)
