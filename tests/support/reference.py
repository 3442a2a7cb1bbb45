"""Other programs' datasets, and what they hold."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


def reference_root() -> Path | None:
    """The directory of other programs' files; None when NCZFS_REFERENCE_DATA does not name one."""
    place = os.environ.get("NCZFS_REFERENCE_DATA")
    return Path(place) if place else None


@dataclass(frozen=True, slots=True)
class Case:
    """A dataset written by another program.

    Attributes
    ----------
    values : what its arrays hold, by path, as they are stored (dates as int64); "" is the root.
    """

    name: str
    store: Path
    values: dict[str, np.ndarray[Any, np.dtype[Any]]]
    notes: dict[str, Any]


def zarr2_cases() -> list[Path]:
    """The directories of the Zarr v2 cases; empty when there are no reference files."""
    root = reference_root()
    return sorted((root / "zarr").glob("v2-*")) if root else []


def zarr_cases() -> list[Path]:
    """The directories of the cases of Zarr v2 and v3; empty when there are no reference files."""
    root = reference_root()
    return sorted((root / "zarr").glob("v[23]-*")) if root else []


def load(directory: Path) -> Case:
    notes = json.loads((directory / "expected.json").read_text())
    arrays = directory / "expected.npz"
    values = {}
    if arrays.exists():
        with np.load(arrays) as found:
            values = {name if name != "@" else "": found[name] for name in found}
    return Case(directory.name, directory / notes["store"], values, notes)
