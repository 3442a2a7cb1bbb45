"""Making objects durable that somebody else may have written."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key


class Securing(ABC):
    """A store whose objects can be read before they would survive a power failure."""

    @abstractmethod
    def secure(self, key: Key) -> None:
        """Return when an object would survive a power failure. Raises as `ZMap.read`."""


def secure(zmap: ZMap, key: Key) -> None:
    """Return when an object, no matter who wrote it, would survive a power failure.

    Raises
    ------
    NoSuchObject, StoreError : as `ZMap.read`.
    """
    store, inner = zmap.located(key)
    if isinstance(store, Securing):
        store.secure(inner)
