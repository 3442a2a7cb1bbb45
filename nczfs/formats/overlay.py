"""Documents of a dataset of which some are replaced, as if they were stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from nczfs.formats.base import Documents
from nczfs.plaindata import frozen

T = TypeVar("T")


@frozen
class Overlay:
    """Some documents over those of a store; implements `Documents`.

    Attributes
    ----------
    inner : all others.
    changed : by their keys; None: there is none.
    """

    inner: Documents
    changed: Mapping[str, bytes | None]

    def get(self, key: str) -> bytes | None:
        return self.changed[key] if key in self.changed else self.inner.get(key)

    def fetch(self, keys: Iterable[str]) -> None:
        self.inner.fetch([key for key in keys if key not in self.changed])

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        """Make the result anew if it depends on a changed document."""
        wanted = tuple(keys)
        if any(key in self.changed for key in wanted):
            return make()[0]
        return self.inner.derived(name, wanted, make)


class _NoDocuments:
    """The documents of an empty place."""

    def get(self, key: str) -> bytes | None:
        return None

    def fetch(self, keys: Iterable[str]) -> None:
        """Fetch nothing, since there are no documents."""

    def derived(self, name: str, keys: Iterable[str], make: Callable[[], tuple[T, int]]) -> T:
        return make()[0]


NO_DOCUMENTS: Documents = _NoDocuments()
