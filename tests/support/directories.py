"""What is in a directory, and in the store there."""

from __future__ import annotations

from pathlib import Path

from nczfs.zmap.base import ZMap
from nczfs.zmap.keys import ROOT, Prefix


def files_in(root: Path) -> list[str]:
    """Paths of all files and directories, hidden ones too."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def names_in(zmap: ZMap, prefix: str = "") -> list[str]:
    return sorted(entry.name for entry in zmap.search(Prefix(prefix)))


def keys_in(zmap: ZMap) -> list[str]:
    return sorted(stat.key for stat in zmap.list(ROOT))
