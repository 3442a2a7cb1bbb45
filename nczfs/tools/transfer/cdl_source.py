"""A CDL text as a source."""

from __future__ import annotations

from typing import Any

from nczfs.buffers import Values
from nczfs.cdl.lists import CdlData
from nczfs.cdl.parse import parse_cdl
from nczfs.model.grid import Slices
from nczfs.tools.transfer.source import Content, Source, item_bytes


def cdl_source(text: str, where: str) -> Source:
    """Return what a CDL text declares, and its values.

    Raises
    ------
    BadMetadata, Unsupported : ``FILE:LINE: what was wrong``.
    """
    cdl = parse_cdl(text, where)
    contents = {path: _content(data) for path, data in cdl.data.items()}
    return Source(where, cdl.root, contents)


def _content(data: CdlData) -> Content:
    kept: list[Values] = []

    def read(selection: Slices) -> Values:
        if not kept:
            kept.append(data.array)
        index: tuple[Any, ...] = (*selection, ...)  # an array, also for a scalar
        part: Values = kept[0][index]
        return part

    chunks = tuple(max(1, n) for n in data.shape)
    return Content(data.shape, chunks, item_bytes(data.dtype), read, kept.clear)
