"""Which part of ``datasets/`` shows an object."""

from __future__ import annotations

import re

_CHUNK = re.compile(r"c|(?:c\.)?\d+(?:\.\d+)*")
_DOCUMENT = re.compile(r"\..*|zarr\.json")


def node_of(key: str) -> str:
    """The prefix of the group or array that an object of this name would belong to.

    That of a chunk is its array, that of a metadata document its node; any other object stands for
    itself. Names are all that is looked at, so that it can be said of what is gone.
    """
    words = key.split("/")
    count = len(words)
    while count and _CHUNK.fullmatch(words[count - 1]):
        count -= 1
    if count == len(words) and _DOCUMENT.fullmatch(words[-1]):
        count -= 1
    return "/".join(words[:count])
