"""JSON that is parsed piece by piece, because a foreign document may contain anything.

Parsed as a whole, a document of brackets takes twenty times its size in memory, and blocks the
interpreter meanwhile. Here only the needed pieces are parsed, each within a limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from nczfs.buffers import Buffer

STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A JSON string, in a regular expression."""

_string = re.compile(STRING, re.DOTALL)
_scalar = re.compile(r"[^\s,\]}]+")
_blanks = re.compile(r"[ \t\n\r]*+")
_flat = re.compile(rf'[\[{{](?>(?:[^\[\]{{}}"]++|{STRING})*)[\]}}]', re.DOTALL)
_brackets = re.compile(rf"{STRING}|[\[\]{{}}\"]", re.DOTALL)
_INTEGER_DIGITS_MAX: Final = 400  # beyond any float; int() refuses some thousand
_DEPTH_MAX: Final = 500


class JsonParts:
    """A document, and the positions of its values.

    Each byte of the document is one character of its text, because a single character beyond the
    first 65,536 would make decoded text four times as large.

    All methods raise ValueError if there is no JSON.
    """

    def __init__(self, body: Buffer) -> None:
        self._text = str(body, "latin-1")

    def begin(self) -> int:
        """Return the position of the document's value."""
        return self._skip(0)

    def check_end(self, at: int) -> None:
        """Raise unless the document ends at a position."""
        if self._skip(at) != len(self._text):
            raise ValueError("something follows the document")

    def is_object(self, at: int) -> bool:
        """Return whether an object begins at a position."""
        return self._text.startswith("{", at)

    def is_text(self, at: int) -> bool:
        """Return whether a string begins at a position."""
        return self._text.startswith('"', at)

    def is_array(self, at: int) -> bool:
        """Return whether an array begins at a position."""
        return self._text.startswith("[", at)

    def members(self, at: int, take: Callable[[str, int], int]) -> int:
        """Call `take` for each member of the object at a position.

        Parameters
        ----------
        take : gets the name of a member and the position of its value; returns where that ends.

        Returns
        -------
        where the object ends.
        """

        def member(at: int) -> int:
            name, at = self.string(at)
            at = self._skip(at)
            if not self._text.startswith(":", at):
                raise ValueError(f"no name at character {at}")
            return take(name, self._skip(at + 1))

        return self._each(at, "{", "}", member)

    def items(self, at: int, take: Callable[[int], int]) -> int:
        """Call `take` for each item of an array, as `members` does."""
        return self._each(at, "[", "]", take)

    def string(self, at: int) -> tuple[str, int]:
        """Return the string at a position, and where it ends."""
        found = _string.match(self._text, at)
        if found is None:
            raise ValueError(f"no text at character {at}")
        return text_in(found[0]), found.end()

    def value(self, at: int, bytes_max: int) -> tuple[Any, int]:
        """Return the value at a position, and its end. Raises ValueError if it is too long."""
        end = self.end_of(at)
        if end - at > bytes_max:
            raise ValueError(f"over {bytes_max} bytes at character {at}")
        return _decoder.decode(_as_utf8(self._text[at:end])), end

    def raw(self, at: int) -> tuple[bytes, int]:
        """Return the unparsed bytes of the value at a position, and where it ends."""
        end = self.end_of(at)
        return self._text[at:end].encode("latin-1"), end

    def match(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        """Match a pattern at a position; each byte over 127 is one character."""
        return pattern.match(self._text, at)

    def end_of(self, at: int) -> int:
        """Return where the value ends, with as little parsing as that needs."""
        if not self._text.startswith(("{", "["), at):
            found = _string.match(self._text, at) or _scalar.match(self._text, at)
            if found is None:
                raise ValueError(f"no value at character {at}")
            return found.end()
        found = _flat.match(self._text, at)  # most values contain no brackets
        if found is not None:
            return found.end()
        depth = 0
        for found in _brackets.finditer(self._text, at):
            match found[0]:
                case "{" | "[":
                    depth += 1
                    if depth > _DEPTH_MAX:
                        raise ValueError(f"too many brackets at character {at}")
                case "}" | "]":
                    depth -= 1
                    if not depth:
                        return found.end()
                case '"':  # at once: otherwise each later quote would be searched to the end anew
                    raise ValueError(f"no end of the text at character {found.start()}")
        raise ValueError(f"no end of what begins at character {at}")

    def _each(self, at: int, begin: str, end: str, take: Callable[[int], int]) -> int:
        text = self._text
        if not text.startswith(begin, at):
            raise ValueError(f"no {begin} at character {at}")
        at = self._skip(at + 1)
        while not text.startswith(end, at):
            at = self._skip(take(at))
            if text.startswith(",", at):
                at = self._skip(at + 1)
            elif not text.startswith(end, at):
                raise ValueError(f"no comma at character {at}")
        return at + 1

    def _skip(self, at: int) -> int:
        found = _blanks.match(self._text, at)
        assert found is not None  # it may be empty
        return found.end()


def text_in(raw: str) -> str:
    """Parse a JSON string that was found in a document, with its quotes."""
    if "\\" not in raw and raw.isascii():
        return raw[1:-1]
    return str(_decoder.decode(_as_utf8(raw)))


def _as_utf8(raw: str) -> str:
    return raw if raw.isascii() else raw.encode("latin-1").decode("utf-8", "surrogateescape")


def _integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


_decoder = json.JSONDecoder(parse_int=_integer)
