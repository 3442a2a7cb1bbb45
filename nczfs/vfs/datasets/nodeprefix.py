"""The part of ``datasets/`` that shows an object."""

from __future__ import annotations

from nczfs.formats.registry import FORMATS


def node_prefix(key: str) -> str:
    """Return the prefix of the group or array that an object of this name would belong to.

    A chunk belongs to its array, a metadata document to its node; any other object stands for
    itself. Only names count, so that this also works for removed objects.
    """
    words = key.split("/")
    for count in range(len(words)):
        if FORMATS.is_chunk("/".join(words[count:])):
            return "/".join(words[:count])
    is_document = words[-1].startswith(".") or words[-1] in FORMATS.documents
    return "/".join(words[:-1]) if is_document else key
