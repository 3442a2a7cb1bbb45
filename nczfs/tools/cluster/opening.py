"""How a worker opens what the process that plans the work has open."""

from __future__ import annotations

from dataclasses import dataclass

from nczfs.engine.options import EngineOptions
from nczfs.zmap.registry import StoreOptions


@dataclass(frozen=True, slots=True)
class OpenedBy:
    """How a worker opens a dataset.

    Attributes
    ----------
    url : of its root.
    """

    url: str
    store_options: StoreOptions
    engine_options: EngineOptions
