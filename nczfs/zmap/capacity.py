"""How much a store can hold."""

from __future__ import annotations

from nczfs.plaindata import frozen


@frozen
class Capacity:
    """The capacity of a store.

    Attributes
    ----------
    available_bytes : free bytes that are not reserved for root.
    files, free_files : how many are possible, and how many more; 0: as many as fit.
    """

    total_bytes: int
    free_bytes: int
    available_bytes: int
    files: int = 0
    free_files: int = 0


# A bucket has no size: large enough that it never seems full.
UNLIMITED = Capacity(1 << 60, 1 << 60, 1 << 60)
