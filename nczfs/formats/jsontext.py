"""A parser of JSON in metadata documents: strict JSON, otherwise what netcdf-c writes.

netcdf-c 4.9.2 and later write a text attribute without quotes if their scanner takes it for a
number or a word: ``007``, ``+5``, ``1.``, ``0x10``, ``True``, ``nan``. Such a document is not JSON,
but its other members are fine. So a document that strict JSON refuses is read again by a scanner
with netcdf-c's idea of a word. Numbers remember how they were spelled, because the text of such an
attribute is its spelling (``1.50`` is not ``1.5``).

Size, depth and number of members are bounded. Nothing recurses on the input.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

import numpy as np

from nczfs.errors import BadMetadata
from nczfs.messages import shown
from nczfs.model import jsonshape
from nczfs.model.hierarchy import Json
from nczfs.plaindata import frozen

BYTES_MAX = 64 << 20
DEPTH_MAX = 100  # real documents have less than ten levels; walks over a value may recurse
MEMBERS_MAX = 1 << 18  # a million take seconds and 500 MB; large datasets have some 10,000
DIGITS_MAX = 1000  # a longer integer stays a word: converting it would take quadratic time
_PART_CHARACTERS = 1 << 20
_SMALL_BYTES, _REMEMBERED = 4 << 10, 64  # parsed, a few MiB at most


class Unfinished(BadMetadata):
    """A text is only the beginning of a document."""


class Real(float):
    """A number that remembers how it was spelled."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Real:
        number = super().__new__(cls, text)
        number.text = text
        return number


class Word(str):
    """A word without quotes that JSON does not know, as it was spelled."""

    __slots__ = ()


@frozen
class Parsed:
    """A document, and remarks on its form.

    Attributes
    ----------
    value : numbers with a point or exponent are `Real`, words without quotes are `Word`.
    notes : messages that name the key: a member given twice, bytes that are not UTF-8.
    """

    value: Json
    notes: tuple[str, ...] = ()


def parse(
    data: bytes, where: str, *, bytes_max: int = BYTES_MAX, members_max: int = MEMBERS_MAX
) -> Parsed:
    """Parse a document.

    Parameters
    ----------
    data : its bytes; UTF-8, with or without a byte order mark.
    where : the key it was found at, for messages.
    bytes_max, members_max : larger documents, and those with more members, are refused.

    Raises
    ------
    BadMetadata : the text is neither JSON nor what netcdf-c writes, or exceeds a limit. The message
        names the key, and the position where reading stopped.
    Unfinished : the text is only the beginning of a document.
    """
    if len(data) > bytes_max:
        raise BadMetadata(f"{where}: a document of {len(data)} bytes is not read (max {bytes_max})")
    if wrong := jsonshape.fault(data, depth_max=DEPTH_MAX, members_max=members_max):
        raise BadMetadata(f"{where}: {wrong}")
    notes: list[str] = []
    text = _decode(data, where, notes)

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) != len(pairs):
            notes.append(_doubled(pairs, where))
        return found

    if _SURROGATE.search(text) is None:
        try:
            value: Json = json.loads(
                text,
                object_pairs_hook=members,
                parse_float=Real,
                parse_int=_integer,
                parse_constant=Real,
            )
            return Parsed(value, tuple(notes))
        except ValueError:
            notes = [note for note in notes if "UTF-8" in note]
    return Parsed(_Scanner(text, where, members).document(), tuple(notes))


def parse_object(
    data: bytes, where: str, *, bytes_max: int = BYTES_MAX
) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Parse a document that must be a JSON object. Returns its members and the notes.

    The result may be shared with other callers, and must not be changed.

    Raises
    ------
    BadMetadata : as `parse`, or the document is not an object.
    """
    if len(data) <= min(_SMALL_BYTES, bytes_max):
        return _remembered_object(data, where)
    return _object(data, where, bytes_max)


@lru_cache(_REMEMBERED)
def _remembered_object(data: bytes, where: str) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Parse a small document once: an append reads and compares the same few several times."""
    return _object(data, where, _SMALL_BYTES)


def _object(data: bytes, where: str, bytes_max: int) -> tuple[dict[str, Json], tuple[str, ...]]:
    parsed = parse(data, where, bytes_max=bytes_max)
    if not isinstance(parsed.value, dict):
        raise BadMetadata(f"{where}: is not a JSON object, but {shown(parsed.value)}")
    return parsed.value, parsed.notes


def plain(value: Json) -> Json:
    """Return a value with ordinary floats and strings, without their spelling."""
    match value:
        case Real():
            return float(value)
        case Word():
            return str(value)
        case list():
            return [plain(item) for item in value]
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
        case _:
            return value


def compact(value: Json) -> str:
    """Return the JSON of a value in netcdf-c's style, with numbers and words as spelled.

    It has blanks after the colons and between the members of an object, but not between the items
    of a list: ``{"b": [1,2], "c": 1.50}``. netcdf-c returns this text for a text attribute that it
    has stored as JSON.
    """
    match value:
        case Real():
            return value.text
        case Word():
            return str(value)
        case list():
            return "[" + ",".join(map(compact, value)) + "]"
        case dict():
            members = (f"{_quoted(name)}: {compact(item)}" for name, item in value.items())
            return "{" + ", ".join(members) + "}"
        case str():
            return _quoted(value)
        case _:
            return _quoted(value)


def one_line(value: Json) -> str:
    """Return strict JSON on one line; NaN and infinities are words in quotes, as in Zarr."""
    return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def _finite(value: Json) -> Json:
    match value:
        case float() if value != value:
            return "NaN"
        case float() if value in (float("inf"), float("-inf")):
            return "Infinity" if value > 0 else "-Infinity"
        case list():
            return [_finite(item) for item in value]
        case dict():
            return {name: _finite(item) for name, item in value.items()}
        case _:
            return value


_quoted = json.JSONEncoder(ensure_ascii=False).encode


# Half of a surrogate pair of escapes. Python's reader turns it into a character that cannot be
# encoded; the scanner below does not.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _decode(data: bytes, where: str, notes: list[str]) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # netCDF text has no encoding, and netcdf-c copies its bytes; if it is not UTF-8, it is
        # almost always Latin-1.
        notes.append(f"{where}: byte {error.start} is not UTF-8; such bytes are read as Latin-1")
        text = data.decode("utf-8-sig", "surrogateescape")
        parts = range(0, len(text), _PART_CHARACTERS)
        return "".join(_as_latin_1(text[start : start + _PART_CHARACTERS]) for start in parts)


def _as_latin_1(text: str) -> str:
    """Return text in which bytes that were not UTF-8 (surrogates) become Latin-1 characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    is_byte = (codes >= 0xDC80) & (codes <= 0xDCFF)
    return np.where(is_byte, codes - 0xDC00, codes).astype("<u4").tobytes().decode("utf-32-le")


def _doubled(pairs: list[tuple[str, Json]], where: str) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return (
                f"{where}: member {shown(str(name))} is present more than once; the last one counts"
            )
        seen.add(name)
    raise AssertionError("only called when a name is doubled")


def _integer(text: str) -> Json:
    if text == "-0":
        return Real(text)
    return int(text) if len(text) <= DIGITS_MAX else Word(text)


_SPACE = re.compile(r"[ \t\r\n\f\v]*+")
_TEXT = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
# The characters of a word in netcdf-c's ncjson.c.
_WORD = re.compile(r"[A-Za-z0-9_$+.\-]++")
_INTEGER = re.compile(r"-?(?:0|[1-9]\d*+)\Z")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d++)?\Z")
_ESCAPE = re.compile(
    r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u([0-9a-fA-F]{4})|\\(.)",
    re.DOTALL,
)
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None}
_FLOAT_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})

_Members = Callable[[list[tuple[str, Json]]], dict[str, Json]]


class _Scanner:
    """A scanner of what netcdf-c writes, with its own stack and one regular expression a token."""

    def __init__(self, text: str, where: str, members: _Members) -> None:
        self._text = text
        self._where = where
        self._members = members
        self._position = 0

    def document(self) -> Json:
        # One entry for each open list or object: the values so far, and the key that waits for its
        # value.
        lists: list[list[Json] | list[tuple[str, Json]]] = []
        names: list[str | None] = []
        while True:
            value, opened = self._value_or_open(lists, names)
            if opened:
                continue
            while lists:
                value, closed = self._put(value, lists[-1], names)
                if not closed:
                    break
                lists.pop()
                names.pop()
            else:
                if self._peek():
                    self._fail("something follows the end of the document")
                return value

    def _value_or_open(
        self, lists: list[list[Json] | list[tuple[str, Json]]], names: list[str | None]
    ) -> tuple[Json, bool]:
        """Read a value, or the beginning of a list or object with members (then True)."""
        character = self._peek()
        if character == "[":
            self._position += 1
            if self._skip("]"):
                return [], False
            lists.append([])
            names.append(None)
            return None, True
        if character == "{":
            self._position += 1
            if self._skip("}"):
                return {}, False
            lists.append([])
            names.append(self._name())
            return None, True
        return self._atom(), False

    def _put(
        self, value: Json, into: list[Json] | list[tuple[str, Json]], names: list[str | None]
    ) -> tuple[Json, bool]:
        """Add a value to the open list or object. At the end, returns that and True."""
        name = names[-1]
        if name is None:
            into.append(value)  # type: ignore[arg-type]  # a list holds values when no name waits
            if self._skip(","):
                return None, False
            if self._skip("]"):
                return into, True  # type: ignore[return-value]
            self._fail("a list continues with ',' or ends with ']'")
        into.append((name, value))  # type: ignore[arg-type]  # and pairs when one does
        if self._skip(","):
            names[-1] = self._name()
            return None, False
        if self._skip("}"):
            return self._members(into), True  # type: ignore[arg-type]
        self._fail("an object continues with ',' or ends with '}'")

    def _name(self) -> str:
        name = self._atom(is_name=True)
        if not self._skip(":"):
            self._fail("the name of a member is followed by ':'")
        assert isinstance(name, str)
        return str(name)

    def _atom(self, *, is_name: bool = False) -> Json:
        self._peek()
        if (quoted := _TEXT.match(self._text, self._position)) is not None:
            self._position = quoted.end()
            return _ESCAPE.sub(_unescaped, quoted[1])
        word = _WORD.match(self._text, self._position)
        if word is None:
            self._fail("a string, number, word, '[' or '{' expected")
        self._position = word.end()
        return Word(word[0]) if is_name else _value_of_word(word[0])

    def _peek(self) -> str:
        space = _SPACE.match(self._text, self._position)
        assert space is not None
        self._position = space.end()
        return self._text[self._position : self._position + 1]

    def _skip(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._position += 1
        return True

    def _fail(self, what: str) -> NoReturn:
        found = self._text[self._position : self._position + 20]
        line = self._text.count("\n", 0, self._position) + 1
        seen = shown(found) if found else "the end"
        is_open = found.startswith('"') and _TEXT.match(self._text, self._position) is None
        kind = Unfinished if is_open or not found else BadMetadata
        raise kind(
            f"{self._where}: not JSON at character {self._position} (line {line}): {what}, "
            f"found {seen}"
        )


def _value_of_word(word: str) -> Json:
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    if _INTEGER.match(word):
        return _integer(word)
    if word in _FLOAT_WORDS or _NUMBER.match(word):
        return Real(word)
    return Word(word)


def _unescaped(match: re.Match[str]) -> str:
    if match[1]:
        pair = bytes.fromhex(match[1] + match[2])
        return pair.decode("utf-16-be")
    if match[3]:
        code = int(match[3], 16)
        # Half of a surrogate pair is not a character; it stands for something that was lost.
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
    return _SHORT.get(match[4], match[4])
