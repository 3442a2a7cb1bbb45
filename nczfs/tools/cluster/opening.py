"""How a worker opens what the process that plans the work has open."""

from __future__ import annotations

from nczfs.engine.options import EngineOptions
from nczfs.plaindata import frozen
from nczfs.zmap.registry import StoreOptions


@frozen
class OpenedBy:
    """How a worker opens a dataset.

    Attributes
    ----------
    url : of its root.
    """

    url: str
    store_options: StoreOptions
    engine_options: EngineOptions
