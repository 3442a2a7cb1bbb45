"""A place aside, for objects that replace all others below a prefix in one step."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum, auto

from nczfs.errors import ReadOnlyStore
from nczfs.plaindata import frozen
from nczfs.zmap.keys import OWN_FILES, Prefix

ASIDE = f"{OWN_FILES}new-"


def new_aside() -> str:
    """Return a new name for a place aside, which listings do not show."""
    return f"{ASIDE}{secrets.token_hex(8)}"


@frozen
class Aside:
    """A place for objects that will replace all those below a prefix.

    Attributes
    ----------
    prefix : below which they are written. Listings of other prefixes do not show it.
    exchange : puts the new objects in the place of those that they replace, in one step: all
        readers see one or the other. If it raises a StoreError, the old objects are still there.
    """

    prefix: Prefix
    exchange: Callable[[], None]


class Exchanges(Enum):
    """What a store can replace in one step."""

    NOTHING = auto()
    PREFIXES = auto()  # everything below a prefix, but not below the root
    ALL = auto()

    def covers(self, prefix: Prefix) -> bool:
        """Return whether everything below a prefix can be replaced."""
        return self is Exchanges.ALL or (self is Exchanges.PREFIXES and bool(prefix))


class Exchanging:
    """The part of a store that replaces all objects below a prefix in one step.

    Not every store can do that: `Features.exchanges`.
    """

    @property
    def name(self) -> str:
        """The store as a URL without secrets, for messages."""
        raise NotImplementedError

    def aside(self, prefix: Prefix, path: str = "") -> AbstractContextManager[Aside]:
        """Return a context with a place for objects that will replace those below a prefix.

        Whatever is at that place when the block ends is removed. If the process is killed, a later
        listing of what is around the prefix removes it.

        Parameters
        ----------
        path : below the place, of the new objects; others at the place replace nothing.

        Raises
        ------
        ReadOnlyStore : the store cannot do that, or not at this prefix. NoSuchObject : there is
            nothing at the prefix.
        """
        del path
        raise ReadOnlyStore(f"{self.name}/{prefix}: cannot be replaced in one step")
