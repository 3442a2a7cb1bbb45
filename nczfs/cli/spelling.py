"""Suggestions for mistyped words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that begins so, or else is most like it; None: nothing is like it."""
    known = sorted(known, key=len)
    longer = [other for other in known if len(word.strip("-")) > 1 and other.startswith(word)]
    return next(iter([*longer, *difflib.get_close_matches(word, known, n=1)]), None)


def hint(word: str, known: Iterable[str]) -> str:
    """Return a question for the end of a message; "" if no known word is like it."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""
