"""The documents of Zarr v2, and those that the first layout of NCZarr adds."""

from __future__ import annotations

import re

from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.nczarr.layouts import L1
from nczfs.formats.zarr2.nodes import ZARRAY, ZATTRS, ZGROUP

CONSOLIDATED = ".zmetadata"

# Chunk keys have canonical numbers with any separator: "2024/05" is not one.
_CHUNK = re.compile(r"(?:c[./])?(?:0|[1-9]\d*)(?:[./](?:0|[1-9]\d*))*|c")

NAMES = DocumentNames(
    arrays=(ZARRAY,),
    groups=(ZGROUP,),
    chunks=_CHUNK,
    attributes=(ZATTRS,),
    hints=(ZATTRS, L1.superblock, L1.group),
    others=(L1.array, L1.types),
    rare=L1.older,
    copy=CONSOLIDATED,
    rivals=("zarr.json",),  # which zarr3.names calls ZARR_JSON
)
