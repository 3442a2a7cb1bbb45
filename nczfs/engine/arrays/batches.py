"""Division of work among threads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol, TypeVar

ITEMS_MAX = 8
BATCHES_PER_THREAD = 4

_Item = TypeVar("_Item", covariant=True)


class Counted(Protocol[_Item]):
    """Items whose number is known in advance."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[_Item]: ...


def batches(
    items: Counted[_Item], threads: int, items_max: int = ITEMS_MAX
) -> Iterator[list[_Item]]:
    """Yield runs of the items, one for each task, because a task itself costs time.

    They are short enough that all threads end at about the same time, and that other work for the
    same threads gets its turn.
    """
    size = max(1, min(len(items) // (BATCHES_PER_THREAD * threads), items_max))
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch
