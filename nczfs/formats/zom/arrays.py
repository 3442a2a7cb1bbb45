"""Reading an array from its JSON, with a memory: most arrays of a hierarchy have a few forms."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from nczfs.errors import BadMetadata
from nczfs.formats.zom import array2, array3
from nczfs.formats.zom.checking import Corrections
from nczfs.formats.zom.nodes import Array
from nczfs.model.hierarchy import Json

_REMEMBERED, _TEXT_MAX = 256, 4 << 10

_Reader: TypeAlias = Callable[[dict[str, Json], str, Corrections], Array]

_READERS: Mapping[int, tuple[_Reader, tuple[str, ...]]] = {
    2: (array2.array_v2, array2.MEMBERS),
    3: (array3.array_v3, array3.MEMBERS),
}


def read_array(
    members: dict[str, Json], version: int, pointer: str, corrections: Corrections
) -> Array:
    """Return an array of a version of Zarr.

    Parameters
    ----------
    members : of its JSON, without its version, type and attributes; what is read is taken out.

    Raises
    ------
    BadMetadata : as `loads`.
    """
    reader, names = _READERS[version]
    own = {name: members[name] for name in names if name in members}
    try:
        text = _encoded(own)
    except (TypeError, ValueError, RecursionError):  # not JSON: reported with its place
        return reader(members, pointer, corrections)
    known = _remembered(text, version) if len(text) <= _TEXT_MAX else None
    if known is None:
        return reader(members, pointer, corrections)
    for name in own:
        del members[name]
    return known


_encoded = json.JSONEncoder().encode


@lru_cache(_REMEMBERED)
def _remembered(text: str, version: int) -> Array | None:
    """Return an array; None: it is wrong, or has slips, of which messages name the place."""
    slips: list[str] = []
    try:
        found = _READERS[version][0](json.loads(text), "", Corrections(notice=slips.append))
    except BadMetadata:
        return None
    return None if slips else found
