"""The part of ``datasets/`` that shows an object."""

from __future__ import annotations

import re

_CHUNK = re.compile(r"c|(?:c\.)?\d+(?:\.\d+)*")
_DOCUMENT = re.compile(r"\..*|zarr\.json")


def node_prefix(key: str) -> str:
    """Return the prefix of the group or array that an object of this name would belong to.

    A chunk belongs to its array, a metadata document to its node; any other object stands for
    itself. Only names count, so that this also works for removed objects.
    """
    words = key.split("/")
    count = len(words)
    while count and _CHUNK.fullmatch(words[count - 1]):
        count -= 1
    if count == len(words) and _DOCUMENT.fullmatch(words[-1]):
        count -= 1
    return "/".join(words[:count])
