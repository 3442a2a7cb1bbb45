"""Many small requests to a far store, made by several threads at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

THREADS = 16
BLOCK = 128

_T = TypeVar("_T")
_A = TypeVar("_A")


def in_parallel(ask: Callable[[_T], _A], items: Iterable[_T]) -> Iterator[_A]:
    """Yield the answers in the order of the items, block by block as they are consumed.

    The first item is requested alone: often no others are needed.
    """
    waiting = iter(items)
    yield from map(ask, islice(waiting, 1))
    block = list(islice(waiting, BLOCK))
    if not block:
        return
    with ThreadPoolExecutor(THREADS, "nczfs-ask") as pool:
        while block:
            yield from pool.map(ask, block)
            block = list(islice(waiting, BLOCK))
