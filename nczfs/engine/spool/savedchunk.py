"""A chunk as the spool takes it, and as it is kept there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nczfs.engine.chunks.loaded import Values
from nczfs.engine.spool.basis import Basis
from nczfs.zmap.base import Version


@dataclass(frozen=True, slots=True)
class Saved:
    """A chunk in the spool.

    Attributes
    ----------
    nbytes : its share of the spool's budget.
    values : maps the values of the chunk from the file; None if that is impossible. Each use maps
        anew, because a mapped file takes a descriptor. Raises Unavailable.
    flags : reads from the file which elements were written. Raises Unavailable.
    """

    path: Path
    nbytes: int
    values: Callable[[], Values] | None
    flags: Callable[[], Values]


@dataclass(frozen=True, slots=True)
class Frozen:
    """The unsaved elements of a chunk at one time.

    Attributes
    ----------
    values : of the whole chunk; they do not change any more.
    flags : which elements were written; None: all that lie in the array.
    version : of the object that the other elements came from, if known.
    revision : of the chunk at that time.
    basis : what the stored chunk was when it was written to.
    """

    values: Values
    flags: Values | None
    version: Version | None
    revision: int
    basis: Basis = field(default_factory=Basis)
