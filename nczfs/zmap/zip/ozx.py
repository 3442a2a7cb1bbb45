"""The mark of single-file OME-Zarr archives (OME-NGFF RFC-9): a comment that is JSON.

It promises that nothing is compressed by the archive, and that the documents of all nodes come
first, those of fewer levels before others.
"""

from __future__ import annotations

import json

SUFFIX = ".ozx"


def comment_of(version: str) -> bytes:
    """Return the comment of an archive.

    Parameters
    ----------
    version : of OME-Zarr, as the document of the root has it.
    """
    first = {"centralDirectory": {"jsonFirst": True}}
    return json.dumps({"ome": {"version": version, "zipFile": first}}).encode() + b"\0"


def without_mark(comment: bytes) -> bytes:
    """Return a comment without the promise, which an archive that is written to does not keep."""
    text, _, rest = comment.partition(b"\0")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return comment
    return rest if isinstance(found, dict) and "ome" in found else comment
