"""Which keys a store can have objects of."""

from __future__ import annotations

from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, checked_names, checked_text


def storable(zmap: ZMap, key: Key) -> Key:
    """Return a key that a store can have an object of.

    Raises
    ------
    KeyTooLong, KeyNotText : it cannot.
    """
    store, inner = zmap.located(key)
    if store.features.name_bytes_max is not None:
        checked_names(inner, store.features.name_bytes_max)
    if store.features.text_keys:
        checked_text(inner)
    return key
