"""What a service loads in the end, although it starts without: it is of one version all the same.

A package may be replaced under a service that runs. What it loaded only then would be of the new
version, and need not fit. A mount loads it after it has started, so that it answers sooner.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import Final

AFTER_S: Final = 1.0
"""How long a mount answers before that; `nczfs exec` is often over by then."""

PARTS: Final = (
    "nczfs.cdl.printer",
    "nczfs.codecs.wanted",
    "nczfs.tools.transfer.cdl_source",
    "nczfs.tools.transfer.choices",
    "nczfs.tools.transfer.completeness",
    "nczfs.tools.transfer.group_target",
    "nczfs.tools.transfer.reading_process",
    "nczfs.vfs.datasets.writtenhierarchy",
    "nczfs.views.ncstream.layout",
)


def load() -> None:
    """Import the parts."""
    for part in PARTS:
        import_module(part)


def load_soon() -> None:
    """Import the parts in a thread, in a while."""
    thread = threading.Timer(AFTER_S, load)
    thread.name, thread.daemon = "nczfs-load", True
    thread.start()
