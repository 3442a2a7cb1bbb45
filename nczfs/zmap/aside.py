"""A place aside, for objects that replace all others below a prefix in one step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from nczfs.errors import ReadOnlyStore
from nczfs.zmap.keys import Prefix


@dataclass(frozen=True, slots=True)
class Aside:
    """A place for objects that will replace all those below a prefix.

    Attributes
    ----------
    prefix : below which they are written. Listings of other prefixes do not show it.
    exchange : puts what is at a path below `prefix` in the place of what it replaces, and the other
        way round, in one step: all readers see one or the other. Raises StoreError.
    """

    prefix: Prefix
    exchange: Callable[[str], None]


class Exchanging:
    """The part of a store that replaces all objects below a prefix in one step.

    Few stores can do that: `Features.exchanges`.
    """

    @property
    def name(self) -> str:
        """The store as a URL without secrets, for messages."""
        raise NotImplementedError

    def aside(self, prefix: Prefix) -> AbstractContextManager[Aside]:
        """Return a context with a place for objects that will replace those below a prefix.

        Whatever is at that place when the block ends is removed. If the process is killed, a later
        listing of what is around the prefix removes it.

        Raises
        ------
        ReadOnlyStore : the store cannot do that, or not at this prefix. NoSuchObject : there is
            nothing at the prefix.
        """
        raise ReadOnlyStore(f"{self.name}/{prefix}: cannot be replaced in one step")
