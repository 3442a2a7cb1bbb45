"""Stores in memory that are made once and copied: making a dataset takes most of a short test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec

from nczfs.zmap.keys import ROOT
from nczfs.zmap.memory import MemoryZMap

P = ParamSpec("P")


def made_once(make: Callable[P, MemoryZMap]) -> Callable[P, MemoryZMap]:
    """Give each call a store of its own, with what the first call with its arguments made.

    Parameters
    ----------
    make : makes a store from arguments that can be hashed, the same one each time.
    """
    kept = cache(make)

    @wraps(make)
    def copied(*arguments: P.args, **options: P.kwargs) -> MemoryZMap:
        made = kept(*arguments, **options)  # type: ignore[arg-type]  # they can be hashed
        copy = MemoryZMap(made.name)
        for stat in made.list(ROOT):
            copy.write(stat.key, made.read(stat.key).data)
        return copy

    return copied
