"""The names of variables in data messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nczfs.model.printing import encoded

_ESCAPED = re.compile(r"([.\\])")
_STRIPPED = "".join(map(chr, range(0x21)))
_RENAMED = re.compile(r"[\x00-\x20]")
_STEP = re.compile(r"\\(.)|([^\\.]+|.)", re.DOTALL)


def full_name(path: Sequence[str]) -> str:
    r"""Return the name of a variable in data messages: ``group/sub/v\.1``.

    Parameters
    ----------
    path : the names of its groups below the root, and its own.
    """
    return "/".join(_ESCAPED.sub(r"\\\1", text(name)) for name in path)


def java_path(path: str) -> str:
    """Return a path as netcdf-java makes it of the names in a header."""
    if _RENAMED.search(path) is None:
        return path
    names = (name.strip(_STRIPPED).replace(" ", "_") for name in path.split("/"))
    return "/".join(_RENAMED.sub("", name) for name in names)


def member_name(variable: str, member: str) -> str:
    """Return the name of a member of a structure in data messages, from that of the structure."""
    return f"{variable}.{full_name([member])}"


def steps_of(name: str) -> tuple[str, ...]:
    """Return the path that a full name stands for, and the members of a structure after it."""
    steps = [""]
    for quoted, plain in _STEP.findall(name.removeprefix("/")):
        if plain == ".":
            steps.append("")
        else:
            steps[-1] += quoted or plain
    return tuple(steps)


def unescaped(name: str) -> str:
    """Return the path that a full name stands for, without a leading slash."""
    return ".".join(steps_of(name))


def text(string: str) -> str:
    """Return a text as messages can hold it: what is not Unicode is replaced."""
    if string.isascii():
        return string
    return encoded(string).decode("utf-8", "replace")
