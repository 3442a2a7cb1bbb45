"""Sizes and ratios, and tables of them, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nczfs.messages import size_text

UNKNOWN = "-"


def size_cell(size: int | None, *, exact: bool = False) -> str:
    """Format a number of bytes for a table: as options take sizes, or exactly."""
    if size is None:
        return UNKNOWN
    return str(size) if exact else size_text(size)


def ratio_of(decoded: int | None, stored: int | None) -> float | None:
    """Return the decoded bytes per stored byte; None if that is meaningless."""
    return decoded / stored if decoded is not None and stored else None


def ratio_text(ratio: float | None) -> str:
    """Format a ratio with two decimals."""
    return UNKNOWN if ratio is None else f"{ratio:.2f}"


def table(rows: Sequence[Sequence[str]], *, right: Iterable[int] = ()) -> list[str]:
    """Return lines with aligned columns.

    Parameters
    ----------
    right : the columns that are aligned to the right.
    """
    to_right = frozenset(right)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def cell(i: int, text: str) -> str:
        return text.rjust(widths[i]) if i in to_right else text.ljust(widths[i])

    return ["  ".join(cell(i, text) for i, text in enumerate(row)).rstrip() for row in rows]
