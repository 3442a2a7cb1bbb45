"""The names of variables in data messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nczfs.model.printing import encoded

_ESCAPED = re.compile(r"([.\\])")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def full_name(path: Sequence[str]) -> str:
    r"""Return the name of a variable in data messages: ``group/sub/v\.1``.

    Parameters
    ----------
    path : the names of its groups below the root, and its own.
    """
    return "/".join(_ESCAPED.sub(r"\\\1", text(name)) for name in path)


def unescaped(name: str) -> str:
    """Return the path that a full name stands for, without a leading slash."""
    return _ESCAPE.sub(r"\1", name.removeprefix("/"))


def text(string: str) -> str:
    """Return a text as messages can hold it: what is not Unicode is replaced."""
    if string.isascii():
        return string
    return encoded(string).decode("utf-8", "replace")
