"""What a store holds."""

from __future__ import annotations

from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT


def objects_of(zmap: ZMap) -> dict[str, bytes]:
    """All objects, by their keys."""
    return {stat.key: bytes(zmap.read(stat.key).data) for stat in zmap.list(ROOT)}
