"""URLs and paths that are compared by how they begin: what a user allows to be followed."""

from __future__ import annotations

import os
import posixpath
import re
from typing import Final
from urllib.parse import unquote

SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


def normal(text: str) -> str:
    """A path or URL in the form whose beginnings can be compared.

    It has no ``..``, not even one that a web server would find behind a ``%2F``; of a web server
    the host is in small letters, and there is neither its default port nor a query.
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
    """Whether something in normal form is another such thing, or below it."""
    return text == prefix or text.startswith(prefix if prefix.endswith("/") else f"{prefix}/")
