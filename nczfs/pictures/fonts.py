"""matplotlib without a search for all fonts of the machine, which takes it seconds.

It looks for them when it is first imported, and keeps what it found in the home of the user, if
there is one. Pictures need only the fonts that matplotlib brings with it.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

_MODULE: Final = "matplotlib.font_manager"
_VERSION: Final = re.compile(r"^    __version__ = (.+)$", re.MULTILINE)


def load() -> None:
    """Import matplotlib's list of fonts, unless that is done, with its default font alone."""
    if _MODULE in sys.modules:
        return
    library: Any = import_module("matplotlib")
    version = _version()
    if version is None:
        return  # it will search
    found = library.get_cachedir
    with tempfile.TemporaryDirectory(prefix="nczfs-fonts-") as directory:
        listed = Path(directory, f"fontlist-v{version}.json")
        listed.write_text(json.dumps(_list_of_fonts(version)), encoding="utf-8")
        library.get_cachedir = lambda: directory
        try:
            import_module(_MODULE)
        finally:
            library.get_cachedir = found


def _version() -> object | None:
    """Return the version of matplotlib's file of fonts, from its source; None: it has another form.

    It cannot be asked without importing the module.
    """
    spec = find_spec(_MODULE)
    if spec is None or spec.origin is None:
        return None
    try:
        stated = _VERSION.search(Path(spec.origin).read_text(encoding="utf-8"))
        version: object = None if stated is None else ast.literal_eval(stated[1])
    except (OSError, ValueError, SyntaxError):
        return None
    return version


def _list_of_fonts(version: object) -> dict[str, object]:
    fonts = [
        {
            "__class__": "FontEntry",
            "fname": f"fonts/ttf/{file}",
            "name": name,
            "style": "normal",
            "variant": "normal",
            "weight": weight,
            "stretch": "normal",
            "size": "scalable",
        }
        for file, name, weight in (
            ("DejaVuSans.ttf", "DejaVu Sans", 400),
            ("DejaVuSans-Bold.ttf", "DejaVu Sans", 700),
            ("DejaVuSansMono.ttf", "DejaVu Sans Mono", 400),
        )
    ]
    return {
        "__class__": "FontManager",
        "_version": version,
        "_FontManager__default_weight": "normal",
        "default_size": None,
        "defaultFamily": {"ttf": "DejaVu Sans", "afm": "Helvetica"},
        "afmlist": [],
        "ttflist": fonts,
    }
