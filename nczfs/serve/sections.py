"""Section specifications: the parts of variables that a client of CDM Remote asks for.

::

    specs   = spec { (";" | ",") spec }
    spec    = ["/"] name [ "(" dims ")" ] { "." member [ "(" dims ")" ] }
    dims    = dim { "," dim }
    dim     = ":" | number | number ":" number [ ":" number ]

A range ends with its last position, and a fixed position keeps a dimension of length 1. In names a
backslash quotes the next character. siphon quotes nothing, so a text that names a variable as it
stands means that variable.

Notes
-----
The grammar is netcdf-java's (``ParsedArraySectionSpec``); a leading slash and commas between
variables are siphon's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from nczfs.errors import BadSelection
from nczfs.messages import shown
from nczfs.plaindata import frozen

SPECS_MAX = 100
"""Variables in one request."""

_NUMBER = re.compile(r"[0-9]{1,19}\Z")
_EMPTY = re.compile(r"([0-9]{1,19}):(-1|[0-9]{1,19})\Z")


@frozen
class DimSpec:
    """The selected positions of a dimension; `last` is one of those that are looked at.

    Attributes
    ----------
    first, last : None: the whole dimension.
    """

    first: int | None = None
    last: int | None = None
    step: int = 1


ALL = DimSpec()

Dims: TypeAlias = "tuple[DimSpec, ...] | None"
"""One for each dimension; None: everything."""


@frozen
class SectionSpec:
    """A part of a variable.

    Attributes
    ----------
    name : the path of the variable below the root, without a leading slash, unquoted.
    members : of a structure, from the outside to the inside, each with its dimensions.
    """

    name: str
    dims: Dims = None
    members: tuple[tuple[str, Dims], ...] = ()


def parse_specs(text: str, is_variable: Callable[[str], bool]) -> list[SectionSpec]:
    """Parse the section specifications of one request.

    Parameters
    ----------
    is_variable : whether a path, without a leading slash, is that of a variable.

    Raises
    ------
    BadSelection : the text is none, or names no variable.
    """
    if (whole := _as_it_stands(text, is_variable)) is not None:
        return [whole]
    parts = list(_split(text, ";,"))
    if len(parts) > SPECS_MAX:
        raise BadSelection(f"{len(parts)} variables in one request, more than {SPECS_MAX}")
    return [_spec(part, is_variable) for part in parts]


def ranges_of(dims: Dims, shape: tuple[int, ...], name: str) -> tuple[range, ...]:
    """Return the selected positions along each dimension of a variable.

    Raises
    ------
    BadSelection : there is not one for each dimension, or one is beyond the end.
    """
    if dims is None:
        return tuple(map(range, shape))
    if len(dims) != len(shape):
        raise BadSelection(
            f"{shown(name)}: {len(dims)} ranges for {len(shape)} dimensions; write one for each, "
            "':' for a whole one"
        )
    return tuple(
        _positions(dim, length, f"{shown(name)}, dimension {d}")
        for d, (dim, length) in enumerate(zip(dims, shape, strict=True))
    )


def _positions(dim: DimSpec, length: int, where: str) -> range:
    if dim.first is None or dim.last is None:
        return range(length)
    if dim.last < dim.first:
        return range(0)
    if dim.last >= length:
        raise BadSelection(
            f"{where}: position {dim.last} is beyond the end; the length is {length}, and ranges "
            "end with their last position"
        )
    return range(dim.first, dim.last + 1, dim.step)


def _as_it_stands(text: str, is_variable: Callable[[str], bool]) -> SectionSpec | None:
    """Return the specification of a variable whose name is not quoted; None: it is none."""
    name = text.removeprefix("/")
    if is_variable(name):
        return SectionSpec(name)
    front, parenthesis, rest = name.rpartition("(")
    if parenthesis and rest.endswith(")") and is_variable(front):
        return SectionSpec(front, _dims(rest[:-1], front))
    return None


def _spec(text: str, is_variable: Callable[[str], bool]) -> SectionSpec:
    if (whole := _as_it_stands(text, is_variable)) is not None:
        return whole
    (name, dims), *members = [_part(part) for part in _split(text, ".")]
    name = name.removeprefix("/")
    if not is_variable(name):
        raise BadSelection(f"{shown(name)}: no variable has that name")
    return SectionSpec(name, dims, tuple(members))


def _part(text: str) -> tuple[str, Dims]:
    """Parse a name with its dimensions."""
    front, *others = _split(text, "(", nested=False)
    name = _unquoted(front)
    if not name.strip("/"):
        raise BadSelection(f"{shown(text)}: a section begins with the name of a variable")
    if not others:
        return name, None
    dims = text[len(front) + 1 :]
    if not dims.endswith(")"):
        raise BadSelection(f"{shown(text)}: a parenthesis is not closed at the end")
    return name, _dims(dims[:-1], name)


def _dims(text: str, name: str) -> tuple[DimSpec, ...]:
    if not text.strip():
        return ()
    return tuple(_dim(part.strip(), name) for part in text.split(","))


def _dim(text: str, name: str) -> DimSpec:
    if text == ":":
        return ALL
    if (found := _EMPTY.match(text)) and int(found[2]) == int(found[1]) - 1:
        return DimSpec(int(found[1]), int(found[2]))  # what siphon asks for an empty slice
    words = text.split(":")
    if len(words) > 3 or not all(_NUMBER.match(word) for word in words):
        raise BadSelection(
            f"{shown(name)}: {shown(text)} is not a range: write ':', a position, FIRST:LAST or "
            "FIRST:LAST:STEP"
        )
    first, last, step = (*map(int, words), *([int(words[0]), 1][len(words) - 1 :]))
    if last < first:
        raise BadSelection(f"{shown(name)}: range {text} ends before it begins")
    if step < 1:
        raise BadSelection(f"{shown(name)}: range {text} has a step of 0")
    return DimSpec(first, last, step)


def _split(text: str, separators: str, *, nested: bool = True) -> Iterator[str]:
    """Split at characters that are not quoted, and with `nested` not within parentheses."""
    start = depth = 0
    quoted = False
    for at, character in enumerate(text):
        if quoted:
            quoted = False
        elif character == "\\":
            quoted = True
        elif character in separators and not depth:
            yield text[start:at]
            start = at + 1
        elif nested and character == "(":
            depth += 1
        elif nested and character == ")":
            depth = max(0, depth - 1)
    yield text[start:]


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
