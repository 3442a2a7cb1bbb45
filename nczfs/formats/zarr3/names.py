"""The documents of Zarr v3, and the names that nodes can have."""

from __future__ import annotations

import re

from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.zarr2.nodes import ZARRAY, ZGROUP

ZARR_JSON = "zarr.json"

# Both key encodings, with any separator. Only the document of the array says which one it has.
_CHUNK = re.compile(r"c(?:[./](?:0|[1-9]\d*))*|(?:0|[1-9]\d*)(?:[./](?:0|[1-9]\d*))*")

NAMES = DocumentNames(
    arrays=(ZARR_JSON,), groups=(ZARR_JSON,), chunks=_CHUNK, rivals=(ZARRAY, ZGROUP)
)


def name_fault(name: str) -> str | None:
    """Tell why no new node can have a name, in a clause about "it"; None: one can.

    Notes
    -----
    Zarr v3.1 core specification, "Node names".
    """
    if not name.strip("."):
        return "it has nothing but periods"
    if name.startswith("__"):
        return "it begins with two underscores, which Zarr v3 reserves"
    return None
