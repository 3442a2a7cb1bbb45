"""Boxes as text: NumPy's notation."""

from __future__ import annotations

from typing import Any

from nczfs.errors import UsageError

BOX_HELP = "a part of it, in NumPy's notation: '0, 10:20, ::2, ...'"


def selection(text: str) -> tuple[Any, ...]:
    """Parse a selection in NumPy's notation: integers, slices and an ellipsis.

    Raises
    ------
    UsageError : the text is something else.
    """
    try:
        return tuple(_selector(part.strip()) for part in text.split(","))
    except ValueError:
        raise UsageError(
            f"--box {text!r}: write integers and slices, as in '0, 10:20, ::2, ...'"
        ) from None


def _selector(part: str) -> Any:
    if part == "...":
        return ...
    if ":" not in part:
        return int(part)
    bounds = [int(word) if word.strip() else None for word in part.split(":")]
    if len(bounds) > 3:
        raise ValueError(part)
    return slice(*bounds)
