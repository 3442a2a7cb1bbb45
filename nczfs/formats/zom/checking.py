"""What the readers of nodes share: errors with their place, and values of JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from itertools import count
from typing import TypeAlias

from nczfs.errors import BadMetadata, Unsupported
from nczfs.formats.limits import LENGTH_MAX
from nczfs.formats.zarr3.grids import lengths
from nczfs.formats.zom.pointers import below
from nczfs.messages import shown
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen

Notice: TypeAlias = Callable[[str], None]

LEVELS_MAX = 100

PLAIN = frozenset({str, int, bool, type(None)})
"""The types of most values, which `json_at` returns as they are. Pointers to them take time."""


def unheard(_: str) -> None:
    """Take no notice."""


def wrong(pointer: str, text: str) -> BadMetadata:
    """Return the error about what a pointer leads to."""
    return BadMetadata(f"{pointer or 'the root'}: {text}", pointer)


@contextmanager
def at(pointer: str) -> Iterator[None]:
    """Give the errors of readers, which begin with `pointer` and a colon, their place.

    What nczfs does not support may still be declared.
    """
    try:
        yield
    except Unsupported:
        return
    except BadMetadata as error:
        raise wrong(pointer, str(error).removeprefix(f"{pointer}: ")) from error


@frozen
class Corrections:
    """What becomes of the slips that readers correct.

    Attributes
    ----------
    strict : refuse them.
    notice : takes a line about each.
    nodes_max : that may be read; None: any number.
    """

    strict: bool = False
    notice: Notice = unheard
    nodes_max: int | None = None
    _numbers: Iterator[int] = field(default_factory=count)

    def is_full(self) -> bool:
        """Count a node, and return whether it is one too many."""
        return self.nodes_max is not None and next(self._numbers) >= self.nodes_max

    def note(self, pointer: str, text: str) -> None:
        """Note a slip. Raises BadMetadata: they are refused."""
        if self.strict:
            raise wrong(pointer, text)
        self.notice(f"{pointer or 'the root'}: {text}")


def object_at(value: object, pointer: str) -> dict[str, Json]:
    """Return an object with the names of its members checked. Raises BadMetadata."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise wrong(pointer, f"{shown(value)} is not an object")
    for name in value:
        if not isinstance(name, str):
            raise wrong(pointer, f"the name {shown(name)} is not a text")
    return dict(value)


def json_at(value: object, pointer: str, level: int = 0) -> Json:
    """Return a copy of a value that consists of JSON alone.

    Tuples become lists, and floats that are not finite the texts by which Zarr spells them.

    Raises
    ------
    BadMetadata : it is something else, or nested too deep.
    """
    if level > LEVELS_MAX:
        raise wrong(pointer, f"nested more than {LEVELS_MAX} levels deep")
    match value:
        case None | bool():
            return value
        case str():
            return str(value)  # without the spelling of a word
        case int():
            return int(value)
        case float():
            number = float(value)
            if math.isfinite(number):
                return number
            return "NaN" if number != number else "Infinity" if number > 0 else "-Infinity"
        case list() | tuple():
            return [
                v if type(v) in PLAIN else json_at(v, f"{pointer}/{i}", level + 1)
                for i, v in enumerate(value)
            ]
        case Mapping():
            members = object_at(value, pointer)
            return {
                str(n): v if type(v) in PLAIN else json_at(v, below(pointer, n), level + 1)
                for n, v in members.items()
            }
        case _:
            raise wrong(pointer, f"{type(value).__name__} is not JSON")


def lengths_at(value: object, pointer: str) -> tuple[int, ...]:
    """Return the lengths of dimensions. Raises BadMetadata."""
    with at(pointer):
        found = lengths(list(value) if isinstance(value, tuple) else value, pointer)  # type: ignore[arg-type]
        for length in found:
            if length > LENGTH_MAX:
                raise BadMetadata(f"{shown(length)} is beyond 2^63 - 1")
        return found
    raise AssertionError("lengths are never unsupported")


def required(members: dict[str, Json], name: str, pointer: str) -> Json:
    """Take a member that must be there. Raises BadMetadata."""
    if name not in members:
        raise wrong(below(pointer, name), "is missing")
    return members.pop(name)
