"""What the source of a copy has, of variables whose chunks are decoded or were begun earlier.

A unit of the target may depend on several units of the source. An earlier run noted in its mark
which ones the source had. Those that are new or were changed since are newer than the target. Those
that disappeared leave no time behind: the digest of all that are there tells of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from nczfs.engine.dataset import Dataset
from nczfs.tools.chunkset import ChunkSet
from nczfs.tools.progress import Progress
from nczfs.tools.transfer.chunk_pairs import ChunkPair
from nczfs.tools.transfer.listed import listed_units
from nczfs.tools.transfer.target import Target

DIGESTS_MAX = 1024
"""In a mark. Variables beyond so many share them."""


def survey(source: Dataset, base: str, pairs: Sequence[ChunkPair], progress: Progress) -> None:
    """Find out which units the source has, and the time of the newest one of each variable.

    Parameters
    ----------
    base : path of the node that contains all variables.

    Raises
    ------
    StoreError : the store could not be listed.
    """
    if not pairs or not source.zmap.features.lists_all:
        return
    by_path = {pair.path: pair for pair in pairs}
    for pair in pairs:
        pair.stored, pair.newest_ns = ChunkSet(pair.source.array.units), 0
    sources = {path: pair.source for path, pair in by_path.items()}
    for path, unit, stat in listed_units(source, base, sources):
        progress(0)
        pair = by_path[path]
        assert pair.stored is not None
        pair.stored.add(unit)
        pair.newest_ns = max(pair.newest_ns, stat.mtime_ns or 0)


def made_of(pairs: Sequence[ChunkPair]) -> tuple[str, ...]:
    """Return digests of the units that the source has, in the order of the variables' paths."""
    digests: list[list[str]] = [[] for _ in range(min(len(pairs), DIGESTS_MAX))]
    for number, pair in enumerate(_in_order(pairs)):
        digests[number % DIGESTS_MAX].append("" if pair.stored is None else pair.stored.digest())
    return tuple(map(_joined, digests))


def drop_outdated(target: Target, pairs: Sequence[ChunkPair]) -> None:
    """Remove what an earlier run made of units that have disappeared, and note those there are.

    Parameters
    ----------
    pairs : those whose chunks are decoded. Of others, each unit depends on a single one.

    Raises
    ------
    StoreError, Conflict : another process has taken over.
    """
    now = made_of(pairs)
    noted = target.place.made_of
    if not target.is_new and noted != now:
        is_known = len(noted) == len(now)
        outdated = {
            pair.path: pair.target
            for number, pair in enumerate(_in_order(pairs))
            if not is_known or noted[number % DIGESTS_MAX] != now[number % DIGESTS_MAX]
        }
        found = listed_units(target.dataset, target.path, outdated)
        target.dataset.zmap.delete_many([stat.key for _, _, stat in found])
    if noted != now:
        target.place.note(now)


def _in_order(pairs: Sequence[ChunkPair]) -> list[ChunkPair]:
    return sorted(pairs, key=lambda pair: pair.path)


def _joined(digests: list[str]) -> str:
    if len(digests) == 1:
        return digests[0]
    return hashlib.blake2b(" ".join(digests).encode(), digest_size=8).hexdigest()
