"""A run of keys with the versions of their objects, as a listing gives them."""

from __future__ import annotations

from collections.abc import Mapping

from nczfs.plaindata import frozen
from nczfs.zmap.keys import Key


@frozen
class ListedRange:
    """The objects between two keys below a prefix, as they were at one time.

    Attributes
    ----------
    versions : by key; the other keys of the run have no object.
    first, last : both are in the run; `last` is None if it goes on to the end of the prefix.
    """

    versions: Mapping[Key, str]
    first: str
    last: str | None

    def covers(self, key: Key) -> bool:
        """Return whether a key is in the run."""
        return self.first <= key and (self.last is None or key <= self.last)
