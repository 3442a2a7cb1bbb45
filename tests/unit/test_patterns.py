"""The regular expressions of nczfs: the same on every Python that it supports."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from re import _constants as codes  # type: ignore[attr-defined]  # no public way to parse one
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import nczfs

SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY, codes.CATEGORY)


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for found in pkgutil.walk_packages(nczfs.__path__, "nczfs."):
        if not found.name.startswith("nczfs.testing") and not found.name.endswith("__main__"):
            for name, value in vars(import_module(found.name)).items():
                if isinstance(value, re.Pattern):
                    yield f"{found.name}.{name}", value


def _inner(item: Any) -> Any:
    """Return the one item of a group without a name, as `(?s:.)`."""
    code, argument = item
    if code is codes.SUBPATTERN and argument[0] is None and len(argument[-1]) == 1:
        return argument[-1][0]
    return item


def moves_before_it_fails(body: Any) -> bool:
    """Return whether a possessive repeat of it may end behind its last whole match.

    Python 3.11.0 to 3.11.4, among them Debian 12's, go on from where the last attempt has failed,
    if anything but single characters came first (CPython issue 106052).
    """
    if len(body) == 1:
        code, argument = body[0]
        if code is codes.BRANCH:
            return any(moves_before_it_fails(each) for each in argument[1])
        if code is codes.SUBPATTERN:
            return moves_before_it_fails(argument[-1])
        if code in (codes.POSSESSIVE_REPEAT, codes.MAX_REPEAT):
            return len(argument[2]) != 1 or argument[2][0][0] not in SINGLE
    *first, last = [_inner(item) for item in body]
    is_last_safe = last[0] in SINGLE or (
        last[0] is codes.POSSESSIVE_REPEAT and last[1][0] == 0 and last[1][2][0][0] in SINGLE
    )
    return not is_last_safe or any(code not in SINGLE for code, _ in first)


def repeats(body: Any) -> Iterator[Any]:
    """The bodies of all possessive repeats in a parsed pattern."""
    for code, argument in body:
        if code is codes.POSSESSIVE_REPEAT:
            yield argument[2]
        for part in argument if isinstance(argument, tuple | list) else (argument,):
            if isinstance(part, parser.SubPattern):
                yield from repeats(part)
            elif isinstance(part, list):
                yield from (
                    found
                    for each in part
                    if isinstance(each, parser.SubPattern)
                    for found in repeats(each)
                )


def test_no_possessive_repeat_depends_on_the_version_of_python() -> None:
    """`(?>(?:…)+)` does not."""
    found = dict(patterns())
    assert len(found) > 40
    unsafe = {
        name
        for name, pattern in found.items()
        for body in repeats(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
        if moves_before_it_fails(body)
    }
    assert unsafe == set()
