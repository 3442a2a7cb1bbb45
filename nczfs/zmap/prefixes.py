"""Prefixes of URLs and paths, with which users allow what may be followed."""

from __future__ import annotations

import os
import posixpath
import re
from typing import Final
from urllib.parse import unquote

SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


def normal(text: str) -> str:
    """Return a path or URL in a form whose prefixes can be compared.

    It has no ``..``, not even one that a web server would find after a ``%2F``. The host of a web
    server is in lower case, without its default port or a query.
    """
    scheme = SCHEME.match(text)
    if scheme is None or scheme[1].lower() == "file":
        path = text[scheme.end() :] if scheme else text
        return os.path.abspath(path)
    word = scheme[1].lower()
    host, slash, path = text[scheme.end() :].partition("/")
    if word in _DEFAULT_PORTS:
        host = re.split("[?#]", host, maxsplit=1)[0].lower().removesuffix(_DEFAULT_PORTS[word])
        path = unquote(re.split("[?#]", path, maxsplit=1)[0], errors="surrogateescape")
    path = posixpath.normpath(f"/{path}").lstrip("/")
    return f"{word}://{host}/{path}" if slash and path else f"{word}://{host}"


def is_below(text: str, prefix: str) -> bool:
    """Return whether a normal form equals another one, or is below it."""
    return text == prefix or text.startswith(prefix if prefix.endswith("/") else f"{prefix}/")
