"""What a user meant by a word that nothing is called."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that begins so, or else is most like it; None: nothing is like it."""
    known = sorted(known, key=len)
    longer = [other for other in known if len(word.strip("-")) > 1 and other.startswith(word)]
    return next(iter([*longer, *difflib.get_close_matches(word, known, n=1)]), None)


def hint(word: str, known: Iterable[str]) -> str:
    """A question for the end of a message; "" where nothing is like the word."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""
