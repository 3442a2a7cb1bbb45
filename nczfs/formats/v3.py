"""Zarr v3, which is recognised, and not read yet."""

from __future__ import annotations

import re
from typing import NoReturn

from nczfs.errors import Unsupported
from nczfs.formats.base import Documents, FormatOptions
from nczfs.formats.documentnames import DocumentNames
from nczfs.formats.family import FormatFamily

ZARR_JSON = "zarr.json"

# The default encoding; that of v2 is recognised there.
_CHUNK = re.compile(r"c(?:[./](?:0|[1-9]\d*))*")


def _opened(documents: Documents, options: FormatOptions) -> NoReturn:
    raise Unsupported(f"{ZARR_JSON}: Zarr v3 is not read by this version")


V3 = FormatFamily(DocumentNames((ZARR_JSON,), (ZARR_JSON,), _CHUNK), _opened)
