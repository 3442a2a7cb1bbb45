"""Where a dataset was opened from: what it takes to open it again, also in another process."""

from __future__ import annotations

import os
import re
from dataclasses import field

from nczfs.engine.options import EngineOptions
from nczfs.plaindata import frozen
from nczfs.zmap.registry import StoreOptions

_RELATIVE = re.compile(r"((?:\[[^\]]*\])*file://)(?!/)", re.IGNORECASE)
_HAS_SCHEME = re.compile(r"(?:\[[^\]]*\])*[A-Za-z][A-Za-z0-9+.-]*://")


@frozen
class Origin:
    """The arguments of `nczfs.open` for reading.

    Attributes
    ----------
    url : as it was typed, but absolute. It may contain secrets, and is not part of the repr.
    """

    url: str = field(repr=False)
    store_options: StoreOptions | None = None
    options: EngineOptions | None = None


def absolute(url: str) -> str:
    """Return a URL that means the same in every working directory."""
    if relative := _RELATIVE.match(url):
        return f"{relative[1]}{os.getcwd()}/{url[relative.end() :]}"
    return url if _HAS_SCHEME.match(url) else os.path.join(os.getcwd(), url)
