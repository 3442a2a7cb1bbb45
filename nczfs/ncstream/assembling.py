"""Whole variables of a stream in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

from nczfs.buffers import Values
from nczfs.errors import BadMetadata
from nczfs.ncstream.catalog import Catalog, Described, fill_value
from nczfs.ncstream.messages import DataType, Header, Section, StreamError, Variable
from nczfs.ncstream.reading import Array, Item

BYTES_MAX = 1 << 30


def assemble(items: Iterable[Item], bytes_max: int = BYTES_MAX) -> Mapping[str, Values]:
    """Return the values of the variables of a stream, by path. Later messages win.

    Parameters
    ----------
    items : as `read` yields them. Of an answer of CDM Remote without a header, the variables have
        the shape of their last message.
    bytes_max : that all variables may take.

    Returns
    -------
    What no message has is `_FillValue`, or netCDF's default; a variable of a type without one, or
    of variable length, is left out if it has no message. Sequences are all their rows.

    Raises
    ------
    BadMetadata : the variables are too large; or the stream ends with an error.
    """
    catalog, found = Catalog(), dict[str, Values]()
    sequences: dict[str, list[Values]] = {}
    room = bytes_max

    def made(shape: tuple[int, ...], dtype: np.dtype[Any], fill: object, path: str) -> Values:
        nonlocal room
        room -= prod(shape) * max(1, dtype.itemsize)
        if room < 0:
            raise BadMetadata(f"/{path}: the variables take more than {bytes_max} bytes")
        values = np.empty(shape, dtype)
        if fill is not None:
            values[...] = fill
        return values

    for item in items:
        match item:
            case Header():
                for each in catalog.add(item.root):
                    node = each.node
                    if each.path not in found and isinstance(node, Variable) and _has_fill(each):
                        fill = fill_value(node)
                        found[each.path] = made(each.shape, each.type.dtype, fill, each.path)
            case StreamError():
                raise BadMetadata(f"the stream ends with an error: {item.message}")
            case Array(path, DataType.SEQUENCE):
                sequences.setdefault(path, []).append(item.values)
            case Array(path):
                known = catalog.find(path)
                if known is None:
                    found[path] = item.values
                    continue
                if path not in found:
                    found[path] = made(known.shape, item.values.dtype, None, path)
                found[path][place(item.section)] = item.values
    return found | {path: np.concatenate(rows) for path, rows in sequences.items()}


def place(section: Section) -> tuple[Any, ...]:
    """Return the index of a section in the array of its variable."""
    return (
        *(slice(r.start, r.start + (r.size - 1) * r.stride + 1, r.stride) for r in section.ranges),
        ...,
    )


def _has_fill(described: Described) -> bool:
    return not described.is_ragged and described.type is not DataType.OPAQUE
