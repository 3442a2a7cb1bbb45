"""The keys of a dataset, and the foreign keys among them.

A dataset owns its documents, and below an array everything that is named like a chunk. Below an
unfinished node, which has no documents yet, chunks may be anywhere. Anything else may be a user's
file: a README beside the groups, or all files of a directory in which a ``.zgroup`` was left by
mistake. Removing and overwriting a dataset leave those alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from nczfs.errors import ForeignObjects, StoreError
from nczfs.formats import consolidated
from nczfs.formats.detect import ZARR3
from nczfs.formats.nodes import ZARRAY, ZATTRS, ZGROUP
from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import Key, Prefix, join

REMOVING = ".nczfs_removing"
"""The last component of the key that a group has while the chunks below it are removed."""

UNFINISHED = ".nczfs_unfinished"
"""The last component of the key that marks the node beside it as unfinished."""

RENAMING = ".nczfs_renaming"
"""The last component of the keys that a group or variable has at both names while it is renamed."""

MAKES_A_NODE = frozenset({ZARRAY, ZGROUP, consolidated.KEY, ZARR3})
"""Documents by which other programs find a node."""

THREADS = 16  # that wait for a store

NAMED_MAX = 10  # number of foreign keys that a message names

_DOCUMENT = re.compile(rf"{re.escape(ZATTRS)}|\.ncz[a-z_]+")
# Chunk keys have canonical numbers with any separator: "2024/05" is not one.
_CHUNK = re.compile(r"(?:c[./])?(?:0|[1-9]\d*)(?:[./](?:0|[1-9]\d*))*|c")


@dataclass(frozen=True, slots=True)
class Owned:
    """The sorted keys below a prefix.

    Attributes
    ----------
    nodes : documents by which nodes are found.
    rest : chunks and other documents.
    foreign : keys that belong to no dataset.
    """

    nodes: tuple[Key, ...]
    rest: tuple[Key, ...]
    foreign: tuple[Key, ...]


def unfinished_text(name: str) -> str:
    """Return what a message says of an unfinished place with that name."""
    return (
        f"{name}: is unfinished: a copy or an import is running, or was interrupted; the same "
        "`nczfs cp` continues it, and `nczfs rm -r` removes it"
    )


def unfinished_among(zmap: ZMap, prefix: Prefix, names: Sequence[str]) -> list[str]:
    """Return the names below a prefix that are marked as unfinished. Asks for each mark."""

    def is_marked(name: str) -> bool:
        try:
            zmap.stat(join(join(prefix, name), UNFINISHED))
        except StoreError:
            return False
        return True

    if zmap.features.near or len(names) < 2:
        return [name for name in names if is_marked(name)]
    with ThreadPoolExecutor(THREADS, "nczfs-marks") as pool:
        return [n for n, marked in zip(names, pool.map(is_marked, names), strict=True) if marked]


def owned(prefix: Prefix, keys: Sequence[Key], *, is_array: bool = False) -> Owned:
    """Sort the keys below a prefix; the key `REMOVING` of the prefix itself is left out.

    Parameters
    ----------
    keys : all of them, in any order.
    is_array : chunks may lie at the prefix itself, although its document is gone.
    """
    marks = (REMOVING, UNFINISHED, RENAMING)
    places: dict[str, set[str]] = {name: set() for name in (ZARRAY, ZGROUP, *marks)}
    for key in keys:
        if (name := _name(key)) in places:
            places[name].add(_above(key))
    if is_array:
        places[ZARRAY].add(prefix)
    v2_places = places[ZARRAY] | places[ZGROUP]
    places[ZARRAY] |= places[UNFINISHED] | places[RENAMING]
    interrupted = places[REMOVING] | places[UNFINISHED] | places[RENAMING]
    nodes: list[Key] = []
    rest: list[Key] = []
    foreign: list[Key] = []
    for key in keys:
        name, place = _name(key), _above(key)
        if name == REMOVING and place == prefix:
            continue
        if name == ZARR3:  # alone it is a node of Zarr v3, not of this dataset
            is_ours = place in v2_places or _is_below(place, interrupted)
            (nodes if is_ours else foreign).append(key)
        elif name in MAKES_A_NODE:
            nodes.append(key)
        elif _DOCUMENT.fullmatch(name) or _is_chunk(key, places[ZARRAY], interrupted):
            rest.append(key)
        else:
            foreign.append(key)
    return Owned(tuple(nodes), tuple(rest), tuple(foreign))


def is_left_over(name: str) -> bool:
    """Return whether an interrupted removal may have left such an entry below its node."""
    return bool(_CHUNK.fullmatch(name) or _DOCUMENT.fullmatch(name))


def check_no_foreign(place: str, prefix: Prefix, foreign: Sequence[Key]) -> None:
    """Raise ForeignObjects if there are any.

    Parameters
    ----------
    place : of the node to remove, for the message.
    """
    if not foreign:
        return
    start = len(prefix) + 1 if prefix else 0
    named = ", ".join(key[start:] for key in foreign[:NAMED_MAX])
    more = len(foreign) - NAMED_MAX
    raise ForeignObjects(
        f"{place}: {len(foreign)} {'object belongs' if len(foreign) == 1 else 'objects belong'} to "
        f"no dataset ({named}{f', and {more} more' if more > 0 else ''}); nothing was removed"
    )


def _is_chunk(key: Key, arrays: Collection[str], interrupted: Collection[str]) -> bool:
    """Return whether a key is named like a chunk of an array, also of one being made or removed."""
    place = _above(key)
    if _is_below(place, interrupted) and _CHUNK.fullmatch(_name(key)):
        return True
    while place and place not in arrays:
        place = _above(place)
    return place in arrays and _CHUNK.fullmatch(key[len(place) + 1 if place else 0 :]) is not None


def _is_below(place: str, tops: Collection[str]) -> bool:
    """Return whether a place is strictly below one of others."""
    while tops and place:
        place = _above(place)
        if place in tops:
            return True
    return False


def _above(key: str) -> str:
    return key.rpartition("/")[0]


def _name(key: str) -> str:
    return key.rpartition("/")[2]
