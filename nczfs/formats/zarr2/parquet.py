"""The documents beside references in parquet, which kerchunk keeps as consolidated metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def lengths_of(array: Mapping[str, Any]) -> tuple[Any, Any, str]:
    """Return the shape, the chunk shape and the separator of chunk keys in a ``.zarray``.

    Raises LookupError or TypeError if it has no lengths; they are not checked otherwise.
    """
    separator = "/" if array.get("dimension_separator") == "/" else "."
    return array["shape"], array["chunks"], separator


def consolidated_members(members: Sequence[bytes]) -> bytes:
    """Return the ``.zmetadata`` with the members of a JSON object, of a key and a document each."""
    return b'{"metadata":{%s},"zarr_consolidated_format":1}' % b",".join(members)
