"""Stored data and sizes in messages: short, on one line, without control characters."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Final

LENGTH_MAX: Final = 60
REASON_LENGTH_MAX: Final = 200
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_BITS_MAX: Final = 128  # a longer integer takes a while to print, and Python refuses very long ones


def shown(value: object) -> str:
    """Format a value from a document or a chunk for a message.

    The cost depends only on the little that is shown. Control characters are escaped, so that a
    terminal does not act on them.
    """
    text = _written(value, LENGTH_MAX)
    return text if len(text) <= LENGTH_MAX else f"{text[: LENGTH_MAX - 3]}..."


def size_text(size: int) -> str:
    """Format a number of bytes as options take sizes, with at most three significant digits."""
    if size < 1024:
        return f"{size}B"
    value = float(size)
    for unit in _UNITS:
        value /= 1024
        if value < 999.5 or unit == _UNITS[-1]:
            break
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    text = f"{value:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text}{unit}"


def installing(extra: str) -> str:
    """Return what installs an extra of nczfs where this nczfs is.

    nczfs is not on PyPI, so only the pip of this Python finds it. The Debian package has no pip.
    """
    words = f"pip install {shlex.quote(f'nczfs[{extra}]')}"
    if find_spec("pip") is None:
        return f"{words}, where pip has installed nczfs; this one, of a package, cannot be extended"
    return f"{shlex.quote(sys.executable)} -m {words}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an s in the plural."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def reason(error: BaseException) -> str:
    """Return the message of a library's exception, which may quote the data, or its type."""
    text = str(error)
    if len(text) > REASON_LENGTH_MAX:
        text = f"{text[: REASON_LENGTH_MAX - 3]}..."
    is_plain = text.isprintable()
    return (text if is_plain else repr(text)[1:-1]) or type(error).__name__


def _written(value: object, room: int) -> str:
    """Format as `repr` does, but stop soon after so many characters."""
    match value:
        case bool():
            return repr(value)
        case int():
            size = value.bit_length()
            return f"about 2^{size - 1}" if size > _BITS_MAX else repr(int(value))
        case str():
            return repr(str(value[: room + 1]))
        case bytes():
            return repr(value[: room + 1])
        case list():
            return f"[{_joined(value, room - 1)}]"
        case tuple():
            return f"({_joined(value, room - 1)}{',' if len(value) == 1 else ''})"
        case dict():
            return f"{{{_joined(value.items(), room - 1, pairs=True)}}}"
        case _:
            return repr(value)


def _joined(items: Iterable[object], room: int, *, pairs: bool = False) -> str:
    """Join items, or names and values, as long as there is room."""
    parts: list[str] = []
    for item in items:
        if room <= 0:
            parts.append("...")
            break
        if pairs and isinstance(item, tuple):
            name = _written(item[0], room)
            part = f"{name}: {_written(item[1], room - len(name))}"
        else:
            part = _written(item, room)
        parts.append(part)
        room -= len(part) + 2
    return ", ".join(parts)
